"""A process that runs as long as the hub does: started again when it ends, and never left over."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Final, Self

_log = logging.getLogger(__name__)

SHORTEST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 15.0
STEADY_SECONDS: Final = 30.0
"""A process that ran for so long is started again at once."""
END_SECONDS: Final = 5.0
"""How long it has to end when it is told to."""


class Companion:
    """A child in a session of its own, so that signals of the terminal do not reach it.

    Its standard input is a pipe from here that carries nothing: the end of it, even by SIGKILL, tells the child to end
    (``end_with_parent``), which may finish what it has begun before, for a bounded time.
    """

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self._command = command
        self._pauses = SHORTEST_PAUSE, LONGEST_PAUSE
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process id, while there is a process."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    def start(self) -> None:
        """Start it, soon."""
        self._keeper = asyncio.create_task(self._keep(), name=self.name)

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End it for good."""
        if self._keeper is not None:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper

    async def _keep(self) -> None:
        (pause, longest), loop = self._pauses, asyncio.get_running_loop()
        while True:
            started = loop.time()
            try:
                code = await self._run()
            except OSError as error:
                _log.warning("%s cannot be started: %s", self.name, error.strerror)
                code = -1
            if not self._comes_again(code):
                return
            if loop.time() - started >= STEADY_SECONDS:
                pause = self._pauses[0]
            _log.warning("%s ended (%s); it is started again in %g s", self.name, how(code), pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    def _comes_again(self, code: int) -> bool:
        """Whether it is started again after it ended with this code."""
        return True

    async def _run(self) -> int:
        self._process = process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return await process.wait()
        finally:
            if process.returncode is None:
                await asyncio.shield(end(process))


async def end(process: asyncio.subprocess.Process) -> None:
    """Ask a process to end, and see that it does."""
    if process.stdin is not None:
        process.stdin.close()
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), END_SECONDS)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def how(code: int) -> str:
    """How a process ended, in words."""
    return f"signal {-code}" if code < 0 else f"code {code}"


def own_command(*arguments: str) -> list[str]:
    """The command line that runs this program again."""
    return [sys.executable, "-m", "hub", *arguments]


def end_with_parent(end: Callable[[], object], outlive: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
    """In a companion: call ``end`` when the pipe from the parent ends; leave for good if that is not enough.

    ``outlive`` is what has to be over before, and bounds itself.
    """
    loop = asyncio.get_running_loop()
    tasks = set()

    def leave(_: object = None) -> None:
        end()
        loop.call_later(END_SECONDS, os._exit, 1)

    def readable() -> None:
        try:
            if os.read(0, 64):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        loop.remove_reader(0)
        if outlive is None:
            leave()
        else:
            task = loop.create_task(outlive())
            tasks.add(task)
            task.add_done_callback(leave)

    os.set_blocking(0, False)
    loop.add_reader(0, readable)
