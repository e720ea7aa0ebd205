"""Stock clients of three kinds behind one interface, which come back by themselves; and a cable between them and a hub."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Self

import socketio

from tests.clients import Talk, leave, session
from tests.support import ROOT, SECONDS, required, until

ENDPOINTS = {"json": "/socket.io", "msgpack": "/msgpack/socket.io"}
TRANSPORTS: dict[str, list[str] | None] = {"websocket": ["websocket"], "polling": ["polling"], "upgrading": None}
STOCK = ("asyncio", "threads", "node")
_BACK: dict[str, Any] = {"reconnection_delay": 0.1, "reconnection_delay_max": 0.2, "randomization_factor": 0}


class Stock(Talk):
    """A stock client. ``connect``, ``disconnect`` and ``connect_error`` are kept among the events."""

    async def open(self, url: str, token: object, endpoint: str, transport: str) -> Self:
        """Begin to connect; returns once it is connected or refused."""
        raise NotImplementedError

    async def transport(self) -> str:
        """What it goes over now."""
        raise NotImplementedError

    async def close(self) -> None:
        """Disconnect for good."""
        raise NotImplementedError

    async def _settled(self) -> Self:
        await self.until(lambda: self.of("connect", "connect_error"))
        return self


class _PythonStock(Stock):
    """What the two clients of python-socketio have in common."""

    sio: Any

    def _listen(self) -> None:
        for name in ("connect", "disconnect", "connect_error"):
            self.sio.on(name, lambda *args, name=name: self._keep(name, args[0] if args else None))

    async def transport(self) -> str:
        return str(self.sio.transport())


class AsyncioStock(_PythonStock):
    """python-socketio on asyncio."""

    async def open(self, url: str, token: object, endpoint: str, transport: str) -> Self:
        serializer = "msgpack" if endpoint == "msgpack" else "default"
        self.sio = socketio.AsyncClient(serializer=serializer, http_session=session, **_BACK)
        self._listen()
        self.sio.on("*", self._heard)
        try:
            await self.sio.connect(
                url, auth={"token": token}, transports=TRANSPORTS[transport], socketio_path=ENDPOINTS[endpoint]
            )
        except socketio.exceptions.ConnectionError:
            await self.close()
        return await self._settled()

    async def _heard(self, name: str, data: Any) -> dict[str, Any]:
        self._keep(name, data)
        return {"ok": True}

    async def call(self, name: str, data: Any = None, *, seconds: float = SECONDS) -> Any:
        return await self.sio.call(name, data, timeout=seconds)

    async def close(self) -> None:
        await leave(self.sio)


class ThreadStock(_PythonStock):
    """python-socketio without an event loop. It gives each event to a thread of its own, so changes are put in order here,
    by their positions, and kept aside until the reply of their subscription is there."""

    def __init__(self) -> None:
        super().__init__()
        self._next: dict[str, int] = {}
        self._aside: dict[str, dict[int, Any]] = {}

    async def open(self, url: str, token: object, endpoint: str, transport: str) -> Self:
        self._loop = asyncio.get_running_loop()
        self.sio = socketio.Client(
            serializer="msgpack" if endpoint == "msgpack" else "default", handle_sigint=False, **_BACK
        )
        self._listen()
        self.sio.on("*", self._heard)
        try:
            await asyncio.to_thread(
                self.sio.connect,
                url,
                auth={"token": token},
                transports=TRANSPORTS[transport],
                socketio_path=ENDPOINTS[endpoint],
            )
        except socketio.exceptions.ConnectionError:
            await self.close()
        return await self._settled()

    def _heard(self, name: str, data: Any) -> dict[str, Any]:
        self._keep(name, data)
        return {"ok": True}

    def _keep(self, name: str, data: Any) -> None:
        self._loop.call_soon_threadsafe(self._sort, name, data)

    def _sort(self, name: str, data: Any) -> None:
        if name == "change":
            self._aside.setdefault(data["topic"], {})[data["seq"]] = data
            self._pass_on(data["topic"])
        else:
            if name == "disconnect":
                self._next, self._aside = {}, {}
            super()._keep(name, data)

    def _pass_on(self, topic: str) -> None:
        aside = self._aside.get(topic, {})
        while (change := aside.pop(self._next.get(topic, -1), None)) is not None:
            self._next[topic] += 1
            super()._keep("change", change)

    async def call(self, name: str, data: Any = None, *, seconds: float = SECONDS) -> Any:
        reply = await asyncio.to_thread(self.sio.call, name, data, timeout=seconds)
        if name == "subscribe" and reply["ok"] and "seq" in reply:
            self._next[data["topic"]] = reply["seq"] + 1
            self._loop.call_soon(self._pass_on, data["topic"])  # once who asked has the reply
        return reply

    async def close(self) -> None:
        ws = self.sio.eio.ws
        await asyncio.to_thread(self.sio.disconnect)
        if ws is not None:
            ws.shutdown()  # it leaves its socket open where the other side was first
        session = self.sio.eio.http
        if session is not None:
            session.close()


class Node:
    """One process of Node for all its clients."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._clients: dict[int, NodeStock] = {}
        self._replies: dict[int, asyncio.Future[Any]] = {}
        self._ids = count(1)
        self._reading = asyncio.create_task(self._read())

    def client(self) -> NodeStock:
        """Another client."""
        number = next(self._ids)
        self._clients[number] = client = NodeStock(self, number)
        return client

    def order(self, client: int, what: str, **more: Any) -> None:
        """Tell a client what to do."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"client": client, "do": what, **more}).encode() + b"\n")

    async def ask(self, client: int, what: str, seconds: float, **more: Any) -> Any:
        """The same, for what is answered."""
        id = next(self._ids)
        answer = self._replies[id] = asyncio.get_running_loop().create_future()
        self.order(client, what, id=id, **more)
        async with asyncio.timeout(seconds):
            return await answer

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            said = json.loads(line)
            if "id" in said:
                self._replies.pop(said["id"]).set_result(said["data"])
            else:
                self._clients[said["client"]]._keep(said["event"], said["data"])

    async def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with asyncio.timeout(SECONDS):
            await self._process.wait()
            await self._reading
        assert self._process.returncode == 0


class NodeStock(Stock):
    """socket.io-client of npm, with its msgpack parser where that is the endpoint."""

    def __init__(self, node: Node, number: int) -> None:
        super().__init__()
        self._node, self._number = node, number

    async def open(self, url: str, token: object, endpoint: str, transport: str) -> Self:
        self._node.order(
            self._number, "open", url=url, token=token, endpoint=endpoint, transports=TRANSPORTS[transport]
        )
        return await self._settled()

    async def call(self, name: str, data: Any = None, *, seconds: float = SECONDS) -> Any:
        args = data if isinstance(data, tuple) else () if data is None else (data,)
        # As text that JavaScript's own parser of JSON reads: in its own notation a "__proto__" is no member.
        return await self.evaluate(name, f"JSON.parse({json.dumps(json.dumps(args))})", seconds=seconds)

    async def evaluate(self, name: str, args: str, *, seconds: float = SECONDS) -> Any:
        """``call`` with a list of arguments in JavaScript, for what JSON cannot say."""
        return await self._node.ask(self._number, "ask", seconds, event=name, args=args)

    async def transport(self) -> str:
        return str(await self._node.ask(self._number, "transport", SECONDS))

    async def close(self) -> None:
        self._node.order(self._number, "close")


@asynccontextmanager
async def node() -> AsyncIterator[Node]:
    """Node, with the packages of web/. Without them what needs it is left out; HUB_REQUIRE_NODE=1 makes that a failure."""
    program = required("Node", shutil.which("node"), "HUB_REQUIRE_NODE")
    package = ROOT / "web" / "package.json"
    installed = package.parent / "node_modules" / "socket.io-msgpack-parser"
    required(
        "web/node_modules (scripts/test installs them)",
        str(installed) if installed.is_dir() else None,
        "HUB_REQUIRE_NODE",
    )
    process = await asyncio.create_subprocess_exec(
        program,
        Path(__file__).with_name("stock_client.mjs"),
        package,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=16 * 1024 * 1024,
    )
    running = Node(process)
    try:
        yield running
    finally:
        await running.end()


@asynccontextmanager
async def stock(kind: str) -> AsyncIterator[Stock]:
    """A stock client of that kind, not connected yet."""
    if kind == "node":
        async with node() as running:
            yield running.client()
        return
    client: Stock = AsyncioStock() if kind == "asyncio" else ThreadStock()
    yield client
    await client.close()


class Cable:
    """A way to a server that can be cut: everything that goes over it is lost then, and nobody is told. ``seen`` keeps
    what came from the server."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._server: asyncio.Server | None = None
        self._ends: set[asyncio.StreamWriter] = set()
        self.seen = bytearray()
        self.whole = True

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """Cut it, for good until ``mend``."""
        self.whole = False
        for end in list(self._ends):
            end.transport.abort()

    def mend(self) -> None:
        """Let connections through again."""
        self.whole = True

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.whole:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.transport.abort()
            return
        self._ends |= {writer, far_writer}
        await asyncio.gather(self._carry(reader, far_writer, None), self._carry(far_reader, writer, self.seen))
        self._ends -= {writer, far_writer}

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: bytearray | None) -> None:
        try:
            while data := await reader.read(65_536):
                if seen is not None:
                    seen += data
                writer.write(data)
                await writer.drain()
        except OSError:
            writer.transport.abort()
        writer.close()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await until(lambda: not self._ends, "the ends of all connections")
