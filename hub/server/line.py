"""A WebSocket as a connection's carrier: a protocol right on its transport. So an idle connection is a transport and a few small
objects, without tasks, coroutines, queues or timers of its own, and what it sends is handled as it comes."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, Protocol

from hub.server.bounds import UNREADABLE
from hub.server.outbox import Line, Polled, SocketOutbox
from hub.server.websocket import CLOSE, PART, PING, FrameError, FrameReader, close_frame
from hub.wire.codec import text_frame

_log = logging.getLogger(__name__)

UPGRADE_SECONDS: Final = 10.0
"""How long an upgrade to a WebSocket may take."""
_NORMAL: Final = 1000
_MOST_PONGS: Final = 65_536
"""Bytes of pongs that may wait for a WebSocket that is nobody's yet; more pings are not answered."""


class Owner(Protocol):
    """Whose connections they are."""

    def opened(
        self, sid: str, line: Line, *, transport: asyncio.Transport | None = None, polled: Polled | None = None
    ) -> SocketOutbox:
        """Somebody is there, under the engine's id. What it is sent goes to its transport, or waits to be polled."""

    def message(self, outbox: SocketOutbox, data: Any) -> None:
        """A message came in. Never raises."""

    def ponged(self, outbox: SocketOutbox) -> None:
        """It answered a ping."""

    def lost(self, outbox: SocketOutbox) -> None:
        """It is gone. Harmless when that is known."""


class Upgradable(Protocol):
    """A connection that polls, and may go on as a WebSocket."""

    def probed(self) -> bool:
        """Its WebSocket works: polls get nothing any more but an end. False if it has ended."""

    def upgrade(self, line: WebSocketLine) -> SocketOutbox | None:
        """It goes on by this line. None if it has ended, or did not probe."""

    def gave_up(self, line: WebSocketLine) -> None:
        """A line is lost by which it did not go on."""


class WebSocketLine(asyncio.Protocol):
    """A WebSocket. With ``polling`` it is an upgrade: until the client has said so it takes nothing else."""

    __slots__ = ("_held", "_owner", "_polling", "_probed", "_reader", "_timer", "outbox", "transport")

    def __init__(self, owner: Owner, transport: asyncio.Transport, limit: int, polling: Upgradable | None) -> None:
        self.outbox: SocketOutbox | None = None
        self.transport = transport
        self._owner = owner
        self._reader = FrameReader(limit)
        self._held = False
        self._polling = polling
        self._probed = False
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
            assert isinstance(payload, bytes)
            self._close(int.from_bytes(payload[:2], "big") or _NORMAL, None)
        elif kind == PING:
            assert isinstance(payload, bytes)
            if self.outbox is not None or self.transport.get_write_buffer_size() < _MOST_PONGS:
                self._write(bytes((0x8A, len(payload))) + payload)
        elif kind > CLOSE or kind == PART:
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
        if payload == "2probe" and not self._probed and polling.probed():
            self._probed = True  # once: nobody counts what is answered here
            self._write(text_frame("3probe"))
        elif payload == "5" and (outbox := polling.upgrade(self)) is not None:
            self.outbox, self._polling = outbox, None
            self._no_timer()
        else:
            self._close(_NORMAL, None)

    # its end

    def _write(self, frame: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(frame)

    def _close(self, code: int, reason: str | None) -> None:
        """In order: what was written before still goes."""
        outbox = self.outbox
        if reason is not None:
            _log.warning("connection %s closed: %s", outbox and outbox.sid, reason)
        self._write(close_frame(code))
        if outbox is not None:  # not every client shows what a close frame says
            outbox.stop(None if reason is None else (UNREADABLE, reason))
        self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._no_timer()
        if self._polling is not None:
            self._polling.gave_up(self)
            self._polling = None
        outbox, self.outbox = self.outbox, None  # each has the other: without a cycle both go at once
        if outbox is not None:
            self._owner.lost(outbox)

    def _no_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
