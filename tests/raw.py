"""A bare WebSocket to the Socket.IO endpoint, for what no stock client would send."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgpack

from tests.clients import SECONDS


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


@asynccontextmanager
async def raw(url: str, token: str | None = None, *, path: str = "/socket.io/", **headers: str) -> AsyncIterator[Raw]:
    """Open a WebSocket and take the engine's greeting; with a token ask to be let in and take the answer."""
    async with aiohttp.ClientSession() as session:
        address = f"{url}{path}?EIO=4&transport=websocket"
        async with session.ws_connect(address, headers=headers, max_msg_size=0, autoclose=True) as ws:
            client = Raw(ws)
            assert (await client.receive()).startswith("0")
            if token is not None:
                auth = {"token": token}
                if "msgpack" in path:
                    await client.send(msgpack.packb({"type": 0, "data": auth, "nsp": "/"}))
                    await client.until(lambda frame: isinstance(frame, bytes))
                else:
                    await client.send("40" + json.dumps(auth))
                    await client.until(lambda frame: isinstance(frame, str) and frame.startswith("40"))
            yield client
