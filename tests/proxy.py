"""A bad network between a server and those who connect to it: slow, silent, cut; and what went through it, counted.

It runs on a thread of its own, so that a test which is busy slows nothing down."""

from __future__ import annotations

import asyncio
import random
import shutil
import socket
import struct
import tempfile
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from tests.support import SECONDS

T = TypeVar("T")

PIECE: Final = 65_536
MOST_PIECES: Final = 64
"""Pieces that wait in one direction of a connection; then its sender is read no more."""
Pieces = asyncio.Queue[tuple[float, bytes]]
"""What waits in one direction, each with the loop's time when it is due."""


class Way:
    """One direction, of all connections: ``delay`` in seconds, which every byte takes; ``bytes`` that went through."""

    def __init__(self) -> None:
        self.delay = 0.0
        self.bytes = 0


class Proxy:
    """Passes connections on to the first of its targets that takes them, in random order.

    A target is a URL: ``unix:///PATH`` or one with host and port. ``url`` is the first target's with this proxy's address.
    """

    def __init__(self, *targets: str) -> None:
        self.targets = list(targets)
        self.to_server, self.to_client = Way(), Way()
        self.refuses = False
        """Whether new connections are ended at once."""
        self.url = ""
        self.connections = 0
        """How many there are now."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._open = asyncio.Event()
        self._sockets: set[socket.socket] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._folder: Path | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._start())
        return self

    def __exit__(self, *args: object) -> None:
        self._do(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    # what happens to the network

    def cut(self) -> None:
        """End all connections at once, on both sides."""
        self._do(self._cut())

    @contextmanager
    def silent(self, *, cut: bool = True) -> Iterator[None]:
        """Nothing goes through, and nobody is told: no byte, no end of a connection. New ones are taken, and hear nothing.

        After it the connections that were there are cut, as where a network forgot them; or what they said goes on."""
        self._do(self._set_open(False))
        try:
            yield
        finally:
            if cut:
                self.cut()
            self._do(self._set_open(True))

    # inside

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS)

    async def _start(self) -> None:
        self._open.set()
        first = urlsplit(self.targets[0])
        if first.scheme == "unix":
            self._folder = Path(tempfile.mkdtemp(prefix="proxy-", dir="/tmp"))
            path = self._folder / "s"
            self._server = await asyncio.start_unix_server(self._connected, path)
            self.url = f"unix://{path}"
        else:
            self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
            port = self._server.sockets[0].getsockname()[1]
            self.url = urlunsplit(first._replace(netloc=f"127.0.0.1:{port}"))

    async def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._cut()

    async def _set_open(self, is_open: bool) -> None:
        if is_open:
            self._open.set()
        else:
            self._open.clear()

    async def _cut(self) -> None:
        for sock in self._sockets:
            if sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # ends with RST
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._pass_on(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        writers = [writer]
        sockets = {_socket(writer)}
        self._sockets |= sockets
        try:
            if self.refuses:
                return
            await self._open.wait()
            there_reader, there_writer = await self._reach()
            writers.append(there_writer)
            sockets.add(_socket(there_writer))
            self._sockets |= sockets
            async with asyncio.TaskGroup() as group:
                for source, sink, way in (reader, there_writer, self.to_server), (there_reader, writer, self.to_client):
                    pieces: Pieces = asyncio.Queue(MOST_PIECES)
                    group.create_task(self._take(source, pieces, way))
                    group.create_task(self._give(pieces, sink, way))
        except* OSError:
            pass
        finally:
            self.connections -= 1
            self._sockets -= sockets
            for end in writers:
                end.transport.abort()

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        for target in random.sample(self.targets, len(self.targets)):
            parts = urlsplit(target)
            try:
                if parts.scheme == "unix":
                    return await asyncio.open_unix_connection(unquote(parts.path))
                return await asyncio.open_connection(parts.hostname, parts.port)
            except OSError:
                continue
        raise ConnectionRefusedError

    async def _take(self, source: asyncio.StreamReader, pieces: Pieces, way: Way) -> None:
        while data := await source.read(PIECE):
            await pieces.put((self._loop.time() + way.delay, data))
        await pieces.put((self._loop.time() + way.delay, b""))

    async def _give(self, pieces: Pieces, sink: asyncio.StreamWriter, way: Way) -> None:
        """Pass on each piece when it is due. When one side ends, both do."""
        while True:
            due, data = await pieces.get()
            await asyncio.sleep(max(0.0, due - self._loop.time()))
            await self._open.wait()
            if not data:
                raise ConnectionResetError
            way.bytes += len(data)
            sink.write(data)
            await sink.drain()


def _socket(writer: asyncio.StreamWriter) -> socket.socket:
    found: socket.socket = writer.get_extra_info("socket")
    return found
