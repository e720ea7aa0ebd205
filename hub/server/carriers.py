"""How Engine.IO packets come in and out: by polling until the upgrade, or by a WebSocket from the start.

Polling is engineio's. A WebSocket has a line (line.py) right on its transport: aiohttp, which took the request, lets go of it.

Part of what engine.py knows of engineio; it alone knows aiohttp's inside. Relied on, and pinned by
tests/test_socketio_library_semantics.py: of the engine ``_handle_connect``, ``sockets``, ``create_queue``, ``_async``,
``_cors_allowed_origins``; of its sockets ``receive``, ``close``, ``_upgrade_websocket``, ``queue``; of aiohttp's request handler
``transport``, ``connection_lost``, ``_message_tail``.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from math import ceil
from typing import Any, Final

import msgspec
from aiohttp import web
from engineio import AsyncServer, packet
from engineio.async_drivers.aiohttp import translate_request
from engineio.async_socket import AsyncSocket
from engineio.exceptions import UnknownPacketError
from engineio.packet import Packet
from engineio.payload import Payload

from hub.node.rates import Admissions
from hub.server.byte_queue import ByteQueue
from hub.server.line import Owner, WebSocketLine
from hub.server.websocket import switch
from hub.wire.codec import text_frame

_log = logging.getLogger(__name__)

# A client that polls sends together what it has; the engine would take 16 packets and lose the others without a word.
# What they may have in bytes is bounded by ``max_http_buffer_size``.
Payload.max_decode_packets = 10_000


class PollingSocket(AsyncSocket):  # type: ignore[misc]
    """A connection that polls, until it is upgraded or gone."""

    closed: bool

    def __init__(self, engine: Engine, sid: str) -> None:
        super().__init__(engine, sid)
        self.outbox = engine.owner.opened(sid, self, self.queue)

    async def receive(self, pkt: Packet) -> None:
        """One packet of a request; the next one is not looked at before this returns."""
        if self.closed:
            return
        owner = self.server.owner
        if pkt.packet_type == packet.PONG:
            owner.ponged(self.outbox)
        elif pkt.packet_type == packet.MESSAGE:
            if await self.outbox.has_room():
                owner.message(self.outbox, pkt.data)
                await asyncio.sleep(0)  # of what was posted together the next one follows when others had their turn
        elif pkt.packet_type == packet.CLOSE:
            self._end()
        else:
            raise UnknownPacketError

    async def _upgrade_websocket(self, environ: dict[str, Any]) -> Any:
        return self.server.open_websocket(environ["aiohttp.request"], self) or self.server._bad_request()

    def move_to(self, line: WebSocketLine) -> None:
        """The connection goes on as a WebSocket; what waits goes first."""
        self.server.sockets.pop(self.sid, None)
        self.outbox.move_to(line, line.transport)
        self.queue.put_nowait(None)

    async def close(self, wait: bool = True, abort: bool = False, reason: str | None = None) -> None:
        """The engine's word for the end of a connection."""
        self._end()

    def shut(self) -> None:
        """End it, after what is being done right now."""
        asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        """Without a CLOSE packet: a stock client of Python that polls would not come back after it."""
        if self.closed or self.upgraded:
            return
        self.closing = self.closed = True
        self.queue.put_nowait(None)  # whoever waits for something to send, a poll above all, must not wait on
        self.server.owner.lost(self.outbox)


class Engine(AsyncServer):  # type: ignore[misc]
    """The HTTP side: polling by engineio, WebSockets past it. Origins that are allowed by name come beside its own. So many
    connections are taken a second; the others are told to come back, which a stock client does, spread by its own back-off.
    """

    _async: dict[str, Any]

    def __init__(
        self, owner: Owner, *, limit: int, origins: Iterable[str], ping: tuple[float, float], admissions: Admissions
    ) -> None:
        log = _log.getChild("engineio")
        log.setLevel(logging.WARNING)  # below that it writes what goes over the wire, tokens too
        super().__init__(
            async_mode="aiohttp",
            ping_interval=ping[0],
            ping_timeout=ping[1],
            max_http_buffer_size=limit,
            monitor_clients=False,
            logger=log,
        )
        self.owner = owner
        self._admissions = admissions
        self.create_queue = ByteQueue
        self._async = {**self._async, "translate_request": _translate}
        self._named_origins = frozenset(origins)
        self._open = {
            "upgrades": [],
            "pingTimeout": round(ping[1] * 1000),
            "pingInterval": round(ping[0] * 1000),
            "maxPayload": limit,
        }

    def _cors_allowed_origins(self, environ: dict[str, Any]) -> list[str] | None:
        own: list[str] = super()._cors_allowed_origins(environ)
        return None if "*" in self._named_origins else [*own, *self._named_origins]

    async def handle_request(self, request: web.Request) -> Any:
        """Any request to the endpoint. Whatever is odd is engineio's to refuse."""
        query = request.query
        if "sid" not in query:
            if wait := self._admissions.wait(time.monotonic()):
                text = "too many connections at a time; come back later\n"
                return web.Response(status=503, headers={"Retry-After": str(ceil(wait))}, text=text)
            if query.get("transport") == "websocket" and query.get("EIO") == "4" and self._is_allowed(request):
                response = self.open_websocket(request, None)
                if response is not None:
                    return response
        return await super().handle_request(request)

    def _is_allowed(self, request: web.Request) -> bool:
        origin = request.headers.get("Origin")
        if not origin:
            return True
        allowed = self._cors_allowed_origins(translate_request(request))
        return allowed is None or origin in allowed

    def open_websocket(self, request: web.Request, polling: PollingSocket | None) -> web.StreamResponse | None:
        """Answer with a WebSocket, and let a line have it. None if the request does not ask for one."""
        head, transport = switch(request.headers), request.transport
        if head is None or transport is None or transport.is_closing() or request.method != "GET":
            return None
        line = WebSocketLine(self.owner, transport, self.max_http_buffer_size, polling)
        if polling is None:
            sid = self.generate_id()
            line.outbox = self.owner.opened(sid, line, transport)
            head += text_frame(self._open_packet(sid, []))
        transport.write(head)
        _take_over(request, transport, line)
        return _TAKEN

    async def _handle_connect(self, environ: dict[str, Any], transport: str, jsonp_index: int | None = None) -> Any:
        """Somebody comes by polling. A WebSocket that comes here is no proper one."""
        if transport != "polling":
            return self._bad_request("Invalid websocket upgrade")
        sid = self.generate_id()
        socket = self.sockets[sid] = PollingSocket(self, sid)
        socket.connected = True
        packets = [Packet(packet.OPEN, data=self._open_packet(sid, ["websocket"])[1:])]
        return self._ok(packets, jsonp_index=jsonp_index)

    def _open_packet(self, sid: str, upgrades: list[str]) -> str:
        return "0" + _json({"sid": sid, **self._open, "upgrades": upgrades}).decode()

    def sweep(self) -> None:
        """Forget those that ended while nobody polled."""
        for sid, socket in list(self.sockets.items()):
            if socket.closed:
                del self.sockets[sid]


def _take_over(request: web.Request, transport: asyncio.Transport, line: WebSocketLine) -> None:
    """Let a line have the connection of a request. For aiohttp it is lost."""
    handler: Any = request.protocol
    tail = handler._message_tail
    handler.transport = None  # else it would close it
    transport.set_protocol(line)
    handler.connection_lost(None)
    if not transport.is_reading():
        transport.resume_reading()
    if tail:
        line.data_received(tail)


class _Taken(web.StreamResponse):
    """What aiohttp gets as the answer to a request that was answered, on a connection that is no longer its own."""

    async def prepare(self, request: web.BaseRequest) -> None:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None


_TAKEN: Final = _Taken()


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


_json: Final = msgspec.json.Encoder().encode
