"""Stock Socket.IO clients for tests: everything that one was sent is kept, in order, and can be waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Self

import aiohttp
import socketio
from aiohttp import web_app

from hub.core.requests import Role
from hub.core.state import ContextState
from hub.server.auth import Tokens
from hub.server.server import HubServer, Options
from tests.checker import Checker
from tests.support import SECONDS

KINDS = ("websocket", "polling", "msgpack")


async def health(url: str) -> tuple[int, dict[str, Any]]:
    """Status and body of a node's ``/healthz``."""
    async with aiohttp.ClientSession() as web, web.get(f"{url}/healthz") as answer:
        return answer.status, await answer.json()


class Talk:
    """One who is connected: keeps what comes, in order, and asks."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []
        self._changed = asyncio.Event()

    # what comes

    def _keep(self, name: str, data: Any) -> None:
        self.events.append((name, data))
        self._changed.set()

    def of(self, *names: str) -> list[Any]:
        """What came under these names."""
        return [data for name, data in self.events if name in names]

    async def until(self, condition: Callable[[], Any], seconds: float = SECONDS) -> Any:
        """Wait until ``condition()`` holds, which is looked at after each event."""
        try:
            async with asyncio.timeout(seconds):
                while not (found := condition()):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"waited in vain; the last events: {self.events[-5:]}") from None
        return found

    async def next(self, name: str, fits: Callable[[Any], Any] = lambda data: True, seconds: float = SECONDS) -> Any:
        """The first event of a name that fits, once there is one."""
        return await self.until(lambda: next((data for data in self.of(name) if fits(data)), None), seconds)

    # what is asked

    async def call(self, name: str, data: Any = None, *, seconds: float = SECONDS) -> Any:
        """The acknowledgement of an event. A tuple is sent as several arguments, None as none."""
        raise NotImplementedError

    async def call_in_line(self, name: str, data: Any, *, seconds: float = SECONDS) -> tuple[dict[str, Any], int]:
        """The acknowledgement of a request, and how many events came before it."""
        before = len(self.events)
        return await self.call(name, data, seconds=seconds), before

    async def ask(self, name: str, /, **payload: Any) -> dict[str, Any]:
        """The acknowledgement of a request."""
        reply: dict[str, Any] = await self.call(name, {key.rstrip("_"): value for key, value in payload.items()})
        return reply

    async def ok(self, name: str, /, **payload: Any) -> dict[str, Any]:
        """The acknowledgement of a request that must go well."""
        reply = await self.ask(name, **payload)
        assert reply["ok"] is True, (name, reply)
        return reply

    async def refused(self, name: str, code: str, /, **payload: Any) -> dict[str, Any]:
        """The error of a request that must be refused."""
        return refusal(await self.ask(name, **payload), code)


class Client(Talk):
    """A stock client of one connection at a time."""

    def __init__(self, url: str, token: object, kind: str = "websocket") -> None:
        super().__init__()
        self.url, self.token, self.kind = url, token, kind
        self.gone = False
        """Whether its connection ended."""
        self.runs: list[dict[str, Any]] = []
        self.controls: list[dict[str, Any]] = []
        self.answer_run: Callable[[dict[str, Any]], Any] = lambda run: {"ok": True}
        serializer = "msgpack" if kind == "msgpack" else "default"
        self.sio = socketio.AsyncClient(serializer=serializer, reconnection=False, http_session=session)
        self.sio.on("*", self._on_event)
        self.sio.on("connect_error", lambda data: self._keep("connect_error", data))
        self.sio.on("disconnect", self._on_disconnect)
        self.sio.on("run.start", self._on_run)
        self.sio.on("run.control", self._on_control)

    async def connect(self, **more: Any) -> Self:
        """Connect, with the token and whatever else goes with it; a refusal raises socketio's ConnectionError."""
        transports = {"polling": ["polling"], "upgrading": None}.get(self.kind, ["websocket"])
        path = "/msgpack/socket.io" if self.kind == "msgpack" else "/socket.io"
        auth = {"token": self.token, **more}
        await self.sio.connect(self.url, auth=auth, transports=transports, socketio_path=path, wait_timeout=SECONDS)
        return self

    async def close(self) -> None:
        await leave(self.sio)

    def drop(self) -> None:
        """Lose the connection without a word."""
        cut(self.sio)

    # what comes

    def _on_disconnect(self, reason: Any) -> None:
        self.gone = True
        self._keep("disconnect", reason)

    async def _on_event(self, name: str, *args: Any) -> None:
        self._keep(name, args[0] if len(args) == 1 else args)

    async def _on_run(self, run: dict[str, Any]) -> Any:
        self.runs.append(run)
        self._keep("run.start", run)
        answer = self.answer_run(run)
        return await answer if asyncio.iscoroutine(answer) else answer

    async def _on_control(self, order: dict[str, Any]) -> dict[str, Any]:
        self.controls.append(order)
        self._keep("run.control", order)
        return {"ok": True}

    # what is asked

    async def call(self, name: str, data: Any = None, *, seconds: float = SECONDS) -> Any:
        """The acknowledgement of an event. A tuple is sent as several arguments, None as none."""
        return await self.sio.call(name, data, timeout=seconds)

    async def call_in_line(self, name: str, data: Any, *, seconds: float = SECONDS) -> tuple[dict[str, Any], int]:
        answers: list[tuple[dict[str, Any], int]] = []

        def answered(reply: dict[str, Any]) -> None:
            answers.append((reply, len(self.events)))
            self._changed.set()

        await self.sio.emit(name, data, callback=answered)
        await self.until(lambda: answers or self.gone, seconds)
        if not answers:
            raise ConnectionError("the connection ended before the answer")
        return answers[0]

    async def send(self, name: str, data: Any) -> None:
        """Ask without waiting; the acknowledgement is kept as ``reply``."""
        await self.sio.emit(name, data, callback=lambda reply: self._keep("reply", reply))


def refusal(reply: Any, code: str) -> dict[str, Any]:
    """The error of a refusing acknowledgement, which has the shape of one and this code."""
    assert reply["ok"] is False, reply
    error: dict[str, Any] = reply["error"]
    assert error["code"] == code, error
    assert isinstance(error["message"], str)
    assert error["message"]
    assert isinstance(error["retryable"], bool)
    return error


class GivenUp(aiohttp.ClientWebSocketResponse):
    """A WebSocket that is closed when who waits for its next message is cancelled: a client of python-socketio that is given
    up before the hub's first packet came knows of no socket yet, and leaves it open."""

    async def receive(self, timeout: float | None = None) -> aiohttp.WSMessage:
        try:
            return await super().receive(timeout)
        except asyncio.CancelledError:
            await self.close()
            raise


def session() -> aiohttp.ClientSession:
    """What an asyncio client of python-socketio that may be given up while it connects makes its session with."""
    return aiohttp.ClientSession(ws_response_class=GivenUp)


async def leave(sio: Any) -> None:
    """Disconnect an asyncio client of python-socketio; nothing of it stays open."""
    await sio.disconnect()
    http = getattr(sio.eio, "http", None)
    if http is not None and not http.closed:
        await http.close()


def cut(sio: Any) -> None:
    """Lose the connection of a client of python-socketio without a word, if it still has one."""
    cut_websocket(sio.eio.ws)


def cut_websocket(websocket: aiohttp.ClientWebSocketResponse) -> None:
    """Lose a connection without a word, if it is still there."""
    connection = websocket._response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


class People:
    """Connects clients of all roles to one hub, and ends them together."""

    def __init__(self, server: HubServer, stack: AsyncExitStack) -> None:
        self.server = server
        self._stack = stack

    def token(self, sub: str, role: Role, *ctx: str, ttl: float | None = None) -> str:
        return tokens_of(self.server).make(sub, role, ctx=ctx, ttl=ttl)

    async def join(self, token: object, kind: str = "websocket") -> Client:
        client = Client(self.server.url, token, kind)
        self._stack.push_async_callback(client.close)
        return await client.connect()

    async def operator(self, kind: str = "websocket") -> Client:
        return await self.join(self.server.token, kind)

    async def user(self, name: str, kind: str = "websocket") -> Client:
        return await self.join(self.token(name, Role.USER), kind)

    async def agent(self, *ctx: str, name: str = "bot", kind: str = "websocket") -> Client:
        return await self.join(self.token(name, Role.AGENT, *ctx), kind)

    async def viewer(self, *ctx: str, name: str = "eve", kind: str = "websocket") -> Client:
        return await self.join(self.token(name, Role.VIEWER, *ctx), kind)


def tokens_of(server: HubServer) -> Tokens:
    """What makes tokens for a hub."""
    return Tokens((server.options.data_dir / "secret").read_text().strip())


@asynccontextmanager
async def serving(folder: Path, **options: Any) -> AsyncIterator[People]:
    """A hub in this process, and people to talk to it. By default its record is in memory."""
    server = HubServer(Options(**{"data_dir": folder, "record": "memory", "port": 0, **options}))
    await server.start()
    try:
        async with AsyncExitStack() as stack:
            yield People(server, stack)
    finally:
        await server.stop()
        # aiohttp keeps the last 1,024 handlers, each with all of its hub: hundreds of hubs in one process would fill it.
        web_app._cached_build_middleware.cache_clear()


class Follower:
    """A reader of a context through all its connections. What the checker finds wrong fails the test."""

    def __init__(self, context: str, deliver: str = "patch") -> None:
        self.checker = Checker(context, deliver)
        self._client: Talk | None = None
        self._read = 0

    @property
    def state(self) -> ContextState:
        return self.checker.state

    @property
    def recovered(self) -> int:
        return self.checker.recovered

    async def subscribe(self, client: Talk, *, resume: bool = True) -> dict[str, Any]:
        """Subscribe from where it stands, and take the reply."""
        reply = await self.try_to_subscribe(client, resume=resume)
        assert reply["ok"] is True, reply
        return reply

    async def try_to_subscribe(self, client: Talk, *, resume: bool = True) -> dict[str, Any]:
        """The same, but it may be refused."""
        if client is not self._client:
            self._client, self._read = client, len(client.events)
            self.checker.connected()
        self.read(client)
        reply, before = await client.call_in_line("subscribe", self.checker.request(resume=resume))
        self._read_to(client, before)
        self.checker.reply(reply)
        return reply

    def read(self, client: Talk) -> ContextState:
        """Take what came since."""
        self._read_to(client, len(client.events))
        return self.state

    def forget(self, client: Talk) -> None:
        """Let go of the client's events that were taken: of a long life they would be too many."""
        del client.events[: self._read]
        self._read = 0

    def _read_to(self, client: Talk, end: int) -> None:
        while self._read < end:
            self._read += 1
            self.checker.event(*client.events[self._read - 1])
