"""Which contexts nobody used for long: on every kind of record."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from hub.core.changes import Change, Part, RecordEntry
from hub.record import names, retention
from hub.record.connection import Connection
from hub.record.memory import MemoryRecord
from hub.record.mirror import MirrorState
from hub.record.port import Append, Outcome, Record
from hub.record.redis import RedisRecord
from tests.record.writer import Writer, creation, log_add, put

CLOSED: list[Part] = [{"kind": "closed", "reason": "removed"}]
LONG = 1_000.0


async def made(record: Record, *ids: str) -> None:
    outcomes = await record.append([Writer(id).append(creation(id, "E1")) for id in ids])
    assert {appended.outcome for appended in outcomes} == {Outcome.APPENDED}


async def used_before(record: Record, seconds: float, *ids: str) -> None:
    """Have noted a use that is so long ago."""
    at = time.time() - seconds
    if isinstance(record, MemoryRecord):
        record._used |= dict.fromkeys(ids, at)
    else:
        assert isinstance(record, RedisRecord)
        await record._connection.run("ZADD", names.USED, *(item for id in ids for item in (int(at * 1000), id)))


async def unused(record: Record, limit: int = 64) -> list[str]:
    return [id for id, _, _ in await record.unused(LONG, limit)]


async def test_what_was_not_used_for_long_is_found_once_with_its_end(record: Record) -> None:
    writer = Writer("a")
    await writer.create(record)
    await made(record, "b", "c")
    await writer.write(record, put("/state/x", 1))
    await record.note_uses(True)
    assert await unused(record) == []
    await used_before(record, LONG + 10, "a", "b")
    await used_before(record, LONG - 10, "c")
    found = {id: (at, tip) for id, at, tip in await record.unused(LONG)}
    assert sorted(found) == ["a", "b"]
    assert found["a"] == (writer.position, writer.tip)
    assert await unused(record) == []


async def test_the_oldest_come_first_and_what_is_used_again_is_not_found(record: Record) -> None:
    await made(record, *(f"c{n}" for n in range(5)))
    for n in range(5):
        await used_before(record, LONG + 50 - n, f"c{n}")
    assert await unused(record, 2) == ["c0", "c1"]
    await record.used(["c2"])
    await record.used([])
    assert await unused(record) == ["c3", "c4"]
    assert await unused(record) == []


async def test_uses_are_noted_only_while_they_are_wanted(record: Record) -> None:
    """What was noted long ago must not count: it was used since, and nobody noted that."""
    await made(record, "a", "b")
    await used_before(record, LONG + 10, "a")
    await record.note_uses(False)
    await record.note_uses(True)
    assert await unused(record) == []
    await used_before(record, LONG + 10, "b")
    await record.note_uses(True)  # another node begins: what was noted stays
    assert await unused(record) == ["b"]


async def test_one_that_runs_counts_as_used(record: Record) -> None:
    writer = Writer("a")
    await writer.create(record, running=True)
    await made(record, "b")
    await used_before(record, LONG + 10, "a", "b")
    assert await unused(record) == ["b"]
    await writer.write(record, put("/running", False))
    assert await unused(record) == []
    await used_before(record, LONG + 10, "a")
    assert await unused(record) == ["a"]


async def test_what_was_removed_is_not_found(record: Record) -> None:
    writer = Writer("a")
    await writer.create(record)
    await made(record, "b")
    await writer.write(record, CLOSED)
    await used_before(record, LONG + 10, "a", "never there")  # by a node that has not heard of it
    await used_before(record, LONG + 5, "b")
    assert await unused(record, 2) == ["b"]
    await used_before(record, LONG + 10, "a")
    assert await unused(record) == []


async def test_a_removal_at_the_end_that_was_found_spares_what_was_changed_since(record: Record) -> None:
    first, second = Writer("a"), Writer("b")
    await first.create(record)
    await second.create(record)
    await used_before(record, LONG + 10, "a", "b")
    appends = [
        Append(id, at, RecordEntry(f"removal of {id}".replace(" ", "_"), tip, [Change(at.after(), CLOSED)]))
        for id, at, tip in await record.unused(LONG)
    ]
    await second.write(record, put("/state/x", 1))
    outcomes = {
        append.context: done.outcome for append, done in zip(appends, await record.append(appends), strict=True)
    }
    assert outcomes == {"a": Outcome.APPENDED, "b": Outcome.STALE}
    assert await record.end("a") is None
    assert await record.end("b") == (second.position, second.tip)


async def test_of_many_who_ask_each_context_is_found_by_one(server: str) -> None:
    records = [RedisRecord(server) for _ in range(4)]
    for record in records:
        await record.start()
    ids = [f"c{n}" for n in range(300)]
    for begin in range(0, 300, 60):
        await made(records[0], *ids[begin : begin + 60])
    await used_before(records[0], LONG + 10, *ids)
    found: list[str] = []

    async def ask(record: RedisRecord) -> None:
        while some := await unused(record, 10):
            found.extend(some)

    async with asyncio.timeout(20):
        await asyncio.gather(*map(ask, records))
    assert sorted(found) == sorted(ids)
    for record in records:
        await record.close()


async def test_one_that_is_used_while_it_is_looked_at_is_not_taken(
    redis_record: RedisRecord, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made(redis_record, "a", "b")
    await used_before(redis_record, LONG + 10, "a", "b")
    many = Connection.many

    async def used_meanwhile(self: Connection, commands: Any, **more: Any) -> Any:
        answers = await many(self, commands, **more)
        await retention.used(connection, ["a"])
        return answers

    with monkeypatch.context() as patched:
        patched.setattr(Connection, "many", used_meanwhile)
        assert await unused(redis_record) == ["b"]
    assert await connection.run("ZRANGE", names.USED, 0, -1) == [b"a"]


async def test_a_removal_leaves_a_tombstone_and_nothing_else(redis_record: RedisRecord, connection: Connection) -> None:
    """Whatever the context had: owners, private data, entries, keys, a long stream."""
    writer = Writer("a")
    await writer.create(redis_record, user_id="ann", state={"a": 1}, output={"b": 2})
    await redis_record.note_uses(True)
    for n in range(100):
        key: Part = {"kind": "key", "key": f"w/{n}", "digest": "d", "result": {}}
        await writer.write(redis_record, [*log_add(n, f"l{n}", "x" * 300), key])
    await writer.write(redis_record, [*put("/user_id", "bob"), {"kind": "data", "key": "k", "value": 1}])
    loaded = await redis_record.load("a")
    assert loaded is not None
    write = MirrorState.of(loaded).write(loaded.state, 1.0)
    assert write is not None
    assert await redis_record.mirror([write]) == [True]
    there = {key for key in await connection.run("KEYS", "*") if key.startswith(b"hub:ctx:")}
    assert len(there) == 7, "main, five hashes, the stream"
    await writer.write(redis_record, CLOSED)
    keys = sorted(await connection.run("KEYS", "*"))
    assert keys == [b"hub:ctx:{a}", b"hub:ctx:{a}:changes"]
    assert all([3500 < await connection.run("TTL", key) <= 3600 for key in keys])
    assert await connection.run("XLEN", keys[1]) == 8
    assert await redis_record.mirror([write]) == [False]
    assert sorted(await connection.run("KEYS", "*")) == keys
