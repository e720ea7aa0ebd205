"""What hub/server relies on in python-socketio, engineio and aiohttp, by their names: a release that changes it fails here."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import engineio
import pytest
from aiohttp import web, web_protocol
from aiohttp._websocket.helpers import websocket_mask
from engineio.async_drivers import aiohttp as driver
from engineio.async_socket import AsyncSocket
from engineio.exceptions import EngineIOError, UnknownPacketError
from engineio.packet import MESSAGE, NOOP
from engineio.packet import Packet as EnginePacket
from engineio.payload import Payload
from socketio import packet as packets
from socketio.exceptions import ConnectionRefusedError as Refused
from socketio.msgpack_packet import MsgPackPacket
from socketio.packet import Packet

from hub.server.server import HubServer
from tests.raw import raw
from tests.support import until

# engineio


class Socket(AsyncSocket):  # type: ignore[misc]
    """A socket that notes what it is asked."""

    closed: bool

    def __init__(self, server: Any, sid: str) -> None:
        super().__init__(server, sid)
        self.received: list[Any] = []

    async def receive(self, pkt: Any) -> None:
        if pkt.data == "unknown":
            raise UnknownPacketError
        self.received.append((pkt.packet_type, pkt.data))

    async def close(self, wait: bool = True, abort: bool = False, reason: str | None = None) -> None:
        self.closed = True

    async def _upgrade_websocket(self, environ: dict[str, Any]) -> Any:
        assert isinstance(environ["aiohttp.request"], web.Request)
        return web.Response(text="what the socket answers")


class Server(engineio.AsyncServer):  # type: ignore[misc]
    """An engine that makes its own sockets."""

    def __init__(self) -> None:
        super().__init__(async_mode="aiohttp", monitor_clients=False)
        self.asked: list[str] = []
        self.made: list[Socket] = []

    async def _handle_connect(self, environ: dict[str, Any], transport: str, jsonp_index: int | None = None) -> Any:
        self.asked.append(transport)
        socket = self.sockets["sid"] = Socket(self, "sid")
        self.made.append(socket)
        socket.connected = True
        return self._ok([EnginePacket(MESSAGE, data="hello")], jsonp_index=jsonp_index)


@pytest.fixture
async def engine() -> AsyncIterator[tuple[Server, aiohttp.ClientSession]]:
    server = Server()
    app = web.Application()
    server.attach(app, engineio_path="path")
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{runner.addresses[0][1]}") as session:
        yield server, session
    await runner.cleanup()


NEW = "/path/?EIO=4&transport=polling"
OLD = NEW + "&sid=sid"


async def test_32_connections_are_made_by_handle_connect(engine: tuple[Server, aiohttp.ClientSession]) -> None:
    server, session = engine
    async with session.get(NEW) as answer:
        assert await answer.text() == "4hello"
    assert server.asked == ["polling"]
    assert server.start_service_task is False, "nobody but the hub looks for who does not answer"
    assert server.service_task_handle is None
    async with session.get("/path/?EIO=3&transport=polling") as answer:
        assert answer.status == 400
    async with session.get("/path/?EIO=4&transport=other") as answer:
        assert answer.status == 400
    assert len(server.made) == 1


async def test_32_packets_of_a_post_are_received_one_after_the_other(
    engine: tuple[Server, aiohttp.ClientSession],
) -> None:
    server, session = engine
    await session.get(NEW)
    async with session.post(OLD, data='42["a"]\x1e3\x1ebAQ==') as answer:
        assert (answer.status, await answer.text()) == (200, "OK")
    assert server.made[0].received == [(4, '2["a"]'), (3, ""), (4, b"\x01")]
    async with session.post(OLD, data="4unknown") as answer:
        assert answer.status == 400
    assert "sid" not in server.sockets, "what is unknown ends the connection"
    assert issubclass(UnknownPacketError, EngineIOError)


async def test_32_a_post_that_fails_otherwise_is_said_to_be_well(
    engine: tuple[Server, aiohttp.ClientSession],
) -> None:
    """Which is why the hub's sockets make an EngineIOError of whatever fails."""
    server, session = engine
    await session.get(NEW)
    async with session.post(OLD, data=b"4\xff") as answer:
        assert (answer.status, await answer.text()) == (200, "OK")
    assert "sid" in server.sockets


async def test_32_polls_take_from_the_queue(engine: tuple[Server, aiohttp.ClientSession]) -> None:
    server, session = engine
    await session.get(NEW)
    socket = server.made[0]
    socket.queue.put_nowait(EnginePacket(MESSAGE, data="a"))
    socket.queue.put_nowait(EnginePacket(MESSAGE, data="b"))
    async with session.get(OLD) as answer:
        assert await answer.text() == "4a\x1e4b"
    for upgrading, upgraded in ((True, False), (False, True)):
        socket.upgrading, socket.upgraded = upgrading, upgraded
        async with session.get(OLD) as answer:
            assert answer.status == (400 if upgraded else 200)
            assert upgraded or await answer.text() == str(NOOP)
    socket.upgraded, socket.closed = False, True
    async with session.get(OLD) as answer:
        assert answer.status == 400, "closed: it polls in vain, and a stock client comes back"
    assert not server.sockets


async def test_32_upgrades_are_answered_by_the_socket(engine: tuple[Server, aiohttp.ClientSession]) -> None:
    _, session = engine
    await session.get(NEW)
    headers = {"Connection": "Upgrade", "Upgrade": "websocket"}
    async with session.get("/path/?EIO=4&transport=websocket&sid=sid", headers=headers) as answer:
        assert await answer.text() == "what the socket answers"


async def test_32_queues_are_made_by_the_server_and_hold_packets() -> None:
    eio = engineio.AsyncServer(async_mode="aiohttp")
    made: list[asyncio.Queue[Any]] = []

    class Noting(asyncio.Queue[Any]):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    eio.create_queue = Noting
    socket = AsyncSocket(eio, "sid")
    assert made == [socket.queue]
    for n in range(3):
        socket.queue.put_nowait(EnginePacket(MESSAGE, data=str(n)))
    assert [packet.data for packet in await socket.poll()] == ["0", "1", "2"]
    socket.queue.put_nowait(None)
    assert await socket.poll() == [], "None ends a poll"
    assert (socket.closed, socket.closing, socket.upgrading, socket.upgraded) == (False,) * 4
    assert list(inspect.signature(AsyncSocket.close).parameters) == ["self", "wait", "abort", "reason"]
    assert inspect.iscoroutinefunction(AsyncSocket.close)


def test_32_packets_and_their_encoding_that_is_kept() -> None:
    packet = EnginePacket(MESSAGE, data=b"\x01")
    assert packet.encode() == b"\x01"
    assert packet.encode(b64=True) == b"\x01", "kept: one packet cannot serve a WebSocket and a poll"
    assert EnginePacket(MESSAGE, data=b"\x01").encode(b64=True) == "bAQ=="
    assert EnginePacket(MESSAGE, data='2["e"]').encode() == '42["e"]'
    assert EnginePacket(0, data='{"sid":"s"}').encode() == '0{"sid":"s"}'
    assert Payload.max_decode_packets >= 16


def test_32_the_shape_of_what_is_overridden() -> None:
    server = engineio.AsyncServer
    for name in ("handle_request", "_handle_connect"):
        assert inspect.iscoroutinefunction(getattr(server, name)), name
    assert list(inspect.signature(server._handle_connect).parameters)[1:] == ["environ", "transport", "jsonp_index"]
    for name in ("receive", "close", "_upgrade_websocket", "handle_get_request", "handle_post_request"):
        assert inspect.iscoroutinefunction(getattr(AsyncSocket, name)), name
    assert list(inspect.signature(AsyncSocket.receive).parameters) == ["self", "pkt"]
    assert driver._async["translate_request"] is driver.translate_request
    eio = server(async_mode="aiohttp")
    assert eio._async["translate_request"] is driver.translate_request
    assert eio.generate_id() != eio.generate_id()
    assert eio._bad_request("no")["status"].startswith("400")
    assert inspect.iscoroutinefunction(eio._make_response)
    assert list(inspect.signature(eio._make_response).parameters) == ["response_dict", "environ"]


def test_32_origins_of_ones_own_are_the_default() -> None:
    eio = engineio.AsyncServer(async_mode="aiohttp")
    environ = {"wsgi.url_scheme": "http", "HTTP_HOST": "hub:1"}
    assert eio.cors_allowed_origins is None
    assert eio._cors_allowed_origins(environ) == ["http://hub:1"]


async def test_32_a_poll_takes_sixteen_packets_by_a_stock_client() -> None:
    """Which is why the hub sends no more at once to one that polls."""
    sixteen = "\x1e".join(["4x"] * 16)
    assert len(Payload(encoded_payload=sixteen).packets) == 16


async def test_32_bodies_of_posts_are_read_once() -> None:
    """engineio reads so many bytes once, and the driver's stream gives what came so far: hub/server reads on."""
    source = inspect.getsource(AsyncSocket.handle_post_request)
    assert "environ['wsgi.input'].read(length)" in source


# aiohttp


class Line(asyncio.Protocol):
    """Who has a connection after aiohttp."""

    def __init__(self) -> None:
        self.data = b""
        self.lost = False

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True


class Nothing(web.StreamResponse):
    """The answer to a request that was answered already."""

    async def prepare(self, request: web.BaseRequest) -> None:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None


async def test_32_a_connection_can_be_taken_from_aiohttp(caplog: pytest.LogCaptureFixture) -> None:
    """Without its transport a request handler whose connection is lost closes nothing, and forgets the connection."""
    line, seen = Line(), asyncio.Event()
    handlers: list[Any] = []

    async def take(request: web.Request) -> web.StreamResponse:
        handler: Any = request.protocol
        assert isinstance(handler, web_protocol.RequestHandler)
        assert handler._message_tail == b""
        assert request.transport is handler.transport
        transport: Any = handler.transport
        handlers.append(handler)
        transport.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
        await seen.wait()
        assert handler._message_tail == b"early", "what came behind the request is kept apart"
        line.data_received(handler._message_tail)
        handler.transport = None
        transport.set_protocol(line)
        handler.connection_lost(None)
        assert not transport.is_closing()
        return Nothing()

    app = web.Application()
    app.router.add_get("/", take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", runner.addresses[0][1])
    writer.write(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
    writer.write(b"early")
    await until(lambda: handlers[0]._message_tail)
    seen.set()
    await until(lambda: line.data == b"early")
    writer.write(b" and late")
    await until(lambda: line.data == b"early and late")
    assert runner.server is not None
    assert not runner.server.connections, "aiohttp waits for it no more when it ends"
    await until(lambda: not any("RequestHandler" in str(task.get_coro()) for task in asyncio.all_tasks()))
    writer.close()
    await until(lambda: line.lost)
    await runner.cleanup()
    assert not caplog.records


async def test_32_a_loop_of_uvloop_hands_its_transports_over_too() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def main() -> None:
        line, taken = Line(), asyncio.get_running_loop().create_future()

        class First(asyncio.Protocol):
            transport: Any

            def connection_made(self, transport: Any) -> None:
                self.transport = transport

            def data_received(self, data: bytes) -> None:
                self.transport.set_protocol(line)
                taken.set_result(self.transport.is_reading())
                self.transport.pause_reading()
                self.transport.resume_reading()

        server = await asyncio.get_running_loop().create_server(First, "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"first")
        assert await taken
        writer.write(b"x")
        await until(lambda: line.data == b"x")
        writer.close()
        await until(lambda: line.lost)
        server.close()

    def run() -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(asyncio.wait_for(main(), 10))

    await asyncio.to_thread(run)


def test_32_masks_are_undone_by_aiohttp() -> None:
    data = bytearray(b"hello")
    websocket_mask(b"\x01\x02\x03\x04", data)
    assert data == bytes((0x68 ^ 1, 0x65 ^ 2, 0x6C ^ 3, 0x6C ^ 4, 0x6F ^ 1))


# python-socketio


def test_32_socketio_packets() -> None:
    assert (packets.CONNECT, packets.DISCONNECT, packets.EVENT, packets.ACK) == (0, 1, 2, 3)
    assert (packets.CONNECT_ERROR, packets.BINARY_EVENT, packets.BINARY_ACK) == (4, 5, 6)
    packet = Packet(encoded_packet='27["name",{"a":1}]')
    assert (packet.packet_type, packet.id, packet.namespace, packet.data) == (2, 7, None, ["name", {"a": 1}])
    assert Packet(encoded_packet='2/admin,["x"]').namespace == "/admin"
    assert Packet(packets.ACK, data=[{"ok": True}], id=7).encode() == '37[{"ok":true}]'
    assert Packet(packets.CONNECT, data={"sid": "s"}, namespace="/").encode() == '0{"sid":"s"}'
    assert Packet(packets.CONNECT_ERROR, data="no", namespace="/x").encode() == '4/x,"no"'
    seen: list[int | None] = []

    class Noting(Packet):  # type: ignore[misc]
        def decode(self, encoded_packet: str) -> int:
            try:
                return int(super().decode(encoded_packet))
            except ValueError:
                seen.append(self.id)
                return 0

    Noting(encoded_packet='29["broken')
    assert seen == [9], "type and id are read before the data"
    with pytest.raises(ValueError, match=r"JSON|Expecting|Unterminated"):
        Packet(encoded_packet='29["broken')


def test_32_msgpack_packets() -> None:
    import msgpack

    packed = msgpack.packb({"type": 2, "data": ["name", {"a": 1}], "nsp": "/", "id": 7})
    packet = MsgPackPacket(encoded_packet=packed)
    assert (packet.packet_type, packet.id, packet.namespace, packet.data) == (2, 7, "/", ["name", {"a": 1}])
    sent = msgpack.unpackb(MsgPackPacket(packets.EVENT, data=["e", 1], namespace="/").encode())
    assert sent == {"type": 2, "data": ["e", 1], "nsp": "/"}


def test_32_refusals() -> None:
    """The hub makes its own in the same form; the handshake below has one."""
    assert Refused("no", {"code": 4500}).error_args == {"message": "no", "data": {"code": 4500}}


async def test_32_the_handshake_of_a_stock_client(hub: HubServer) -> None:
    """What comes before anything else, as engineio and python-socketio would say it."""
    async with aiohttp.ClientSession(hub.url) as session:
        async with session.get("/socket.io/?EIO=4&transport=polling") as answer:
            polled = json.loads((await answer.text())[1:])
        async with session.ws_connect("/socket.io/?EIO=4&transport=websocket") as ws:
            opened = json.loads((await ws.receive_str())[1:])
            await ws.send_str("40" + json.dumps({"token": hub.token}))
            assert (await ws.receive_str()).startswith('40{"sid":"')
    assert polled | {"sid": ""} == {
        "sid": "",
        "upgrades": ["websocket"],
        "pingTimeout": 20_000,
        "pingInterval": 25_000,
        "maxPayload": 2_097_152,
    }
    assert opened | {"sid": ""} == polled | {"sid": "", "upgrades": []}
    async with raw(hub.url, hub.token) as client:
        await client.send("40/other,{}")
        refused = await client.until(lambda frame: frame.startswith("44"))
        assert refused == '44/other,"Unable to connect"'
    async with raw(hub.url) as client:
        await client.send('40{"token":"wrong"}')
        refused = await client.until(lambda frame: frame.startswith("44"))
        assert json.loads(refused[2:]) == {
            "message": "the token is not one of this hub",
            "data": {"code": 4500, "reason": "the token is not one of this hub", "reconnect": False},
        }
