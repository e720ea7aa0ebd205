"""Everything that this product knows of python-socketio's and engineio's inside, with packets.py and outbox.py. Nobody
else reaches in there.

Relied on, and pinned by tests/test_socketio_library_semantics.py: packet classes with ``encode`` and ``decode``; the
server's ``_handle_...`` coroutines, which engineio awaits one after the other for each connection; a socket's ``queue``,
made by ``create_queue``; ``eio.sockets``; the driver's ``WebSocket``, its ``__call__`` and ``wait``; ``_cors_allowed_origins``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, Protocol

import msgspec
import socketio
from aiohttp.web import WebSocketResponse
from engineio import AsyncServer
from engineio.async_drivers.aiohttp import WebSocket, translate_request
from engineio.payload import Payload

from hub.core.errors import InvalidRequest, TooLarge, Unavailable
from hub.server.outbox import ByteQueue, SocketOutbox
from hub.server.packets import BAD_EVENT, TOO_LARGE, NotAPacket, packet_class
from hub.wire.codec import Variant, binary_frame, text_frame

_log = logging.getLogger(__name__)

CONNECT_SECONDS: Final = 10.0
"""How long a connection may be open without a session."""
_ENGINE_TYPES: Final = frozenset("0123456b")

# A client that polls sends together what it has; the engine would take 16 packets and lose the others without a word.
# What they may have in bytes is bounded by ``max_http_buffer_size``.
Payload.max_decode_packets = 10_000

Reply = Callable[[dict[str, Any]], None]
"""Sends the acknowledgement of a request, at once and in order with everything else that the connection is sent."""


class Handler(Protocol):
    """What happens on the connections of a server."""

    def connect(self, server: HubSocketServer, sid: str, outbox: SocketOutbox, auth: Any) -> None:
        """Somebody asks to be let in. Raises ConnectionRefusedError."""

    def connected(self, sid: str) -> None:
        """Somebody was let in, and knows it."""

    def event(self, sid: str, name: str, args: list[Any], reply: Reply) -> None:
        """An event came in; events of a connection come in order. ``reply`` is called once."""

    def disconnected(self, sid: str) -> None: ...


def refusal(error: Any) -> dict[str, Any]:
    """The acknowledgement that refuses a request."""
    return {"ok": False, "error": error.to_wire()}


class _HubWebSocket(WebSocket):  # type: ignore[misc]
    """The aiohttp driver's WebSocket. Its engine socket knows the transport, so that a connection can be ended at once; a
    frame that is no packet ends the connection in order, and not by an exception that leaves it behind half open."""

    async def __call__(self, environ: dict[str, Any]) -> Any:
        request, socket = environ["aiohttp.request"], self.handler.__self__
        # Frames that are written past aiohttp are not compressed, so there is nothing to gain from agreeing on it.
        self._sock = WebSocketResponse(max_msg_size=self.server.max_http_buffer_size, compress=False)
        await self._sock.prepare(request)
        self._transport = socket.hub_transport = request.transport
        socket.queue.whole = True
        self.environ = environ
        await self.handler(self)
        return self._sock

    async def send(self, message: str | bytes) -> None:
        """Straight to the transport, like everything else that this connection is sent: so all of it stays in order."""
        if self._transport.is_closing():
            raise OSError("the connection is closing")
        try:
            self._transport.write(text_frame(message) if isinstance(message, str) else binary_frame(message))
        except RuntimeError as error:  # uvloop's word for a transport that is closed
            raise OSError("the connection is closed") from error

    async def wait(self) -> Any:
        data = await super().wait()
        if isinstance(data, str) and data[:1] not in _ENGINE_TYPES:
            raise OSError("a frame that is no Engine.IO packet")
        return data


class _Body:
    """A request's body, for the engine. It asks once for so many bytes, where the driver's stream gives what came so far."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def read(self, size: int) -> bytes:
        pieces: list[bytes] = []
        while size > 0 and (piece := await self._stream.read(size)):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


def _translate(request: Any) -> dict[str, Any]:
    environ: dict[str, Any] = translate_request(request)
    environ["wsgi.input"] = _Body(environ["wsgi.input"])
    return environ


class _HubEngine(AsyncServer):  # type: ignore[misc]
    """The engine; origins that are allowed by name come beside its own, not in place of it."""

    named_origins: frozenset[str] = frozenset()

    def _cors_allowed_origins(self, environ: dict[str, Any]) -> list[str] | None:
        own: list[str] = super()._cors_allowed_origins(environ)
        return None if "*" in self.named_origins else [*own, *self.named_origins]


class HubSocketServer(socketio.AsyncServer):  # type: ignore[misc]
    """A Socket.IO server of one variant. Events go to its handler in order, replies straight back."""

    def __init__(
        self, variant: Variant, handler: Handler, *, message_bytes: int, outbox_bytes: int, origins: list[str] | None
    ) -> None:
        for name in ("socketio", "engineio"):
            _log.getChild(name).setLevel(logging.WARNING)  # below that they write what goes over the wire, tokens too
        super().__init__(
            async_mode="aiohttp",
            serializer=packet_class(variant, message_bytes),
            max_http_buffer_size=2 * message_bytes,
            ping_interval=25,
            ping_timeout=20,
            logger=_log.getChild("socketio"),
            engineio_logger=_log.getChild("engineio"),
        )
        self.variant = variant
        self.eio.named_origins = frozenset(origins or ())
        self.eio.create_queue = ByteQueue
        self.eio._async = {**self.eio._async, "websocket": _HubWebSocket, "translate_request": _translate}
        self.outboxes: dict[str, SocketOutbox] = {}
        """By the engine's id of each connection."""
        self._handler = handler
        self._limit = message_bytes
        self._outbox_bytes = outbox_bytes
        self._tasks: set[asyncio.Task[Any]] = set()
        self.on("connect", self._connect)
        self.on("disconnect", self._disconnect)

    def _engineio_server_class(self) -> type[AsyncServer]:
        return _HubEngine

    # connections

    async def _handle_eio_connect(self, eio_sid: str, environ: dict[str, Any]) -> None:
        await super()._handle_eio_connect(eio_sid, environ)
        self.outboxes[eio_sid] = SocketOutbox(
            self.eio.sockets[eio_sid], self.variant, self._outbox_bytes, self._background
        )
        self._expect_session(eio_sid)

    async def _handle_eio_disconnect(self, eio_sid: str, reason: str) -> None:
        await super()._handle_eio_disconnect(eio_sid, reason)
        outbox = self.outboxes.pop(eio_sid, None)
        if outbox is not None:
            outbox.gone()

    def _expect_session(self, eio_sid: str) -> None:
        """End the connection if nobody is on it after a while: refused, gone, or never asked to be let in."""
        outbox = self.outboxes.get(eio_sid)
        if outbox is not None:
            outbox.expect(CONNECT_SECONDS, lambda: self.manager.sid_from_eio_sid(eio_sid, "/") is not None)

    async def _connect(self, sid: str, environ: dict[str, Any], auth: Any) -> None:
        self._handler.connect(self, sid, self.outboxes[self.manager.eio_sid_from_sid(sid, "/")], auth)

    async def _disconnect(self, sid: str, reason: str) -> None:
        self._handler.disconnected(sid)

    async def _handle_connect(self, eio_sid: str, namespace: str | None, data: Any) -> None:
        namespace = namespace or "/"
        before = self.manager.sid_from_eio_sid(eio_sid, namespace)
        await super()._handle_connect(eio_sid, namespace, data)
        sid = self.manager.sid_from_eio_sid(eio_sid, namespace)
        if sid is not None and sid != before and self.manager.is_connected(sid, namespace):
            self._handler.connected(sid)

    async def _handle_disconnect(self, eio_sid: str, namespace: str | None, reason: Any = None) -> None:
        await super()._handle_disconnect(eio_sid, namespace, reason)
        self._expect_session(eio_sid)

    # what comes in

    async def _handle_eio_message(self, eio_sid: str, data: str | bytes) -> None:
        """One message of a connection; the next one is not read before this returns."""
        outbox = self.outboxes.get(eio_sid)
        if outbox is None or outbox.ended or not await outbox.has_room():
            return
        if isinstance(data, bytes) and self.variant is Variant.JSON:
            outbox.ignore(len(data), self._limit)  # attachments of an event that was refused already
            return
        outbox.incoming = len(data)
        try:
            if not data:
                raise NotAPacket("it is empty")
            await super()._handle_eio_message(eio_sid, data)
        except NotAPacket as error:
            outbox.end(f"it sent what is no packet: {error}")
        except Exception:
            _log.exception("connection %s", eio_sid)
            outbox.end("the hub failed at what it sent")
        if not outbox.upgraded:  # of what was posted together the next one follows at once, before this one is answered
            await asyncio.sleep(0)

    async def _handle_event(self, eio_sid: str, namespace: str | None, id: Any, data: list[Any]) -> None:
        namespace = namespace or "/"
        sid = self.manager.sid_from_eio_sid(eio_sid, namespace)
        outbox = self.outboxes[eio_sid]
        reply = outbox.open_request(partial(self._acknowledge, outbox, namespace, id))
        if not self.manager.is_connected(sid, namespace):
            reply(refusal(Unavailable("connect first: nobody is let in on this connection")))
        elif data[0] == TOO_LARGE:
            text = f"the message has {data[1]:,} bytes; at most {self._limit:,} are taken"
            reply(refusal(TooLarge(text, limit=self._limit)))
        elif data[0] == BAD_EVENT:
            reply(refusal(InvalidRequest(f"an event is a name and one object: {data[1]}")))
        else:
            self._handler.event(sid, data[0], data[1:], reply)

    async def _handle_ack(self, eio_sid: str, namespace: str | None, id: Any, data: Any) -> None:
        self.outboxes[eio_sid].acknowledged(id, data)

    # what goes out

    def _acknowledge(self, outbox: SocketOutbox, namespace: str, id: Any, answer: dict[str, Any]) -> None:
        packet: str | bytes
        if id is None:  # nobody asked for an acknowledgement
            return
        if self.variant is Variant.MSGPACK:
            packet = _msgpack({"type": 3, "data": [answer], "nsp": namespace, "id": id})
        else:
            place = "" if namespace == "/" else f"{namespace},"
            packet = f"3{place}{id}{_json([answer]).decode()}"
        outbox.put(packet)

    async def request(self, outbox: SocketOutbox, event: str, payload: dict[str, Any], seconds: float) -> Any:
        """Send an event and wait for its acknowledgement. Raises Unavailable."""
        id, answer = outbox.ask()
        packet: str | bytes
        if self.variant is Variant.MSGPACK:
            packet = _msgpack({"type": 2, "data": [event, payload], "nsp": "/", "id": id})
        else:
            packet = f"2{id}{_json([event, payload]).decode()}"
        outbox.put(packet)
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            raise Unavailable(f"the worker did not acknowledge {event}") from None
        finally:
            outbox.forget(id)

    def _background(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


_json: Final = msgspec.json.Encoder().encode
_msgpack: Final = msgspec.msgpack.Encoder().encode
