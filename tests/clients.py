"""Stock Socket.IO clients for tests: everything that one was sent is kept, in order, and can be waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Self

import socketio

from hub.core.changes import Change
from hub.core.position import Position
from hub.core.requests import Role
from hub.core.state import ContextState
from hub.server.auth import Tokens
from hub.server.server import HubServer, Options

SECONDS = 10.0
"""How long a test waits for what a hub sends; far more than it takes."""
KINDS = ("websocket", "polling", "msgpack")


class Client:
    """A stock client of one connection at a time."""

    def __init__(self, url: str, token: object, kind: str = "websocket") -> None:
        self.url, self.token, self.kind = url, token, kind
        self.events: list[tuple[str, Any]] = []
        self.runs: list[dict[str, Any]] = []
        self.controls: list[dict[str, Any]] = []
        self.answer_run: Callable[[dict[str, Any]], Any] = lambda run: {"ok": True}
        self._changed = asyncio.Event()
        serializer = "msgpack" if kind == "msgpack" else "default"
        self.sio = socketio.AsyncClient(serializer=serializer, reconnection=False)
        self.sio.on("*", self._on_event)
        self.sio.on("connect_error", lambda data: self._keep("connect_error", data))
        self.sio.on("disconnect", lambda reason: self._keep("disconnect", reason))
        self.sio.on("run.start", self._on_run)
        self.sio.on("run.control", self._on_control)

    async def connect(self) -> Self:
        """Connect; a refusal raises socketio's ConnectionError."""
        transports = {"polling": ["polling"], "upgrading": None}.get(self.kind, ["websocket"])
        path = "/msgpack/socket.io" if self.kind == "msgpack" else "/socket.io"
        await self.sio.connect(
            self.url, auth={"token": self.token}, transports=transports, socketio_path=path, wait_timeout=SECONDS
        )
        return self

    async def close(self) -> None:
        await self.sio.disconnect()
        http = getattr(self.sio.eio, "http", None)
        if http is not None and not http.closed:
            await http.close()

    def drop(self) -> None:
        """Lose the connection without a word."""
        self.sio.eio.ws._response.connection.transport.abort()

    # what comes

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
        return await self.sio.call(name, data, timeout=seconds)

    async def send(self, name: str, data: Any) -> None:
        """Ask without waiting; the acknowledgement is kept as ``reply``."""
        await self.sio.emit(name, data, callback=lambda reply: self._keep("reply", reply))

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


def refusal(reply: Any, code: str) -> dict[str, Any]:
    """The error of a refusing acknowledgement, which has the shape of one and this code."""
    assert reply["ok"] is False, reply
    error: dict[str, Any] = reply["error"]
    assert error["code"] == code, error
    assert isinstance(error["message"], str)
    assert error["message"]
    assert isinstance(error["retryable"], bool)
    return error


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


class Follower:
    """A reader in patch mode that takes the protocol at its word: a gap, a change twice or a step back fails the test."""

    def __init__(self, context: str) -> None:
        self.topic = f"context:{context}"
        self.state = ContextState(Position("", 0))
        self.recovered = 0
        self._read = 0

    async def subscribe(self, client: Client, *, resume: bool = True) -> dict[str, Any]:
        """Subscribe from where it stands, and take the reply."""
        payload: dict[str, Any] = {"topic": self.topic, "deliver": "patch", "tail": 1000}
        at = self.state.position
        if resume and at.epoch:
            payload["from"] = {"epoch": at.epoch, "seq": at.seq}
        self._read = len(client.events)
        reply = await client.ok("subscribe", **payload)
        if reply["recovered"]:
            assert (reply["epoch"], reply["seq"]) == tuple(at), "recovered, but not at the reader's own position"
            self.recovered += 1
        else:
            self.state = ContextState.from_snapshot(
                {
                    "epoch": reply["epoch"],
                    "seq": reply["seq"],
                    "document": reply["document"],
                    "log": {"id": reply["log_id"], "entries": reply["entries"]},
                    "data": reply.get("data", {}),
                }
            )
        return reply

    def read(self, client: Client) -> ContextState:
        """Take what came since. Changes from before the reply are known already; after it each is the next one."""
        for name, event in client.events[self._read :]:
            self._read += 1
            if name == "change" and event["topic"] == self.topic:
                position = Position(event["epoch"], event["seq"])
                assert position.epoch == self.state.position.epoch
                assert position.seq <= self.state.position.seq + 1, f"a gap: {position} after {self.state.position}"
                if position.seq == self.state.position.seq + 1:
                    self.state.apply(Change(position, event["parts"]))
        return self.state
