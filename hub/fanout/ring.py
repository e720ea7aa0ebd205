"""The replay ring: a context's latest changes, ready to be sent again to who missed them."""

from __future__ import annotations

from collections import deque
from typing import Any, Final, NamedTuple

import msgspec

from hub.core.changes import LOG_KINDS, PRIVATE_KINDS, Change, Part
from hub.core.position import Position
from hub.wire.codec import Encoded

_pack: Final = msgspec.msgpack.Encoder().encode
_unpack: Final = msgspec.msgpack.Decoder().decode


class Sent(NamedTuple):
    """A change as it goes out. ``private`` is for the context's agents and operators; it is ``public`` itself where nothing is
    private. ``log`` is the event for snapshot mode, if the change has log parts."""

    position: Position
    public: Encoded
    private: Encoded
    log: Encoded | None
    only_appends: bool


class _Kept(NamedTuple):
    """A change of which only its bytes are kept: most are never asked for again."""

    seq: int
    parts: bytes
    log_before: int


class Ring:
    """Changes up to a count and a number of bytes. ``after`` is the position before the oldest that is kept."""

    def __init__(self, topic: str, position: Position, *, most: int = 512, most_bytes: int = 262_144) -> None:
        self.topic = topic
        self._most = most
        self._most_bytes = most_bytes
        self.start_over(position)

    def start_over(self, position: Position) -> None:
        """Forget everything: the reader went on at another position."""
        self._kept: deque[_Kept] = deque()
        self._bytes = 0
        self.after = position
        self._last_log = position.seq

    def push(self, change: Change) -> Sent:
        """Keep a change, and give it in the forms in which it is sent."""
        parts: list[Part] = [part for part in change.parts if part["kind"] != "key"]
        kept = _Kept(change.position.seq, _pack(parts), self._last_log)
        sent = self._sent(change.position, parts, self._last_log)
        if sent.log is not None:
            self._last_log = change.position.seq
        self._kept.append(kept)
        self._bytes += len(kept.parts)
        while len(self._kept) > self._most or (self._bytes > self._most_bytes and len(self._kept) > 1):
            oldest = self._kept.popleft()
            self._bytes -= len(oldest.parts)
            self.after = Position(self.after.epoch, oldest.seq)
        return sent

    def since(self, position: Position) -> list[Sent] | None:
        """What came after a position, or None if that is not all here."""
        if position.epoch != self.after.epoch or position.seq < self.after.seq:
            return None
        return [
            self._sent(Position(position.epoch, kept.seq), _unpack(kept.parts), kept.log_before)
            for kept in self._kept
            if kept.seq > position.seq
        ]

    def _sent(self, position: Position, private: list[Part], log_before: int) -> Sent:
        public: list[Part] = [part for part in private if part["kind"] not in PRIVATE_KINDS]
        log: list[Part] = [part for part in public if part["kind"] in LOG_KINDS]
        event = self._event("change", position, public)
        return Sent(
            position,
            event,
            event if len(public) == len(private) else self._event("change", position, private),
            self._event("log", position, log, after=log_before) if log else None,
            bool(public) and all(part["kind"] == "log.append" for part in public),
        )

    def _event(self, name: str, position: Position, parts: list[Part], **more: Any) -> Encoded:
        payload = {"topic": self.topic, "epoch": position.epoch, "seq": position.seq, "parts": parts, **more}
        return Encoded(name, payload)
