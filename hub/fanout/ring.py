"""The replay rings: contexts' latest changes, ready to be sent again to who missed them, under one budget of bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import msgspec

from hub.core.changes import LOG_KINDS, Change, Part
from hub.core.position import Position
from hub.wire.codec import Encoded

_pack: Final = msgspec.msgpack.Encoder().encode
_unpack: Final = msgspec.msgpack.Decoder().decode

MOST_CHANGES: Final = 512
MOST_BYTES: Final = 262_144
"""What one ring keeps at most: changes, and bytes of them."""
UNBOUNDED: Final = 2**62
_OVERHEAD: Final = 50
"""Bytes that a kept change costs besides its own."""


class Sent:
    """A change as it goes out. ``private`` is for the context's agents and operators; it is ``public`` itself where nothing is
    private."""

    __slots__ = ("_log_before", "_topic", "in_log", "only_appends", "position", "private", "public")

    def __init__(self, topic: str, position: Position, parts: Sequence[Part], log_before: int) -> None:
        private: list[Part] = []
        public: list[Part] = []
        in_log, appends = False, True
        for part in parts:
            kind = part["kind"]
            if kind == "key":
                continue
            private.append(part)
            if kind == "data":
                continue
            public.append(part)
            if kind != "log.append":
                appends = False
            if kind in LOG_KINDS:
                in_log = True
        self._topic = topic
        self._log_before = log_before
        self.position = position
        self.public = self._event("change", public)
        self.private = self.public if len(public) == len(private) else self._event("change", private)
        self.in_log = in_log
        """Whether it has log parts."""
        self.only_appends = in_log and appends
        """Whether the document stays as it is, and the log only grows by text."""

    def log(self, after: int | None = None) -> Encoded:
        """The event for snapshot mode, of a change that has log parts. ``after``: the seq of the one before, if its reader
        knows of another one."""
        event = self._event("log", [part for part in self.public.payload["parts"] if part["kind"] in LOG_KINDS])
        event.payload["after"] = self._log_before if after is None else after
        return event

    def _event(self, name: str, parts: list[Part]) -> Encoded:
        epoch, seq = self.position
        return Encoded(name, {"topic": self._topic, "epoch": epoch, "seq": seq, "parts": parts})


class Budget:
    """Bytes that all rings of a process may keep together. Beyond, the rings that were used least recently give way first:
    their oldest changes go."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.bytes = 0
        """What the rings keep now."""
        self._rings: OrderedDict[Ring, None] = OrderedDict()  # those that keep anything, least recently used first

    def used(self, ring: Ring, more: int = 0) -> None:
        """A ring was read, or keeps so many bytes more."""
        self.bytes += more
        rings = self._rings
        try:
            rings.move_to_end(ring)
        except KeyError:
            rings[ring] = None
        while self.bytes > self.most:
            next(iter(rings)).drop_oldest()

    def freed(self, ring: Ring, less: int) -> None:
        """A ring keeps so many bytes less."""
        self.bytes -= less
        if not ring.kept:
            self._rings.pop(ring, None)


class Ring:
    """Changes up to a count and a number of bytes. ``after`` is the position before the oldest that is kept.

    Of a change only its bytes are kept, with the seq of the last change before it that had log parts: most changes are
    never asked for again.
    """

    __slots__ = ("_budget", "_bytes", "_kept", "_last_log", "_most", "_most_bytes", "after", "topic")

    def __init__(
        self,
        topic: str,
        position: Position,
        budget: Budget | None = None,
        *,
        most: int = MOST_CHANGES,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.topic = topic
        self._budget = budget  # none of its own: each would have the other, and what is read for a moment would stay
        self._most = most
        self._most_bytes = most_bytes
        self._kept: list[bytes] | None = None  # no deque: one with little in it takes 760 bytes
        self._bytes = 0
        self.after = position
        self._last_log = position.seq

    @property
    def kept(self) -> int:
        """How many changes are kept."""
        return len(self._kept) if self._kept else 0

    @property
    def bytes(self) -> int:
        """What they cost."""
        return self._bytes

    def start_over(self, position: Position) -> None:
        """Forget everything: the reader went on at another position, or ended."""
        size, self._bytes, self._kept = self._bytes, 0, None
        if self._budget is not None:
            self._budget.freed(self, size)
        self.after = position
        self._last_log = position.seq

    def push(self, change: Change) -> Sent:
        """Keep a change, and give it in the forms in which it is sent."""
        sent = Sent(self.topic, change.position, change.parts, self._last_log)
        packed = _pack((self._last_log, sent.private.payload["parts"]))
        if sent.in_log:
            self._last_log = change.position.seq
        kept = self._kept
        if kept is None:
            kept = self._kept = []
        kept.append(packed)
        size = len(packed) + _OVERHEAD
        self._bytes += size
        while len(kept) > self._most or (self._bytes > self._most_bytes and len(kept) > 1):
            self.drop_oldest()
        if self._budget is not None:
            self._budget.used(self, size)
        return sent

    def drop_oldest(self) -> None:
        """Let the oldest change go."""
        assert self._kept
        size = len(self._kept.pop(0)) + _OVERHEAD
        if not self._kept:
            self._kept = None
        self._bytes -= size
        self.after = self.after.after()
        if self._budget is not None:
            self._budget.freed(self, size)

    def has(self, position: Position) -> bool:
        """Whether all that came after a position is here."""
        after = self.after
        return position.epoch == after.epoch and after.seq <= position.seq <= after.seq + self.kept

    def since(self, position: Position, most_bytes: int | None = None) -> list[Sent] | None:
        """What came after a position, or None if that is not all here. With ``most_bytes`` only the first of it: so many
        bytes, and one change at least if there is any."""
        if not self.has(position):
            return None
        found: list[Sent] = []
        if not self._kept:
            return found
        first = position.seq - self.after.seq
        for seq, packed in enumerate(self._kept[first:], position.seq + 1):
            if most_bytes is not None:
                most_bytes -= len(packed)
                if most_bytes < 0 and found:
                    break
            log_before, parts = _unpack(packed)
            found.append(Sent(self.topic, Position(position.epoch, seq), parts, log_before))
        if self._budget is not None:
            self._budget.used(self)
        return found
