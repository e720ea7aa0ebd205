"""A process beside the hub: started again when it ends, and never left over."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hub.cli import companion
from hub.cli.companion import Companion
from tests.support import SECONDS, alive, environment, until, wait_until

CHILD = """
import asyncio, os, sys
from hub.cli.companion import end_with_parent
async def main():
    end_with_parent(asyncio.current_task().cancel)
    open(sys.argv[1], "a").write(f"{os.getpid()}\\n")
    BODY
asyncio.run(main())
"""
OBEDIENT = "await asyncio.Event().wait()"
STUBBORN = """
    import signal, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        try: await asyncio.Event().wait()
        except asyncio.CancelledError: pass
"""


def child(file: Path, body: str = OBEDIENT) -> list[str]:
    return [sys.executable, "-c", CHILD.replace("BODY", body), str(file)]


def pids(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().split()] if file.exists() else []


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(companion, "SHORTEST_PAUSE", 0.05)
    monkeypatch.setattr(companion, "END_SECONDS", 0.5)
    for name, value in environment().items():
        monkeypatch.setenv(name, value)


async def test_it_is_started_again_and_ended(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "pids"
    running = Companion("the child", child(file))
    async with running:
        await until(lambda: len(pids(file)) == 1)
        os.kill(pids(file)[0], signal.SIGKILL)
        await until(lambda: len(pids(file)) == 2)
        assert running.pid == pids(file)[1]
        assert os.getsid(pids(file)[1]) == pids(file)[1], "signals of the terminal do not reach it"
    assert not any(map(alive, pids(file)))
    assert "the child ended (signal 9); it is started again in 0.05 s" in caplog.messages


async def test_one_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    async with Companion("the child", child(file, STUBBORN)):
        await until(lambda: pids(file))
    assert not alive(pids(file)[0])


async def test_one_that_cannot_start_is_tried_again_ever_more_rarely(caplog: pytest.LogCaptureFixture) -> None:
    async with Companion("the child", ["/nonexistent/command"]):
        await until(lambda: caplog.text.count("started again") >= 3)
    text = caplog.text
    assert "cannot be started: No such file" in text
    assert [f"in {pause} s" in text for pause in ("0.05", "0.1", "0.2")] == [True] * 3


@pytest.mark.parametrize("body", [OBEDIENT, STUBBORN])
def test_it_does_not_outlive_a_hub_that_is_killed(tmp_path: Path, body: str) -> None:
    file = tmp_path / "pids"
    parent_code = f"""
import asyncio
from hub.cli.companion import Companion
async def main():
    async with Companion("the child", {child(file, body)!r}):
        await asyncio.Event().wait()
asyncio.run(main())
"""
    parent = subprocess.Popen([sys.executable, "-c", parent_code], env=environment())
    try:
        wait_until(lambda: pids(file))
        assert alive(pids(file)[0])
    finally:
        parent.kill()
        parent.wait(SECONDS)
    wait_until(lambda: not alive(pids(file)[0]), "the end of the child")


async def test_being_cancelled_while_it_starts_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    for _ in range(5):
        async with Companion("the child", child(file)):
            await asyncio.sleep(0)
    assert not any(map(alive, pids(file)))
