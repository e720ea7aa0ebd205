"""A hub process: record, node, Socket.IO and HTTP, put together and started."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from hub.core.errors import HubError, StartError
from hub.node.node import Node
from hub.node.settings import Settings
from hub.record.embedded import EmbeddedServer
from hub.record.folder import FolderLock
from hub.record.memory import MemoryRecord
from hub.record.port import Record
from hub.record.redis import RedisRecord
from hub.server.auth import Tokens, folder_tokens
from hub.server.http import Http, add_headers, answer_errors
from hub.server.sockets import Sockets
from hub.server.watchdog import Watchdog

_log = logging.getLogger(__name__)

AWAY_SECONDS = 1.0
"""The record counts as away when it has not answered for so long; requests wait longer than that."""
REQUEST_SECONDS = 75.0
"""How long a connection may be open without a whole request's head."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")


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
    settings: Settings = field(default_factory=Settings)
    progress: Callable[[str], None] | None = None
    """Told, in words for people, what a long start is doing."""


class HubServer:
    """One hub. ``start`` brings it up or raises StartError, with nothing left behind."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.token = ""
        """An operator's token, also in the data folder."""
        self.node: Node
        self.sockets: Sockets
        self._lock: FolderLock | None = None
        self._embedded: EmbeddedServer | None = None
        self._runner: web.AppRunner | None = None
        self._node_open = False
        self._watchdog: Watchdog | None = None

    @property
    def url(self) -> str:
        """Where people and agents reach this hub."""
        host = "127.0.0.1" if self.options.host in ("0.0.0.0", "::") else self.options.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def port(self) -> int:
        """The port it listens on; the system's choice if port 0 was asked for."""
        assert self._runner is not None
        return int(self._runner.addresses[0][1])

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
        if options.host not in LOOPBACK and not os.environ.get("HUB_SECRET"):
            raise StartError(
                f"listening on {options.host} lets others in: set HUB_SECRET (32 characters or more), give everybody "
                "a token of their own with 'session-hub token', and start again"
            )
        if options.redis is None and options.record not in ("embedded", "memory"):
            raise StartError(f"there is no record {options.record!r}: embedded, memory, or the URL of a Redis")
        self._lock = FolderLock(options.data_dir)
        folder = self._lock.folder
        tokens, self.token = folder_tokens(folder)
        record = await self._record(folder)
        self.node = Node(record, options.settings)
        self._node_open = True
        await self.node.start()
        await self._listen(tokens)
        if options.settings.stall_seconds > 0:
            self._watchdog = Watchdog(options.settings.stall_seconds)
            self._watchdog.start()
        try:
            (folder / "url").write_text(self.url + "\n")
        except OSError as error:
            raise StartError(f"cannot write {folder / 'url'}: {error.strerror}") from error

    async def _record(self, folder: Path) -> Record:
        options = self.options
        if options.redis is not None:
            return RedisRecord(options.redis, timeout=AWAY_SECONDS, progress=options.progress)
        if options.record == "memory":
            return MemoryRecord()
        assert self._lock is not None
        self._embedded = EmbeddedServer(folder, lock=self._lock, progress=options.progress)
        return RedisRecord(await self._embedded.start(), timeout=AWAY_SECONDS, progress=options.progress)

    async def _listen(self, tokens: Tokens) -> None:
        app = web.Application(middlewares=[answer_errors])
        self.sockets = Sockets(self.node, tokens, self.options.origins)
        for path, server in self.sockets.servers.items():
            server.attach(app, path.strip("/"))
        app.on_response_prepare.append(add_headers)
        Http(self.node, tokens, lambda: self.sockets.count).add_to(app)
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=2.0, tcp_keepalive=False, keepalive_timeout=REQUEST_SECONDS
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.options.host, self.options.port)
        try:
            await site.start()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise StartError(
                    f"port {self.options.port} on {self.options.host} is in use; end what uses it, or take another --port"
                ) from error
            raise StartError(f"cannot listen on {self.options.host}:{self.options.port}: {error.strerror}") from error

    async def stop(self) -> None:
        """Tell everybody, keep what waits, and end. Harmless when it never started."""
        for step in (self._close_sockets, self._close_web, self._close_node, self._close_embedded, self._release):
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
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _close_node(self) -> None:
        if self._node_open:
            self._node_open = False
            await self.node.close()

    async def _close_embedded(self) -> None:
        embedded, self._embedded = self._embedded, None
        if embedded is not None:
            await embedded.stop()

    async def _release(self) -> None:
        if self._watchdog is not None:
            self._watchdog.stop()
        lock, self._lock = self._lock, None
        if lock is not None:
            try:
                (lock.folder / "url").unlink(missing_ok=True)
            finally:
                lock.release()
