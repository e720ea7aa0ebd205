"""Runs inside a hub (``--app tests.trials.lag:measure``): for how long the event loop was busy at a time.

It is CPU that is measured, of the loop's thread, so that a machine which is busy elsewhere counts for nothing. The file that
HUB_TEST_LAG names has the most so far, in seconds.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Final

PAUSE: Final = 0.005


async def measure(hub: object) -> None:
    """Look again and again: between two looks is at most one iteration of the loop that took long."""
    most, used = 0.0, time.thread_time()
    while True:
        await asyncio.sleep(PAUSE)
        now = time.thread_time()
        if now - used > most:
            most = now - used
            _note(most)
        used = time.thread_time()


def _note(seconds: float) -> None:
    Path(os.environ["HUB_TEST_LAG"]).write_text(f"{seconds:.4f}")
