"""Work that keeps something in step with the record: once at a time, anew when it is called for, until the record answers."""

from __future__ import annotations

import asyncio

import pytest

from hub.core.errors import Unavailable
from hub.node import tasks
from hub.node.tasks import Upkeep
from tests.support import until


class Work:
    """Takes as long as the test wants."""

    def __init__(self) -> None:
        self.begun = self.done = 0
        self.errors: list[Exception] = []
        self.go_on = asyncio.Event()

    async def __call__(self) -> None:
        self.begun += 1
        await self.go_on.wait()
        if self.errors:
            raise self.errors.pop()
        self.done += 1


async def test_who_calls_meanwhile_gets_a_round_that_began_after_that() -> None:
    work = Work()
    upkeep = Upkeep("test", work)
    first = upkeep.call()
    await until(lambda: work.begun == 1)
    second, third = upkeep.call(), upkeep.call()
    assert not first.done()
    work.go_on.set()
    await asyncio.gather(first, second, third)
    assert (work.begun, work.done) == (2, 2)
    await upkeep.call()
    assert work.done == 3
    await upkeep.end()


async def test_errors(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(tasks, "RETRY", 0.01)
    work = Work()
    work.go_on.set()
    upkeep = Upkeep("test", work)
    work.errors = [Unavailable("away"), Unavailable("away")]
    await upkeep.call()
    assert (work.begun, work.done) == (3, 1)
    work.errors = [ValueError("a fault")]
    await upkeep.call()
    assert (work.begun, work.done) == (4, 1), "a fault is no reason to try for ever"
    assert "a fault" in caplog.text
    await upkeep.end()


async def test_the_end() -> None:
    work = Work()
    upkeep = Upkeep("test", work)
    waiting = upkeep.call()
    await until(lambda: work.begun == 1)
    later = upkeep.call()
    await upkeep.end()
    assert waiting.cancelled()
    assert later.cancelled()
    assert upkeep.call().cancelled()
    assert work.begun == 1
    await upkeep.end()
