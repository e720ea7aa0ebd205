"""The library's own Socket.IO client: with a stock server, and with servers that do not do as they should."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
import socketio
from aiohttp import web
from aiohttp.test_utils import TestServer

from hub.agent.socket import NotSocketIO, Refused, Socket
from tests.support import until

OPEN = '0{"sid":"a","upgrades":[],"pingInterval":20000,"pingTimeout":5000,"maxPayload":1000}'
pack = msgspec.msgpack.encode
unpack = msgspec.msgpack.decode
CONNECTED = pack({"type": 0, "data": {"sid": "s1"}, "nsp": "/"})

Script = Callable[[web.WebSocketResponse], Awaitable[None]]


@asynccontextmanager
async def served(app: web.Application) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    async with TestServer(app) as server, aiohttp.ClientSession() as http:
        yield http, str(server.make_url("/socket.io"))


@asynccontextmanager
async def scripted(script: Script) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    """A server that does just what a test says, and then waits for the client to leave."""

    async def handle(request: web.Request) -> web.WebSocketResponse:
        websocket = web.WebSocketResponse()
        await websocket.prepare(request)
        await script(websocket)
        async for _ in websocket:
            pass
        return websocket

    app = web.Application()
    app.router.add_get("/socket.io/", handle)
    async with served(app) as at:
        yield at


def saying(*frames: str | bytes) -> Script:
    async def script(websocket: web.WebSocketResponse) -> None:
        for frame in frames:
            await (websocket.send_str(frame) if isinstance(frame, str) else websocket.send_bytes(frame))

    return script


class Heard:
    """What came over a socket."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []
        self.answers: dict[int, Any] = {}

    def event(self, name: str, payload: Any) -> dict[str, Any] | None:
        self.events.append((name, payload))
        return {"got": name}

    async def all_of(self, socket: Socket) -> None:
        async with asyncio.timeout(10):
            await socket.run(self.event, self.answers.__setitem__)


async def test_a_stock_server_and_it_understand_each_other() -> None:
    sio = socketio.AsyncServer(async_mode="aiohttp", serializer="msgpack")
    seen: list[Any] = []

    async def connect(sid: str, environ: Any, auth: Any) -> None:
        seen.append(auth)

    async def ask(sid: str, value: Any) -> Any:
        seen.append(value)
        seen.append(await sio.call("question", {"n": 1}, to=sid, timeout=5))
        await sio.emit("news", {"list": [1, None, "ü", 2.5]}, to=sid)
        return {"ok": True, "value": value}

    async def disconnect(sid: str, reason: str) -> None:
        seen.append(reason)

    for handler in (connect, ask, disconnect):
        sio.on(handler.__name__, handler)
    app, heard = web.Application(), Heard()
    sio.attach(app)
    async with served(app) as (http, url):
        socket = await Socket.connect(http, url, {"token": "t"})
        reading = asyncio.create_task(heard.all_of(socket))
        await socket.emit("ask", {"deep": [{"a": True}]}, 7)
        await until(lambda: 7 in heard.answers)
        await socket.close()
        await reading
        await until(lambda: len(seen) == 4)
    assert heard.answers == {7: {"ok": True, "value": {"deep": [{"a": True}]}}}
    assert heard.events == [("question", {"n": 1}), ("news", {"list": [1, None, "ü", 2.5]})]
    assert seen == [{"token": "t"}, {"deep": [{"a": True}]}, {"got": "question"}, "client disconnect"]


async def test_a_stock_server_that_refuses() -> None:
    sio = socketio.AsyncServer(async_mode="aiohttp", serializer="msgpack")

    async def connect(sid: str, environ: Any, auth: Any) -> None:
        raise socketio.exceptions.ConnectionRefusedError("no", {"code": 4500})

    sio.on("connect", connect)
    app = web.Application()
    sio.attach(app)
    async with served(app) as (http, url):
        with pytest.raises(Refused, match="no") as refused:
            await Socket.connect(http, url, {})
    assert refused.value.data == {"message": "no", "data": {"code": 4500}}


@pytest.mark.parametrize(
    "frames",
    [
        ["hello"],
        [b"\x00"],
        ["0"],
        ["0{"],
        ['0{"sid":"a"}'],
        [OPEN, b"\xc1"],
        [OPEN, pack([1])],
        [OPEN, pack({"type": 2, "data": ["hello", {}], "nsp": "/"})],
    ],
)
async def test_who_speaks_something_else_is_told_apart(frames: list[str | bytes]) -> None:
    async with scripted(saying(*frames)) as (http, url):
        with pytest.raises(NotSocketIO):
            await Socket.connect(http, url, {})


@pytest.mark.parametrize("frames", [[], [OPEN], [OPEN, "2"]])
async def test_one_that_ends_before_it_lets_us_in(frames: list[str]) -> None:
    async def script(websocket: web.WebSocketResponse) -> None:
        await saying(*frames)(websocket)
        await websocket.close()

    async with scripted(script) as (http, url):
        with pytest.raises(ConnectionError):
            await Socket.connect(http, url, {})


async def test_a_refusal_of_an_odd_shape() -> None:
    async with scripted(saying(OPEN, pack({"type": 4, "data": "no", "nsp": "/"}))) as (http, url):
        with pytest.raises(Refused) as refused:
            await Socket.connect(http, url, {})
    assert refused.value.data == {}


async def test_odd_packets_are_let_pass_and_pings_answered() -> None:
    said: list[Any] = []

    async def script(websocket: web.WebSocketResponse) -> None:
        await websocket.send_str(OPEN)
        said.append(unpack(await websocket.receive_bytes()))
        odd = [{"type": 2}, {"type": 2, "data": []}, {"type": 2, "data": [3]}, {"type": 3, "id": None}, {"type": 9}]
        odd += [
            {"type": 3, "id": 5, "data": []},
            {"type": 2, "data": ["bare"]},
            {"type": 2, "data": ["two", 1, 2], "id": 4},
        ]
        await saying(CONNECTED, "6", *map(pack, odd), "2")(websocket)
        said.append(unpack(await websocket.receive_bytes()))
        said.append(await websocket.receive_str())
        await websocket.send_bytes(pack({"type": 1, "nsp": "/"}))

    heard = Heard()
    async with scripted(script) as (http, url):
        socket = await Socket.connect(http, url, {"token": "t"})
        assert socket.sid == "s1"
        await heard.all_of(socket)
        await socket.close()
    assert heard.events == [("bare", None), ("two", 1)]
    assert heard.answers == {}
    answered = {"type": 3, "id": 4, "data": [{"got": "two"}], "nsp": "/"}
    assert said == [{"type": 0, "data": {"token": "t"}, "nsp": "/"}, answered, "3"]


@pytest.mark.parametrize("last", [b"\xc1", b"", pack("text"), pack({"type": "2"})])
async def test_what_makes_no_sense_ends_the_connection(last: bytes) -> None:
    heard = Heard()
    async with scripted(saying(OPEN, CONNECTED, pack({"type": 2, "data": ["a", 1]}), last)) as (http, url):
        socket = await Socket.connect(http, url, {})
        await heard.all_of(socket)
        await socket.close()
    assert heard.events == [("a", 1)]


async def test_a_silent_server_is_given_up() -> None:
    quick = OPEN.replace("20000", "50").replace("5000", "50")
    async with scripted(saying(quick, CONNECTED)) as (http, url):
        socket = await Socket.connect(http, url, {})
        await Heard().all_of(socket)
        await socket.close()


async def test_a_server_that_pings_is_not_given_up_however_short_its_patience() -> None:
    pongs: list[str] = []

    async def script(websocket: web.WebSocketResponse) -> None:
        await saying(OPEN.replace("20000", "100").replace("5000", "100"), CONNECTED)(websocket)
        await websocket.receive()
        for _ in range(10):
            await websocket.send_str("2")
            pongs.append(await websocket.receive_str())
            await asyncio.sleep(0.05)  # this is what is tried: half a second in all, with 0.2 s of patience
        await websocket.send_bytes(pack({"type": 1, "nsp": "/"}))

    async with scripted(script) as (http, url):
        socket = await Socket.connect(http, url, {})
        await Heard().all_of(socket)
        await socket.close()
    assert pongs == ["3"] * 10
