"""Sleep and retention in whole hubs: what it costs to have many sessions, and readers of logs that keep their newest entries."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hub import MirrorReader, NotFound, connect
from hub.node.settings import Settings
from hub.record.connection import Connection
from hub.record.mirror import MirrorState
from hub.record.redis import RedisRecord
from hub.record.valkey import server_binary
from scripts.benchmarks.machine import resident_bytes
from tests.clients import Client, Follower, health, serving
from tests.record.servers import Server
from tests.record.writer import Writer, log_add, put
from tests.registries import own_registry
from tests.support import HubProcess, run_command, until

AWAKE = 1_000
ALL = 100_000

COPY = """\
-- Make sessions like the first one. ARGV: from, to.
local hashes = {'', ':state', ':log', ':keys'}
local like = {}
for i, name in ipairs(hashes) do
  like[i] = redis.call('HGETALL', 'hub:ctx:{s0}' .. name)
end
for n = ARGV[1], ARGV[2] do
  local main = string.format('hub:ctx:{s%d}', n)
  for i, name in ipairs(hashes) do
    redis.call('HSET', main .. name, unpack(like[i]))
  end
  redis.call('HSET', main, 'id', string.format('s%d', n), 'no', n)
  redis.call('ZADD', 'hub:contexts', 1764425880000 + n, string.format('s%d', n))
end
"""


async def fill(url: str, sessions: int) -> None:
    """So many sessions that sleep, each with some state and a log of ten entries."""
    record = RedisRecord(url)
    await record.start()
    writer = Writer("s0")
    await writer.create(record, state={"step": 3, "notes": ["x" * 40] * 5})
    for n in range(10):
        key: Any = {"kind": "key", "key": f"w/{n}", "digest": "0" * 18, "result": {"epoch": "E1", "seq": n + 2}}
        await writer.write(record, [*log_add(n, f"entry-{n}", f"{n} " + "words of an answer " * 8, rows=n), key])
    await writer.write(record, put("/state/done", True))
    loaded = await record.load("s0")
    assert loaded is not None
    write = MirrorState.of(loaded).write(loaded.state, 1.0, everything=True)
    assert write is not None
    assert await record.mirror([write]) == [True]
    await record.close()
    connection = Connection(url, timeout=60)
    for first in range(1, sessions, 1_000):
        await connection.run("EVAL", COPY, 0, first, min(first + 999, sessions - 1))
    assert await connection.run("ZCARD", "hub:contexts") == sessions
    await connection.close()


class Hub(HubProcess):
    """A hub on a server of the test's own."""

    started = 0.0
    """Seconds that its start took."""

    def begin(self, url: str) -> None:
        self.options = ["--redis", url]
        began = time.monotonic()
        self.start()
        self.started = time.monotonic() - began

    @property
    def megabytes(self) -> float:
        return resident_bytes(self.pid) / 1e6

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        client = await Client(self.url, self.token).connect()
        try:
            yield client
        finally:
            await client.close()


async def open_all(client: Client, sessions: range) -> None:
    """Wake sessions, a hundred at a time."""
    for first in range(sessions.start, sessions.stop, 100):
        ids = [f"s{n}" for n in range(first, min(first + 100, sessions.stop))]
        replies = await asyncio.gather(*(client.ok("context.get", context=id) for id in ids))
        assert [reply["document"]["id"] for reply in replies] == ids


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_many_sessions_cost_the_memory_of_those_that_are_awake(tmp_path: Path) -> None:
    """100,000 sessions, 1,000 of them awake: the hub has what it has with these 1,000 alone, and starts as soon."""
    few = await costs(tmp_path / "few", AWAKE)
    many = await costs(tmp_path / "many", ALL)
    watched = await costs(tmp_path / "watched", ALL, HUB_KEEP_SESSIONS="1000000")
    for one in (many, watched):
        assert one.megabytes < few.megabytes + 12, (few, one)
        assert one.start < few.start + 5, (few, one)


class Costs(NamedTuple):
    """Seconds and megabytes of a hub: its start, and with sessions awake."""

    start: float
    megabytes_at_start: float
    waking: float
    megabytes: float


async def costs(folder: Path, sessions: int, **variables: str) -> Costs:
    with Server(server_binary(), "appendonly no", "hash-max-listpack-value 1024") as server:
        await fill(server.url, sessions)
        hub = Hub(folder, **variables)
        try:
            await asyncio.to_thread(hub.begin, server.url)
            at_start = hub.megabytes
            async with hub.client() as client:
                began = time.monotonic()
                await open_all(client, range(AWAKE))
                waking = time.monotonic() - began
                assert len((await client.ok("subscribe", topic="contexts"))["rows"]) == 100
                await until(lambda: looked_through(server.url, sessions, noted=bool(variables)), seconds=90)
                assert await awake(hub) == AWAKE
                return Costs(*(round(figure, 2) for figure in (hub.started, at_start, waking, hub.megabytes)))
        finally:
            hub.__exit__()


async def looked_through(url: str, sessions: int, *, noted: bool) -> bool:
    """Whether the hub has done what it does with all sessions, in the background: looked for runs and hashes that a dead one
    left behind, noted all for retention."""
    connection = Connection(url)
    try:
        stats = await connection.run("INFO", "commandstats")
        [line] = [line for line in stats.splitlines() if line.startswith(b"cmdstat_hmget:")]
        seen = int(line.partition(b"calls=")[2].partition(b",")[0])
        return seen >= sessions and await connection.run("ZCARD", "hub:used") == (sessions if noted else 0)
    finally:
        await connection.close()


async def awake(hub: Hub) -> int:
    """How many sessions are live in a hub."""
    return int((await health(hub.url))[1]["contexts"])


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_sessions_that_are_used_in_turn_leave_memory(tmp_path: Path) -> None:
    with Server(server_binary(), "appendonly no", "hash-max-listpack-value 1024") as server:
        await fill(server.url, 20_000)
        hub = Hub(tmp_path, HUB_IDLE="1")
        try:
            await asyncio.to_thread(hub.begin, server.url)
            async with hub.client() as client:
                megabytes = []
                for first in range(0, 20_000, 1_000):
                    await open_all(client, range(first, first + 1_000))
                    megabytes.append(round(hub.megabytes, 1))
                assert (await client.ok("context.get", context="s7"))["document"]["state"]["step"] == 3
                await until(partial(nothing_awake, hub))
            assert megabytes[-1] < megabytes[0] + 40, megabytes  # it would be 200 more if they stayed
        finally:
            hub.__exit__()


async def nothing_awake(hub: Hub) -> bool:
    return await awake(hub) == 0


async def test_all_who_read_a_log_that_keeps_its_newest_entries_agree(tmp_path: Path) -> None:
    """Viewers in both modes, the agent's view and another agent's, MirrorReader and the command line; those who come late, and
    those who come back."""
    folder = tmp_path / "hub"
    async with serving(folder, record="embedded", settings=Settings(keep_entries=600)) as people:
        token, url = people.server.token, people.server.url
        with own_registry():
            async with connect(url, token=token) as agent:
                ctx = await agent.create(id="c")
                first = ctx.log.log("info", "the first")
                op = await people.operator()
                followers = [Follower("c", "patch"), Follower("c", "snapshot"), Follower("c", "patch")]
                clients = [await people.operator(kind) for kind in ("websocket", "msgpack", "websocket")]
                for follower, client in zip(followers, clients, strict=True):
                    await follower.subscribe(client)
                for n in range(900):
                    ctx.log.log("info", "x", "x" * 100, n=n)
                await ctx.flush()
                clients[2].drop()  # it misses what follows
                followers[2].read(clients[2])
                for n in range(900, 1_500):
                    ctx.log.log("info", "x", "x" * 100, n=n)
                last = ctx.log.log("response", "the last")
                last.stream("of all")
                await ctx.flush()
                document = await until(partial(trimmed, op))
                begin, length = document["log"]["first"], document["log"]["length"]
                assert (length, 600 <= length - begin <= 660) == (1_502, True)

                clients[2] = await people.operator()
                await followers[2].subscribe(clients[2])
                late = Follower("c")
                followers.append(late)
                clients.append(await people.operator())
                await late.subscribe(clients[3])
                truth = await op.ok("subscribe", topic="context:c", deliver="patch", tail=1_000)
                for follower, client in zip(followers, clients, strict=True):
                    await client.until(partial(reached, follower, client, truth["seq"]))
                    follower.checker.compare(truth)
                    assert follower.state.document["log"] == document["log"]

                entries = [entry.output() for entry in ctx.log.entries()]
                assert [entry["no"] for entry in entries] == list(range(begin, length))
                assert len(ctx.log) == len(entries)
                assert [ctx.log.entries(start)[0].no for start in (3, begin, begin + 5)] == [begin, begin, begin + 5]
                assert (ctx.log.entries(-1)[0].content, first.heading) == ("of all", "the first")
                assert ctx.document() == document
                first.update(heading="too late")
                with pytest.raises(NotFound, match="too old"):
                    await ctx.flush()

                page = await op.ok("log.page", context="c", log=document["log"]["id"], before=begin + 2, limit=50)
                assert page["entries"] == [entries[1], entries[0]]
                older = await op.ok("log.page", context="c", log=document["log"]["id"], before=begin, limit=50)
                assert older["entries"] == []
        with own_registry():
            async with connect(url, token=token) as another:
                assert [e.output() for e in (await another.open("c")).log.entries()] == entries, "more than one page"
        async with MirrorReader(folder) as reader:
            read = await reader.get("c")
            assert read is not None
            assert (read["document"], read["log"]["entries"]) == (document, entries)
        done = await asyncio.to_thread(run_command, "show", "c", "--json", "-n", "500", HUB_DATA_DIR=str(folder))
        assert json.loads(done.stdout)["entries"] == entries[-500:], done.stderr
        done = await asyncio.to_thread(run_command, "show", "c", "-n", "3", HUB_DATA_DIR=str(folder))
        assert f"the last 3 of 1502 entries, {len(entries)} of which are kept" in " ".join(done.stdout.split())


async def test_two_hubs_remove_what_neither_uses_and_leave_tombstones(tmp_path: Path) -> None:
    settings = Settings(idle=0.2, recent_bytes=0, keep_sessions=1.0)
    with Server(server_binary()) as server:
        async with (
            serving(tmp_path / "one", redis=server.url, settings=settings) as ones,
            serving(tmp_path / "two", redis=server.url, settings=settings) as twos,
        ):
            one, two = await ones.operator(), await twos.operator()
            for n in range(40):
                await one.ok("context.create", id=f"c{n}", user_id=f"u{n % 3}", state={"n": n}, data={"n": n})
                await two.ok("message", context=f"c{n}", text="nobody serves this")
            lists = [await client.ok("subscribe", topic="contexts") for client in (one, two)]
            assert [len(rows["rows"]) for rows in lists] == [40, 40]
            watched = ["c3", "c30"]
            followers = [Follower(id) for id in watched]
            for follower, client in zip(followers, (one, two), strict=True):
                await follower.subscribe(client)
            for client in (one, two):
                await client.until(partial(lost, client, {f"c{n}" for n in range(40)} - {*watched}))
            connection = Connection(server.url)
            assert {id.decode() for id in await connection.run("ZRANGE", "hub:contexts", 0, -1)} == {*watched}
            assert await left_of(connection, watched) == {":changes", ""}
            for follower, client in zip(followers, (one, two), strict=True):
                assert follower.read(client).closed is None
                await client.ok("unsubscribe", topic=f"context:{follower.state.document['id']}")
            for client in (one, two):
                await client.until(partial(lost, client, {f"c{n}" for n in range(40)}))
            assert await left_of(connection, []) == {":changes", ""}
            assert await connection.run("ZCARD", "hub:contexts") == 0
            await connection.close()


def lost(client: Client, sessions: set[str]) -> bool:
    """Whether just these sessions left the list."""
    gone = [event["id"] for event in client.of("row") if event["topic"] == "contexts" and event["row"] is None]
    return {*gone} == sessions


async def left_of(connection: Connection, kept: list[str]) -> set[str]:
    """The names of keys of other sessions than those kept, without the session; each expires. No user has an index of them."""
    found: set[str] = set()
    for key in [key.decode() for key in await connection.run("KEYS", "*")]:
        if key.startswith("hub:ctx:") and not any(f"{{{id}}}" in key for id in kept):
            assert 3_500 < await connection.run("TTL", key) <= 3_600, key
            found.add(key.rpartition("}")[2])
        elif key.startswith("hub:user:"):
            assert {id.decode() for id in await connection.run("ZRANGE", key, 0, -1)} <= {*kept}, key
    return found


async def trimmed(client: Client) -> dict[str, Any] | None:
    """The document, once its log has no more than a tenth more than is kept."""
    document: dict[str, Any] = (await client.ok("context.get", context="c"))["document"]
    log = document["log"]
    return document if log["length"] - log.get("first", 0) <= 660 else None


def reached(follower: Follower, client: Client, seq: int) -> bool:
    return follower.read(client).position.seq == seq
