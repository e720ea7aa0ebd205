"""What a resumed subscriber missed, sent in pieces that let others through."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from hub.core.changes import RecordEntry
from hub.core.errors import Conflict, NotFound, Unavailable
from hub.core.position import Position
from hub.fanout.outbox import Outbox, room_for_more
from hub.fanout.ring import UNBOUNDED, Ring, Sent
from hub.fanout.room import Viewer
from hub.node.live import LiveContext
from hub.node.turns import PIECE_BYTES, Turns
from hub.wire.codec import Encoded

_log = logging.getLogger(__name__)

Read = Callable[[str, Position, int], Awaitable[list[RecordEntry]]]
"""Reads so many entries of a context's stream that follow a position."""

MOST_REPLAYED: Final = 2_048
"""Changes that are sent again out of the record's stream; who is further behind gets a snapshot."""
_MOST_ENTRIES: Final = 256
"""Entries of the stream that are read at a time, if they are small."""


class Replay:
    """One member's way to the end of the changes: it stands apart from the room, is sent what it lacks piece by piece, and
    joins when nothing is left. What happens meanwhile is part of what it lacks, so its order is exact.

    Nothing is kept for it: each piece is read when the connection has room, from the ring or from the record's stream. In
    snapshot mode it is sent the log's events, and the newest snapshot for all that it missed of the document. If its next
    change is in neither any more, one snapshot takes the place of the rest.
    """

    def __init__(
        self, read: Read, turns: Turns, live: LiveContext, outbox: Outbox, viewer: Viewer, position: Position
    ) -> None:
        self.outbox = outbox
        self.viewer = viewer
        self.ended = False
        self._read = read
        self._turns = turns
        self._live = live
        self._reached = position
        self._log_at = position.seq  # up to here it has all of the log, and no part after it was sent
        self._older: Ring | None = None  # read from the record
        self._entries = 4

    async def prepare(self) -> str | None:
        """Find the first piece. Returns the reason if there is none, because more is missing than can be sent again."""
        now = self._live.replica.position
        if self._reached.epoch != now.epoch:
            return "epoch_changed"
        if self._reached.seq > now.seq:
            return "position_ahead"
        if self._live.audience.ring.has(self._reached) or await self._read_older():
            return None
        return "too_far_behind"

    @property
    def nothing_missed(self) -> bool:
        """Whether the member stands at the end already."""
        return self._reached == self._live.replica.position

    def end(self) -> None:
        """Send no more: the member left, or was told the whole state."""
        self.ended = True

    async def run(self) -> None:
        """Send everything, then let the member join. To be called right after the reply. Never raises."""
        try:
            while not self.ended:
                if self.outbox.behind:  # it may be so for long: then what was read is read again
                    self._older = None
                await room_for_more(self.outbox)
                await self._turns.turn()
                if not self.ended:
                    await self._step()
        except Exception:
            _log.exception("replaying context %s from %s", self._live.id, self._reached)
            if not self.ended:
                self._live.audience.resync(self, "lagged")

    async def _step(self) -> None:
        piece = self._next_piece()
        if piece is None:
            if not await self._read_older() and not self.ended:
                self._live.audience.resync(self, "lagged")
        elif piece:
            self._send(piece)
        elif self.viewer.patch or self._stream([self._live.audience.newest(self.outbox.variant)]):
            self._live.audience.join(self.outbox, self.viewer)

    def _next_piece(self) -> list[Sent] | None:
        """What comes next; nothing at the end, None if it must be read from the record."""
        piece = self._live.audience.ring.since(self._reached, PIECE_BYTES)
        if piece is None and self._older is not None:
            piece = self._older.since(self._reached, PIECE_BYTES) or None
        return piece

    def _send(self, piece: list[Sent]) -> None:
        log_at = self._log_at
        if self.viewer.patch:
            events = [sent.private if self.viewer.private else sent.public for sent in piece]
        else:
            events = []
            for sent in piece:
                if sent.in_log:
                    events.append(sent.log(log_at))
                    log_at = sent.position.seq
        if self._stream(events):
            self._reached, self._log_at = piece[-1].position, log_at

    def _stream(self, events: list[Encoded]) -> bool:
        """Send a piece; False, and nothing sent, if the connection has no room for it."""
        frames = b"".join([event.frame(self.outbox.variant) for event in events])
        self._turns.done(len(frames))
        return not events or self.outbox.stream(frames, events)

    async def _read_older(self) -> bool:
        """Read what comes next from the record's stream, up to where the context stands here. False if that is too much, or
        not there."""
        at, now = self._reached, self._live.replica.position
        if at.epoch != now.epoch or now.seq - at.seq > MOST_REPLAYED:
            return False
        try:
            entries = await self._read(self._live.id, at, self._entries)
        except (Conflict, NotFound, Unavailable, TimeoutError):
            return False
        now = self._live.replica.position
        if at.epoch != now.epoch:
            return False
        older = self._older = Ring(self._live.audience.topic, at, most=UNBOUNDED, most_bytes=UNBOUNDED)
        for entry in entries:
            for change in entry.changes:
                if at.seq < change.position.seq <= now.seq:
                    older.push(change)
        if older.bytes < PIECE_BYTES:
            self._entries = min(2 * self._entries, _MOST_ENTRIES)
        else:
            self._entries = max(self._entries // 2, 1)
        return older.kept > 0
