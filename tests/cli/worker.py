"""An agent that does as it is told, over a stock Socket.IO client: for tests of commands that wait for agents."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests import clients

Handle = Callable[["Run"], Awaitable[None]]


class Client(clients.Client):
    """A stock client whose writes have keys."""

    _count = itertools.count()

    async def apply(self, context: str, *ops: dict[str, Any], **more: Any) -> dict[str, Any]:
        return await self.ok("apply", context=context, ops=list(ops), key=f"{self.sio.sid}-{next(self._count)}", **more)

    async def document(self, context: str) -> dict[str, Any]:
        document: dict[str, Any] = (await self.ok("context.get", context=context))["document"]
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
    client = await Client(url, token).connect()
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def serving(url: str, token: str, handle: Handle, agent: str = "demo") -> AsyncIterator[Client]:
    """A worker that gives each run to ``handle``."""
    tasks: set[asyncio.Task[None]] = set()
    async with connected(url, token) as client:

        async def work(order: dict[str, Any]) -> None:
            run = Run(client, order)
            await run.apply({"op": "run.set", "status": "running"})
            await handle(run)

        def start(order: dict[str, Any]) -> dict[str, Any]:
            tasks.add(asyncio.get_running_loop().create_task(work(order)))
            return {"ok": True}

        client.answer_run = start
        await client.ok("agent.serve", agent=agent, capacity=4)
        yield client
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome
