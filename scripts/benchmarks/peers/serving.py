"""Runs a peer's application until the bench is gone."""

from __future__ import annotations

import asyncio
import os
import sys

from aiohttp import web


async def serve(app: web.Application, port: int) -> None:
    """Listen on a port (0: any free one), print it, and go on until standard input ends."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, shutdown_timeout=0.5)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    stdin = sys.stdin.fileno()
    loop.add_reader(stdin, lambda: None if os.read(stdin, 4096) else ended.set())
    await ended.wait()
    loop.remove_reader(stdin)
