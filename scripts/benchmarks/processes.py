"""Processes that the bench starts: told by JSON lines, ended by their process id, none outlives it."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.benchmarks.machine import cpu_seconds

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60.0
END_SECONDS = 10.0


class BenchError(RuntimeError):
    """Something that is measured, or measures, did not do what it should; the message says what."""


class Process:
    """A process whose standard input stays open as long as the bench lives; ours end when it closes."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        scratch: Path,
        *,
        env: Mapping[str, str] | None = None,
        fds: Sequence[int] = (),
        folder: Path = ROOT,
    ) -> None:
        self.name = name
        self._log = scratch / f"{name.replace(' ', '-')}-{time.monotonic_ns()}.log"
        self._buffer = b""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                list(command),
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=fds,
                env=_environment(env or {}),
                start_new_session=True,  # Ctrl-C goes to the bench, which ends them in order
                preexec_fn=_end_with_parent,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def cpu(self) -> float:
        """Seconds of CPU so far."""
        return cpu_seconds(self.pid)

    def line(self, seconds: float = START_SECONDS) -> str:
        """The next line that it writes. Raises BenchError if it ends, or says nothing for so long."""
        assert self._process.stdout is not None
        fd, until = self._process.stdout.fileno(), time.monotonic() + seconds
        while b"\n" not in self._buffer:
            left = until - time.monotonic()
            if left <= 0:
                raise BenchError(f"{self.name} said nothing for {seconds:g} s{self._said()}")
            if select.select([fd], [], [], left)[0]:
                data = os.read(fd, 1 << 20)
                if not data:
                    raise BenchError(f"{self.name} ended{self._said()}")
                self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode(errors="replace")

    def tell(self, command: str, **arguments: Any) -> None:
        """Give a command; ``answer`` has what comes of it."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"command": command, **arguments}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise BenchError(f"{self.name} ended{self._said()}") from error

    def answer(self, seconds: float = START_SECONDS) -> dict[str, Any]:
        """What came of the oldest command without one. Raises BenchError, also if it failed."""
        reply: dict[str, Any] = json.loads(self.line(seconds))
        if "error" in reply:
            raise BenchError(f"{self.name}: {reply['error']}")
        return reply

    def ask(self, command: str, *, within: float = START_SECONDS, **arguments: Any) -> dict[str, Any]:
        """Give a command and wait for what comes of it."""
        self.tell(command, **arguments)
        return self.answer(within)

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()
        self._process.wait(END_SECONDS)

    def end(self) -> None:
        """End it, in order if it will."""
        process = self._process
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(END_SECONDS)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue  # what it was still to be told does not matter any more

    def _said(self) -> str:
        text = self._log.read_text(errors="replace").strip()
        return f"; it said:\n{text[-2000:]}" if text else ""


_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def _end_with_parent() -> None:
    """In the new process: have the kernel end it in order if the bench is killed."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def python_module(name: str, *arguments: str) -> list[str]:
    """The command that runs a module of this package."""
    return [sys.executable, "-m", f"scripts.benchmarks.{name}", *arguments]


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HUB_")}
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**kept, "PYTHONPATH": path, "NO_COLOR": "1", "COLUMNS": "200", **more}
