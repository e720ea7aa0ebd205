"""The record's notes of which runs a node has, whatever becomes of the commands."""

from __future__ import annotations

import asyncio
import random

import pytest

from hub.core.errors import Unavailable
from hub.node import tasks
from hub.node.run_notes import RunNotes
from hub.record.memory import MemoryRecord
from tests.support import until


class Odd(MemoryRecord):
    """Answers late, and loses some commands and some answers."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.chance = chance
        self.trouble = 0.15

    async def _pass(self) -> None:
        for _ in range(self.chance.randrange(4)):
            await asyncio.sleep(0)
        if self.chance.random() < self.trouble:
            raise Unavailable("lost")

    async def hold_run(self, node: str, context: str) -> None:
        await self._pass()
        await super().hold_run(node, context)
        await self._pass()

    async def let_run(self, node: str, context: str) -> None:
        await self._pass()
        await super().let_run(node, context)
        await self._pass()


@pytest.mark.parametrize("seed", range(30))
async def test_what_is_held_is_noted(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "RETRY", 0.0)
    chance = random.Random(seed)
    record = Odd(chance)
    notes = RunNotes(record, "a")
    held: set[str] = set()
    busy = {id: asyncio.Lock() for id in "xyz"}

    async def hold(id: str) -> None:
        async with busy[id]:
            try:
                await notes.hold(id)
            except Unavailable:
                held.discard(id)
                return
            held.add(id)
            for _ in range(chance.randrange(5)):
                assert id in await record.runs_of("a"), "from here on"
                await asyncio.sleep(0)

    async def let(id: str) -> None:
        async with busy[id]:
            notes.let(id)
            held.discard(id)

    asked = []
    for _ in range(200):
        asked.append(asyncio.create_task(chance.choice((hold, let))(chance.choice("xyz"))))
        if chance.random() < 0.1:
            notes.hold_soon("own")
            held.add("own")
        for _ in range(chance.randrange(3)):
            await asyncio.sleep(0)
    await asyncio.gather(*asked)

    async def equal() -> bool:
        return set(await record.runs_of("a")) == held

    await until(equal)
    await record.leave("a")  # others took it for dead
    notes.again()
    await until(equal)
    record.trouble = 0.0
    for id in list(held):
        notes.let(id)
        held.discard(id)
    await until(equal)
    await notes.hold("x")
    notes.let("x")
    await notes.close()
    assert await record.runs_of("a") == []
