"""Everything that this product knows of python-socketio's and engineio's inside. Nobody else reaches in there.

Relied on, and pinned by tests/test_socketio_library_semantics.py: packet classes with ``encode``/``decode``; a socket's
``queue``, made by ``create_queue``; ``server.sockets``; ``_handle_connect``; the driver's ``WebSocket._sock``.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import socketio
from engineio.async_drivers.aiohttp import WebSocket
from engineio.packet import MESSAGE
from engineio.packet import Packet as EnginePacket
from socketio.msgpack_packet import MsgPackPacket
from socketio.packet import EVENT, Packet

from hub.wire.codec import Encoded, Variant

_log = logging.getLogger(__name__)

RESERVED = frozenset({"connect", "disconnect"})
TOO_LARGE = "\0too large"
"""The event name that stands for a message over the limit; its argument is the size in bytes."""
BAD_EVENT = "\0bad event"


class _ByteQueue(asyncio.Queue[Any]):
    """A socket's queue that knows how many bytes wait in it."""

    bytes = 0

    def _put(self, item: Any) -> None:
        self.bytes += _size(item)
        super()._put(item)

    def _get(self) -> Any:
        item = super()._get()
        self.bytes -= _size(item)
        return item


def _size(item: Any) -> int:
    data = getattr(item, "data", None)
    return len(data) if isinstance(data, str | bytes) else 0


def _checked(packet: Any, limit: int, encoded: str | bytes) -> None:
    """Make a received event one that can be answered: name what is wrong with it, and keep clients off reserved names."""
    if packet.packet_type != EVENT:
        return
    if len(encoded) > limit:
        packet.data = [TOO_LARGE, len(encoded)]
    elif not isinstance(packet.data, list) or not packet.data or not isinstance(packet.data[0], str):
        packet.data = [BAD_EVENT]
    elif packet.data[0] in RESERVED or packet.data[0].startswith("\0"):
        packet.data = ["?" + packet.data[0].lstrip("\0"), *packet.data[1:]]


def _packet_class(variant: Variant, limit: int) -> type:
    if variant is Variant.MSGPACK:

        class HubMsgPackPacket(MsgPackPacket):  # type: ignore[misc]
            def decode(self, encoded_packet: bytes) -> None:
                super().decode(encoded_packet)
                _checked(self, limit, encoded_packet)

        return HubMsgPackPacket

    class HubPacket(Packet):  # type: ignore[misc]
        def decode(self, encoded_packet: str) -> int:
            attachments: int = super().decode(encoded_packet)
            if attachments:
                raise ValueError("binary attachments are not part of this protocol")
            _checked(self, limit, encoded_packet)
            return attachments

    return HubPacket


class _HubWebSocket(WebSocket):  # type: ignore[misc]
    """The aiohttp driver's WebSocket; its engine socket knows the transport, so that a connection can be ended at once."""

    async def __call__(self, environ: dict[str, Any]) -> Any:
        self.handler.__self__.hub_transport = environ["aiohttp.request"].transport
        return await super().__call__(environ)


class HubSocketServer(socketio.AsyncServer):  # type: ignore[misc]
    """A Socket.IO server of one variant, whose events are written encoded."""

    def __init__(self, variant: Variant, *, message_bytes: int, origins: list[str] | None) -> None:
        super().__init__(
            async_mode="aiohttp",
            serializer=_packet_class(variant, message_bytes),
            cors_allowed_origins=origins,
            max_http_buffer_size=2 * message_bytes,
            ping_interval=25,
            ping_timeout=20,
            logger=_log.getChild("socketio"),
            engineio_logger=_log.getChild("engineio"),
        )
        self.variant = variant
        self.eio.create_queue = _ByteQueue
        self.eio._async = {**self.eio._async, "websocket": _HubWebSocket}

    async def _handle_connect(self, eio_sid: str, namespace: str | None, data: Any) -> None:
        await super()._handle_connect(eio_sid, namespace, data)
        sid = self.manager.sid_from_eio_sid(eio_sid, namespace or "/")
        if sid is not None and self.manager.is_connected(sid, namespace or "/"):
            await self._trigger_event("connected", namespace or "/", sid)


class SocketOutbox:
    """The way to one connection: encoded events go into its engine socket's queue, in order with everything else there."""

    __slots__ = ("_eio_sid", "_limit", "_server", "_variant", "ended")

    def __init__(self, server: HubSocketServer, sid: str, limit: int) -> None:
        self._server = server
        self._variant = server.variant
        self._eio_sid = server.manager.eio_sid_from_sid(sid, "/")
        self._limit = limit
        self.ended = False

    def send(self, event: Encoded) -> None:
        if self.ended:
            return
        socket = self._server.eio.sockets.get(self._eio_sid)
        if socket is None or socket.closed:
            return
        packet = event.get(self._variant)
        if socket.queue.bytes + len(packet) > self._limit:
            self.end()
            return
        socket.queue.put_nowait(EnginePacket(MESSAGE, data=packet))

    def end(self) -> None:
        """End a connection that is too far behind. A close frame would not get through; the client comes back and resumes."""
        self.ended = True
        socket = self._server.eio.sockets.get(self._eio_sid)
        if socket is None:
            return
        _log.warning("connection %s is too far behind (%s bytes wait): ended", self._eio_sid, socket.queue.bytes)
        self.close()

    def close(self) -> None:
        """Close the transport, so that a stock client comes back."""
        socket = self._server.eio.sockets.get(self._eio_sid)
        if socket is None:
            return
        transport = getattr(socket, "hub_transport", None)
        if transport is not None:
            transport.abort()
        else:
            asyncio.get_running_loop().create_task(self._server.eio.disconnect(self._eio_sid))
