"""What a node of several has of its parent, which accepts connections and hands them over (hub/cli/parent.py).

Several processes that accept on one socket get connections as it happens, one nearly all of them; a parent gives each its
share, and none to a node that is draining. They talk over a socket, the node's standard input. Down come connections, one with
each byte; up go lines of JSON, ``{"ready": {...}}``, ``{"failed": "..."}``, ``{"took": n}``, ``{"clients": n}``,
``{"draining": true}``, which a byte without a connection answers: nothing more comes. Its end, even by SIGKILL, tells a node
that it has no parent any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Callable
from typing import Any

MOST_AT_ONCE = 64
"""Connections that are taken before others have their turn."""
LEAVE_SECONDS = 1.0
"""How long the parent may take to hand over nothing more."""
LAST_SECONDS = 0.1
"""How long who was handed over last has to ask for something."""
CLIENTS_SECONDS = 0.5
"""How often the parent is told how many clients there are, if that has changed."""


class Parent:
    """Takes what the parent hands over. ``on_end`` is called when the parent is gone."""

    def __init__(self, sock: socket.socket, on_end: Callable[[], object]) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._on_end = on_end
        self._left = asyncio.Event()
        self._took = 0
        self._told = (0, 0)
        self._protocol: Callable[[], asyncio.BaseProtocol]
        self._clients: Callable[[], int]
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, protocol: Callable[[], asyncio.BaseProtocol], clients: Callable[[], int]) -> None:
        """Let ``protocol()`` have each connection. ``clients`` says how many there are that stay."""
        self._protocol, self._clients = protocol, clients
        self._tell_clients()
        asyncio.get_running_loop().add_reader(self._socket, self._readable)

    def stop(self) -> None:
        """Take no more. Harmless when it never started."""
        asyncio.get_running_loop().remove_reader(self._socket)
        if self._timer is not None:
            self._timer.cancel()

    async def leave(self) -> None:
        """Let it hand over nothing more, and wait until what it did has come."""
        self.tell("draining", True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._left.wait()
        await asyncio.sleep(LAST_SECONDS)

    def tell(self, name: str, value: Any) -> None:
        """Say something to the parent. One that does not listen is no trouble."""
        with contextlib.suppress(OSError):
            self._socket.send(json.dumps({name: value}).encode() + b"\n")

    def _tell_clients(self) -> None:
        """Not every connection becomes a client, and clients leave: the parent, which counts what it gives, is put right."""
        there = (self._took, self._clients())
        if there != self._told:
            self._told = there
            self.tell("clients", there[1])
        self._timer = asyncio.get_running_loop().call_later(CLIENTS_SECONDS, self._tell_clients)

    def _readable(self) -> None:
        for _ in range(MOST_AT_ONCE):
            try:
                data, descriptors, _, _ = socket.recv_fds(self._socket, 1, 1)
            except BlockingIOError:
                return
            except OSError:
                data, descriptors = b"", []
            if not descriptors:
                self._left.set()
            if not data:
                self.stop()
                self._on_end()
                return
            for descriptor in descriptors:
                task = asyncio.get_running_loop().create_task(self._take(socket.socket(fileno=descriptor)))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _take(self, connection: socket.socket) -> None:
        self._took += 1
        self.tell("took", self._took)
        connection.setblocking(False)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(self._protocol, connection)
        except OSError:  # it is gone again
            connection.close()
