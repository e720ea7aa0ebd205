"""The peer python-socketio: a server that relays to rooms, as its documentation shows it.

``python_peer.py asyncio|uvloop [REDIS_URL]``; prints its port, and ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from typing import Any

import socketio
from aiohttp import web

from scripts.benchmarks.machine import raise_file_limit
from scripts.benchmarks.peers.serving import serve


def application(redis: str | None) -> web.Application:
    """The server's application."""
    manager = socketio.AsyncRedisManager(redis) if redis else None
    sio = socketio.AsyncServer(async_mode="aiohttp", client_manager=manager)
    rooms: dict[str, None] = {}

    async def join(sid: str, room: str) -> dict[str, Any]:
        await sio.enter_room(sid, room)
        rooms[room] = None
        return {"ok": True}

    async def relay(sid: str, room: str, *changes: Any) -> None:
        for change in changes:
            await sio.emit("change", change, room=room)

    async def each(sid: str, change: Any) -> None:
        for room in rooms:
            await sio.emit("change", change, room=room)

    for handler in (join, relay, each):
        sio.on(handler.__name__, handler)
    app = web.Application()
    sio.attach(app)
    return app


if __name__ == "__main__":
    raise_file_limit()
    factory = importlib.import_module("uvloop").new_event_loop if sys.argv[1] == "uvloop" else None
    port = int(sys.argv[2])
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serve(application(sys.argv[3] if len(sys.argv) > 3 else None), port))
