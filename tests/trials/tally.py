"""How many requests were answered, beside the times in which something was made to fail."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Final

CUT: Final = "no answer"
"""What came of a request whose connection ended first."""


@dataclass
class Outage:
    """A time in which requests at one place (None: at all) may fail."""

    place: str | None
    began: float
    ended: float = float("inf")


class Tally:
    """Counts requests by what came of them: ``ok``, a code, or CUT. Times are monotonic seconds, places the URLs of nodes."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, float, float, str]] = []
        self.outages: list[Outage] = []

    def add(self, place: str, began: float, came: str) -> None:
        """A request that was made at ``began`` has its outcome now."""
        self.asked.append((place, began, time.monotonic(), came))

    def outage(self, place: str | None) -> Outage:
        """Begin one; whoever began it sets its end."""
        outage = Outage(place, time.monotonic())
        self.outages.append(outage)
        return outage

    def outside(self) -> Counter[str]:
        """What came of the requests that no outage touched."""
        found: Counter[str] = Counter()
        for place, began, ended, came in self.asked:
            if not any(
                outage.began < ended and began < outage.ended and outage.place in (None, place)
                for outage in self.outages
            ):
                found[came] += 1
        return found


def ok_share(came: Counter[str]) -> float:
    """The share of requests that were answered ``ok``; 1.0 when there were none."""
    return came["ok"] / came.total() if came else 1.0
