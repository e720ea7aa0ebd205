"""The limit in Python: one prebuilt WebSocket frame, ``transport.write`` to each member, on uvloop.

``bare_peer.py PORT``. It speaks just enough Engine.IO and Socket.IO for the load clients: no pings, no queues, no bounds.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from typing import Any

import msgspec
from aiohttp import WSMsgType, web

from scripts.benchmarks.frames import server_frame
from scripts.benchmarks.machine import raise_file_limit
from scripts.benchmarks.peers.serving import serve

_json = msgspec.json.Encoder().encode
_GREETING = '0{"sid":"bare","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":1000000}'


def frame_of(change: Any) -> bytes:
    """The frame of an event, built once for everybody."""
    return server_frame(b"42" + _json(["change", change]))


class Rooms:
    """Transports by room."""

    def __init__(self) -> None:
        self._rooms: dict[str, list[asyncio.WriteTransport]] = {}

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """One connection."""
        ws = web.WebSocketResponse(compress=False, autoping=True)
        await ws.prepare(request)
        await ws.send_str(_GREETING)
        transport = request.transport
        assert transport is not None
        async for message in ws:
            if message.type is not WSMsgType.TEXT:
                break
            text = message.data
            if text.startswith("40"):
                await ws.send_str('40{"sid":"bare"}')
            elif text.startswith("420"):
                self._rooms.setdefault(msgspec.json.decode(text[3:])[1], []).append(transport)
                await ws.send_str('430[{"ok":true}]')
            elif text.startswith("42"):
                self._event(msgspec.json.decode(text[2:]))
        for members in self._rooms.values():
            if transport in members:  # writing to one that is closed would raise
                members.remove(transport)
        return ws

    def _event(self, event: list[Any]) -> None:
        match event:
            case ["relay", room, *changes]:
                frames = b"".join(map(frame_of, changes))
                for transport in self._rooms.get(room, ()):
                    transport.write(frames)
            case ["each", change]:
                frame = frame_of(change)
                for members in self._rooms.values():
                    for transport in members:
                        transport.write(frame)


if __name__ == "__main__":
    raise_file_limit()
    app = web.Application()
    app.router.add_get("/socket.io/", Rooms().serve)
    with asyncio.Runner(loop_factory=importlib.import_module("uvloop").new_event_loop) as runner:
        runner.run(serve(app, int(sys.argv[1])))
