"""The way to one connection: frames straight to its WebSocket's transport, packets into the engine's queue while it polls.

Everything that a connection is sent goes one of these ways, in order and counted in bytes; and what it asks is counted until
it is answered. Thousands of these are idle, so they are small: no containers before they are needed, no timers of their own.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol

from engineio.packet import MESSAGE, PING, Packet

from hub.core.errors import Unavailable
from hub.server.byte_queue import ByteQueue
from hub.server.packets import MOST_IGNORED
from hub.wire.codec import Encoded, Variant, binary_frame, encode_frame, text_frame

_log = logging.getLogger(__name__)

TOO_SLOW: Final = 4008
"""The code with which a connection is ended that does not take what waits for it."""
SLOW_SECONDS: Final = 10.0
"""How long more than the bound may wait for a connection before it is ended."""
HARD: Final = 4
"""So many times the bound end it at once."""
SOFT: Final = 4
"""This part of the bound is how much may wait of a stream: more is replaced by a snapshot later."""
LOOK_SECONDS: Final = 0.02
"""How often a connection that is behind is looked at."""
PAUSE_SECONDS: Final = 0.02
"""Shorter waits of who asks too much are made together."""
_PING_FRAME: Final = text_frame("2")
_OPEN_REQUESTS: Final = 1024
"""Requests of one connection that may be unanswered; then nothing more is read from it for a while."""


class Line(Protocol):
    """What carries a connection: a WebSocket, or polling."""

    def shut(self) -> None:
        """End the connection at once."""


class SocketOutbox:
    """One connection. ``send`` is for what is told to many, ``put`` for what was asked for."""

    __slots__ = (
        "_ask_timer",
        "_ask_until",
        "_asked",
        "_asked_count",
        "_askers",
        "_excused",
        "_ignored_bytes",
        "_ignored_count",
        "_late",
        "_late_bytes",
        "_late_since",
        "_limit",
        "_line",
        "_looking",
        "_open_bytes",
        "_open_count",
        "_over_since",
        "_owed_until",
        "_queue",
        "_soft",
        "_transport",
        "before",
        "due",
        "ended",
        "enter_by",
        "incoming",
        "owed",
        "parting",
        "pinged",
        "session_id",
        "sid",
        "variant",
    )

    def __init__(self, sid: str, line: Line, variant: Variant, limit: int, way: asyncio.Transport | ByteQueue) -> None:
        self.sid = sid
        self.session_id: str | None = None
        """Of the Socket.IO session on it, once somebody is let in."""
        self.enter_by: float | None = None
        """By when somebody must be let in; of the loop's time."""
        self.due = 0.0
        """When it must be pinged, or must have answered."""
        self.pinged = False
        self.ended = False
        self.parting: tuple[int, str] | None = None
        """Code and reason of its end, where it may not have heard them."""
        self.before: dict[str, Any] | None = None
        """What its greeting says of the connection that this client had before."""
        self.incoming = 0
        """Bytes of the message that is being read."""
        self.owed = 0.0
        """Seconds to wait before more is read from it."""
        self.variant = variant
        self._line = line
        self._transport: asyncio.Transport | None = None
        self._queue: ByteQueue | None = None
        if isinstance(way, ByteQueue):
            self._queue = way
            way.on_taken = self._look_for_room
        else:
            self._transport = way
        self._limit = limit
        self._soft = limit // SOFT
        self._over_since: float | None = None
        self._open_count = self._open_bytes = 0
        self._ignored_count = self._ignored_bytes = 0
        self._asked: dict[int, asyncio.Future[Any]] | None = None
        self._asked_count = 0
        self._askers: list[Callable[[], None]] | None = None
        self._ask_timer: asyncio.TimerHandle | None = None
        self._ask_until = self._owed_until = 0.0
        self._late: list[Callable[[], None]] | None = None
        self._late_bytes = 0
        self._late_since = 0.0
        self._excused = 0
        self._looking = False

    def move_to(self, line: Line, transport: asyncio.Transport) -> None:
        """It goes on as a WebSocket; what waits goes first."""
        queue, self._queue = self._queue, None
        self._line, self._transport = line, transport
        for packet in queue.take_all() if queue is not None else ():
            if packet is not None:
                data = packet.encode()
                self._write(text_frame(data) if isinstance(data, str) else binary_frame(data))

    # what goes out

    @property
    def waiting(self) -> int:
        """Bytes that wait for the connection."""
        if self._transport is not None:
            return self._transport.get_write_buffer_size()
        return self._queue.bytes if self._queue is not None else 0

    def send(self, event: Encoded) -> None:
        """Send an event. A connection that is too far behind is ended instead; it comes back and resumes."""
        if self._may_send():
            self._send_now(event)

    def _send_now(self, event: Encoded) -> None:
        if self._transport is not None:
            self._write(event.frame(self.variant))
        else:
            self._enqueue(event.get(self.variant))

    def put(self, packet: str | bytes) -> None:
        """Send an encoded packet, by the same rule."""
        if self._may_send():
            if self._transport is not None:
                self._write(encode_frame(self.variant, packet))
            else:
                self._enqueue(packet)

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
        if transport is not None and transport.get_write_buffer_size() <= self._soft:
            try:
                transport.write(frames)
            except RuntimeError:  # uvloop's word for a transport that is closed
                self._lost_transport()
            return True
        if self.ended:
            return True
        if self.waiting > self._soft:
            return False
        if transport is not None:
            self._write(frames)
        else:
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
            asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """How far a connection is that was behind, or that more than the bound waited for."""
        self._looking = False
        if self.ended:
            return
        waiting, now = self.waiting, time.monotonic()
        self._excused = min(self._excused, waiting)
        if waiting - self._excused <= self._limit:
            self._over_since = None
        elif self._over_since is not None and now - self._over_since > SLOW_SECONDS:
            self.end(f"it is too far behind: {waiting:,} bytes wait for it", TOO_SLOW)
            return
        if waiting < self._late_bytes:
            self._late_bytes, self._late_since = waiting, now
        elif self._late and now - self._late_since > SLOW_SECONDS:
            self.end(f"it takes nothing: {waiting:,} bytes wait for it", TOO_SLOW)
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

    def _may_send(self) -> bool:
        if self.ended:
            return False
        waiting = self.waiting - self._excused
        if waiting <= self._limit:
            return True
        if waiting > HARD * self._limit:
            self.end(f"it is too far behind: {waiting:,} bytes wait for it", TOO_SLOW)
            return False
        if self._over_since is None:
            self._over_since = time.monotonic()
            self._look_later()
            told = {"topic": None, "waiting": waiting, "limit": self._limit, "seconds": SLOW_SECONDS}
            self._send_now(Encoded("hub.lagged", told))
        return True

    def _write(self, frame: bytes) -> None:
        if self._transport is not None:
            try:
                self._transport.write(frame)
            except RuntimeError:
                self._lost_transport()

    def _lost_transport(self) -> None:
        """The connection is closed, and its end is on its way to us."""
        self.ended = True
        self._transport = None

    def _enqueue(self, packet: str | bytes) -> None:
        # One packet each: the engine keeps a packet's encoding, which differs by transport.
        if self._queue is not None:
            self._queue.put_nowait(Packet(MESSAGE, data=packet))

    def ping(self) -> None:
        """Ask whether it is alive, in the engine's way."""
        self.pinged = True
        if self._transport is not None:
            self._write(_PING_FRAME)
        elif self._queue is not None:
            self._queue.put_nowait(Packet(PING))

    # what comes in

    @property
    def unanswered(self) -> tuple[int, int]:
        """Requests that wait for an answer, and their bytes."""
        return self._open_count, self._open_bytes

    @property
    def _full(self) -> bool:
        return self._open_count >= _OPEN_REQUESTS or self._open_bytes > HARD * self._limit or self.waiting > self._limit

    def may_ask(self) -> bool:
        """Whether more may be read from it: answers that nobody takes must not pile up, nor requests."""
        return self.owed < PAUSE_SECONDS and not self._full

    def when_it_may_ask(self, call: Callable[[], None]) -> None:
        """Call once when more may be read, or when it ended. It ends if that takes too long."""
        now = asyncio.get_running_loop().time()
        owed, self.owed = self.owed, 0.0
        self._owed_until = now + owed
        self._ask_until = now + owed + SLOW_SECONDS
        if self._askers is None:
            self._askers = []
        self._askers.append(call)
        self._look_again(owed)

    async def has_room(self) -> bool:
        """Wait until more may be read from it. False if it ended."""
        while not self.ended and not self.may_ask():
            room = asyncio.Event()
            self.when_it_may_ask(room.set)
            await room.wait()
        return not self.ended

    def _look_again(self, owed: float = 0.0) -> None:
        if self._ask_timer is None:
            seconds = max(owed, LOOK_SECONDS)
            self._ask_timer = asyncio.get_running_loop().call_later(seconds, self._look_for_askers)

    def _look_for_room(self) -> None:
        if self._askers:
            asyncio.get_running_loop().call_soon(self._let_ask)

    def _look_for_askers(self) -> None:
        self._ask_timer = None
        self._let_ask()

    def _let_ask(self) -> None:
        if not self._askers:
            return
        now = asyncio.get_running_loop().time()
        if not self.ended and (self._full or now < self._owed_until) and not self._is_closing():
            if now <= self._ask_until:
                self._look_again(self._owed_until - now)
            else:
                self.end("it asks without taking the answers, or faster than they come", TOO_SLOW)
            return
        askers, self._askers = self._askers, None
        for call in askers:
            call()

    def _is_closing(self) -> bool:
        return self._transport is not None and self._transport.is_closing()

    def open_request(self, send: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
        """A request came in that ``send`` acknowledges. Returns what is called with its answer."""
        self._open_count += 1
        self._open_bytes += self.incoming
        return partial(self._answer, self.incoming, send)

    def _answer(self, size: int, send: Callable[[dict[str, Any]], None], answer: dict[str, Any]) -> None:
        self._open_count -= 1
        self._open_bytes -= size
        self._look_for_room()
        send(answer)

    def ignore(self, size: int, limit: int) -> None:
        """A binary frame where there is none; a few follow an event that was refused for its attachments."""
        self._ignored_count += 1
        self._ignored_bytes += size
        if self._ignored_count > MOST_IGNORED or self._ignored_bytes > limit:
            self.end("it sends binary frames, and values here are JSON")

    # what the hub asks

    def ask(self) -> tuple[int, asyncio.Future[Any]]:
        """The id of an event to this connection, and its acknowledgement to come."""
        self._asked_count += 1
        id, answer = self._asked_count, asyncio.get_running_loop().create_future()
        if self.ended:
            answer.set_exception(Unavailable("the worker went away"))
        elif self._asked is None:
            self._asked = {id: answer}
        else:
            self._asked[id] = answer
        return id, answer

    def acknowledged(self, id: Any, data: Any) -> None:
        answer = self._asked.get(id) if self._asked and isinstance(id, int) else None
        if answer is not None and not answer.done():
            answer.set_result(data[0] if isinstance(data, list) and data else None)

    def forget(self, id: int) -> None:
        if self._asked is not None:
            self._asked.pop(id, None)
            if not self._asked:
                self._asked = None

    # its end

    def end(self, reason: str, code: int | None = None) -> None:
        """End the connection at once: a close frame might not get through. With a code it is told why when it comes back."""
        if not self.ended:
            _log.warning("connection %s ended: %s", self.sid, reason)
            self.parting = None if code is None else (code, reason)
            self.close()

    def close(self) -> None:
        """Close the transport, so that a stock client comes back."""
        self.ended = True
        self._transport = None
        self._look_for_room()
        self._line.shut()

    def gone(self) -> None:
        """The connection is no more."""
        self.ended = True
        self._transport = self._queue = None
        self._look_for_room()
        if self._ask_timer is not None:
            self._ask_timer.cancel()
        late, self._late = self._late, None
        for call in late or ():
            call()
        for answer in (self._asked or {}).values():
            if not answer.done():
                answer.set_exception(Unavailable("the worker went away"))
