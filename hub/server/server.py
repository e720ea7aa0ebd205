"""A hub process: record, node, Socket.IO and HTTP, put together and started."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from hub import __version__
from hub.core.errors import HubError, StartError
from hub.node.node import Node
from hub.node.settings import Settings
from hub.record.memory import MemoryRecord
from hub.record.port import Record
from hub.record.redis import RedisRecord
from hub.server import listening
from hub.server.auth import Tokens, folder_tokens
from hub.server.draining import Drain
from hub.server.handing import Parent
from hub.server.home import Home
from hub.server.http import Http, add_headers, answer_errors
from hub.server.load import Load
from hub.server.sockets import Sockets
from hub.server.watchdog import Watchdog

_log = logging.getLogger(__name__)

AWAY_SECONDS = 1.0
"""The record counts as away when it has not answered for so long; requests wait longer than that."""
REQUEST_SECONDS = 75.0
"""How long a connection may be open without a whole request's head."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a hub is started. ``redis``: the URL of a Redis or Valkey; without it the hub has a private one in its folder."""

    host: str = "127.0.0.1"
    port: int = 8765
    data_dir: Path = Path("~/.session-hub")
    record: str = "embedded"
    """``embedded`` or ``memory``, unless ``redis`` is given."""
    redis: str | None = None
    origins: list[str] | None = None
    """Origins that may use the hub besides its own; None is its own only."""
    websocket_only: bool = False
    """Whether clients that poll are refused: where requests of one may come to several nodes."""
    parent: Parent | None = None
    """Of a node of several: has the data folder and the record's server, and hands connections over."""
    settings: Settings = field(default_factory=Settings)
    progress: Callable[[str], None] | None = None
    """Told, in words for people, what a long start is doing."""


class HubServer:
    """One hub process, with one node. ``start`` brings it up or raises StartError, with nothing left behind."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.token = ""
        """An operator's token, also in the data folder."""
        self.url = ""
        """Where people and agents reach this hub."""
        self.node: Node
        self.sockets: Sockets
        self._drain: Drain
        self._home: Home | None = None
        self._listening: list[socket.socket] = []
        self._runner: web.AppRunner | None = None
        self._node_open = False
        self._watchdog: Watchdog | None = None
        self._load = Load()
        self._mark = ""  # of the secret

    @property
    def port(self) -> int:
        """The port it listens on; the system's choice if port 0 was asked for."""
        return int(self._listening[0].getsockname()[1])

    @property
    def durability(self) -> str:
        """What an answered change survives."""
        return self.node.record.durability

    async def start(self) -> None:
        """Raises StartError that says what to do."""
        try:
            await self._start()
        except BaseException as error:
            await self.stop()
            if isinstance(error, HubError) and not isinstance(error, StartError):
                raise StartError(f"the hub cannot start: {error.message}") from error
            raise

    async def _start(self) -> None:
        options = self.options
        if options.parent is None:
            self._listening = listening.bind(options.host, options.port)
            self._home = Home(options.data_dir, record=options.record, redis=options.redis, progress=options.progress)
            await self._home.start()
            tokens, self.token, redis = self._home.tokens, self._home.token, self._home.redis
        else:
            tokens, self.token = folder_tokens(options.data_dir)
            redis = options.redis
        self.node = Node(self._record(redis), options.settings)
        self._mark = tokens.mark
        self.node.info = self.info
        self._node_open = True
        self._load.start()
        await self.node.start()
        self._check_secret()
        await self._serve(tokens)
        if options.settings.stall_seconds > 0:
            self._watchdog = Watchdog(options.settings.stall_seconds)
            self._watchdog.start()
        if self._home is not None:
            self._home.tell(self.url)

    def _check_secret(self) -> None:
        """Warn of nodes that sign tokens with another secret: each refuses the clients of the other."""
        others = self.node.presence.others
        for row in self.node.presence.rows():
            if row["name"] in others and row["info"].get("secret", self._mark) != self._mark:
                _log.warning(
                    "the node %s on %s, which has the same record, signs tokens with another secret: a token of one is "
                    "refused by the other, until all have the same HUB_SECRET",
                    row["name"],
                    row["info"].get("host"),
                )

    def _record(self, redis: str | None) -> Record:
        if redis is None:
            return MemoryRecord()
        return RedisRecord(redis, timeout=AWAY_SECONDS, progress=self.options.progress)

    async def _serve(self, tokens: Tokens) -> None:
        options = self.options
        app = web.Application(middlewares=[answer_errors])
        self.sockets = Sockets(self.node, tokens, options.origins, websocket_only=options.websocket_only)
        for path, server in self.sockets.servers.items():
            server.attach(app, path.strip("/"))
        self._drain = Drain(self.node, self.sockets)
        self.node.orders.on_drain = self._drain.ask
        app.on_response_prepare.append(add_headers)
        Http(self.node, tokens, lambda: self.sockets.count, self._drain).add_to(app)
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=2.0, tcp_keepalive=False, keepalive_timeout=REQUEST_SECONDS
        )
        await self._runner.setup()
        if options.parent is not None:
            assert self._runner.server is not None
            options.parent.start(self._runner.server, lambda: self.sockets.count)
            return
        listening.listen(self._listening)
        self.url = listening.url_of(options.host, self._listening)
        for sock in self._listening:
            await web.SockSite(self._runner, sock).start()

    def info(self) -> dict[str, Any]:
        """What this node tells the others of itself with each beat, and operators see."""
        serves = hasattr(self, "sockets")
        return {
            "version": __version__,
            "host": platform.node(),
            "pid": os.getpid(),
            "contexts": len(self.node.contexts.live),
            "connections": self.sockets.count if serves else 0,
            "agents": self.node.dispatch.agents,
            "runs": self.node.dispatch.runs,
            "cpu": self._load.cpu,
            "loop_lag_ms": self._load.lag_ms,
            "record_lag": round(self.node.lag, 3),
            "ignored": self.node.hearing.ignored,
            "draining": serves and self._drain.begun,
            "secret": self._mark,
        }

    def end_soon(self) -> None:
        """Let it end without waiting for anything that is under way."""
        self._drain.ask(0)

    async def asked_to_end(self) -> None:
        """Wait until an operator lets this node drain."""
        await self._drain.asked.wait()

    async def drain(self) -> None:
        """Take no new connections, start no runs, and let those that are under way go on at another node, for a bounded time."""
        if self.options.parent is not None:
            await self.options.parent.leave()
        await self._drain.run()

    async def stop(self) -> None:
        """Tell everybody, keep what waits, and end. Harmless when it never started."""
        for step in (self._close_sockets, self._close_web, self._close_node, self._close_home):
            try:
                await step()
            except Exception:  # whatever fails, what comes after it must end too
                _log.exception("ending the hub")

    async def _close_sockets(self) -> None:
        if self._runner is not None and hasattr(self, "sockets"):
            self.sockets.say_goodbye("the hub is restarting")
            await asyncio.sleep(0.05)  # lets the farewell leave before the connections close
            self.sockets.close()

    async def _close_web(self) -> None:
        if self.options.parent is not None:
            self.options.parent.stop()
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
        listening.close(self._listening)

    async def _close_node(self) -> None:
        self._load.stop()
        if self._watchdog is not None:
            self._watchdog.stop()
        if self._node_open:
            self._node_open = False
            await self.node.close()

    async def _close_home(self) -> None:
        home, self._home = self._home, None
        if home is not None:
            await home.stop()
