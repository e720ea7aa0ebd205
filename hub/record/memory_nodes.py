"""Nodes, their runs and broadcasts in the memory record; the methods do what those of the port do that call them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from itertools import count
from typing import Any

from hub.record.nodes import KEPT_BROADCASTS, KEPT_SECONDS
from hub.record.packing import pack, unpack
from hub.record.port import Beat


class MemoryNodes:
    """Who lives, who has which runs, and what was broadcast not long ago."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._beats: dict[str, tuple[float, bytes]] = {}
        self._runs: dict[str, set[str]] = defaultdict(set)
        self._broadcasts: deque[tuple[int, float, bytes]] = deque(maxlen=KEPT_BROADCASTS)
        self._places = count(1)
        self._last = 0

    def beat(self, node: str, info: dict[str, Any]) -> dict[str, Beat]:
        now = self._clock()
        self._beats[node] = now, pack(info)
        return {node: Beat(max(now - at, 0.0), unpack(packed)) for node, (at, packed) in self._beats.items()}

    def leave(self, node: str) -> None:
        self._beats.pop(node, None)
        self._runs.pop(node, None)

    def hold_run(self, node: str, context: str) -> None:
        self._runs[node].add(context)

    def let_run(self, node: str, context: str) -> None:
        self._runs[node].discard(context)

    def runs_of(self, node: str) -> list[str]:
        return list(self._runs.get(node, ()))

    def add_broadcast(self, broadcast: dict[str, Any]) -> str:
        packed, now = pack(broadcast), self._clock()
        self._last = next(self._places)
        self._broadcasts.append((self._last, now, packed))
        while self._broadcasts[0][1] < now - KEPT_SECONDS:
            self._broadcasts.popleft()
        return str(self._last)

    def broadcasts(self, after: str | None) -> tuple[list[dict[str, Any]], str]:
        start = self._last if after is None else int(after)
        return [unpack(packed) for place, _, packed in self._broadcasts if place > start], str(self._last)
