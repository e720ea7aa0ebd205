"""The way to one connection: frames straight to its WebSocket's transport, packets into the engine's queue while it polls.

Everything that a connection is sent goes one of these ways, in order and counted in bytes; and what it asks is counted until
it is answered. Thousands of these are idle, so they are small: no containers before they are needed, no timers of their own.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from hub.fanout.together import TOGETHER
from hub.server import bounds
from hub.server.asks import Asks
from hub.server.intake import Intake
from hub.wire.codec import Encoded, Variant, encode_frame, text_frame

_log = logging.getLogger(__name__)

_PING_FRAME: Final = text_frame("2")


class Line(Protocol):
    """What carries a connection: a WebSocket, or polling."""

    def shut(self) -> None:
        """End the connection at once."""


class Polled(Protocol):
    """What waits for a connection that polls."""

    @property
    def size(self) -> int:
        """How many bytes that is."""

    def put_message(self, data: str | bytes) -> None:
        """One message more."""

    def put_ping(self) -> None:
        """A question whether it is alive."""

    def take_frames(self) -> list[bytes]:
        """All of it, as the frames of a WebSocket."""


class SocketOutbox(Intake):
    """One connection. ``send`` is for what is told to many, ``put`` for what was asked for."""

    __slots__ = (
        "_late",
        "_late_bytes",
        "_late_since",
        "_line",
        "_looking",
        "_over_since",
        "_polled",
        "_soft",
        "_transport",
        "asks",
        "before",
        "due",
        "enter_by",
        "parting",
        "pinged",
        "session_id",
        "sid",
        "variant",
    )

    def __init__(
        self,
        sid: str,
        line: Line,
        variant: Variant,
        limit: int,
        *,
        transport: asyncio.Transport | None,
        polled: Polled | None,
    ) -> None:
        super().__init__(limit)
        self.sid = sid
        self.session_id: str | None = None
        """Of the Socket.IO session on it, once somebody is let in."""
        self.enter_by: float | None = None
        """By when somebody must be let in; of the loop's time."""
        self.due = 0.0
        """When it must be pinged, or must have answered."""
        self.pinged = False
        self.parting: tuple[int, str] | None = None
        """Code and reason of its end, where it may not have heard them."""
        self.before: dict[str, Any] | None = None
        """What its greeting says of the connection that this client had before."""
        self.variant = variant
        self.asks = Asks()
        self._line = line
        self._transport = transport
        self._polled = polled
        self._soft = limit // bounds.SOFT
        self._over_since: float | None = None
        self._late: list[Callable[[], None]] | None = None
        self._late_bytes = 0
        self._late_since = 0.0
        self._looking = False

    def move_to(self, line: Line, transport: asyncio.Transport) -> None:
        """It goes on as a WebSocket; what waits goes first."""
        polled, self._polled = self._polled, None
        self._line, self._transport = line, transport
        for frame in polled.take_frames() if polled is not None else ():
            self._write(frame)

    # what goes out

    @property
    def waiting(self) -> int:
        """Bytes that wait for the connection."""
        if self._transport is not None:
            return self._transport.get_write_buffer_size()
        return self._polled.size if self._polled is not None else 0

    def send(self, event: Encoded) -> None:
        """Send an event. A connection that is too far behind is ended instead; it comes back and resumes."""
        if self._may_send():
            before = self.waiting
            self._send_now(event)
            self._excuse(before)

    def _send_now(self, event: Encoded) -> None:
        if self._transport is not None:
            self._write(event.frame(self.variant))
        else:
            self._enqueue(event.get(self.variant))

    def put(self, packet: str | bytes) -> None:
        """Send an encoded packet, by the same rule."""
        if self._may_send():
            before = self.waiting if len(packet) > self._soft else None
            if self._transport is not None:
                self._write(encode_frame(self.variant, packet))
            else:
                self._enqueue(packet)
            if before is not None:
                self._excuse(before)

    def greet(self, packet: str | bytes, event: Encoded) -> None:
        """Send a packet and an event, which are the first of a session, in one piece."""
        if self._transport is not None:
            self._write(encode_frame(self.variant, packet) + event.frame(self.variant))
        else:
            self._enqueue(packet)
            self._enqueue(event.get(self.variant))

    def stream(self, frames: bytes, events: Sequence[Encoded]) -> bool:
        """Send events of a stream, whose ``frames`` are joined; False, and nothing sent, while the connection is behind."""
        transport = self._transport
        if transport is not None:
            if transport.get_write_buffer_size() > self._soft:
                return False
            held = TOGETHER.held
            if held is None:
                self.write(frames)
            elif self in held:
                held[self].append(frames)
            else:
                held[self] = [frames]
            return True
        if self.behind:
            return False
        if not self.ended:
            for event in events:
                self._enqueue(event.get(self.variant))
        return True

    @property
    def behind(self) -> bool:
        """Whether more waits than is streamed."""
        return not self.ended and self.waiting > self._soft

    def when_caught_up(self, call: Callable[[], None]) -> None:
        """Call once when hardly anything waits any more. A connection that takes nothing for a while is ended."""
        if not self._late:
            self._late_bytes, self._late_since = self.waiting, time.monotonic()
            self._late = []
        self._late.append(call)
        self._look_later()

    def _look_later(self) -> None:
        if not self._looking:
            self._looking = True
            asyncio.get_running_loop().call_later(bounds.LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """How far a connection is that was behind, or that more than the bound waited for."""
        self._looking = False
        if self.ended:
            return
        waiting, now = self.waiting, time.monotonic()
        self._excused = min(self._excused, waiting)
        if waiting - self._excused <= self._limit:
            self._over_since = None
        elif self._over_since is not None and now - self._over_since > bounds.SLOW_SECONDS:
            self.end(f"it is too far behind: {waiting:,} bytes wait for it", bounds.TOO_SLOW)
            return
        if waiting < self._late_bytes:
            self._late_bytes, self._late_since = waiting, now
        elif (self._late or self._excused) and now - self._late_since > bounds.SLOW_SECONDS:
            self.end(f"it takes nothing: {waiting:,} bytes wait for it", bounds.TOO_SLOW)
            return
        self._catch_up()
        if self._late or self._excused or self._over_since is not None:
            self._look_later()

    def _catch_up(self) -> None:
        """One after the other: what each sends may be large, so only one is under way, and does not count."""
        while self._late and (before := self.waiting) <= self._soft // 4 and not self.ended:
            self._late.pop(0)()
            self._excused = max(0, self.waiting - before)
            self._late_bytes, self._late_since = self.waiting, time.monotonic()

    def _excuse(self, before: int) -> None:
        """What was sent to a connection that had room, and is more than the bound by itself, is under way like a snapshot:
        it takes as long as the connection goes on taking it."""
        more = self.waiting - before
        if before <= self._soft and more > self._limit:
            self._excused = more
            self._late_bytes, self._late_since = self.waiting, time.monotonic()
            self._look_later()

    def _may_send(self) -> bool:
        if self.ended:
            return False
        waiting = self.waiting - self._excused
        if waiting <= self._limit:
            return True
        if waiting > self._hard:
            self.end(f"it is too far behind: {waiting:,} bytes wait for it", bounds.TOO_SLOW)
            return False
        if self._over_since is None:
            self._over_since = time.monotonic()
            self._look_later()
            told = {"topic": None, "waiting": waiting, "limit": self._limit, "seconds": bounds.SLOW_SECONDS}
            self._send_now(Encoded("hub.lagged", told))
        return True

    def _write(self, frame: bytes) -> None:
        held = TOGETHER.held
        if held and self in held:  # first what was streamed before
            frame = b"".join((*held.pop(self), frame))
        self.write(frame)

    def write(self, frames: bytes) -> None:
        """Write frames to its WebSocket, if it has one still."""
        if self._transport is not None:
            try:
                self._transport.write(frames)
            except RuntimeError:  # uvloop's word for a transport that is closed
                self.stop()

    def _enqueue(self, packet: str | bytes) -> None:
        if self._polled is not None:
            self._polled.put_message(packet)

    def ping(self) -> None:
        """Ask whether it is alive, in the engine's way."""
        self.pinged = True
        if self._transport is not None:
            self._write(_PING_FRAME)
        elif self._polled is not None:
            self._polled.put_ping()

    # its end

    def stop(self, parting: tuple[int, str] | None = None) -> None:
        """Send no more: the transport is closing, and its end is on its way to us."""
        self.ended = True
        self._transport = None
        self.parting = parting or self.parting

    def end(self, reason: str, code: int = bounds.UNREADABLE) -> None:
        """End the connection at once: a close frame might not get through. It is told why when it comes back."""
        if not self.ended:
            _log.warning("connection %s ended: %s", self.sid, reason)
            self.parting = (code, reason)
            self.close()

    def close(self) -> None:
        """Close the transport, so that a stock client comes back."""
        self.stop()
        self.look_for_room()
        self._line.shut()

    @property
    def is_closing(self) -> bool:
        """Whether its transport is closing, so that its end is on its way."""
        return self._transport is not None and self._transport.is_closing()

    def gone(self) -> None:
        """The connection is no more."""
        self.stop()
        self.stop_reading()
        self._polled = None
        self.asks.gone()
        late, self._late = self._late, None
        for call in late or ():
            call()
