"""Child processes of tasks. They end with their task, however that ends, and with this process, even by SIGKILL."""

from __future__ import annotations

import asyncio
import atexit
import itertools
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from hub.agent.errors import RunStopped


class Guard:
    """The guard of this process's children, which is started with the first of them."""

    def __init__(self) -> None:
        self.mark = f"{secrets.token_hex(8)}."
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def say(self, line: str) -> None:
        """Tell the guard that a session began (``+ID``) or is over (``-ID``)."""
        with self._lock:
            if self._process is None:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "hub.agent.guard", self.mark],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,
                )
                atexit.register(self._end)
            assert self._process.stdin is not None
            with suppress(OSError):  # somebody killed it; there is no other
                self._process.stdin.write(line.encode() + b"\n")
                self._process.stdin.flush()

    def _end(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._process.wait()


_GUARD: Final = Guard()
_numbers = itertools.count(1)
REAP_SECONDS: Final = 1.0
"""How long it may take to hear of the end of one that has ended."""


class Processes:
    """The child processes of one task. Thread-safe."""

    def __init__(self) -> None:
        self._mark = f"{_GUARD.mark}{next(_numbers)}."
        self._lock = threading.Lock()
        self._children: list[subprocess.Popen[Any] | asyncio.subprocess.Process] = []
        self._used = False  # whether there may be any: also one whose start was cancelled
        self._over = False

    def popen(self, args: Sequence[str] | str, options: dict[str, Any]) -> subprocess.Popen[Any]:
        """``subprocess.Popen``. Raises RunStopped if the task is over, and what that raises."""
        process: subprocess.Popen[Any] = subprocess.Popen(args, **self._options(options))
        self._began(process)
        return process

    async def exec(self, args: Sequence[str], options: dict[str, Any]) -> asyncio.subprocess.Process:
        """``asyncio.create_subprocess_exec``. Raises RunStopped if the task is over, and what that raises."""
        process = await asyncio.create_subprocess_exec(*args, **self._options(options))
        self._began(process)
        return process

    def end(self, grace: float) -> None:
        """End all of them with their descendants: they are asked to, and killed after ``grace`` seconds. Blocks until they have
        ended."""
        with self._lock:
            self._over = True
            children = list(self._children)
        if not self._used:
            return
        from hub.agent.family import end_family  # psutil takes its time, and few agents need it

        end_family(self._mark, {child.pid for child in children}, grace)
        for child in children:
            _GUARD.say(f"-{child.pid}")
            if isinstance(child, subprocess.Popen):
                with suppress(subprocess.TimeoutExpired):
                    child.wait(REAP_SECONDS)

    async def leave(self, grace: float) -> None:
        """The same for a coroutine, on the event loop where it started them."""
        if not self._used:
            return
        await asyncio.to_thread(self.end, grace)
        with suppress(TimeoutError):
            async with asyncio.timeout(REAP_SECONDS):
                for child in self._children:
                    if isinstance(child, asyncio.subprocess.Process):
                        await child.wait()

    def end_soon(self, grace: float) -> None:
        """The same, in a thread of its own."""
        with self._lock:
            self._over = True
            if not self._used:
                return
        threading.Thread(target=self.end, args=(grace,), name="ending processes", daemon=True).start()

    def _options(self, given: dict[str, Any]) -> dict[str, Any]:
        from hub.agent.family import MARK

        if self._over:
            raise _stopped()
        self._used = True
        env = given.get("env")
        return {**given, "env": {**(os.environ if env is None else env), MARK: self._mark}, "start_new_session": True}

    def _began(self, child: subprocess.Popen[Any] | asyncio.subprocess.Process) -> None:
        with self._lock:
            self._children.append(child)
            over = self._over
        _GUARD.say(f"+{child.pid}")
        if over:  # the task was stopped while it started
            self.end_soon(0)
            raise _stopped()


def _stopped() -> RunStopped:
    return RunStopped("the task was stopped: it starts no process")
