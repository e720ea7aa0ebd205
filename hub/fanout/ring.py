"""The replay ring: a context's latest changes, ready to be sent again to who missed them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from hub.core.changes import LOG_KINDS, PRIVATE_KINDS, Change, Part
from hub.core.position import Position
from hub.core.values import json_size
from hub.wire.codec import Encoded


class Sent(NamedTuple):
    """A change as it goes out. ``private`` is for the context's agents and operators; it is ``public`` itself where nothing is
    private. ``log`` is the event for snapshot mode, if the change has log parts."""

    position: Position
    public: Encoded
    private: Encoded
    log: Encoded | None
    only_appends: bool
    size: int


class Ring:
    """Changes up to a count and a number of bytes. ``after`` is the position before the oldest that is kept."""

    def __init__(self, topic: str, position: Position, *, most: int = 512, most_bytes: int = 262_144) -> None:
        self.topic = topic
        self._most = most
        self._most_bytes = most_bytes
        self.start_over(position)

    def start_over(self, position: Position) -> None:
        """Forget everything: the reader went on at another position."""
        self._items: deque[Sent] = deque()
        self._bytes = 0
        self.after = position
        self._last_log = position.seq

    def push(self, change: Change) -> Sent:
        """Keep a change, and give it in the forms in which it is sent."""
        private: list[Part] = [part for part in change.parts if part["kind"] != "key"]
        public: list[Part] = [part for part in private if part["kind"] not in PRIVATE_KINDS]
        log: list[Part] = [part for part in public if part["kind"] in LOG_KINDS]
        event = self._event("change", change.position, public)
        sent = Sent(
            change.position,
            event,
            event if len(public) == len(private) else self._event("change", change.position, private),
            self._log_event(change.position, log) if log else None,
            bool(public) and all(part["kind"] == "log.append" for part in public),
            json_size(change.parts),
        )
        self._items.append(sent)
        self._bytes += sent.size
        while len(self._items) > self._most or (self._bytes > self._most_bytes and len(self._items) > 1):
            oldest = self._items.popleft()
            self._bytes -= oldest.size
            self.after = oldest.position
        return sent

    def since(self, position: Position) -> Iterator[Sent] | None:
        """What came after a position, or None if that is not all here."""
        if position.epoch != self.after.epoch or position.seq < self.after.seq:
            return None
        return (sent for sent in self._items if sent.position.seq > position.seq)

    def _event(self, name: str, position: Position, parts: list[Part]) -> Encoded:
        payload = {"topic": self.topic, "epoch": position.epoch, "seq": position.seq, "parts": parts}
        return Encoded(name, payload)

    def _log_event(self, position: Position, parts: list[Part]) -> Encoded:
        event = self._event("log", position, parts)
        event.payload["after"] = self._last_log
        self._last_log = position.seq
        return event
