"""What tests of whole processes share: bounded waits, the real command, a real hub that can be killed and come back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Self

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[1]
COMMAND = (sys.executable, "-m", "hub")
SECONDS = 20.0
"""How long a test waits for what another process does, or what a hub sends; far more than it takes."""


def environment(**more: str) -> dict[str, str]:
    """Variables for a process of the project: finds this checkout, and nothing of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HUB_")}
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**kept, "PYTHONPATH": path, "COLUMNS": "80", "NO_COLOR": "1", "PYTHONWARNINGS": "default", **more}


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def wait_until(condition: Callable[[], Any], what: str = "", seconds: float = SECONDS) -> Any:
    """Wait until ``condition()`` gives something true, and return that."""
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, f"waited {seconds:g} s in vain for {what or condition}"
        time.sleep(0.01)
    return found


async def until(condition: Callable[[], Any], what: str = "", seconds: float = SECONDS) -> Any:
    """``wait_until`` for coroutines; the condition may be one too."""
    last = time.monotonic() + seconds  # what is awaited may swallow the cancellation, which comes once
    try:
        async with asyncio.timeout(seconds):
            while time.monotonic() < last:
                found = condition()
                if isinstance(found, Awaitable):
                    found = await found
                if found:
                    return found
                await asyncio.sleep(0.01)
    except TimeoutError:
        pass
    raise AssertionError(f"waited {seconds:g} s in vain for {what or condition}")


async def until_done(attempt: Callable[[], Awaitable[Any]], *passing: type[Exception], seconds: float = SECONDS) -> Any:
    """Try until ``attempt`` raises none of the ``passing`` errors; what it gives then."""
    last = time.monotonic() + seconds
    async with asyncio.timeout(seconds):
        while time.monotonic() < last:
            try:
                return await attempt()
            except passing:
                await asyncio.sleep(0.02)
    raise TimeoutError


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def run_command(
    *arguments: str, cwd: Path | None = None, input: str | None = None, timeout: float = 60.0, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run ``session-hub ARGUMENT...`` to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=cwd,
        input=input,
        stdin=subprocess.DEVNULL if input is None else None,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment(**variables),
        check=False,
    )


class Running:
    """A command that runs beside the test, and its output so far. Leaving the block ends it."""

    def __init__(self, *arguments: str, folder: Path, **variables: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        stamp = f"{time.monotonic_ns()}"
        self._out, self._err = folder / f"{stamp}.out", folder / f"{stamp}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [*COMMAND, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=folder,
                env=environment(**variables),
            )

    @property
    def out(self) -> str:
        return self._out.read_text(errors="replace")

    @property
    def err(self) -> str:
        return self._err.read_text(errors="replace")

    @property
    def lines(self) -> list[Any]:
        """The whole lines of output, as JSON."""
        return [json.loads(line) for line in self.out.splitlines(keepends=True) if line.endswith("\n")]

    def has(self, text: str) -> bool:
        """Whether the output has a text already."""
        return text in self.out

    def wait_for(self, text: str) -> None:
        """Wait until the output has a text."""
        wait_until(lambda: text in self.out or self._ended(), text)
        assert text in self.out, f"it ended without {text!r}:\n{self.out[-2000:]}\n{self.err[-2000:]}"

    def _ended(self) -> bool:
        return self.process.poll() is not None

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, wait for the end, return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(SECONDS)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(SECONDS)


class HubProcess:
    """``session-hub serve`` (or ``up``) as a process, on one port and one data folder through all its starts."""

    def __init__(self, base: Path, *, record: str = "embedded", command: str = "serve", **variables: str) -> None:
        self.folder = base / "hub-data"
        self.port = free_port()
        self.record = record
        self._base = base
        self._command = command
        self._variables = variables
        self.options: list[str] = []
        """More options for the next start."""
        self.running: Running | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        return self.url

    @property
    def token(self) -> str:
        """The operator's."""
        return (self.folder / "token").read_text().strip()

    @property
    def pid(self) -> int:
        assert self.running is not None
        return self.running.process.pid

    def start(self) -> Self:
        """Start it, and wait until it serves."""
        fixed = ["--port", str(self.port), "--data-dir", str(self.folder), "--record", self.record]
        self.running = Running(self._command, *fixed, *self.options, folder=self._base / "runs", **self._variables)
        self.running.wait_for("#token=")
        return self

    def kill(self) -> None:
        """SIGKILL: nothing can be cleaned up."""
        assert self.running is not None
        self.running.process.kill()
        self.running.process.wait(SECONDS)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask it to end; returns the exit code."""
        assert self.running is not None
        return self.running.end(number)

    def restart(self) -> None:
        """Start again, after ``kill`` or ``stop`` if that was not done yet."""
        if self.running is not None and self.running.process.poll() is None:
            self.stop()
        self.start()

    def run(self, *arguments: str, input: str | None = None, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a command against this hub."""
        return run_command(*arguments, input=input, timeout=timeout, HUB_DATA_DIR=str(self.folder))

    def json(self, *arguments: str, input: str | None = None) -> Any:
        """What a command says with ``--json``; it must go well."""
        done = self.run(*arguments, "--json", input=input)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @contextlib.contextmanager
    def beside(self, *arguments: str) -> Iterator[Running]:
        """A command against this hub that runs beside the test."""
        with Running(*arguments, folder=self._base / "runs", HUB_DATA_DIR=str(self.folder)) as running:
            yield running

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *args: object) -> None:
        if self.running is not None:
            self.running.__exit__()


@contextlib.contextmanager
def hanging(pid: int) -> Iterator[None]:
    """A process does nothing for as long as the block lasts."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def without_privileges() -> Iterator[None]:
    """Be nobody in particular for a while: to root nothing is forbidden."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def required(what: str, found: str | None, variable: str) -> Path:
    """The path of a tool that tests need. Without it the test is left out, loudly; with ``variable`` set to 1 it fails."""
    if found:
        return Path(found)
    reason = f"no {what} here: what needs it is NOT TESTED"
    if os.environ.get(variable) == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def find_browser() -> Path:
    """A Chromium or Chrome: HUB_TEST_BROWSER, or one on PATH. HUB_REQUIRE_BROWSER=1 makes its absence a failure."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = os.environ.get("HUB_TEST_BROWSER") or next(filter(None, map(shutil.which, names)), None)
    return required("Chromium or Chrome", found, "HUB_REQUIRE_BROWSER")


def find_redis() -> Path:
    """A redis-server that is not ours: HUB_TEST_REDIS, or one on PATH. HUB_REQUIRE_REDIS=1 makes its absence a failure."""
    return required(
        "redis-server", os.environ.get("HUB_TEST_REDIS") or shutil.which("redis-server"), "HUB_REQUIRE_REDIS"
    )


@contextlib.contextmanager
def redis_process(folder: Path, port: int | None = None) -> Iterator[str]:
    """Debian's Redis with an append-only file in ``folder``, on 127.0.0.1; gives its URL."""
    port = port or free_port()
    options = f"--port {port} --bind 127.0.0.1 --dir {folder} --appendonly yes --appendfsync always --save".split()
    log = folder / "redis.log"
    with log.open("wb") as out:
        process = subprocess.Popen([find_redis(), *options, ""], stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        wait_until(lambda: "Ready to accept connections" in log.read_text(), "redis-server")
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait(SECONDS)
