"""The contexts list and its indexes, on every kind of record."""

from __future__ import annotations

import time

import pytest

from hub.core.errors import InvalidRequest
from hub.record.connection import Connection
from hub.record.port import Record
from hub.record.redis import RedisRecord
from tests.record.writer import NOW, Writer, creation, put


async def all_rows(record: Record, limit: int, user_id: str | None = None) -> list[str]:
    found: list[str] = []
    cursor: str | None = None
    while True:
        rows, cursor = await record.rows(user_id=user_id, before=cursor, limit=limit)
        assert len(rows) <= limit
        found += [row["id"] for row in rows]
        if cursor is None:
            return found


async def test_a_row_follows_each_change_at_once(record: Record) -> None:
    writer = Writer()
    await writer.create(record, name="one", user_id="Ann Ü/%{}", agent="demo", no=7)
    (row,), _ = await record.rows()
    assert row == {
        "id": "ctx1", "name": "one", "type": "user", "no": 7, "user_id": "Ann Ü/%{}", "agent": "demo",
        "created_at": NOW, "last_message": NOW, "running": False, "paused": False, "version": "E1:1",
    }  # fmt: skip
    assert (await record.rows(user_id="Ann Ü/%{}"))[0] == [row]
    later = "2026-11-29T15:00:00.000Z"
    await writer.write(
        record, [*put("/name", "two = -"), *put("/running", True)], put("/last_message", later), put("/agent", None)
    )
    (row,), _ = await record.rows()
    assert (row["name"], row["running"], row["last_message"], row["agent"]) == ("two = -", True, later, None)
    assert row["version"] == "E1:4"


async def test_pages_newest_first_even_among_many_of_one_moment(record: Record) -> None:
    times = [f"2026-11-29T14:18:0{n // 20}.000Z" for n in range(60)]
    order = [f"c{n:03}" for n in range(60)]
    await record.append(
        [
            Writer(id).append(creation(id, "E1", created_at=at, user_id="ann"))
            for id, at in zip(order, times, strict=True)
        ]
    )
    for limit in (7, 20, 60, 100):
        assert await all_rows(record, limit) == order[::-1]
        assert await all_rows(record, limit, "ann") == order[::-1]
    assert await all_rows(record, 10, "bob") == []
    with pytest.raises(InvalidRequest):
        await record.rows(before="nonsense")


async def test_a_context_moves_with_its_user(record: Record) -> None:
    writer = Writer()
    await writer.create(record, user_id="ann")
    await Writer("older").create(record, user_id="bob", created_at="2026-11-28T00:00:00.000Z")
    await Writer("newer").create(record, user_id="bob", created_at="2026-11-30T00:00:00.000Z")
    await writer.write(record, put("/user_id", "bob"))
    assert await all_rows(record, 10, "ann") == []
    assert await all_rows(record, 10, "bob") == ["newer", "ctx1", "older"]


async def test_a_refused_creation_changes_no_list(record: Record) -> None:
    writer = Writer()
    await writer.create(record, user_id="ann")
    await Writer(epoch="E2").create(record, user_id="bob", created_at="2020-01-01T00:00:00.000Z")
    await Writer("newer").create(record, created_at="2026-11-29T14:18:00.122Z")
    assert await all_rows(record, 10) == ["ctx1", "newer"]
    assert await all_rows(record, 10, "bob") == []
    assert await all_rows(record, 10, "ann") == ["ctx1"]


async def test_what_a_hub_that_starts_looks_after(record: Record) -> None:
    quiet, running = Writer("quiet"), Writer("running")
    for writer in (quiet, running):
        await writer.create(record)
        loaded = await record.load(writer.context)
        assert loaded is not None
    assert sorted(await record.unmirrored()) == ["quiet", "running"]
    from hub.record.mirror import MirrorState

    await running.write(record, put("/running", True))
    for writer in (quiet, running):
        loaded = await record.load(writer.context)
        assert loaded is not None
        write = MirrorState.of(loaded).write(loaded.state, 1.0)
        assert write is not None
        assert (await record.mirror([write]))[0]
    assert await record.unmirrored() == ["running"]


async def test_ten_thousand_contexts(redis_record: RedisRecord) -> None:
    ids = [f"c{n:05}" for n in range(10_000)]
    for start in range(0, len(ids), 2_000):
        results = await redis_record.append(
            [Writer(id).append(creation(id, "E1")) for id in ids[start : start + 2_000]]
        )
        assert len(results) == 2_000
    began = time.monotonic()
    rows, _ = await redis_record.rows(limit=100)
    assert time.monotonic() - began < 1
    assert [row["id"] for row in rows] == ids[:-101:-1]


async def test_index_entries_of_what_is_gone_are_skipped_and_cleaned(
    redis_record: RedisRecord, connection: Connection
) -> None:
    await Writer().create(redis_record)
    now = time.time_ns() // 1_000_000
    await connection.run("ZADD", "hub:contexts", now, "being made", 1, "long gone")
    for _ in range(2):
        assert [row["id"] for row in (await redis_record.rows())[0]] == ["ctx1"]
    assert sorted(await connection.run("ZRANGE", "hub:contexts", 0, -1)) == [b"being made", b"ctx1"]


async def test_what_is_being_made_stays_whatever_the_nodes_clock_says(
    redis_record: RedisRecord, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = await connection.now_ms()
    await connection.run("ZADD", "hub:contexts", now, "being made")
    monkeypatch.setattr(time, "time_ns", lambda: (now + 86_400_000) * 1_000_000)
    assert await redis_record.rows() == ([], None)
    assert await connection.run("ZRANGE", "hub:contexts", 0, -1) == [b"being made"]
