"""How busy this process is: how late its event loop is, and its share of a CPU."""

from __future__ import annotations

import asyncio
import time
from typing import Final

TICK: Final = 0.25
SECONDS: Final = 2.0
"""How long each figure is taken over."""


class Load:
    """The figures of the last full period."""

    def __init__(self) -> None:
        self.lag_ms = 0.0
        """Milliseconds by which something that was due was late, at most."""
        self.cpu = 0.0
        """Seconds of CPU a second; all threads of the process together."""
        self._late = 0.0
        self._due = self._since = time.monotonic()
        self._used = time.process_time()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look at the running loop."""
        self._due = self._since = time.monotonic()
        self._tick()

    def stop(self) -> None:
        """Harmless when it never started."""
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        now = time.monotonic()
        self._late = max(self._late, now - self._due)
        if now - self._since >= SECONDS:
            used = time.process_time()
            self.lag_ms = round(1000 * self._late, 1)
            self.cpu = round((used - self._used) / (now - self._since), 3)
            self._since, self._used, self._late = now, used, 0.0
        self._due = now + TICK
        self._timer = asyncio.get_running_loop().call_later(TICK, self._tick)
