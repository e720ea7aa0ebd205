"""The connection for programs without an event loop: it lives on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from hub.agent.config import AgentConfig
from hub.agent.connect import Client, connect
from hub.agent.connection import Token
from hub.agent.context import AgentContext
from hub.agent.serving import Agent, H

T = TypeVar("T")


@contextmanager
def connect_sync(
    url: str, *, token: Token, wait: float = 10.0, leave: float = 10.0, config: AgentConfig | None = None
) -> Iterator[SyncClient]:
    """``with hub.connect_sync(url, token=token) as client:`` what ``hub.connect`` is for plain programs. Contexts are the
    same; wait with ``ctx.wait_flush()``. Raises what ``hub.connect`` raises."""
    opened: Future[SyncClient] = Future()

    async def live() -> None:
        try:
            async with connect(url, token=token, wait=wait, leave=leave, config=config) as client:
                leaving = asyncio.Event()
                opened.set_result(SyncClient(client, asyncio.get_running_loop(), leaving))
                await leaving.wait()
        except BaseException as error:
            if opened.done():
                raise
            opened.set_exception(error)

    ended: Future[None] = Future()

    def run() -> None:
        try:
            asyncio.run(live())
        except BaseException as error:
            ended.set_exception(error)
        else:
            ended.set_result(None)

    thread = threading.Thread(target=run, name="hub connection", daemon=True)
    thread.start()
    client = opened.result()
    try:
        yield client
    except BaseException as error:
        client.leave()
        if (unsaid := ended.exception()) is not None:
            if isinstance(error, SystemExit):  # which would say nothing
                raise unsaid from None
            error.add_note(f"and {unsaid}")
        raise
    finally:
        client.leave()
        thread.join()
    ended.result()


class SyncAgent:
    """An agent of a process without an event loop. Made by ``SyncClient.agent``."""

    def __init__(self, agent: Agent, loop: asyncio.AbstractEventLoop) -> None:
        self._agent = agent
        self._loop = loop

    def on_message(self, handler: H) -> H:
        """Let ``handler(ctx, message)`` work on messages: a plain function in a thread of its own, a coroutine function on the
        connection's event loop. The rest is that of ``Agent.on_message``."""
        return self._agent.on_message(handler)

    def serve(self) -> None:
        """Take runs until this thread is interrupted (KeyboardInterrupt). Raises what the hub refuses with, for good."""
        serving = asyncio.run_coroutine_threadsafe(self._agent.serve(), self._loop)
        try:
            serving.result()
        finally:
            serving.cancel()


class SyncClient:
    """A process's side of a hub, for threads. Made by ``connect_sync``."""

    def __init__(self, client: Client, loop: asyncio.AbstractEventLoop, leaving: asyncio.Event) -> None:
        self.client = client
        """What does the work, on its own thread's loop."""
        self._loop = loop
        self._leaving = leaving

    def open(self, id: str) -> AgentContext:
        """A context of the hub, by id. Raises NotFound."""
        return self._call(self.client.open(id))

    def create(self, **fields: Any) -> AgentContext:
        """A new context at the hub, once it is confirmed. Takes what AgentContext takes. Raises Exists."""
        return self._call(self.client.create(**fields))

    def agent(self, name: str, *, capacity: int = 1, attempts: int = 1, version: str | None = None) -> SyncAgent:
        """An agent that this process serves: give it a handler with ``@agent.on_message``, then ``agent.serve()``. The rest is
        that of ``Client.agent``."""
        agent = self.client.agent(name, capacity=capacity, attempts=attempts, version=version)
        return SyncAgent(agent, self._loop)

    def upload(self, name: str, data: bytes, type: str = "application/octet-stream") -> dict[str, Any]:
        """Give the hub a file. Returns ``{id, name, size, type, expires_at}``."""
        return self._call(self.client.upload(name, data, type))

    def download(self, upload_id: str) -> bytes:
        """A file's content."""
        return self._call(self.client.download(upload_id))

    def request(self, name: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Any request of the protocol. Raises HubError."""
        return self._call(self.client.request(name, payload))

    def leave(self) -> None:
        """Let the connection end."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._leaving.set)

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
