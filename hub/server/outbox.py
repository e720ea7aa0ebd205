"""The way to one connection: frames straight to its WebSocket's transport, packets into the engine's queue while it polls.

Everything that a connection is sent goes one of these ways, in order and counted in bytes. Part of what engine.py knows of
engineio.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from itertools import count
from typing import Any, Final

from engineio.packet import MESSAGE, Packet

from hub.core.errors import Unavailable
from hub.server.packets import MOST_IGNORED
from hub.wire.codec import Encoded, Variant, binary_frame, encode_frame, text_frame

_log = logging.getLogger(__name__)

SLOW_SECONDS: Final = 10.0
"""How long more than the bound may wait for a connection before it is ended."""
HARD: Final = 4
"""So many times the bound end it at once."""
SOFT: Final = 4
"""This part of the bound is how much may wait of a stream: more is replaced by a snapshot later."""
LOOK_SECONDS: Final = 0.02
"""How often a connection that is behind is looked at."""
_OPEN_REQUESTS: Final = 1024
"""Requests of one connection that may be unanswered; then nothing more is read from it for a while."""
_PIECE_BYTES: Final = 65_536
_PIECE_PACKETS: Final = 16
"""What the engine takes from the queue at a time, so that the rest stays counted. A stock Python client takes no more
packets in the answer to a poll."""


class ByteQueue(asyncio.Queue[Any]):
    """A socket's queue that knows how many bytes wait in it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.bytes = 0
        self.whole = False
        """Whether pieces may have any number of packets: not an answer to a poll."""
        self.on_taken: Callable[[], None] = lambda: None
        self._taken = [0, 0]  # packets and bytes of the piece that is being taken

    async def get(self) -> Any:
        self._taken = [0, 0]
        return await super().get()

    def get_nowait(self) -> Any:
        packets, size = self._taken
        if size > _PIECE_BYTES or (packets >= _PIECE_PACKETS and not self.whole):
            self._taken = [0, 0]
            raise asyncio.QueueEmpty
        return super().get_nowait()

    @property
    def items(self) -> Sequence[Any]:
        """What waits; always the same object."""
        return self._queue  # type: ignore[attr-defined,no-any-return]

    def take_all(self) -> list[Any]:
        """What waits, up to the mark that the connection closes, which stays."""
        items: list[Any] = []
        while self.items and self.items[0] is not None:
            items.append(super().get_nowait())
            self.task_done()
        return items

    def _put(self, item: Any) -> None:
        self.bytes += _size(item)
        super()._put(item)

    def _get(self) -> Any:
        item = super()._get()
        size = _size(item)
        self.bytes -= size
        self._taken[0] += 1
        self._taken[1] += size
        self.on_taken()
        return item


def _size(item: Any) -> int:
    data = getattr(item, "data", None)
    if isinstance(data, str):
        return len(data) if data.isascii() else 3 * len(data)
    return len(data) if isinstance(data, bytes) else 0


class SocketOutbox:
    """One connection. ``send`` is for what is told to many, ``put`` for what was asked for."""

    def __init__(
        self, socket: Any, variant: Variant, limit: int, background: Callable[[Coroutine[Any, Any, Any]], None]
    ) -> None:
        self.ended = False
        self.incoming = 0
        """Bytes of the message that is being read."""
        self._socket = socket
        self._transport: asyncio.Transport | None = None
        self._queue: ByteQueue = socket.queue
        self._queued = self._queue.items
        self._queue.on_taken = self._look_for_room
        self.variant = variant
        self._limit = limit
        self._soft = limit // SOFT
        self._background = background
        self._over_since: float | None = None
        self._room = asyncio.Event()
        self._open = [0, 0]  # unanswered requests, and their bytes
        self._ignored = [0, 0]
        self._ids = count(1)
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._late: list[Callable[[], None]] = []
        self._late_bytes = 0
        self._late_since = 0.0

    @property
    def upgraded(self) -> bool:
        """Whether it is a WebSocket by now."""
        return bool(self._socket.upgraded)

    # what goes out

    @property
    def waiting(self) -> int:
        """Bytes that wait for the connection."""
        sent = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return self._queue.bytes + sent

    def send(self, event: Encoded) -> None:
        """Send an event. A connection that is too far behind is ended instead; it comes back and resumes."""
        if self._may_send():
            if self._ready() is not None:
                self._write(event.frame(self.variant))
            else:
                self._enqueue(event.get(self.variant))

    def put(self, packet: str | bytes) -> None:
        """Send an encoded packet, by the same rule."""
        if self._may_send():
            if self._ready() is not None:
                self._write(encode_frame(self.variant, packet))
            else:
                self._enqueue(packet)

    def stream(self, frames: bytes, events: Sequence[Encoded]) -> bool:
        """Send events of a stream, whose ``frames`` are joined; False, and nothing sent, while the connection is behind."""
        transport = self._transport
        if transport is not None and not self._queued and transport.get_write_buffer_size() <= self._soft:
            try:
                transport.write(frames)
            except RuntimeError:  # uvloop's word for a transport that is closed
                self._lost_transport()
            return True
        if self.ended or self._socket.closed:
            return True
        transport = self._ready()
        if self.waiting > self._soft:
            return False
        if transport is not None:
            self._write(frames)
        else:
            for event in events:
                self._enqueue(event.get(self.variant))
        return True

    def when_caught_up(self, call: Callable[[], None]) -> None:
        """Call once when hardly anything waits any more. A connection that takes nothing for a while is ended."""
        if not self._late:
            self._late_bytes, self._late_since = self.waiting, time.monotonic()
            asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look_whether_caught_up)
        self._late.append(call)

    def _look_whether_caught_up(self) -> None:
        if self.ended or self._socket.closed:
            return
        waiting, now = self.waiting, time.monotonic()
        if waiting <= self._soft // 4:
            calls, self._late = self._late, []
            for call in calls:
                call()
            return
        if waiting < self._late_bytes:
            self._late_bytes, self._late_since = waiting, now
        elif now - self._late_since > SLOW_SECONDS:
            self.end(f"it takes nothing: {waiting:,} bytes wait for it")
            return
        asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look_whether_caught_up)

    def _may_send(self) -> bool:
        if self.ended or self._socket.closed:
            return False
        waiting = self.waiting
        if waiting > self._limit:
            now = time.monotonic()
            self._over_since = self._over_since or now
            if waiting > HARD * self._limit or now - self._over_since > SLOW_SECONDS:
                self.end(f"it is too far behind: {waiting:,} bytes wait for it")
                return False
        else:
            self._over_since = None
        return True

    def _ready(self) -> asyncio.Transport | None:
        """The transport, once the connection is a WebSocket; what the engine has queued goes first."""
        transport = self._transport
        if transport is None:
            if not self._socket.upgraded or (transport := getattr(self._socket, "hub_transport", None)) is None:
                return None
            self._transport = transport
        if self._queued:
            for packet in self._queue.take_all():
                data = packet.encode()
                self._write(text_frame(data) if isinstance(data, str) else binary_frame(data))
        return transport

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
        self._queue.put_nowait(Packet(MESSAGE, data=packet))

    # what comes in

    @property
    def _full(self) -> bool:
        requests, size = self._open
        return self.waiting > self._limit or requests >= _OPEN_REQUESTS or size > HARD * self._limit

    def _look_for_room(self) -> None:
        if not self._full:
            self._room.set()

    async def has_room(self) -> bool:
        """Wait until more may be read from this connection: answers that nobody takes must not pile up. False if it
        ended."""
        until = time.monotonic() + SLOW_SECONDS
        while self._full:
            if self.ended or self._socket.closed or self._lost():
                return False
            if time.monotonic() > until:
                self.end("it asks without taking the answers, or faster than they come")
                return False
            self._room.clear()
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._room.wait()
            except TimeoutError:
                continue
        return True

    def open_request(self, send: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
        """A request came in that ``send`` acknowledges. Returns what is called with its answer."""
        self._open[0] += 1
        self._open[1] += self.incoming
        return partial(self._answer, self.incoming, send)

    def _answer(self, size: int, send: Callable[[dict[str, Any]], None], answer: dict[str, Any]) -> None:
        self._open[0] -= 1
        self._open[1] -= size
        self._look_for_room()
        send(answer)

    def ignore(self, size: int, limit: int) -> None:
        """A binary frame where there is none; a few follow an event that was refused for its attachments."""
        self._ignored[0] += 1
        self._ignored[1] += size
        if self._ignored[0] > MOST_IGNORED or self._ignored[1] > limit:
            self.end("it sends binary frames, and values here are JSON")

    # what the hub asks

    def ask(self) -> tuple[int, asyncio.Future[Any]]:
        """The id of an event to this connection, and its acknowledgement to come."""
        id, answer = next(self._ids), asyncio.get_running_loop().create_future()
        if self.ended:
            answer.set_exception(Unavailable("the worker went away"))
        else:
            self._asked[id] = answer
        return id, answer

    def acknowledged(self, id: Any, data: Any) -> None:
        answer = self._asked.get(id)
        if answer is not None and not answer.done():
            answer.set_result(data[0] if isinstance(data, list) and data else None)

    def forget(self, id: int) -> None:
        self._asked.pop(id, None)

    # its end

    def expect(self, seconds: float, fine: Callable[[], bool]) -> None:
        """Close the connection unless ``fine`` then."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._close_unless, fine)

    def _close_unless(self, fine: Callable[[], bool]) -> None:
        if not fine():
            self.close()

    def end(self, reason: str) -> None:
        """End the connection at once: a close frame might not get through."""
        if not self.ended:
            _log.warning("connection %s ended: %s", self._socket.sid, reason)
            self.close()

    def close(self) -> None:
        """Close the transport, so that a stock client comes back."""
        self.ended = True
        self._transport = None
        self._room.set()
        transport = getattr(self._socket, "hub_transport", None)
        if transport is not None and self._socket.upgraded:
            transport.abort()
        elif not self._socket.closed:
            self._background(self._socket.close(wait=False))

    def _lost(self) -> bool:
        transport = getattr(self._socket, "hub_transport", None)
        return bool(transport is not None and self._socket.upgraded and transport.is_closing())

    def gone(self) -> None:
        """The connection is no more."""
        self.ended = True
        self._transport = None
        self._room.set()
        # Whoever waits for something to send, a poll above all, must not wait on: after what is being queued right now.
        asyncio.get_running_loop().call_soon(self._queue.put_nowait, None)
        if self._timer is not None:
            self._timer.cancel()
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(Unavailable("the worker went away"))
