"""Socket.IO on the connections of one endpoint: who is let in, events in order to the handler, replies straight back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from aiohttp import web

from hub.core.errors import InvalidRequest, TooLarge, Unavailable
from hub.node.rates import Admissions
from hub.server.carriers import Engine
from hub.server.outbox import Line, Polled, SocketOutbox
from hub.server.packets import (
    ACK,
    CONNECT,
    CONNECT_ERROR,
    DISCONNECT,
    EVENT,
    NotAPacket,
    Odd,
    encode_packet,
    packet_class,
)
from hub.wire.codec import Encoded, Variant

_log = logging.getLogger(__name__)

CONNECT_SECONDS: Final = 10.0
"""How long a connection may be open without a session."""
LOOK_SECONDS: Final = 1.0
"""How often connections are looked at, at least: who must be pinged, who did not answer, who is still not let in."""

Reply = Callable[[dict[str, Any]], None]
"""Sends the acknowledgement of a request, at once and in order with everything else that the connection is sent."""


class Refused(Exception):
    """Somebody is not let in; ``data`` says why, for programs."""

    def __init__(self, message: str, data: dict[str, Any]) -> None:
        super().__init__(message)
        self.message = message
        self.data = data


class Handler(Protocol):
    """What happens on the connections of a server."""

    def connect(self, server: HubSocketServer, sid: str, outbox: SocketOutbox, auth: Any) -> None:
        """Somebody asks to be let in. Raises Refused."""

    def greeting(self, sid: str) -> Encoded:
        """The first event to somebody who was let in."""

    def event(self, sid: str, name: str, args: list[Any], reply: Reply) -> None:
        """An event came in; events of a connection come in order. ``reply`` is called once."""

    def disconnected(self, sid: str) -> None:
        """Somebody who was let in is gone."""


def refusal(error: Any) -> dict[str, Any]:
    """The acknowledgement that refuses a request."""
    return {"ok": False, "error": error.to_wire()}


class HubSocketServer:
    """A Socket.IO server of one variant, with the default namespace only. Nothing in here waits, or makes a task."""

    def __init__(
        self,
        variant: Variant,
        handler: Handler,
        *,
        message_bytes: int,
        outbox_bytes: int,
        origins: list[str] | None,
        ping: tuple[float, float],
        admissions: Admissions,
        no_polling: Refused | None = None,
    ) -> None:
        """``no_polling``: why a client that polls is not let in, where only WebSockets are taken."""
        self.variant = variant
        self.outboxes: dict[str, SocketOutbox] = {}
        """By the engine's id of each connection."""
        self._handler = handler
        self._packet_class = packet_class(variant, message_bytes)
        self._encode = partial(encode_packet, variant)
        self.eio = Engine(
            self,
            limit=2 * message_bytes,
            origins=origins or (),
            ping=ping,
            admissions=admissions,
            no_polling=None if no_polling is None else self._refusal(no_polling),
        )
        self._packet_type = bytes if variant is Variant.MSGPACK else str
        self._limit = message_bytes
        self._outbox_bytes = outbox_bytes
        self._ping_seconds, self._ping_timeout = ping
        self._look_seconds = max(0.02, min(LOOK_SECONDS, self._ping_seconds / 4, self._ping_timeout / 4))
        self._looking: asyncio.TimerHandle | None = None

    def attach(self, app: web.Application, path: str) -> None:
        """Serve an endpoint of an application."""
        self.eio.attach(app, engineio_path=path)

    def take_no_more(self) -> None:
        """Take no new connections; those that are there go on."""
        self.eio.take_no_more()

    def shutdown(self) -> None:
        """End every connection, and take no more."""
        self.eio.end()
        for outbox in list(self.outboxes.values()):
            outbox.close()
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    # connections

    def opened(
        self, sid: str, line: Line, *, transport: asyncio.Transport | None = None, polled: Polled | None = None
    ) -> SocketOutbox:
        """A connection is there; nobody is on it yet."""
        now = asyncio.get_running_loop().time()
        outbox = SocketOutbox(sid, line, self.variant, self._outbox_bytes, transport=transport, polled=polled)
        self.outboxes[sid] = outbox
        outbox.due = now + self._ping_seconds
        outbox.enter_by = now + CONNECT_SECONDS
        if self._looking is None:
            self._look_later()
        return outbox

    def ponged(self, outbox: SocketOutbox) -> None:
        """It is alive; a while later it is asked again."""
        if outbox.pinged:
            outbox.pinged = False
            outbox.due = asyncio.get_running_loop().time() + self._ping_seconds

    def lost(self, outbox: SocketOutbox) -> None:
        """A connection is gone. Harmless when that is known."""
        if self.outboxes.pop(outbox.sid, None) is not None:
            self._leave(outbox)
            outbox.gone()

    def _look_later(self) -> None:
        self._looking = asyncio.get_running_loop().call_later(self._look_seconds, self._look)

    def _look(self) -> None:
        """One look at all of them: a timer of its own would cost each one more than it costs to look."""
        self._looking = None
        now = asyncio.get_running_loop().time()
        for outbox in list(self.outboxes.values()):
            if now >= outbox.due:
                if outbox.pinged or outbox.ended:
                    outbox.close()
                else:
                    outbox.ping()
                    outbox.due = now + self._ping_timeout
            elif outbox.enter_by is not None and now >= outbox.enter_by:
                outbox.close()
        self.eio.sweep()
        if self.outboxes or self.eio.sockets:
            self._look_later()

    # what comes in

    def message(self, outbox: SocketOutbox, data: Any) -> None:
        """One message of a connection; they come in order."""
        if outbox.ended:
            return
        if isinstance(data, bytes) and self.variant is Variant.JSON:
            outbox.ignore(len(data), self._limit)  # attachments of an event that was refused already
            return
        try:
            if not data or not isinstance(data, self._packet_type):
                raise NotAPacket("it is empty, or of the other parser")
            outbox.incoming = len(data)
            self._packet(outbox, self._packet_class(encoded_packet=data))
        except NotAPacket as error:
            outbox.end(f"it sent what is no packet: {error}")
        except Exception:
            _log.exception("connection %s", outbox.sid)
            outbox.end("the hub failed at what it sent")

    def _packet(self, outbox: SocketOutbox, packet: Any) -> None:
        namespace = packet.namespace or "/"
        if packet.packet_type == EVENT:
            self._event(outbox, namespace, packet.id, packet.data)
        elif packet.packet_type == ACK:
            outbox.asks.acknowledged(packet.id, packet.data)
        elif packet.packet_type == CONNECT:
            self._connect(outbox, namespace, packet.data)
        elif packet.packet_type == DISCONNECT and namespace == "/":
            self._leave(outbox)
            outbox.enter_by = asyncio.get_running_loop().time() + CONNECT_SECONDS

    def _connect(self, outbox: SocketOutbox, namespace: str, auth: Any) -> None:
        if namespace != "/" or outbox.session_id is not None:
            outbox.put(self._encode(CONNECT_ERROR, "Unable to connect", namespace))
            return
        sid = self.eio.generate_id()
        try:
            self._handler.connect(self, sid, outbox, auth)
        except Refused as error:
            outbox.put(self._refusal(error))
            return
        outbox.session_id, outbox.enter_by = sid, None
        outbox.greet(self._encode(CONNECT, {"sid": sid}), self._handler.greeting(sid))

    def _refusal(self, refused: Refused) -> str | bytes:
        return self._encode(CONNECT_ERROR, {"message": refused.message, "data": refused.data})

    def _leave(self, outbox: SocketOutbox) -> None:
        sid, outbox.session_id = outbox.session_id, None
        if sid is not None:
            try:
                self._handler.disconnected(sid)
            except Exception:
                _log.exception("the end of connection %s", outbox.sid)

    def _event(self, outbox: SocketOutbox, namespace: str, id: Any, data: list[Any]) -> None:
        reply = outbox.open_request(partial(self._acknowledge, outbox, namespace, id))
        sid = outbox.session_id if namespace == "/" else None
        if sid is None:
            reply(refusal(Unavailable("connect first: nobody is let in on this connection")))
        elif data[0] is Odd.TOO_LARGE:
            text = f"the message has {data[1]:,} bytes; at most {self._limit:,} are taken"
            reply(refusal(TooLarge(text, limit=self._limit)))
        elif data[0] is Odd.BAD_EVENT:
            reply(refusal(InvalidRequest(f"an event is a name and one object: {data[1]}")))
        else:
            self._handler.event(sid, data[0], data[1:], reply)

    # what goes out

    def _acknowledge(self, outbox: SocketOutbox, namespace: str, id: Any, answer: dict[str, Any]) -> None:
        if id is not None:  # else nobody asked for an acknowledgement
            outbox.put(self._encode(ACK, [answer], namespace, id))

    async def request(
        self, outbox: SocketOutbox, event: str, payload: dict[str, Any], *, seconds: float
    ) -> dict[str, Any]:
        """Send an event and wait for its acknowledgement; one that says nothing is good. Raises Unavailable."""
        id, answer = outbox.asks.ask()
        outbox.put(self._encode(EVENT, [event, payload], "/", id))
        try:
            async with asyncio.timeout(seconds):
                reply = await answer
                return reply if isinstance(reply, dict) else {"ok": True}
        except TimeoutError:
            raise Unavailable(f"the worker did not acknowledge {event}") from None
        finally:
            outbox.asks.forget(id)
