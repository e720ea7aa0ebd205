"""Nodes, their runs, numbers, broadcasts and the comparison of ends, on every kind of record."""

from __future__ import annotations

import asyncio
import time

from hub.core.position import Position
from hub.record import names
from hub.record.connection import Connection
from hub.record.memory import MemoryRecord
from hub.record.packing import pack
from hub.record.port import Record
from hub.record.redis import RedisRecord
from tests.record.writer import Writer, put
from tests.support import until


async def test_beats_of_all_nodes_until_they_leave(record: Record) -> None:
    assert list(await record.beat("n1", {"url": "one"})) == ["n1"]
    beats = await record.beat("n2 / {}", {"url": "ünï", "load": 0.5})
    assert {node: beat.info for node, beat in beats.items()} == {
        "n1": {"url": "one"},
        "n2 / {}": {"url": "ünï", "load": 0.5},
    }
    assert 0 <= beats["n2 / {}"].age <= beats["n1"].age < 5

    async def older() -> bool:
        return (await record.beat("n2 / {}", {}))["n1"].age > 0.05

    await until(older, "an older beat")
    assert (await record.beat("n1", {"url": "two"}))["n1"].age < 0.05
    await record.leave("n1")
    await record.leave("n1")
    assert list(await record.beat("n2 / {}", {})) == ["n2 / {}"]


async def test_runs_of_a_node(record: Record) -> None:
    assert await record.runs_of("n1") == []
    for context in ("a", "b", "b"):
        await record.hold_run("n1", context)
    await record.hold_run("n2", "c")
    await record.let_run("n1", "a")
    await record.let_run("n1", "never held")
    assert await record.runs_of("n1") == ["b"]
    await record.leave("n1")
    assert await record.runs_of("n1") == []
    assert await record.runs_of("n2") == ["c"]


async def test_each_number_is_given_out_once(record: Record) -> None:
    numbers = await asyncio.gather(*(record.next_no() for _ in range(50)))
    assert sorted(numbers) == list(range(1, 51))
    assert await record.next_no(at_least=51) == 51
    assert await record.next_no(at_least=10) == 52
    assert await record.next_no(at_least=1000) == 1000
    assert await record.next_no() == 1001


async def test_broadcasts_after_a_place(record: Record) -> None:
    nothing, start = await record.broadcasts(None)
    assert nothing == []
    assert await record.broadcasts(start) == ([], start)
    places = [await record.add_broadcast({"id": f"b{n}", "text": "ünï"}) for n in range(250)]
    found, end = await record.broadcasts(start)
    assert [broadcast["id"] for broadcast in found] == [f"b{n}" for n in range(250)]
    assert end == places[-1]
    assert await record.broadcasts(places[247]) == ([{"id": f"b{n}", "text": "ünï"} for n in (248, 249)], end)
    assert await record.broadcasts(end) == ([], end)
    assert await record.broadcasts(None) == ([], end)


async def test_old_broadcasts_are_forgotten_in_memory() -> None:
    now = 1_000_000.0
    record = MemoryRecord(clock=lambda: now)
    await record.add_broadcast({"id": "old"})
    now += 601
    await record.add_broadcast({"id": "new"})
    assert (await record.broadcasts("0"))[0] == [{"id": "new"}]
    for n in range(1500):
        await record.add_broadcast({"id": n})
    assert len((await record.broadcasts("0"))[0]) == 1000


async def test_old_broadcasts_are_forgotten_in_redis(redis_record: RedisRecord, connection: Connection) -> None:
    old = time.time_ns() // 1_000_000 - 601_000
    await connection.run("XADD", "hub:broadcasts", f"{old}-0", "broadcast", pack({"id": "old"}))
    await redis_record.add_broadcast({"id": "new"})
    assert (await redis_record.broadcasts("0-0"))[0] == [{"id": "new"}]
    await connection.many([("XADD", "hub:broadcasts", "*", "broadcast", pack({"id": n})) for n in range(1500)])
    await redis_record.add_broadcast({"id": "newest"})
    assert 1000 <= await connection.run("XLEN", "hub:broadcasts") < 1200
    assert (await redis_record.broadcasts("0-0"))[0][-1] == {"id": "newest"}


async def test_what_somebody_else_wrote_is_no_node_and_no_broadcast(
    redis_record: RedisRecord, connection: Connection
) -> None:
    now = time.time_ns() // 1_000_000
    for name, raw in (
        ("a", b""),
        ("b", b"x y"),
        ("c", b"%d \x80" % now),
        ("d", b"1"),
        (b"\xff", b"%d " % now + pack({})),
    ):
        await connection.run("HSET", "hub:nodes", name, raw)
    assert list(await redis_record.beat("n1", {})) == ["n1"]
    await connection.run("XADD", "hub:broadcasts", "1-0", "broadcast", b"\x80\x04.")
    await connection.run("XADD", "hub:broadcasts", "2-0", "other", pack({}))
    await connection.run("XADD", "hub:broadcasts", "3-0", "broadcast", pack({"id": "b"}))
    assert await redis_record.broadcasts("0-0") == ([{"id": "b"}], "3-0")


async def test_ends_that_differ(record: Record) -> None:
    writers = {id: Writer(id) for id in ("same", "ahead", "removed", "epoch", "tip")}
    for writer in writers.values():
        await writer.create(record)
    ends = [(id, writer.position, writer.tip) for id, writer in writers.items()]
    assert await record.differ(ends) == []
    assert await record.differ([]) == []
    await writers["ahead"].write(record, put("/state/a", 1))
    await writers["removed"].write(record, [{"kind": "closed", "reason": "removed"}])
    await record.new_epoch("epoch", "E1", "E2")
    ends = [(id, at, "another" if id == "tip" else tip) for id, at, tip in ends]
    assert await record.differ([*ends, ("nowhere", Position("E1", 1), "e")]) == [
        "ahead", "removed", "epoch", "tip", "nowhere"
    ]  # fmt: skip


async def test_comparing_twenty_thousand_ends_is_cheap(redis_record: RedisRecord, connection: Connection) -> None:
    ends = [(f"context-{n:05}", Position("epoch123", n), f"entry-{n:08}") for n in range(1, 20_001)]
    for start in range(0, len(ends), 2_000):
        await connection.many(
            [
                ("HSET", names.main(context), "epoch", at.epoch, "last", at.seq, "tip", tip, "name", "a context")
                for context, at, tip in ends[start : start + 2_000]
            ]
        )
    ends[776] = ("context-00777", Position("epoch123", 777), "another")
    await connection.run("CONFIG", "RESETSTAT")
    began = time.process_time()
    assert await redis_record.differ(ends) == ["context-00777"]
    here = time.process_time() - began
    stats: bytes = await connection.run("INFO", "commandstats")
    [line] = [line for line in stats.splitlines() if line.startswith(b"cmdstat_evalsha:")]
    there = int(line.partition(b"usec=")[2].partition(b",")[0]) / 1e6
    print(f"20,000 ends: {here * 1000:.0f} ms of CPU here, {there * 1000:.0f} ms of the server")  # noqa: T201
    assert here < 0.5
    assert there < 0.5
