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
from hub.agent.family import MARK, end_family


class Guards:
    """The guard of this process's children, which is started with the first of them."""

    def __init__(self) -> None:
        self.mark = f"{secrets.token_hex(8)}."
        self._lock = threading.Lock()
        self._guard: subprocess.Popen[bytes] | None = None

    def say(self, line: str) -> None:
        """Tell the guard that a session began (``+ID``) or is over (``-ID``)."""
        with self._lock:
            if self._guard is None:
                self._guard = subprocess.Popen(
                    [sys.executable, "-m", "hub.agent.guard", self.mark],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,
                )
                atexit.register(self._end)
            assert self._guard.stdin is not None
            with suppress(OSError):  # somebody killed it; there is no other
                self._guard.stdin.write(line.encode() + b"\n")
                self._guard.stdin.flush()

    def _end(self) -> None:
        assert self._guard is not None
        assert self._guard.stdin is not None
        with suppress(OSError):
            self._guard.stdin.close()
        self._guard.wait()


_GUARDS: Final = Guards()
_numbers = itertools.count(1)
REAP_SECONDS: Final = 1.0
"""How long it may take to hear of the end of one that has ended."""


class Processes:
    """The child processes of one task. Thread-safe."""

    def __init__(self) -> None:
        self._mark = f"{_GUARDS.mark}{next(_numbers)}."
        self._lock = threading.Lock()
        self._children: list[subprocess.Popen[Any] | asyncio.subprocess.Process] = []
        self._used = False  # whether there may be any: also of a start that was cancelled
        self._over = False

    def popen(self, args: Sequence[str] | str, options: dict[str, Any]) -> subprocess.Popen[Any]:
        """``subprocess.Popen``. Raises RunStopped if the task is over, and what that raises."""
        options = self._options(options)
        process: subprocess.Popen[Any] = subprocess.Popen(args, **options)
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
        end_family(self._mark, {child.pid for child in children}, grace)
        for child in children:
            _GUARDS.say(f"-{child.pid}")
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
        if self._over:
            raise RunStopped("the task was stopped: it starts no process")
        self._used = True
        env = given.get("env")
        return {**given, "env": {**(os.environ if env is None else env), MARK: self._mark}, "start_new_session": True}

    def _began(self, child: subprocess.Popen[Any] | asyncio.subprocess.Process) -> None:
        with self._lock:
            self._children.append(child)
            over = self._over
        _GUARDS.say(f"+{child.pid}")
        if over:  # the task was stopped while it started
            self.end_soon(0)
            raise RunStopped("the task was stopped: it starts no process")
