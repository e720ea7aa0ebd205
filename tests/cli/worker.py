"""An agent that does as it is told, over a stock Socket.IO client: for tests of commands that wait for agents."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import socketio

Handle = Callable[["Run"], Awaitable[None]]


class Client:
    """Requests over one connection, each with a key."""

    def __init__(self, socket: socketio.AsyncClient) -> None:
        self.socket = socket
        self._count = itertools.count()

    async def request(self, name: str, /, **payload: Any) -> dict[str, Any]:
        reply: dict[str, Any] = await self.socket.call(name, payload, timeout=10)
        assert reply["ok"], reply
        return reply

    async def apply(self, context: str, *ops: dict[str, Any], **more: Any) -> dict[str, Any]:
        key = f"{self.socket.sid}-{next(self._count)}"
        return await self.request("apply", context=context, ops=list(ops), key=key, **more)

    async def document(self, context: str) -> dict[str, Any]:
        document: dict[str, Any] = (await self.request("context.get", context=context))["document"]
        return document

    async def log(self, context: str, type: str = "info", **fields: Any) -> None:
        await self.apply(context, {"op": "log.add", "type": type, **fields})


class Run:
    """One run that was given to the worker."""

    def __init__(self, client: Client, order: dict[str, Any]) -> None:
        self.client = client
        self.context: str = order["context"]
        self.messages: list[dict[str, Any]] = order["messages"]
        self._run = order["run"]

    async def apply(self, *ops: dict[str, Any]) -> None:
        await self.client.apply(self.context, *ops, run=self._run)


@asynccontextmanager
async def connected(url: str, token: str) -> AsyncIterator[Client]:
    """A client of a hub."""
    async with aiohttp.ClientSession() as http:
        socket = socketio.AsyncClient(handle_sigint=False, reconnection=False, http_session=http)
        await socket.connect(url, auth={"token": token}, transports=["websocket"], wait_timeout=10)
        try:
            yield Client(socket)
        finally:
            await socket.disconnect()


@asynccontextmanager
async def serving(url: str, token: str, handle: Handle, agent: str = "demo") -> AsyncIterator[Client]:
    """A worker that gives each run to ``handle``."""
    tasks: set[asyncio.Task[None]] = set()
    async with connected(url, token) as client:

        async def work(order: dict[str, Any]) -> None:
            run = Run(client, order)
            await run.apply({"op": "run.set", "status": "running"})
            await handle(run)

        async def start(order: dict[str, Any]) -> dict[str, Any]:
            tasks.add(asyncio.create_task(work(order)))
            return {"ok": True}

        async def control(order: dict[str, Any]) -> dict[str, Any]:
            return {"ok": True}

        client.socket.on("run.start", start)
        client.socket.on("run.control", control)
        await client.request("agent.serve", agent=agent, capacity=4)
        yield client
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome
