"""How Engine.IO packets come in and out: by polling until the upgrade, or by a WebSocket from the start.

Polling is engineio's. A WebSocket has a line (line.py) right on its transport: aiohttp, which took the request, lets go of it.

It alone knows engineio's inside. Relied on, and pinned by tests/test_socketio_library_semantics.py: of the engine
``_handle_connect``, ``sockets``, ``create_queue``, ``_async``, ``_cors_allowed_origins``, ``_ok``, ``_make_response``; of its
sockets ``receive``, ``close``, ``handle_post_request``, ``_upgrade_websocket``, ``queue``; of payloads ``max_decode_packets``.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from math import ceil
from typing import Any, Final

import msgspec
from aiohttp import HttpVersion11, web
from engineio import AsyncServer, packet
from engineio.async_drivers.aiohttp import translate_request
from engineio.async_socket import AsyncSocket
from engineio.exceptions import EngineIOError, UnknownPacketError
from engineio.packet import Packet
from engineio.payload import Payload

from hub.node.rates import Admissions
from hub.server.byte_queue import ByteQueue
from hub.server.line import Owner, WebSocketLine
from hub.server.outbox import SocketOutbox
from hub.server.takeover import TAKEN, take_over
from hub.server.websocket import switch
from hub.wire.codec import binary_frame, text_frame

_log = logging.getLogger(__name__)

# A client that polls sends together what it has; the engine would take 16 packets and lose the others without a word.
# What they may have in bytes is bounded by ``max_http_buffer_size``.
Payload.max_decode_packets = 10_000

REFUSED_POLL: Final = 0.5
"""Seconds that a poll takes of a client that was refused because it polls."""


class PacketQueue(ByteQueue):
    """What waits for a connection that polls. A packet is one connection's: the engine keeps its encoding, which differs by
    transport."""

    def put_message(self, data: str | bytes) -> None:
        """One message more."""
        self.put_nowait(Packet(packet.MESSAGE, data=data))

    def put_ping(self) -> None:
        """A question whether it is alive."""
        self.put_nowait(Packet(packet.PING))

    def take_frames(self) -> list[bytes]:
        """All of it, as the frames of a WebSocket."""
        waiting = [item.encode() for item in self.take_all() if item is not None]
        return [text_frame(data) if isinstance(data, str) else binary_frame(data) for data in waiting]


class PollingSocket(AsyncSocket):  # type: ignore[misc]
    """A connection that polls, until it is upgraded or gone."""

    closed: bool
    queue: PacketQueue

    def __init__(self, engine: Engine, sid: str) -> None:
        super().__init__(engine, sid)
        self.outbox = engine.owner.opened(sid, self, polled=self.queue)
        self.queue.on_taken = self.outbox.look_for_room
        self._line: WebSocketLine | None = None
        """By which it may go on."""

    # what comes in

    async def handle_post_request(self, environ: dict[str, Any]) -> None:
        """The packets of a request. What cannot be read ends the connection: the engine would say that all is well."""
        try:
            await super().handle_post_request(environ)
        except Exception as error:
            self.outbox.end(f"what it posted cannot be read: {type(error).__name__}: {str(error)[:200]}")
            if self.sid in self.server.sockets:  # else the engine has no answer to it
                raise EngineIOError from error

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

    # its upgrade

    async def _upgrade_websocket(self, environ: dict[str, Any]) -> Any:
        return self.server.open_websocket(environ["aiohttp.request"], self) or self.server._bad_request()

    def may_go_on_by(self, line: WebSocketLine) -> None:
        """A WebSocket is there for it, in the place of one that was before."""
        before, self._line = self._line, line
        if before is not None:
            before.shut()

    def probed(self) -> bool:
        """Its WebSocket works. False if it has ended."""
        if self.closed:
            return False
        self.upgrading = True  # from here polls get nothing but an end
        if self.queue.empty():  # else no poll waits; and clients may come with WebSocket after WebSocket
            self.queue.put_nowait(Packet(packet.NOOP))
        return True

    def upgrade(self, line: WebSocketLine) -> SocketOutbox | None:
        """It goes on by this line; what waits goes first. None if it has ended, or did not probe."""
        if self.closed or line is not self._line or not self.upgrading:
            return None
        self.upgraded, self.upgrading, self._line = True, False, None
        self.server.sockets.pop(self.sid, None)
        self.outbox.move_to(line, line.transport)
        self.queue.put_nowait(None)
        return self.outbox

    def gave_up(self, line: WebSocketLine) -> None:
        """A line is lost by which it did not go on: it polls on."""
        if line is self._line:
            self.upgrading, self._line = False, None

    # its end

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
        if self._line is not None:
            self._line.shut()
        self.server.owner.lost(self.outbox)


class Engine(AsyncServer):  # type: ignore[misc]
    """The HTTP side: polling by engineio, WebSockets past it. Origins that are allowed by name come beside its own. So many
    connections are taken a second; the others are told to come back, which a stock client does, spread by its own back-off.

    ``no_polling``: the packet that a client which polls is told, where only WebSockets are taken; None: it may poll.
    """

    _async: dict[str, Any]

    def __init__(
        self,
        owner: Owner,
        *,
        limit: int,
        origins: Iterable[str],
        ping: tuple[float, float],
        admissions: Admissions,
        no_polling: str | bytes | None = None,
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
        self._no_polling = no_polling
        self._ended = False
        self._draining = False
        self.create_queue = PacketQueue
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
        if self._ended:
            return web.Response(status=503, text="the hub is ending\n")
        query = request.query
        if not query.get("sid"):  # an empty one is none to the engine, too
            if self._draining:
                return web.Response(status=503, headers={"Retry-After": "1"}, text="the hub is draining\n")
            if wait := self._admissions.wait(time.monotonic()):
                text = "too many connections at a time; come back later\n"
                return web.Response(status=503, headers={"Retry-After": str(ceil(wait))}, text=text)
            if query.get("transport") == "websocket" and query.get("EIO") == "4" and self._is_allowed(request):
                response = self.open_websocket(request, None)
                if response is not None:
                    return response
        elif self._no_polling is not None:
            return await self._nothing(request)
        return await super().handle_request(request)

    async def _nothing(self, request: web.Request) -> Any:
        """To who was refused, until it has understood: one that loses its connection before would come back."""
        polls = request.method == "GET"
        if polls:
            await asyncio.sleep(REFUSED_POLL)
        return await self._make_response(self._ok([Packet(packet.NOOP)] if polls else None), _translate(request))

    def _is_allowed(self, request: web.Request) -> bool:
        origin = request.headers.get("Origin")
        if not origin:
            return True
        allowed = self._cors_allowed_origins(translate_request(request))
        return allowed is None or origin in allowed

    def open_websocket(self, request: web.Request, polling: PollingSocket | None) -> web.StreamResponse | None:
        """Answer with a WebSocket, and let a line have it. None if the request does not ask for one."""
        head, transport = switch(request.headers), request.transport
        if head is None or request.method != "GET" or request.version < HttpVersion11:
            return None
        if transport is None or transport.is_closing():
            return None
        line = WebSocketLine(self.owner, transport, self.max_http_buffer_size, polling)
        if polling is None:
            sid = self.generate_id()
            line.outbox = self.owner.opened(sid, line, transport=transport)
            head += text_frame(self._open_packet(sid, []))
        else:
            polling.may_go_on_by(line)
        transport.write(head)
        take_over(request, transport, line)
        return TAKEN

    async def _handle_connect(self, environ: dict[str, Any], transport: str, jsonp_index: int | None = None) -> Any:
        """Somebody comes by polling. A WebSocket that comes here is no proper one."""
        if transport != "polling":
            return self._bad_request("Invalid websocket upgrade")
        sid = self.generate_id()
        if self._no_polling is not None:
            # In one answer, since the next request may come to another process. A refusal by HTTP would be tried again for ever.
            told = Packet(packet.MESSAGE, data=self._no_polling)
            return self._ok([Packet(packet.OPEN, data=self._open_packet(sid, [])[1:]), told], jsonp_index=jsonp_index)
        socket = self.sockets[sid] = PollingSocket(self, sid)
        socket.connected = True
        packets = [Packet(packet.OPEN, data=self._open_packet(sid, ["websocket"])[1:])]
        return self._ok(packets, jsonp_index=jsonp_index)

    def _open_packet(self, sid: str, upgrades: list[str]) -> str:
        return "0" + _json({"sid": sid, **self._open, "upgrades": upgrades}).decode()

    def take_no_more(self) -> None:
        """Take no new connections; those that are there go on."""
        self._draining = True

    def end(self) -> None:
        """Take no more requests: what came from now on would be left behind."""
        self._ended = True

    def sweep(self) -> None:
        """Forget those that ended while nobody polled."""
        for sid, socket in list(self.sockets.items()):
            if socket.closed:
                del self.sockets[sid]


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
