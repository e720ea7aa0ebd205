"""Turns: pieces of long work share the event loop with everything else."""

from __future__ import annotations

import asyncio

from hub.node.turns import PIECE_BYTES, PIECES, Turns
from tests.support import until


class Ticking:
    """Counts the iterations of the event loop."""

    def __init__(self) -> None:
        self.count = 0
        self._loop = asyncio.get_running_loop()
        self._handle = self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        self.count += 1
        self._handle = self._loop.call_soon(self._tick)

    def stop(self) -> None:
        self._handle.cancel()


async def test_a_few_pieces_an_iteration_for_all_together() -> None:
    turns, ticking, done = Turns(), Ticking(), dict[int, list[int]]()

    async def work(size: int) -> None:
        for _ in range(20):
            await turns.turn()
            turns.done(size)
            done.setdefault(ticking.count, []).append(size)

    await asyncio.gather(*(work(size) for size in (100, 1_000, PIECE_BYTES, PIECE_BYTES, 10 * PIECE_BYTES)))
    ticking.stop()
    assert sum(len(sizes) for sizes in done.values()) == 100
    assert max(len(sizes) for sizes in done.values()) <= 2 * PIECES
    assert ticking.count >= (4 * 20 + 10 * 20) / PIECES - PIECES, "a large one is paid for"
    assert ticking.count < 150, "and nothing waits longer than it must"


async def test_first_come_first_served() -> None:
    turns, order = Turns(), list[int]()

    async def work(n: int) -> None:
        await turns.turn()
        order.append(n)

    await asyncio.gather(*(work(n) for n in range(50)))
    assert order == list(range(50))


async def test_who_gives_up_costs_no_turn() -> None:
    turns = Turns()
    for _ in range(PIECES):
        await turns.turn()
    waiting = [asyncio.create_task(turns.turn()) for _ in range(3 * PIECES)]
    await asyncio.sleep(0)
    for task in waiting[:-1]:
        task.cancel()
    await until(lambda: waiting[-1].done())
    await turns.turn()


async def test_large_pieces_one_after_the_other() -> None:
    """What is owed at the end of an iteration in which nobody waited is paid off all the same."""
    turns = Turns()
    async with asyncio.timeout(5):
        for _ in range(20):
            await turns.turn()
            turns.done(6 * PIECE_BYTES)
            await asyncio.sleep(0)
