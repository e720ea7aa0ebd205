"""A receiver whose viewers come back: each knows its position, resumes from it, and says when it has a marked change."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from typing import Any, Final

from scripts.benchmarks.control import answer
from scripts.benchmarks.machine import raise_file_limit
from scripts.benchmarks.receiver import Receiver, step_fd
from scripts.benchmarks.viewers import Viewer, Way

_RETRY: Final = 0.1
"""Seconds between two tries of a viewer that does not get in."""
_POSITION: Final = re.compile(rb'"epoch":"([^"]*)","seq":(\d+)')


@dataclass(frozen=True, slots=True)
class ResumingWay(Way):
    """A way in on which each viewer names its position, if it has one."""

    positions: dict[int, tuple[str, int]]

    def join_for(self, number: int) -> str | None:
        join = Way.join_for(self, number)
        position = self.positions.get(number)
        if join is None or position is None:
            return join
        name, request = json.loads(join)
        return json.dumps([name, {**request, "from": {"epoch": position[0], "seq": position[1]}}])


class Returning(Receiver):
    """Counts viewers that have the mark. Without a mark (a peer keeps no history) being in again is all there is."""

    def __init__(self, step: int | None) -> None:
        super().__init__(step)
        self._shared = False
        self._mark: bytes | None = None
        self._marked: set[int] = set()
        self._positions: dict[int, tuple[str, int]] = {}
        self._retry: list[tuple[float, int]] = []
        self._away_until: float | None = None
        self._last = 0
        self.recovered = 0

    def take(self, viewer: Viewer, data: bytes) -> None:
        """Remember the newest position; look for the mark."""
        super().take(viewer, data)
        self._look(viewer, data)

    def entered(self, viewer: Viewer) -> None:
        self._look(viewer, viewer.told.encode())
        if '"recovered":true' in viewer.told:
            self.recovered += 1
        if self._mark == b"":
            self._has_mark(viewer)

    def gone(self, viewer: Viewer, why: str) -> None:
        super().gone(viewer, why)
        if self.comes_back:
            self._retry.append((time.monotonic() + _RETRY, viewer.number))

    def _look(self, viewer: Viewer, data: bytes) -> None:
        for found in _POSITION.finditer(data):
            self._positions[viewer.number] = (found[1].decode(), int(found[2]))
        if self._mark and self._mark in data:
            self._has_mark(viewer)

    def _has_mark(self, viewer: Viewer) -> None:
        if viewer.number not in self._marked:
            self._marked.add(viewer.number)
            self._last = time.monotonic_ns() // 1000

    def _busy(self) -> bool:
        return super()._busy() or self._away_until is not None

    def _after(self) -> None:
        now = time.monotonic()
        while self._retry and self._retry[0][0] <= now:
            self._to_open.append(self._retry.pop(0)[1])
        super()._after()
        if self._away_until is not None and (len(self._marked) >= self._wanted or now > self._away_until):
            self._away_until = None
            self.comes_back = False
            answer(caught_up=len(self._marked), last_us=self._last, recovered=self.recovered, refusal=self.refusal)

    def command(self, command: dict[str, Any]) -> None:
        match command["command"]:
            case "leave":  # all of them at once
                self._wanted = self.ready
                super().command({"command": "close"})
            case "return":
                self._mark, self._marked, self.recovered, self.lost = command["mark"].encode(), set(), 0, 0
                self.comes_back = True
                self.way = ResumingWay(
                    command["port"], command["path"], command["connect"], command["join"], self._positions
                )
                self._to_open = list(range(self._wanted))
                self._most_opening = command["concurrency"]
                self._away_until = time.monotonic() + command["seconds"]
            case _:
                super().command(command)


if __name__ == "__main__":
    raise_file_limit()
    Returning(step_fd()).run()
