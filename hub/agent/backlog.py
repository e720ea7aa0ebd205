"""How much one facade has waiting for the record, and who waits until it is less."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from hub.core.replica import Pending

WAIT: Final = 5.0
"""Seconds that a thread waits for room."""


class Backlog:
    """Bytes (about) of writes without an answer, within a bound; one write alone may be larger. Its writer's ``lock`` is
    held for every call."""

    def __init__(self, lock: threading.RLock, most: int) -> None:
        self.bytes = 0
        self._most = most
        self._weights: dict[Pending, int] = {}
        self._less = threading.Condition(lock)

    def has_room(self, weight: int) -> bool:
        """Whether a write of so many bytes may be added."""
        return not self.bytes or self.bytes + weight <= self._most

    @property
    def is_high(self) -> bool:
        """Whether over half of what may wait does: who can wait had better do so."""
        return self.bytes > self._most // 2

    def wait_for_room(self, weight: int, over: Callable[[], bool]) -> bool:
        """Wait for room, the lock let go meanwhile; at most WAIT seconds, and no longer than until ``over()``. False if there
        is none."""
        return self._less.wait_for(lambda: over() or self.has_room(weight), WAIT)

    def add(self, pending: Pending, weight: int) -> None:
        """A write waits, or got larger by ``weight``."""
        self._weights[pending] = self._weights.get(pending, 0) + weight
        self.bytes += weight

    def drop(self, pending: Pending) -> None:
        """A write is settled."""
        self.bytes -= self._weights.pop(pending, 0)
        self._less.notify_all()

    def clear(self) -> None:
        """Nothing waits any more."""
        self._weights.clear()
        self.bytes = 0
        self._less.notify_all()
