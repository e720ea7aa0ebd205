"""A node's connection for following: it breaks, falls silent, is flooded, carries anything; the node knows when it was deaf."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hub.core.errors import Unavailable
from hub.record.connection import Connection
from hub.record.following import ECHO_SECONDS
from hub.record.packing import pack
from hub.record.port import Outcome
from hub.record.redis import RedisRecord
from hub.record.valkey import server_binary
from tests.proxy import Proxy
from tests.record.heard import Heard
from tests.record.servers import Server, subscribers
from tests.record.writer import Writer, everything, put
from tests.support import until

CONTEXTS = [f"c{n}" for n in range(1200)]
Follow = Callable[..., Awaitable[Any]]


@pytest.fixture
async def follow() -> AsyncIterator[Follow]:
    """Makes a node follow a record."""
    started: list[Any] = []

    async def start(record: RedisRecord, heard: Heard, node: str = "n1") -> Any:
        following = record.follow(node, heard)
        started.append(following)
        await following.start()
        return following

    yield start
    for following in started:
        await following.close()


async def test_killed_twenty_times_under_traffic(
    redis_record: RedisRecord, connection: Connection, follow: Follow
) -> None:
    heards = [Heard(), Heard()]
    followings = [await follow(redis_record, heard, f"n{n}") for n, heard in enumerate(heards)]
    writer, readers = Writer(), [Writer(), Writer()]
    await writer.create(redis_record)
    for following, heard in zip(followings, heards, strict=True):
        following.add([*CONTEXTS, "ctx1"])
        await heard.until("followed", len(CONTEXTS) + 1)

    stop = False

    async def write() -> int:
        written = 0
        while not stop:
            assert (await writer.write(redis_record, put("/state/n", written))).outcome is Outcome.APPENDED
            written += 1
        return written

    writing = asyncio.create_task(write())
    for round in range(1, 21):
        assert await connection.run("CLIENT", "KILL", "TYPE", "pubsub") == 2
        for heard in heards:
            await heard.until("deaf", round)
            await heard.until("hearing", round)
        assert await subscribers(connection, "hub:nodes") == 2
    stop = True
    written = await writing

    for following, heard, reader in zip(followings, heards, readers, strict=True):
        breaks = [name for (name,) in heard.of("deaf", "hearing")]
        assert breaks == ["deaf", "hearing"] * 20
        last = len(heard.all) - heard.all[::-1].index(("deaf",))
        again = [one[1] for one in heard.all[last:] if one[0] == "followed"]
        assert sorted(again) == sorted([*CONTEXTS, "ctx1"])
        assert not following.is_deaf
        for context, count in _pairs(await connection.run("PUBSUB", "SHARDNUMSUB", *map(live, CONTEXTS))):
            assert count == 2, context
        # What came after the last confirmation is whole: read up to there, it continues.
        entries = [one[4] for one in heard.all[last:] if one[0] == "appended"]
        await reader.catch_up(redis_record)
        if entries:
            assert entries[-1].id == writer.tip
            assert [entry.before for entry in entries[1:]] == [entry.id for entry in entries[:-1]]
        assert everything(reader.state) == everything(writer.state)
    assert written > 0


def live(context: str) -> str:
    return f"hub:ctx:{{{context}}}:live"


def _pairs(flat: list[Any]) -> list[tuple[bytes, int]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


async def test_silence_without_an_end_is_noticed(server: str, follow: Follow) -> None:
    with Proxy(server) as proxy:
        record = RedisRecord(proxy.url)
        await record.start()
        heard = Heard()
        following = await follow(record, heard)
        following.add(["ctx1"])
        await heard.until("followed", 1)
        with proxy.silent():
            began = time.monotonic()
            await heard.until("deaf", 1)
            assert time.monotonic() - began < 2 * ECHO_SECONDS + 0.5
            assert following.is_deaf
            following.add(["ctx2"])
            following.drop("ctx1")
            following.drop("ctx2")
            following.add(["ctx2", "ctx3"])
        began = time.monotonic()
        await heard.until("hearing", 1)
        assert time.monotonic() - began < 4
        assert [one[1] for one in heard.of("followed", "hearing")[1:-1]] == ["ctx2", "ctx3"]
        other = RedisRecord(server)
        for context in ("ctx1", "ctx2"):
            await Writer(context).create(other)
        await heard.until("row", 2)
        assert [one[0] for one in heard.of("appended")] == ["ctx2"]
        await other.close()
        await following.close()
        await record.close()


async def test_a_restart_of_the_server(follow: Follow) -> None:
    server = Server(server_binary()).start()
    try:
        record, heard = RedisRecord(server.url), Heard()
        following = await follow(record, heard)
        following.add(["ctx1"])
        await heard.until("followed", 1)
        server.kill()
        await heard.until("deaf", 1)
        following.add(["ctx2"])
        with pytest.raises(Unavailable):
            await following.tell({"lost": True})
        server.start()
        await heard.until("hearing", 1)
        told = [" ".join(one) for one in heard.all]
        assert told == ["followed ctx1", "deaf", "followed ctx1", "followed ctx2", "hearing"]
        await following.tell({"heard": True})
        assert await heard.until("told", 1) == [({"heard": True},)]
        await following.close()
        await record.close()
    finally:
        server.kill()


async def test_one_that_nobody_answers_cannot_be_started(tmp_path: Path) -> None:
    record = RedisRecord(f"unix://{tmp_path}/s", timeout=0.3)
    following = record.follow("n1", Heard())
    with pytest.raises(Unavailable, match="cannot be followed"):
        await following.start()
    assert following.is_deaf
    await record.close()


HOSTILE: list[bytes] = [
    b"",
    b"\n",
    b"\x80\x04\x95.",
    b"cos\nsystem\n(S'true'\ntR.",
    b"\xff\xfe\xfd",
    b"x" * 1_000_000,
    b"\x92\x01" + b"\x91" * 100_000,
    b"\x92\x01" + b"\x81\xa1a" * 100_000,
    b"\x92\x01\xdd\xff\xff\xff\xff",
    b"\x92\x01\xc6\xff\xff\xff\xffx",
    b"\x92\x01\xc7\x01\x01x",
    b"\x92\x01\xa2\xff\xff",
    b"\x92\x02\x80",
    *map(pack, (None, 1, "text", [], [1], ["a"] * 7, [[]] * 7, [None] * 7, [{}] * 7)),
    pack(["ctx1", "E1", "9" * 5000, "user", False, False, False]),
    pack(["ctx1", "E1", "-1", "user", False, False, False]),
    pack(["ctx1", "E1", "1", "user", True, False, False]),
    pack(["ctx1", "E1", "1", "user", False, False, ["id"]]),
    pack(["ctx1", "E1", "1", "user", False, False, ["id", "ctx1", "no", "9" * 5000]]),
    pack(["ctx1", "E1", "1", "user", False, False, ["id", 1, "no", "1"]]),
    pack(["ctx1", "E1", "1", "user", False, False, {"id": "ctx1"}]),
    *(
        head + b"\n" + packed
        for head in (b"1 E1 1 a", b"1 E1 1 a b c", b"2 E1 2 a b", b"1 E1 " + b"9" * 6000 + b" a b", b"1 E1 -3 a b")
        for packed in (b"", pack([[]]))
    ),
    *(
        b"1 E1 2 a b\n" + packed
        for packed in (b"x", pack([]), pack({}), pack([1]), pack([[]] * 3), pack([[{"kind": 1}]]), b"\x92\x01" + b"\x91" * 9000)
    ),
    b"1 E\xff 2 a b\n",
]  # fmt: skip


async def test_hostile_bytes_are_ignored_and_counted(
    redis_record: RedisRecord, connection: Connection, follow: Follow
) -> None:
    heard = Heard()
    following = await follow(redis_record, heard)
    following.add(["ctx1"])
    await heard.until("followed", 1)
    writer = Writer()
    await writer.create(redis_record)
    await heard.until("row", 1)
    before = len(heard.all)
    sent = 0
    for raw in HOSTILE:
        for channel in ("hub:rows", "hub:node:{n1}:echo"):
            await connection.run("PUBLISH", channel, raw)
            sent += 1
        await connection.run("SPUBLISH", live("ctx1"), raw)
        sent += 1
        if raw[:2] != b"\x92\x01" or raw[2:3] != b"\x80":
            await connection.run("PUBLISH", "hub:nodes", raw)
            sent += 1
    for raw in (b"\xff", b"\xc3("):
        await connection.run("PUBLISH", "hub:notices", raw)
        sent += 1
    await following.tell({"still": "here"})
    await heard.until("told", 1)
    assert len(heard.all) == before + 1
    assert following.ignored == sent
    assert not following.is_deaf
    await writer.write(redis_record, put("/state/a", 1))
    assert (await heard.until("appended", 2))[1][3].id == writer.tip


async def test_a_flood_leaves_turns_to_everybody_else(
    redis_record: RedisRecord, connection: Connection, follow: Follow
) -> None:
    class Works(Heard):
        count = 0

        def told(self, message: dict[str, Any]) -> None:
            self.count += 1
            until = time.perf_counter() + 0.0001
            while time.perf_counter() < until:
                pass

    heard = Works()
    following = await follow(redis_record, heard)
    raw = pack({"n": 1})
    longest, stop = 0.0, False

    async def look() -> None:
        nonlocal longest
        last = time.monotonic()
        while not stop:
            await asyncio.sleep(0.001)
            now = time.monotonic()
            longest, last = max(longest, now - last), now

    looking = asyncio.create_task(look())
    for _ in range(4):
        await connection.run("EVAL", "for _ = 1, 2000 do redis.call('PUBLISH', 'hub:nodes', ARGV[1]) end", 0, raw)
    await until(lambda: heard.count == 8_000, "all messages")
    stop = True
    await looking
    assert longest < 0.1
    assert not following.is_deaf


async def test_a_follower_that_fails_ends_nothing(
    redis_record: RedisRecord, follow: Follow, caplog: pytest.LogCaptureFixture
) -> None:
    class Fails(Heard):
        def told(self, message: dict[str, Any]) -> None:
            super().told(message)
            if message["n"] == 0:
                raise KeyError("a fault")

    heard = Fails()
    following = await follow(redis_record, heard)
    for n in range(3):
        await following.tell({"n": n})
    assert await heard.until("told", 3) == [({"n": n},) for n in range(3)]
    assert "a follower of the record failed" in caplog.text
    assert not following.is_deaf


async def test_closing_leaves_no_connection_and_no_task(
    redis_record: RedisRecord, connection: Connection, follow: Follow
) -> None:
    following = await follow(redis_record, Heard())
    assert await subscribers(connection, "hub:nodes") == 1
    await following.close()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "record following"]

    async def gone() -> bool:
        return await subscribers(connection, "hub:nodes") == 0

    await until(gone, "the end of the connection")
