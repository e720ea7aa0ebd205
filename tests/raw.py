"""Bare connections to the Socket.IO endpoint, for what no stock client would send."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgpack

from tests.support import SECONDS


class Raw:
    """Frames out and in, as they are."""

    def __init__(self, ws: aiohttp.ClientWebSocketResponse) -> None:
        self.ws = ws

    async def send(self, frame: str | bytes) -> None:
        if isinstance(frame, str):
            await self.ws.send_str(frame)
        else:
            await self.ws.send_bytes(frame)

    async def event(self, id: int, name: Any, *args: Any) -> None:
        await self.send(f"42{id}{json.dumps([name, *args])}")

    async def receive(self) -> Any:
        """The next frame; None if the connection ended. Pings are answered and left out."""
        async with asyncio.timeout(SECONDS):
            while True:
                message = await self.ws.receive()
                if message.type not in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                    return None
                if message.data != "2":
                    return message.data
                await self.ws.send_str("3")

    async def until(self, fits: Callable[[Any], Any]) -> Any:
        """The next frame that fits."""
        while not fits(frame := await self.receive()):
            assert frame is not None, "the connection ended"
        return frame

    async def acknowledgement(self, id: int) -> Any:
        """The answer to the request with this id."""
        start = f"43{id}["
        frame = await self.until(lambda frame: isinstance(frame, str) and frame.startswith(start))
        return json.loads(frame[len(start) - 1 :])[0]

    async def ended(self) -> bool:
        """Wait for the end of the connection."""
        while await self.receive() is not None:
            pass
        return True


def enter(token: object) -> str:
    """The frame that asks to be let in, for the parser of JSON."""
    return "40" + json.dumps({"token": token})


@asynccontextmanager
async def raw(url: str, token: str | None = None, *, path: str = "/socket.io/", **headers: str) -> AsyncIterator[Raw]:
    """Open a WebSocket and take the engine's greeting; with a token ask to be let in and take the answer."""
    async with aiohttp.ClientSession() as session:
        address = f"{url}{path}?EIO=4&transport=websocket"
        async with session.ws_connect(address, headers=headers, max_msg_size=0, autoclose=True) as ws:
            client = Raw(ws)
            assert (await client.receive()).startswith("0")
            if token is not None:
                if "msgpack" in path:
                    await client.send(msgpack.packb({"type": 0, "data": {"token": token}, "nsp": "/"}))
                    await client.until(lambda frame: isinstance(frame, bytes))
                else:
                    await client.send(enter(token))
                    await client.until(lambda frame: isinstance(frame, str) and frame.startswith("40"))
            yield client


class Polling:
    """A bare connection that polls, until it is upgraded."""

    def __init__(self, http: aiohttp.ClientSession, sid: str) -> None:
        self._http = http
        self._sid = sid

    def address(self, transport: str) -> str:
        """Where it goes on."""
        return f"/socket.io/?EIO=4&sid={self._sid}&transport={transport}"

    @classmethod
    async def open(cls, http: aiohttp.ClientSession) -> Polling:
        """Begin one; the session's base is the hub's URL."""
        async with http.get("/socket.io/?EIO=4&transport=polling") as answer:
            return cls(http, json.loads((await answer.text())[1:])["sid"])

    async def send(self, *packets: str) -> None:
        """Post some packets together."""
        async with self._http.post(self.address("polling"), data="\x1e".join(packets)) as answer:
            assert await answer.text() == "OK"

    async def receive(self) -> list[str]:
        """The packets of one poll. Pings are answered and left out."""
        async with asyncio.timeout(SECONDS), self._http.get(self.address("polling")) as answer:
            packets = (await answer.text()).split("\x1e")
            assert answer.status == 200, packets
        if "2" in packets:
            await self.send("3")
        return [packet for packet in packets if packet != "2"]

    @asynccontextmanager
    async def upgrade(self) -> AsyncIterator[tuple[Raw, list[str]]]:
        """Go on as a WebSocket, as stock clients do: probe, let the last poll end, switch. Gives also what that poll brought."""
        poll = asyncio.create_task(self.receive())
        async with self._http.ws_connect(self.address("websocket")) as ws:
            await ws.send_str("2probe")
            assert await ws.receive_str() == "3probe"
            packets = await poll
            await ws.send_str("5")
            yield Raw(ws), [packet for packet in packets if packet != "6"]
