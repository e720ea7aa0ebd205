"""A WebSocket as a connection's carrier: a protocol right on its transport. So an idle connection is a transport and a few small
objects, without tasks, coroutines, queues or timers of its own, and what it sends is handled as it comes."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, Protocol

from engineio import packet
from engineio.packet import Packet

from hub.server.byte_queue import ByteQueue
from hub.server.outbox import Line, SocketOutbox
from hub.server.websocket import CLOSE, PING, FrameError, FrameReader, close_frame
from hub.wire.codec import text_frame

if TYPE_CHECKING:
    from hub.server.carriers import PollingSocket

_log = logging.getLogger(__name__)

UPGRADE_SECONDS: Final = 10.0
"""How long an upgrade to a WebSocket may take."""
_NORMAL: Final = 1000


class Owner(Protocol):
    """Whose connections they are."""

    def opened(self, sid: str, line: Line, way: asyncio.Transport | ByteQueue) -> SocketOutbox:
        """Somebody is there, under the engine's id; ``way``: where what it is sent goes."""

    def message(self, outbox: SocketOutbox, data: Any) -> None:
        """A message came in. Never raises."""

    def ponged(self, outbox: SocketOutbox) -> None:
        """It answered a ping."""

    def lost(self, outbox: SocketOutbox) -> None:
        """It is gone. Harmless when that is known."""


class WebSocketLine(asyncio.Protocol):
    """A WebSocket. With ``polling`` it is an upgrade: until the client has said so it takes nothing else."""

    __slots__ = ("_held", "_owner", "_polling", "_reader", "_timer", "outbox", "transport")

    def __init__(self, owner: Owner, transport: asyncio.Transport, limit: int, polling: PollingSocket | None) -> None:
        self.outbox: SocketOutbox | None = None
        self.transport = transport
        self._owner = owner
        self._reader = FrameReader(limit)
        self._held = False
        self._polling = polling
        self._timer: asyncio.TimerHandle | None = None
        if polling is not None:
            self._timer = asyncio.get_running_loop().call_later(UPGRADE_SECONDS, self.shut)

    def shut(self) -> None:
        """End it at once."""
        self.transport.abort()

    # what comes in

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        if not self._held:
            self._take()

    def _take(self) -> None:
        """Handle what is here: one message, then what it set off and others have their turn."""
        if self.transport.is_closing():
            return
        try:
            frame = self._reader.next()
        except FrameError as error:
            self._close(error.code, str(error))
            return
        if frame is None:
            self._resume()
            return
        self._frame(*frame)
        outbox = self.outbox
        if outbox is not None and not outbox.may_ask():
            self._hold()
            outbox.when_it_may_ask(self._take)
        elif self._reader.has_more:
            self._hold()
            asyncio.get_running_loop().call_soon(self._take)
        else:
            self._resume()

    def _hold(self) -> None:
        if not self._held and not self.transport.is_closing():
            self._held = True
            self.transport.pause_reading()

    def _resume(self) -> None:
        if self._held:
            self._held = False
            if not self.transport.is_closing():
                self.transport.resume_reading()

    def _frame(self, kind: int, payload: str | bytes) -> None:
        if kind == CLOSE:
            code = int.from_bytes(payload[:2], "big") if isinstance(payload, bytes) else 0
            self._close(code if 3000 <= code < 5000 else _NORMAL, None)
        elif kind == PING:
            assert isinstance(payload, bytes)
            self._write(bytes((0x8A, len(payload))) + payload)
        elif kind > CLOSE:
            return
        elif self.outbox is None:
            self._upgrade(payload)
        elif isinstance(payload, bytes):
            self._owner.message(self.outbox, payload)
        elif payload[:1] == "4":
            self._owner.message(self.outbox, payload[1:])
        elif payload[:1] == "3":
            self._owner.ponged(self.outbox)
        elif payload[:1] == "1":
            self._close(_NORMAL, None)
        elif payload[:1] not in tuple("0256"):  # these mean nothing here
            self._close(_NORMAL, "a frame that is no Engine.IO packet")

    def _upgrade(self, payload: str | bytes) -> None:
        polling = self._polling
        assert polling is not None
        if polling.closed or polling.upgraded:
            self._close(_NORMAL, None)
        elif payload == "2probe":
            polling.upgrading = True  # from here polls get nothing but an end
            self._write(text_frame("3probe"))
            polling.queue.put_nowait(Packet(packet.NOOP))
        elif payload == "5" and polling.upgrading:
            polling.upgraded, polling.upgrading = True, False
            self.outbox, self._polling = polling.outbox, None
            self._no_timer()
            polling.move_to(self)
        else:
            self._close(_NORMAL, None)

    # its end

    def _write(self, frame: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(frame)

    def _close(self, code: int, reason: str | None) -> None:
        """In order: what was written before still goes."""
        if reason is not None:
            _log.warning("connection %s closed: %s", self.outbox and self.outbox.sid, reason)
        self._write(close_frame(code))
        if self.outbox is not None:
            self.outbox.ended = True
        self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._no_timer()
        if self._polling is not None:
            self._polling.upgrading = False
        outbox, self.outbox = self.outbox, None  # each has the other: without a cycle both go at once
        if outbox is not None:
            self._owner.lost(outbox)

    def _no_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
