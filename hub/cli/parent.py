"""Many nodes on one port: a parent has the data folder, the record's server and the port, and hands connections to its nodes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final

from hub.cli.companion import Companion, end, how, own_command
from hub.core.errors import StartError
from hub.node.tasks import end_tasks
from hub.server import listening
from hub.server.home import Home
from hub.server.server import Options

_log = logging.getLogger(__name__)

SHORTEST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 5.0
SLOW_SECONDS: Final = 1.0
"""A node that has not taken what it was handed for so long gets nothing while there is another."""
OVERRUN_SECONDS: Final = 5.0
"""How long a node may take to end after its deadline."""
READ_BYTES: Final = 65_536


class NodeProcess(Companion):
    """A node and the socket that leads to it (hub/server/handing.py). It comes again when it ends, unless it was drained."""

    def __init__(self, number: int, command: list[str], environment: Mapping[str, str], changed: asyncio.Event) -> None:
        """``changed`` is set when it serves, and when it stays away."""
        super().__init__(f"node {number}", command)
        self._pauses = SHORTEST_PAUSE, LONGEST_PAUSE
        self.ready: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        """What it said when it served for the first time, or StartError."""
        self.serves = False
        """Whether it takes connections."""
        self.over = False
        """Whether it was drained, and stays away."""
        self._environment = environment
        self._changed = changed
        self._told = False
        self._socket: socket.socket
        self._given = self._taken = self._clients = 0
        self._waits_since = 0.0

    # connections

    @property
    def order(self) -> tuple[bool, int, int, int]:
        """Of several nodes the first gets the next connection: one that keeps up, and has the fewest to take, the fewest clients,
        and got the fewest."""
        waiting = self._given - self._taken
        slow = waiting > 0 and asyncio.get_running_loop().time() - self._waits_since > SLOW_SECONDS
        return slow, waiting, self._clients, self._given

    def give(self, connection: socket.socket) -> bool:
        """Hand a connection over. False if it cannot take one now."""
        try:
            socket.send_fds(self._socket, [b"."], [connection.fileno()])
        except BlockingIOError:
            return False
        except OSError:
            self.serves = False
            return False
        if self._given == self._taken:
            self._waits_since = asyncio.get_running_loop().time()
        self._given += 1
        self._clients += 1
        return True

    # its life

    def drain(self) -> None:
        """Let it drain, and end for good."""
        self._told = True
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
        elif self._keeper is not None:
            self._keeper.cancel()

    async def ended(self, seconds: float) -> None:
        """Wait until it has ended for good, but not for longer."""
        if self._keeper is not None:
            await asyncio.wait({self._keeper}, timeout=seconds)

    def _comes_again(self, code: int) -> bool:
        if not self.ready.done():
            self.ready.set_exception(StartError(f"{self.name} ended while it started ({how(code)})"))
        if code == 0 and not self._told:
            _log.warning("%s was drained; it is not started again", self.name)
        self.over = self._told or code == 0
        self._changed.set()
        return not self.over

    async def _run(self) -> int:
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)
        self._given = self._taken = self._clients = 0
        with self._socket:
            with theirs:
                self._process = process = await asyncio.create_subprocess_exec(
                    *self._command,
                    stdin=theirs.fileno(),
                    stdout=asyncio.subprocess.DEVNULL,
                    env=self._environment,
                    start_new_session=True,
                )
            hearing = asyncio.create_task(self._hear(), name=f"hearing {self.name}")
            try:
                return await process.wait()
            finally:
                self.serves = False
                await end_tasks([hearing])
                if process.returncode is None:
                    await asyncio.shield(end(process))

    async def _hear(self) -> None:
        loop, rest = asyncio.get_running_loop(), b""
        with contextlib.suppress(OSError):  # it ended before it took all that it was handed
            while data := await loop.sock_recv(self._socket, READ_BYTES):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._heard(json.loads(line))

    def _heard(self, said: dict[str, Any]) -> None:
        match said:
            case {"took": int(taken)}:
                self._taken, self._waits_since = taken, asyncio.get_running_loop().time()
            case {"clients": int(clients)}:
                self._clients = clients + self._given - self._taken
            case {"ready": {"node": str(name)} as ready}:
                self.name, self.serves = name, True
                if not self.ready.done():
                    self.ready.set_result(ready)
                self._changed.set()
            case {"draining": _}:
                self.serves = False
                with contextlib.suppress(OSError):
                    self._socket.send(b"!")
            case {"failed": str(why)}:
                if not self.ready.done():
                    self.ready.set_exception(StartError(why))
                else:
                    _log.warning("%s cannot start: %s", self.name, why)


class ManyNodes:
    """A hub of several nodes. ``start`` brings it up or raises StartError, with nothing left behind."""

    def __init__(self, options: Options, nodes: int, *, verbose: bool = False) -> None:
        self.options = options
        self.url = ""
        self.token = ""
        self.durability = ""
        self._count = nodes
        self._verbose = verbose
        self._changed = asyncio.Event()
        self._nodes: list[NodeProcess] = []
        self._listening: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._home: Home | None = None

    async def start(self) -> None:
        """Raises StartError that says what to do."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        options = self.options
        self._listening = listening.bind(options.host, options.port)
        self._home = Home(options.data_dir, record=options.record, redis=options.redis, progress=options.progress)
        await self._home.start()
        self.token = self._home.token
        for number in range(1, self._count + 1):
            node = NodeProcess(number, *self._command(), self._changed)
            self._nodes.append(node)
            node.start()
        ready = await asyncio.gather(*(node.ready for node in self._nodes))
        self.durability = ready[0]["durability"]
        listening.listen(self._listening)
        self.url = listening.url_of(options.host, self._listening)
        self._accepting = [asyncio.create_task(self._accept(sock), name="accept") for sock in self._listening]
        self._home.tell(self.url)

    def _command(self) -> tuple[list[str], dict[str, str]]:
        """A node's command line and environment; the record's URL may have a password, which others must not see."""
        assert self._home is not None
        assert self._home.redis is not None
        origins = [word for origin in self.options.origins or () for word in ("--origin", origin)]
        verbose = ["--verbose"] if self._verbose else []
        command = own_command("node", "--data-dir", str(self._home.folder), *origins, *verbose)
        return command, {**os.environ, "HUB_REDIS_URL": self._home.redis}

    # connections

    async def _accept(self, sock: socket.socket) -> None:
        """Those that come while no node serves wait with the system, or here, one at a time."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                await self._until(lambda: any(node.serves for node in self._nodes))
                connection, _ = await loop.sock_accept(sock)
            except OSError as error:  # no descriptors, above all
                _log.error("accepting connections: %s", error.strerror)
                await asyncio.sleep(1.0)
                continue
            with connection:
                await self._give(connection)

    async def _give(self, connection: socket.socket) -> None:
        while True:
            for node in sorted((node for node in self._nodes if node.serves), key=lambda node: node.order):
                if node.give(connection):
                    return
            await asyncio.sleep(0.01)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    # its end

    async def asked_to_end(self) -> None:
        """Wait until there is no node any more that would come again."""
        await self._until(lambda: all(node.over for node in self._nodes))

    async def drain(self) -> None:
        """Take no more connections, and let every node drain and end."""
        await self._close_listening()
        for node in self._nodes:
            node.drain()
        seconds = self.options.settings.drain_seconds + OVERRUN_SECONDS
        await asyncio.gather(*(node.ended(seconds) for node in self._nodes))

    async def stop(self) -> None:
        """End what is left of it. Harmless when it never started."""
        await self._close_listening()
        await asyncio.gather(*(node.close() for node in self._nodes))
        home, self._home = self._home, None
        if home is not None:
            await home.stop()

    async def _close_listening(self) -> None:
        accepting, self._accepting = self._accepting, []
        await end_tasks(accepting)
        listening.close(self._listening)
