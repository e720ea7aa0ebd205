"""Sees from a thread of its own when the event loop is blocked, and logs where."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback

_log = logging.getLogger(__name__)

_LOOKS = 4
"""Looks a bound: a stall is seen after at most so much more of it."""


class Watchdog:
    """Logs each stall of the loop of over ``seconds`` once, with the stack of the loop's thread, and how long it was at its
    end."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._pause = seconds / _LOOKS
        self._ticked = 0.0
        self._end = threading.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Watch the running loop, on whose thread this is called."""
        self._tick(asyncio.get_running_loop())
        watched = threading.get_ident()
        self._thread = threading.Thread(target=self._watch, args=(watched,), name="watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Watch no more. Harmless when it never started."""
        self._end.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._thread is not None:
            self._thread.join()

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ticked = time.monotonic()
        self._timer = loop.call_later(self._pause, self._tick, loop)

    def _watch(self, watched: int) -> None:
        stalled: float | None = None  # since when
        while not self._end.wait(self._pause):
            ticked = self._ticked
            if stalled is not None and ticked != stalled:
                _log.warning("the event loop goes on; it was blocked for %.1f s", ticked - stalled)
                stalled = None
            if stalled is None and time.monotonic() - ticked > self._seconds + self._pause:
                stalled = ticked
                _log.warning("the event loop is blocked for over %g s, here:\n%s", self._seconds, _stack(watched))


def _stack(thread: int) -> str:
    frame = sys._current_frames().get(thread)
    return "".join(traceback.format_stack(frame)) if frame is not None else "(its thread has ended)"
