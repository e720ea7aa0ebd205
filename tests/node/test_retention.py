"""Sessions that nobody has used for long are removed, whichever node looks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from unittest.mock import ANY

import pytest

from hub.core.errors import HubError, NotFound, Unavailable
from hub.core.position import Position
from hub.core.requests import Role, Update
from hub.node.node import Node
from hub.node.rights import Identity
from hub.node.settings import Settings
from hub.record.memory import MemoryRecord
from hub.record.port import Append, Appended
from tests.node.support import KeptOutbox, ask, create, incr, node_on, ok
from tests.node.test_sleeping import SOON, VIEWER, asleep
from tests.support import until

KEPT: dict[str, Any] = {"keep_sessions": 0.4, **SOON}


async def gone(record: MemoryRecord, *ids: str) -> bool:
    return all([await record.end(id) is None for id in ids])


async def test_what_nobody_uses_is_removed_and_the_list_hears_of_it() -> None:
    record = MemoryRecord()
    async with node_on(record, **KEPT) as node:
        for n in range(70):
            await create(node, f"c{n}", user_id="ann")
        reader = KeptOutbox()
        node.listing.topic.join(reader, Identity("ann", Role.USER))
        await until(lambda: gone(record, *(f"c{n}" for n in range(70))))
        await until(lambda: len(reader.of("row")) == 70)
        assert {event["row"] for event in reader.of("row")} == {None}
        assert isinstance(await ask(node, incr("c1")), NotFound)
        assert (await record.rows())[0] == []
        await create(node, "c1")


async def test_what_is_used_stays() -> None:
    record = MemoryRecord()
    async with node_on(record, **KEPT) as first, node_on(record, **KEPT) as second:
        for id in ("watched", "changed", "left", "opened"):
            await create(first, id)
        live, viewer = await second.contexts.open("watched"), KeptOutbox()
        live.audience.join(viewer, VIEWER)

        async def left_gone() -> bool:
            await ok(first, incr("changed"))
            await second.contexts.open("opened")
            return await gone(record, "left")

        await until(left_gone)
        for _ in range(2):  # and as long once more
            await create(first, "left")
            await until(left_gone)
        assert not await gone(record, "watched", "changed", "opened")
        assert not viewer.of("change")
        live.audience.leave(viewer)
        await until(lambda: gone(record, "watched", "changed", "opened"))


async def test_by_default_everything_is_kept() -> None:
    record = MemoryRecord()
    async with node_on(record, **SOON) as node:
        await create(node)
        await until(lambda: asleep(node, "c"))
        assert record._used == {}
        assert await record.end("c")


async def test_time_counts_from_when_it_is_wanted() -> None:
    """What is there when retention begins, or begins again, has all of the time before it."""
    record = MemoryRecord()
    async with node_on(record) as node:
        await create(node)
    async with node_on(record, keep_sessions=1_000.0, **SOON) as node:
        await until(lambda: record._used)
        noted = dict(record._used)
    record._used["c"] -= 5_000
    async with node_on(record, **SOON):
        await until(lambda: not record._used)
    async with node_on(record, keep_sessions=1_000.0, **SOON) as node:
        await until(lambda: record._used)
        assert record._used["c"] >= noted["c"]
        assert await record.end("c")


class Meanwhile(MemoryRecord):
    """Something happens between the look at what is unused and its removal."""

    def __init__(self) -> None:
        super().__init__()
        self.node: Node | None = None
        self.found = 0
        self.away = 0

    async def unused(self, seconds: float, limit: int = 64) -> list[tuple[str, Position, str]]:
        found = await super().unused(seconds, limit)
        if found and self.node is not None:
            await ok(self.node, Update(context=found[0][0], name=f"changed {self.found + 1}"))
            self.found += 1
        return found

    async def append(self, appends: Sequence[Append]) -> list[Appended]:
        if self.away and any(part["kind"] == "closed" for a in appends for c in a.entry.changes for part in c.parts):
            self.away -= 1
            raise Unavailable("away")
        return await super().append(appends)


async def test_one_that_is_changed_at_the_last_moment_stays() -> None:
    record = Meanwhile()
    async with node_on(record, **KEPT) as first, node_on(record, **SOON) as second:
        await create(first)
        record.node = second
        await until(lambda: record.found == 3)
        record.node = None
        rows, _ = await record.rows()
        assert [row["name"] for row in rows] == ["changed 3"]
        await until(lambda: gone(record, "c"))


async def test_a_removal_that_was_lost_is_done_later() -> None:
    record = Meanwhile()
    record.away = 2
    async with node_on(record, **KEPT) as node:
        for n in range(3):
            await create(node, f"c{n}")
        await until(lambda: gone(record, "c0", "c1", "c2"))
        assert record.away == 0


async def test_after_the_record_was_away_all_have_time_to_note_what_they_use() -> None:
    """It was away for longer than sessions are kept: who is back first must not take the others' for unused."""
    now = 1_000_000.0
    record = MemoryRecord(clock=lambda: now)
    first = Node(record, Settings(keep_sessions=50.0), clock=lambda: now)
    second = Node(record, Settings(keep_sessions=50.0), clock=lambda: now)
    for node in (first, second):
        await node.start()
        await node.retention.close()  # the test says when they look
    await create(second, "theirs")

    async def look(node: Node, at: float) -> None:
        nonlocal now
        now = at
        await node.retention._look(5.0)

    for at in (1_000_000.0, 1_000_005.0):
        await look(first, at)
        await look(second, at)
    await look(first, 1_000_100.0)
    assert await record.end("theirs")
    await look(second, 1_000_101.0)
    for at in range(1_000_105, 1_000_200, 5):
        await look(first, at)
        await look(second, at)
    assert await record.end("theirs")
    second.contexts.forget(second.contexts.live["theirs"])
    for at in range(1_000_200, 1_000_300, 5):
        await look(first, at)
    assert await record.end("theirs") is None
    for node in (first, second):
        await node.close()


async def test_many_nodes_do_not_fight(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    record = MemoryRecord()
    async with node_on(record, **KEPT) as first, node_on(record, **KEPT), node_on(record, **KEPT):
        ids = [f"c{n}" for n in range(300)]
        for id in ids:
            await create(first, id)
        await until(lambda: gone(record, *ids))
    assert len([line for line in caplog.messages if "is removed" in line]) == 300
    assert not [line for line in caplog.records if line.levelname == "ERROR"]


async def test_a_request_at_the_last_moment_keeps_it_or_is_told_that_it_is_gone() -> None:
    record = MemoryRecord()
    async with node_on(record, **KEPT) as first, node_on(record, **KEPT) as second:
        for n in range(40):
            await create(first, f"c{n}")

        async def use(n: int) -> None:
            await asyncio.sleep(0.4 + n / 100)  # at about the time when it is removed
            answer = await ask(second, incr(f"c{n}"))
            if isinstance(answer, HubError):
                assert await record.end(f"c{n}") is None
            else:
                assert await record.end(f"c{n}") == (Position(answer["epoch"], 2), ANY)

        await asyncio.gather(*map(use, range(40)))
        await until(lambda: gone(record, *(f"c{n}" for n in range(40))))
