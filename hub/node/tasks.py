"""How tasks beside the requests begin and end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from hub.core.errors import HubError, Unavailable

T = TypeVar("T")
_log = logging.getLogger(__name__)

RETRY = 0.2
"""Seconds between two tries of an upkeep, while the record is away."""


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks until they have ended. Once may not do: before Python 3.12 ``asyncio.wait_for``, which redis-py uses,
    loses a cancellation that comes just when what it waits for is done."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        done, left = await asyncio.wait(left, timeout=0.2)
        for task in done:
            if not task.cancelled() and (error := task.exception()) is not None:
                _log.error("%s", task.get_name(), exc_info=error)


async def until_answered(ask: Callable[[], Awaitable[T]], seconds: float) -> T:
    """What the record answers; while it is away it is asked again, for so long. Raises Unavailable."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while True:
        try:
            return await ask()
        except Unavailable:
            if loop.time() + RETRY >= until:
                raise
            await asyncio.sleep(RETRY)


class Background:
    """Work that nobody waits for: it is kept from being collected, and the log has what it raises, after ``what`` it was."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self, work: Coroutine[Any, Any, Any]) -> None:
        """Start work on the running event loop."""
        task = asyncio.get_running_loop().create_task(self._logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # one that was cancelled before it began would warn

    async def end(self) -> None:
        """Cancel what is under way, and wait for its end."""
        await end_tasks(self._tasks)

    async def _logged(self, work: Coroutine[Any, Any, Any]) -> None:
        try:
            await work
        except HubError as error:
            _log.warning("%s: %s: %s", self._what, error.code, error.message)
        except Exception:
            _log.exception("%s", self._what)


class Upkeep:
    """Keeps something in step with the record. Its work is done anew whenever it is called for: once at a time, and tried until
    the record answers."""

    def __init__(self, what: str, work: Callable[[], Awaitable[None]]) -> None:
        """``what`` the log says before what the work raises, other than Unavailable."""
        self._what = what
        self._work = work
        self._ended = False
        self._next: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    def call(self) -> asyncio.Future[None]:
        """Do the work from now on. The future is done once that has been; it is cancelled if the upkeep ends before."""
        loop = asyncio.get_running_loop()
        if self._ended:
            ended = loop.create_future()
            ended.cancel()
            return ended
        if self._next is None:
            self._next = loop.create_future()
            if self._task is None:
                self._task = loop.create_task(self._run(), name=self._what)
        return self._next

    async def end(self) -> None:
        """Cancel what is under way, and do no more."""
        self._ended = True
        if self._task is not None:
            await end_tasks([self._task])
        if self._next is not None:
            self._next.cancel()

    async def _run(self) -> None:
        try:
            while self._next is not None:
                done, self._next = self._next, None
                try:
                    await self._until_done()
                    done.set_result(None)
                finally:
                    done.cancel()  # unless it is done
        finally:
            self._task = None

    async def _until_done(self) -> None:
        while True:
            try:
                await self._work()
            except Unavailable:
                await asyncio.sleep(RETRY)
                continue
            except Exception:
                _log.exception("%s", self._what)
            return
