"""The record in trouble under two nodes: viewers stay, what was answered is kept, and all goes on by itself."""

from __future__ import annotations

import asyncio
import os
import pickle
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import hub
from hub.record.connection import Connection
from tests.clients import Client, health
from tests.record.servers import lasting_keys, subscribers
from tests.support import hanging, run_command, until
from tests.trials.nodes import Nodes
from tests.trials.rounds import World
from tests.trials.tally import ok_share
from tests.trials.viewers import Viewers, check_entries, write

RETURN = 5.0
"""Seconds within which everything goes on once the record is back."""


@pytest.fixture
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Nodes]:
    """Two of them; what a test gives by ``indirect`` are variables of their environment."""
    with Nodes(tmp_path, 2, getattr(request, "param", {})) as nodes:
        yield nodes


@pytest.fixture
async def viewers(nodes: Nodes) -> AsyncIterator[Viewers]:
    async with AsyncExitStack() as stack:
        yield await Viewers(nodes, stack).join("c")


@pytest.fixture
async def record(nodes: Nodes) -> AsyncIterator[Connection]:
    """Straight to the record's server."""
    connection = Connection(nodes.server.url)
    yield connection
    await connection.close()


async def is_healthy(nodes: Nodes, healthy: bool = True) -> bool:
    return all([((await health(node.url))[0] == 200) is healthy for node in nodes.all])


# R1


async def test_R1_pubsub_is_killed_twenty_times_under_traffic(tmp_path: Path, nodes: Nodes, record: Connection) -> None:
    world = World(nodes, 1)
    async with world.load():
        for tab in world.tabs:
            await tab.come()
        for n in range(20):
            before = len(world.tally.asked)
            await record.run("CLIENT", "KILL", "TYPE", "pubsub")
            await until(lambda: len(world.tally.asked) > before + 10)  # noqa: B023 - waited for right here
            world.check_writers()
            if n % 5 == 4:
                await world.converge()
        assert ok_share(world.tally.outside()) == 1.0, world.tally.outside()
        assert not world.told, "nobody had to begin anew"
    await until(lambda: _is(subscribers(record, "hub:nodes"), 2), "as many subscribers as nodes")
    await until(lambda: is_healthy(nodes))


async def _is(found: Awaitable[Any], wanted: Any) -> bool:
    return bool(await found == wanted)


async def test_R1_health_is_red_while_deaf(nodes: Nodes, viewers: Viewers, record: Connection) -> None:
    """Whatever keeps nodes from hearing each other: what one appends still shows at the other, if late."""
    await record.run("ACL", "SETUSER", "default", "-subscribe", "-ssubscribe")
    await record.run("CLIENT", "KILL", "TYPE", "pubsub")
    await until(lambda: is_healthy(nodes, False), "red health", 5)
    assert "hear" in (await health(nodes.all[0].url))[1]["reason"]
    answered: set[str] = set()
    for n, op in enumerate(viewers.ops):
        await write(op, "c", f"w{n}", range(5), answered)
    await viewers.converge()
    await record.run("ACL", "SETUSER", "default", "+subscribe", "+ssubscribe")
    await until(lambda: is_healthy(nodes), "green health", RETURN)
    assert await subscribers(record, "hub:nodes") == 2
    await write(viewers.ops[0], "c", "w2", range(5), answered)
    assert await viewers.converge() < 2
    check_entries(await viewers.truth("c"), answered)


# R2


async def pubsub_clients(record: Connection) -> list[bytes]:
    listed = (await record.run("CLIENT", "LIST", "TYPE", "pubsub")).splitlines()
    return sorted(line.split()[0] for line in listed)


@pytest.mark.parametrize("nodes", [{"HUB_MESSAGE_BYTES": str(80 << 20)}], indirect=True)
async def test_R2_a_value_of_33_MB(nodes: Nodes, viewers: Viewers, record: Connection) -> None:
    """The writer gets an error before anything is half done; what is taken, however large, ends no subscriber."""
    await record.run("CONFIG", "SET", "client-output-buffer-limit", "pubsub 1mb 512kb 1")
    hearing = await pubsub_clients(record)
    before = await viewers.truth("c")
    op = viewers.ops[0]
    huge = "x" * (33 << 20)
    for ops in (
        [{"op": "state.merge", "value": {"k": huge}}],
        [{"op": "log.add", "type": "info", "content": "first"}, {"op": "output.set", "key": "k", "value": huge}],
        [{"op": "session_context.save", "value": {"plan": [huge]}}],
    ):
        await op.refused("apply", "too_large", context="c", ops=ops)
    await op.refused("message", "too_large", context="c", text=huge)
    assert await viewers.truth("c") == before, "nothing of it was done"
    for n in range(12):  # as large as is taken, and again and again
        await viewers.ops[n % 2].ok("apply", context="c", ops=[{"op": "state.merge", "value": {"k": f"{n}" * 500_000}}])
        private = {"op": "data.set", "key": "k", "value": f"{n % 10}" * 1_500_000}
        await viewers.ops[n % 2].ok("apply", context="c", ops=[private])
    await viewers.converge()
    assert await pubsub_clients(record) == hearing, "no subscriber was ended"


async def test_R2_by_an_agent_process(nodes: Nodes, viewers: Viewers) -> None:
    """Of what was written beside it nothing is half done either, and the next write works."""
    before = await viewers.truth("c")
    async with hub.connect(nodes.address, token=nodes.token) as client:
        ctx = await client.open("c")
        with ctx.batch():
            ctx.log.log("info", content="with it")
            ctx.state.update({"k": "x" * (33 << 20)})
        with pytest.raises(hub.TooLarge):
            await ctx.flush()
        assert await viewers.truth("c") == before
        assert ctx.document() == before["document"]
        ctx.state["k"] = "small"
        await ctx.flush()
    await viewers.converge()
    assert (await viewers.truth("c"))["document"]["state"] == {"k": "small"}


# R3


async def test_R3_after_idle_minutes_a_broadcast_and_a_stop_work(
    nodes: Nodes, viewers: Viewers, record: Connection
) -> None:
    """The server ends idle connections, and a router forgets the others."""
    op, worker = viewers.ops[0], await viewers.client(1)
    await worker.ok("agent.serve", agent="bot", capacity=1)
    await op.ok("message", context="c", text="work")
    run = (await worker.next("run.start"))["run"]
    await worker.ok("apply", context="c", ops=[{"op": "run.set", "status": "running"}], run=run)
    await record.run("CONFIG", "SET", "timeout", "1")
    await asyncio.sleep(4)  # idle is the point here
    for network in nodes.networks:
        network.cut()
    assert (await op.ok("broadcast", type="info", content="after the pause", key="b"))["contexts"] == 1
    await viewers.ops[1].ok("control", context="c", action="stop")
    await worker.next("run.control", lambda order: order["action"] == "stop")
    await worker.ok("apply", context="c", ops=[{"op": "run.set", "status": "stopped"}], run=run)
    await viewers.converge()
    contents = [entry["content"] for entry in (await viewers.truth("c"))["entries"]]
    assert contents == ["work", "after the pause"]


# R4


async def restarts(nodes: Nodes) -> None:
    nodes.server.kill()
    await asyncio.to_thread(nodes.server.start)


async def hangs(nodes: Nodes) -> None:
    with hanging(nodes.server.pid):
        await asyncio.sleep(10)


async def is_silent(nodes: Nodes) -> None:
    """Nothing comes through, and no connection ends."""
    with nodes.networks[0].silent(cut=True), nodes.networks[1].silent(cut=False):
        await asyncio.sleep(10)


@pytest.mark.parametrize(
    "trouble", [restarts, pytest.param(hangs, marks=pytest.mark.long), pytest.param(is_silent, marks=pytest.mark.long)]
)
async def test_R4_the_record_is_away_while_500_changes_are_tried(
    nodes: Nodes, viewers: Viewers, trouble: Callable[[Nodes], Coroutine[Any, Any, None]]
) -> None:
    answered: set[str] = set()
    writers = [await viewers.client(n % 2) for n in range(50)]
    await write(viewers.ops[0], "c", "before", range(20), answered)
    away = asyncio.create_task(trouble(nodes))
    tasks = [asyncio.create_task(write(client, "c", f"w{n}", range(10), answered)) for n, client in enumerate(writers)]
    await away
    back = time.monotonic()
    await asyncio.gather(*tasks)
    await viewers.converge()
    assert time.monotonic() - back < RETURN, "all viewers on every node are at the end"
    check_entries(await viewers.truth("c"), answered)
    assert len(answered) == 520
    told = [event for client, _ in viewers.all for event in client.of("snapshot") if "reason" in event]
    assert not told, "nothing was lost, so nobody begins anew"
    await until(lambda: is_healthy(nodes))


# R8


HOSTILE: list[bytes] = [
    b"",
    b"\0" * 100,
    os.urandom(1_000),
    b"\xff" * 300_000,
    pickle.dumps({"method": "emit", "event": "x"}),
    b"\x81\xa4kind\xa5hello",
    b"\xc1",
    b"\xdd\xff\xff\xff\xff",
    b"\x91" * 100_000,
    b"1 e 5 i b\n\x92\x01\x91\xc0",
    b"1 " + b"9" * 400 + b" " + b"9" * 400 + b" i b\n",
    b"1 e -1 i b\n",
    b"2 e 1 i b\n",
    b"1 \xff\xfe 1 i b\n",
    b'{"kind": "drain", "node": "*"}',
]


class Evil:
    """What would run if anybody unpickled it."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> Any:
        return Path.touch, (self._file,)


async def test_R8_hostile_bytes_on_every_channel(
    tmp_path: Path, nodes: Nodes, viewers: Viewers, record: Connection
) -> None:
    """They are ignored, and counted; nothing is ever unpickled; everything goes on."""
    channels = list(await record.run("PUBSUB", "CHANNELS", "hub:*"))
    live = await record.run("PUBSUB", "SHARDCHANNELS", "hub:*")
    assert {b"hub:nodes", b"hub:rows", b"hub:notices"} <= set(channels)
    assert live == [b"hub:ctx:{c}:live"]
    hearing = await pubsub_clients(record)
    answered: set[str] = set()
    for message in [*HOSTILE, pickle.dumps(Evil(tmp_path / "was-run"))]:
        for command, channel in [*(("PUBLISH", name) for name in channels), *(("SPUBLISH", name) for name in live)]:
            assert await record.run(command, channel, message) >= 1
    for n, op in enumerate(viewers.ops):
        await write(op, "c", f"w{n}", range(10), answered)
    assert await viewers.converge() < 2
    check_entries(await viewers.truth("c"), answered)
    assert not (tmp_path / "was-run").exists()
    assert await pubsub_clients(record) == hearing
    assert await is_healthy(nodes)
    assert (await viewers.ops[0].ok("broadcast", type="info", content="to all", key="b"))["contexts"] == 1
    assert len(await ignored(nodes)) == 2


async def ignored(nodes: Nodes) -> list[int]:
    """How many messages each node could not read, as its beats say, once they say that there were some."""

    async def said() -> list[int] | None:
        headers = {"Authorization": f"Bearer {nodes.token}"}
        async with aiohttp.ClientSession(headers=headers) as web, web.get(f"{nodes.all[0].url}/api/v1/nodes") as answer:
            found = [row["info"]["ignored"] for row in (await answer.json())["nodes"]]
        return found if all(count >= len(HOSTILE) for count in found) else None

    return list(await until(said, "what was ignored"))


# R9


@pytest.mark.long
@pytest.mark.timeout(240)
async def test_R9_a_slow_network_and_5000_sessions(tmp_path: Path) -> None:
    """No node's event loop is busy for 100 ms at a time."""
    with Nodes(tmp_path, 2, {"HUB_TEST_LAG": "lag"}, ["--app", "tests.trials.lag:measure"]) as nodes:
        async with AsyncExitStack() as stack:
            viewers = await Viewers(nodes, stack).join("c")
            for network in nodes.networks:
                network.to_server.delay = network.to_client.delay = 0.0025
            for start in range(0, 5_000, 250):
                some = range(start, start + 250)
                await asyncio.gather(*(viewers.ops[n % 2].ok("context.create", id=f"s{n}", agent="bot") for n in some))
            assert sum([(await health(node.url))[1]["contexts"] for node in nodes.all]) >= 5_000
            for round in range(10):
                await asyncio.gather(*(change(viewers.ops[n], n, round + 1) for n in range(2)))
                await viewers.ops[round % 2].ok("broadcast", type="info", content="to all", key=f"b{round}")
            await viewers.converge()
        lags = [float((tmp_path / f"node{n}" / "runs" / "lag").read_text()) for n in range(2)]
    assert max(lags) < 0.1, lags


async def change(client: Client, node: int, round: int) -> None:
    """A change to each session of a node, as agent processes of 50 sessions each would make them."""
    for start in range(node, 5_000, 100):
        batches = [
            {"context": f"s{n}", "ops": [{"op": "state.incr", "path": "/n"}], "key": f"w/{round}"}
            for n in range(start, start + 100, 2)
        ]
        reply = await client.ok("apply.many", batches=batches)
        assert all(one["ok"] for one in reply["replies"])


# R10


@pytest.mark.parametrize("how_many", [100, pytest.param(1_000, marks=pytest.mark.long)])
async def test_R10_sessions_are_deleted(nodes: Nodes, viewers: Viewers, record: Connection, how_many: int) -> None:
    """No key of theirs is left without an expiry."""
    ops = viewers.ops
    people = [f"user{n}" for n in range(7)]
    before = await lasting_keys(record)

    async def live(n: int) -> None:
        op, id = ops[n % 2], f"s{n}"
        await op.ok("context.create", id=id, agent="bot", user_id=people[n % 7], state={"k": "x" * (n % 9) * 2_000})
        await op.ok("message", context=id, text="nobody is there")
        await op.ok("apply", context=id, key="w/1", ops=[{"op": "log.add", "type": "info", "content": "entry"}])
        await op.ok("apply", context=id, key="own", ops=[{"op": "data.set", "key": "d", "value": n}])
        await op.ok("apply", context=id, ops=[{"op": "output.set", "key": "o", "value": n}])
        await op.ok("notice.post", id=f"n{n}", message="about it", context=id)

    for start in range(0, how_many, 50):
        await asyncio.gather(*(live(n) for n in range(start, start + 50)))
    assert len(await lasting_keys(record)) > len(before) + how_many
    for start in range(0, how_many, 50):
        some = range(start, start + 50)
        await asyncio.gather(*(ops[n % 2].ok("notice.clear", id=f"n{n}") for n in some))
        await asyncio.gather(*(ops[1 - n % 2].ok("context.remove", context=f"s{n}") for n in some))
    # A message that waited stays on its agent's work stream until somebody looks.
    left: set[str] = set()

    async def none_left() -> bool:
        nonlocal left
        left = set(await lasting_keys(record)) - {*before, "hub:agent:{bot}"}
        return not left

    try:
        await until(none_left)
    except AssertionError:
        raise AssertionError(f"{len(left)} keys are left, such as {sorted(left)[:5]}") from None
    expiring = await keys_of(record, "hub:ctx:*")
    assert {key for key in expiring if "{c}" not in key} == {
        f"hub:ctx:{{s{n}}}{part}" for n in range(how_many) for part in ("", ":changes")
    }, "a tombstone each, which expires"


async def keys_of(record: Connection, pattern: str) -> list[str]:
    return sorted(key.decode() for key in await record.run("KEYS", pattern))


# memory


async def test_a_full_memory(nodes: Nodes, viewers: Viewers, record: Connection) -> None:
    """Writes get an error that says to try again, and nothing of them is done; with room again everything goes on."""
    op, answered = viewers.ops[0], set[str]()
    await write(op, "c", "before", range(5), answered)
    await viewers.converge()
    before = await viewers.truth("c")
    await record.run("CONFIG", "SET", "maxmemory", "1mb")
    requests: list[tuple[str, dict[str, Any]]] = [
        ("apply", {"context": "c", "ops": [{"op": "state.incr", "path": "/full"}], "key": "f/1"}),
        ("message", {"context": "c", "text": "hello", "key": "f/2"}),
        ("context.create", {"id": "new", "key": "f/1"}),
        ("context.update", {"context": "c", "name": "new", "key": "f/3"}),
        ("notice.post", {"id": "n", "message": "m", "key": "f/1"}),
        ("broadcast", {"type": "info", "content": "m", "key": "f/2"}),
    ]
    for at, client in enumerate(viewers.ops):
        for name, payload in requests:
            error = (await client.ask(name, **payload))["error"]
            assert error["retryable"], (name, error)
            assert error["code"] in ("overloaded", "unavailable"), (name, error)
        assert (await viewers.ops[at].ok("context.get", context="c"))["document"] == before["document"], "reads go on"
    assert await viewers.truth("c") == before, "nothing of it was done"
    await record.run("CONFIG", "SET", "maxmemory", "0")
    for name, payload in requests:
        await until(partial(_answered, op, name, payload), name, RETURN)
    await viewers.converge()
    truth = await viewers.truth("c")
    assert (truth["document"]["state"]["full"], truth["document"]["name"]) == (1, "new")
    assert [item["text"] for item in truth["document"]["queue"]] == ["hello"]
    assert [entry["content"] for entry in truth["entries"]][-1] == "m"
    await until(lambda: is_healthy(nodes))


async def _answered(client: Client, name: str, payload: dict[str, Any]) -> bool:
    return bool((await client.ask(name, **payload))["ok"])


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
async def test_a_server_that_could_drop_keys_is_refused_at_start(tmp_path: Path, policy: str) -> None:
    from hub.record.valkey import server_binary
    from tests.record.servers import running

    with running(server_binary(), f"maxmemory-policy {policy}") as url:
        done = run_command("serve", "--redis", url, "--port", "0", "--data-dir", str(tmp_path / "hub"))
    assert done.returncode != 0
    assert "maxmemory-policy" in done.stderr
    assert "noeviction" in done.stderr


# the record lost something


async def flushed(nodes: Nodes, backup: Path) -> None:
    connection = Connection(nodes.server.url)
    await connection.run("FLUSHALL")
    await connection.close()


async def rolled_back(nodes: Nodes, backup: Path) -> None:
    """What it had a while ago comes back."""
    nodes.server.kill()
    nodes.server.put_data_back(backup)
    await asyncio.to_thread(nodes.server.start)


async def replaced(nodes: Nodes, backup: Path) -> None:
    """Another server with nothing takes its place."""
    nodes.server.kill()
    nodes.server.put_data_back(None)
    await asyncio.to_thread(nodes.server.start)


@pytest.mark.parametrize("loss", [flushed, rolled_back, replaced])
async def test_the_record_lost_something(
    tmp_path: Path, nodes: Nodes, viewers: Viewers, loss: Callable[[Nodes, Path], Awaitable[None]]
) -> None:
    """While two nodes have contexts live: what they answered in the last 30 s comes back, viewers are told why all is anew."""
    answered: set[str] = set()
    for n, op in enumerate(viewers.ops):
        await write(op, "c", f"a{n}", range(20), answered)
    await viewers.converge()
    nodes.server.kill()
    nodes.server.keep_data(tmp_path / "backup")
    await asyncio.to_thread(nodes.server.start)
    late = [
        op.ok("apply", context="c", ops=[{"op": "data.set", "key": "d", "value": 1}], key="d") for op in viewers.ops
    ]
    await asyncio.gather(*late)
    for n, op in enumerate(viewers.ops):
        await write(op, "c", f"b{n}", range(20), answered)
    await viewers.converge()
    before = await viewers.truth("c")
    await loss(nodes, tmp_path / "backup")
    back = time.monotonic()
    writers = [asyncio.create_task(write(op, "c", f"c{n}", range(20), answered)) for n, op in enumerate(viewers.ops)]
    await asyncio.gather(*writers)
    await viewers.converge()
    assert time.monotonic() - back < RETURN + 1
    truth = await viewers.truth("c")
    check_entries(truth, answered)
    assert len(answered) == 120
    assert truth["epoch"] != before["epoch"]
    assert truth["data"] == {"d": 1}
    for client, follower in viewers.all:
        reasons = {event["reason"] for event in client.of("snapshot") if event.get("recovered") is False}
        assert reasons == {"epoch_changed"}
        assert follower.checker.restarted >= 1
    for op in viewers.ops:
        reply = await op.ok("subscribe", topic="context:c", from_={"epoch": before["epoch"], "seq": before["seq"]})
        assert (reply["recovered"], reply["reason"]) == (False, "epoch_changed")
    for content in ("a0/3", "b1/7"):  # keys came back, too
        name = content.partition("/")[0]
        again: set[str] = set()
        for op in viewers.ops:
            await write(op, "c", name, [int(content.partition("/")[2])], again)
    assert (await viewers.truth("c"))["document"] == truth["document"]
