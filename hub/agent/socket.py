"""A Socket.IO connection: a WebSocket with packets in msgpack. An event costs no task, no timer and no place in a queue.

Protocols: Engine.IO 4 and Socket.IO 5, https://socket.io/docs/v4/engine-io-protocol/ and
https://socket.io/docs/v4/socket-io-protocol/.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

import aiohttp
import msgspec

_log = logging.getLogger(__name__)

MOST_BYTES: Final = 64 * 1024 * 1024
"""Of one packet that comes in."""
NOTED: Final = 0.02
"""Of the time for which the hub may be silent: when it spoke is noted no more often, which would cost more than reading."""

_CONNECT, _DISCONNECT, _EVENT, _ACK, _CONNECT_ERROR = range(5)


class Refused(Exception):
    """The hub does not let us in. ``data``: what it says to that."""

    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__(str(data.get("message") or "refused"))
        self.data = data


class NotSocketIO(ConnectionError):
    """Who answers does not speak Socket.IO."""


class _Opened(msgspec.Struct, rename="camel"):
    """What Engine.IO says first."""

    ping_interval: int
    ping_timeout: int


class _Packet(msgspec.Struct):
    """A packet of Socket.IO's msgpack parser."""

    type: int
    id: int | None = None
    data: Any = None


_open: Final = msgspec.json.Decoder(_Opened).decode
_read: Final = msgspec.msgpack.Decoder(_Packet).decode
_write: Final = msgspec.msgpack.Encoder().encode

OnEvent = Callable[[str, Any], dict[str, Any] | None]
OnAnswer = Callable[[int, Any], None]


class Socket:
    """One that the hub has let in. Made by ``connect``; ``run`` takes what comes."""

    def __init__(self, websocket: aiohttp.ClientWebSocketResponse, silence: float, sid: str) -> None:
        self.sid = sid
        """The hub's name for the connection."""
        self._websocket = websocket
        self._silence = silence

    @classmethod
    async def connect(cls, http: aiohttp.ClientSession, url: str, auth: dict[str, Any]) -> Socket:
        """Connect to ``url``, where the hub's msgpack endpoint is. Raises Refused, NotSocketIO, aiohttp.ClientError, OSError."""
        websocket = await http.ws_connect(
            f"{url}/?EIO=4&transport=websocket",
            max_msg_size=MOST_BYTES,
            timeout=aiohttp.ClientWSTimeout(ws_close=1.0),
        )
        try:
            return await cls._enter(websocket, auth)
        except BaseException:
            await websocket.close()
            raise

    @classmethod
    async def _enter(cls, websocket: aiohttp.ClientWebSocketResponse, auth: dict[str, Any]) -> Socket:
        said = await websocket.receive()
        try:
            if said.type is not aiohttp.WSMsgType.TEXT or said.data[:1] != "0":
                raise NotSocketIO(f"it began with {said.data!r}"[:200])
            opened = _open(said.data[1:])
            await websocket.send_bytes(_write({"type": _CONNECT, "data": auth, "nsp": "/"}))
            while (said := await websocket.receive()).type is aiohttp.WSMsgType.TEXT:
                continue  # pings; the first is not due for long
            if said.type is not aiohttp.WSMsgType.BINARY:
                raise ConnectionError("it ended the connection")
            packet = _read(said.data)
            data = packet.data if isinstance(packet.data, dict) else {}
            if packet.type == _CONNECT_ERROR:
                raise Refused(data)
            if packet.type != _CONNECT:
                raise NotSocketIO(f"it answered with a packet of type {packet.type}")
        except msgspec.MsgspecError as error:
            raise NotSocketIO(f"it said what makes no sense: {error}") from None
        return cls(websocket, (opened.ping_interval + opened.ping_timeout) / 1000, str(data.get("sid", "")))

    async def emit(self, name: str, payload: dict[str, Any], id: int) -> None:
        """Send an event whose answer is to have that ``id``. Raises ConnectionError."""
        await self._websocket.send_bytes(_write({"type": _EVENT, "data": [name, payload], "nsp": "/", "id": id}))

    async def run(self, on_event: OnEvent, on_answer: OnAnswer) -> None:
        """Hand on what comes, in order, until the connection ends. What ``on_event`` returns answers an event that asks
        for it."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._silence) as patience:
                heard = loop.time()
                while (said := await self._websocket.receive()).type in (
                    aiohttp.WSMsgType.BINARY,
                    aiohttp.WSMsgType.TEXT,
                ):
                    now = loop.time()
                    if now - heard > self._silence * NOTED:
                        patience.reschedule(now + self._silence)
                        heard = now
                    if said.type is aiohttp.WSMsgType.BINARY:
                        if not await self._take(_read(said.data), on_event, on_answer):
                            return
                    elif said.data == "2":
                        await self._websocket.send_str("3")
                if said.type is aiohttp.WSMsgType.ERROR:
                    _log.warning("the connection to the hub failed: %s", said.data)
        except TimeoutError:
            _log.warning("the hub has said nothing for %.0f s; connecting again", self._silence)
        except msgspec.MsgspecError as error:
            _log.warning("the hub said what makes no sense: %s", error)
        except ConnectionError as error:
            _log.debug("the connection to the hub ended: %s", error)

    async def _take(self, packet: _Packet, on_event: OnEvent, on_answer: OnAnswer) -> bool:
        """One packet. False if it ends the connection."""
        match packet:
            case _Packet(type=2, data=[str(name), *payload]):
                reply = on_event(name, payload[0] if payload else None)
                if packet.id is not None:
                    data = [] if reply is None else [reply]
                    await self._websocket.send_bytes(_write({"type": _ACK, "id": packet.id, "data": data, "nsp": "/"}))
            case _Packet(type=3, id=int(id), data=[reply]):
                on_answer(id, reply)
        return packet.type != _DISCONNECT

    async def close(self) -> None:
        """Leave: say so, if the connection is still there."""
        try:
            await self._websocket.send_bytes(_write({"type": _DISCONNECT, "nsp": "/"}))
        except ConnectionError:
            pass
        finally:
            await self._websocket.close()
