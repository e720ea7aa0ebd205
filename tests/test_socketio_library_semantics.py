"""What hub/server relies on in python-socketio and engineio, by their own names: a release that changes it fails here."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import engineio
import pytest
import socketio
from aiohttp import web
from engineio.async_drivers import aiohttp as driver
from engineio.async_socket import AsyncSocket
from engineio.packet import MESSAGE
from engineio.packet import Packet as EnginePacket
from engineio.payload import Payload
from socketio import packet as packets
from socketio.msgpack_packet import MsgPackPacket
from socketio.packet import Packet

from tests.raw import raw
from tests.support import until


class Server:
    """A python-socketio server as it comes, on a free port."""

    def __init__(self, sio: socketio.AsyncServer, url: str) -> None:
        self.sio, self.url = sio, url
        self.seen: list[tuple[Any, ...]] = []


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    sio = socketio.AsyncServer(async_mode="aiohttp")
    app = web.Application()
    sio.attach(app)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made = Server(sio, f"http://127.0.0.1:{runner.addresses[0][1]}")

    async def everything(name: str, sid: str, *args: Any) -> dict[str, Any]:
        made.seen.append((name, *args))
        return {"ok": True}

    sio.on("*", everything)
    yield made
    for socket in list(sio.eio.sockets.values()):
        socket.hub_transport.abort() if hasattr(socket, "hub_transport") else await socket.close(wait=False)
    await sio.shutdown()
    await runner.cleanup()


async def frames_until(client: Any, start: str) -> list[str]:
    frames = [await client.receive()]
    while not frames[-1].startswith(start):
        frames.append(await client.receive())
    return frames


async def test_32_a_catch_all_handler_gets_every_event_but_reserved_ones(server: Server) -> None:
    async with raw(server.url, "t") as client:
        await client.event(1, "any name", {"a": 1}, 2)
        assert await client.acknowledgement(1) == {"ok": True}
        await client.send('422["disconnect"]')
        await client.event(3, "last")
        await client.acknowledgement(3)
    assert server.seen == [("any name", {"a": 1}, 2), ("last",)], "reserved names do not reach the catch-all handler"


async def test_32_acknowledgements_only_when_asked_for(server: Server) -> None:
    async with raw(server.url, "t") as client:
        await client.send('42["quiet"]')
        await client.event(5, "loud")
        frames = await frames_until(client, "435")
    assert [frame for frame in frames if frame.startswith("43")] == ['435[{"ok":true}]']
    assert [name for name, *_ in server.seen] == ["quiet", "loud"]


async def test_32_unknown_namespaces_are_refused(server: Server) -> None:
    async with raw(server.url, "t") as client:
        await client.send("40/other,{}")
        refused = (await frames_until(client, "44"))[-1]
        assert refused == '44/other,"Unable to connect"'
        await client.send('42/other,1["lost"]')  # ignored without an answer: hub/server answers it itself
        await client.event(2, "last")
        await client.acknowledgement(2)
    assert [name for name, *_ in server.seen] == ["last"]


async def test_32_events_before_connect_are_ignored(server: Server) -> None:
    """Without an answer: hub/server gives one."""
    async with raw(server.url) as client:
        await client.event(1, "early")
        await client.send("40")
        await frames_until(client, "40")
        await client.event(2, "late")
        assert not [frame for frame in await frames_until(client, "432") if frame.startswith("431")]
    assert [name for name, *_ in server.seen] == ["late"]


async def test_32_rooms_reach_their_members_only(server: Server) -> None:
    async with raw(server.url, "t") as inside, raw(server.url, "t") as outside:
        sids = list(server.sio.manager.rooms["/"][None])
        await server.sio.enter_room(sids[0], "room")
        for room in ("room", "empty", "", None):
            if room:
                await server.sio.emit("told", room, to=room)
        for client in (inside, outside):
            await client.event(9, "last")
        assert '42["told","room"]' in await frames_until(inside, "439")
        assert not [frame for frame in await frames_until(outside, "439") if "told" in frame]
        with pytest.raises(ValueError, match="sid room"):
            await server.sio.enter_room(sids[0], sids[1])


async def test_32_a_refusal_and_a_second_connect(server: Server) -> None:
    async def connect(sid: str, environ: dict[str, Any], auth: Any) -> None:
        if auth["token"] == "bad":
            raise socketio.exceptions.ConnectionRefusedError("no", {"code": 4500})

    server.sio.on("connect", connect)
    async with raw(server.url) as client:
        await client.send('40{"token":"bad"}')
        assert (await client.receive()) == '44{"message":"no","data":{"code":4500}}'
        assert "/" not in server.sio.manager.rooms
        assert len(server.sio.eio.sockets) == 1, "the connection stays open: hub/server ends it"
        await client.send('40{"token":"good"}')
        assert (await client.receive()).startswith('40{"sid"')
        await client.send('40{"token":"good"}')
        assert (await client.receive()).startswith("44")


async def test_32_messages_are_handled_in_order_and_one_at_a_time(server: Server) -> None:
    """engineio awaits the message handler before it reads on: hub/server makes a connection wait there."""
    assert server.sio.eio.async_handlers is False
    gate, order = asyncio.Event(), []
    original = server.sio._handle_eio_message

    async def slow(eio_sid: str, data: str) -> None:
        order.append(data)
        if "hold" in data:
            await gate.wait()
        await original(eio_sid, data)

    server.sio.eio.on("message", slow)
    async with raw(server.url, "t") as client:
        await client.event(1, "hold")
        await client.event(2, "next")
        await until(lambda: len(order) == 2)
        assert len(order) == 2, "the next message is not read before this one is done"
        gate.set()
        await client.acknowledgement(2)


def test_32_the_shape_of_what_is_overridden() -> None:
    for name in ("_handle_eio_connect", "_handle_eio_disconnect", "_handle_eio_message", "_handle_connect",
                 "_handle_disconnect", "_handle_event", "_handle_ack"):  # fmt: skip
        assert inspect.iscoroutinefunction(getattr(socketio.AsyncServer, name)), name
    parameters = inspect.signature(socketio.AsyncServer._handle_event).parameters
    assert list(parameters) == ["self", "eio_sid", "namespace", "id", "data"]
    assert list(inspect.signature(socketio.AsyncServer._handle_ack).parameters)[1:] == list(parameters)[1:]
    assert list(inspect.signature(socketio.AsyncServer._handle_connect).parameters)[1:] == [
        "eio_sid",
        "namespace",
        "data",
    ]
    assert hasattr(socketio.AsyncServer, "_engineio_server_class")
    assert hasattr(engineio.AsyncServer, "_cors_allowed_origins")


def test_32_origins_of_ones_own_are_the_default() -> None:
    eio = engineio.AsyncServer(async_mode="aiohttp")
    environ = {"wsgi.url_scheme": "http", "HTTP_HOST": "hub:1"}
    assert eio.cors_allowed_origins is None
    assert eio._cors_allowed_origins(environ) == ["http://hub:1"]


def test_32_the_driver_and_its_websocket() -> None:
    assert driver._async["websocket"] is driver.WebSocket
    assert driver._async["translate_request"] is driver.translate_request
    assert inspect.iscoroutinefunction(driver.WebSocket.__call__)
    assert inspect.iscoroutinefunction(driver.WebSocket.wait)
    socket = driver.WebSocket(print, None)
    assert socket.handler is print
    eio = engineio.AsyncServer(async_mode="aiohttp")
    assert eio._async["websocket"] is driver.WebSocket


async def test_32_the_handler_is_bound_to_the_socket_and_the_transport_is_in_the_request(server: Server) -> None:
    seen: dict[str, Any] = {}

    class Noting(driver.WebSocket):  # type: ignore[misc]
        async def __call__(self, environ: dict[str, Any]) -> Any:
            seen["socket"] = self.handler.__self__
            seen["transport"] = environ["aiohttp.request"].transport
            return await super().__call__(environ)

    server.sio.eio._async = {**server.sio.eio._async, "websocket": Noting}
    async with raw(server.url, "t") as client:
        assert isinstance(seen["socket"], AsyncSocket)
        assert server.sio.eio.sockets[seen["socket"].sid] is seen["socket"]
        assert seen["socket"].upgraded is True
        seen["transport"].abort()
        assert await client.ended()
    await until(lambda: not server.sio.eio.sockets)


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
    assert socket.closed is False
    assert inspect.iscoroutinefunction(AsyncSocket.close)
    assert "wait" in inspect.signature(AsyncSocket.close).parameters


def test_32_packets_and_their_encoding_that_is_kept() -> None:
    packet = EnginePacket(MESSAGE, data=b"\x01")
    assert packet.encode() == b"\x01"
    assert packet.encode(b64=True) == b"\x01", "kept: one packet cannot serve a WebSocket and a poll"
    assert EnginePacket(MESSAGE, data=b"\x01").encode(b64=True) == "bAQ=="
    assert EnginePacket(MESSAGE, data='2["e"]').encode() == '42["e"]'
    assert Payload.max_decode_packets >= 16


def test_32_socketio_packets() -> None:
    assert (packets.CONNECT, packets.DISCONNECT, packets.EVENT, packets.ACK) == (0, 1, 2, 3)
    assert (packets.CONNECT_ERROR, packets.BINARY_EVENT, packets.BINARY_ACK) == (4, 5, 6)
    packet = Packet(encoded_packet='27["name",{"a":1}]')
    assert (packet.packet_type, packet.id, packet.namespace, packet.data) == (2, 7, None, ["name", {"a": 1}])
    assert Packet(encoded_packet='2/admin,["x"]').namespace == "/admin"
    assert Packet(packets.ACK, data=[{"ok": True}], id=7).encode() == '37[{"ok":true}]'
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


async def test_32_a_poll_takes_sixteen_packets_by_a_stock_client() -> None:
    """Which is why the hub sends no more at once to one that polls."""
    sixteen = "\x1e".join(["4x"] * 16)
    assert len(Payload(encoded_payload=sixteen).packets) == 16


async def test_32_bodies_of_posts_are_read_once(server: Server) -> None:
    """engineio reads so many bytes once, and the driver's stream gives what came so far: hub/server reads on."""
    source = inspect.getsource(AsyncSocket.handle_post_request)
    assert "environ['wsgi.input'].read(length)" in source
    async with aiohttp.ClientSession(server.url) as session:
        async with session.get("/socket.io/?EIO=4&transport=polling") as answer:
            sid = json.loads((await answer.text())[1:])["sid"]
        assert server.sio.eio.sockets[sid].upgraded is False
