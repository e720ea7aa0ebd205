"""How fast one connection may ask, and how fast new ones may come."""

from __future__ import annotations

from typing import Final

FAR: Final = 20.0
"""Who has asked for so many seconds more than its rate allows is ended."""
REST: Final = 0.5
"""Seconds for which all is refused after a refusal: what was sent behind a request that was refused must not overtake it."""


class Rate:
    """One connection's account of time: a request costs its share of a second, by its count and by its bytes.

    Moments, in seconds of the caller's clock. ``_spent``: until when what was let through takes, at the rate; it may run ahead
    of the clock by the burst. ``_asked``: when there is room for all that came, refused ones too: so each that is refused is
    told a moment of its own. ``_rests``: until when all is refused.
    """

    __slots__ = ("_asked", "_rests", "_spent")

    def __init__(self) -> None:
        self._spent = 0.0
        self._asked = 0.0
        self._rests = 0.0

    def take(self, now: float, cost: float, burst: float) -> float:
        """Let a request through that takes ``cost`` seconds of the rate, if it fits: 0.0; else in how many seconds it does."""
        spent = self._spent
        if now >= self._rests:
            if spent < now:  # one that takes more than the burst must pass too
                self._spent = now + cost
                return 0.0
            if spent + cost <= now + burst:
                self._spent = spent + cost
                return 0.0
            self._rests = now + REST
        asked = self._asked = max(self._asked, self._rests, spent - burst) + cost
        return asked - now


class Admissions:
    """How many connections are admitted a second, after a burst. ``per_second`` 0: as many as come."""

    def __init__(self, per_second: float, burst_seconds: float) -> None:
        self._cost = 1 / per_second if per_second > 0 else 0.0
        self._burst = burst_seconds
        self._rate = Rate()

    def wait(self, now: float) -> float:
        """0.0 if one more may come; else in how many seconds."""
        return self._rate.take(now, self._cost, self._burst) if self._cost else 0.0
