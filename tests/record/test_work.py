"""Work that waits for agents, on every kind of record."""

from __future__ import annotations

import asyncio
import time

import pytest

from hub.record.connection import Connection
from hub.record.port import Record
from hub.record.redis import RedisRecord
from hub.record.server_check import parse_info
from tests.support import until


async def test_each_item_goes_to_one_node(record: Record) -> None:
    for context in ("c1", "c2", "c2"):
        await record.offer("demo", context)
    taken = [await record.take("demo", node, 0.0) for node in ("n1", "n2", "n1")]
    assert [work.context for work in taken if work] == ["c1", "c2", "c2"]
    assert all(work is not None and 0 <= work.age < 5 for work in taken)
    assert await record.take("demo", "n1", 0.0) is None
    assert await record.take("other / agent", "n1", 0.0) is None
    for work in taken:
        assert work is not None
        await record.done(work)


@pytest.mark.parametrize("ahead", [-3600, 3600])
async def test_an_age_is_not_by_the_nodes_clock(record: Record, monkeypatch: pytest.MonkeyPatch, ahead: int) -> None:
    """A node whose clock is ahead dropped work that had just been offered."""
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + ahead)
    await record.offer("demo", "new")
    work = await record.take("demo", "n1", 0.0)
    assert work is not None
    assert 0 <= work.age < 5


async def test_how_long_ago_an_item_was_offered(redis_record: RedisRecord, connection: Connection) -> None:
    offered = await connection.now_ms() - 60_000
    await connection.run("XADD", "hub:agent:{demo}", f"{offered}-0", "context", "old")
    work = await redis_record.take("demo", "n1", 0.0)
    assert work is not None
    assert 60 <= work.age < 65


async def test_waiting_for_work_ends_when_it_comes(record: Record) -> None:
    waiting = asyncio.create_task(record.take("demo", "n1", 20.0))
    await asyncio.sleep(0)
    began = time.monotonic()
    await record.offer("demo", "c1")
    work = await waiting
    assert work is not None
    assert work.context == "c1"
    assert time.monotonic() - began < 3


async def test_waiting_without_work_ends_in_time(record: Record) -> None:
    began = time.monotonic()
    assert await record.take("demo", "n1", 0.3) is None
    assert 0.25 < time.monotonic() - began < 2


async def test_what_nobody_acknowledged_comes_again(record: Record) -> None:
    await record.offer("demo", "c1")
    await record.offer("demo", "c2")
    first = await record.take("demo", "n1", 0.0)
    second = await record.take("demo", "n1", 0.0)
    assert first is not None
    assert second is not None
    await record.done(second)
    again = await record.take("demo", "n2", 8.0)
    assert again is not None
    assert (again.context, again.item) == ("c1", first.item)
    await record.done(again)
    assert await record.take("demo", "n2", 0.0) is None


async def test_done_items_leave_the_stream(redis_record: RedisRecord, connection: Connection) -> None:
    await redis_record.offer("demo", "c1")
    work = await redis_record.take("demo", "n1", 0.0)
    assert work is not None
    await redis_record.done(work)
    assert await connection.run("XLEN", "hub:agent:{demo}") == 0


async def test_many_waiting_takes_do_not_hold_up_commands(redis_record: RedisRecord, connection: Connection) -> None:
    async def most_wait() -> bool:
        return int(parse_info(await connection.run("INFO", "clients"))["blocked_clients"]) > 30

    takes = [asyncio.create_task(redis_record.take(f"a{n}", "n1", 3.0)) for n in range(40)]
    await until(most_wait)
    assert await redis_record.ping() < 1
    for n in range(40):
        await redis_record.offer(f"a{n}", "c1")
    assert all(work is not None for work in await asyncio.gather(*takes))
