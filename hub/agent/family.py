"""Processes that belong together: what was started under a mark, and everything that descends from it.

A process is one of the family if it carries the mark in its environment, is in a session that began with one that was started
so, or has a parent in the family. Any one of these can be lost (by ``env -i``, ``setsid``, a parent that ends), hardly all.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from typing import Final

import psutil

_log = logging.getLogger(__name__)

MARK: Final = "HUB_TASK"
"""The variable that has the mark. Marks end with a dot, so that none is the beginning of another by chance."""
LOOK_SECONDS: Final = 0.05
LONGEST: Final = 5.0
"""Seconds after which a killed process that is still there is left to the system."""


def family(mark: str, sessions: set[int], known: set[psutil.Process]) -> set[psutil.Process]:
    """Those of the family that have not ended. ``sessions``: the ids of the sessions that were begun for it; ``mark``: how
    the variable begins; ``known``: who was of it before, and stays so whatever ends around it."""
    there: dict[int, psutil.Process] = {}
    found: set[int] = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            there[process.pid] = process
            if (
                process in known
                or os.getsid(process.pid) in sessions
                or process.environ().get(MARK, "").startswith(mark)
            ):
                found.add(process.pid)
    while True:
        children = {pid for pid, process in there.items() if pid not in found and _parent(process) in found}
        if not children:
            return {there[pid] for pid in found}
        found |= children


def end_family(mark: str, sessions: set[int], grace: float) -> None:
    """End the family: each is asked to end, and killed if it has not after ``grace`` seconds. Returns once all have ended."""
    asked: set[psutil.Process] = set()
    deadline = time.monotonic() + grace
    while there := family(mark, sessions, asked):
        late = time.monotonic() - deadline
        if late > LONGEST:
            _log.error("processes that were killed did not end: %s", [process.pid for process in there])
            return
        # As a rule parents come before their children: one whose children end first may go on as if they had done their work.
        for process in sorted(there, key=lambda process: process.pid):
            with suppress(psutil.Error):
                if late >= 0:
                    process.kill()
                elif process not in asked:
                    process.terminate()
        asked |= there
        until = max(deadline, time.monotonic() + LOOK_SECONDS)
        while time.monotonic() < until and any(
            _lives(process) for process in there
        ):  # cheaper than to look for all again
            time.sleep(LOOK_SECONDS)


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def _parent(process: psutil.Process) -> int | None:
    with suppress(psutil.Error):
        return process.ppid()
    return None
