"""Notices and broadcasts on their way to the hub: each is sent until it is answered, whatever the connection does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, Final

from hub.agent.connection import Connection, Lost
from hub.agent.waiting import spread
from hub.core.errors import Overloaded, error_from_wire

_log = logging.getLogger(__name__)

MOST: Final = 1000
"""How many may wait for the connection."""
RETRY: Final = 0.5
"""Seconds, about, until one is sent again that the hub could not take just now."""


class Announcements:
    """Requests without an order between them, by key; one may have to wait for writes. Used on the connection's event loop.

    ``run`` starts a coroutine beside the others of the link.
    """

    def __init__(self, connection: Connection, run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._connection = connection
        self._run = run
        self._waiting: dict[str, tuple[str, dict[str, Any]]] = {}
        self._early: set[str] = set()  # what has to come before them is not done
        self._settled = asyncio.Event()

    def __len__(self) -> int:
        """How many have no answer."""
        return len(self._waiting)

    def add(self, name: str, payload: dict[str, Any], before: Sequence[Future[None]] = ()) -> None:
        """Send a request, which has a key, once all of ``before`` are done. One more than may wait is dropped, and the log
        says so."""
        if len(self._waiting) >= MOST:
            _log.error("%s is dropped: %s", name, Overloaded("too much waits for the connection").message)
            return
        self._waiting[payload["key"]] = (name, payload)
        self._early.add(payload["key"])
        self._run(self._send_after(payload["key"], before))

    def up(self) -> None:
        """The connection is there, again."""
        for key in list(self._waiting):
            if key not in self._early:
                self._run(self._send(key))

    async def settle(self) -> None:
        """Wait until every one is answered."""
        await asyncio.sleep(0)  # what was asked for from this thread a moment ago is there now
        if self._waiting:
            self._settled.clear()
            await self._settled.wait()

    async def _send_after(self, key: str, before: Sequence[Future[None]]) -> None:
        for done in before:
            await asyncio.wrap_future(done)
        self._early.discard(key)
        await self._send(key)

    async def _send(self, key: str) -> None:
        while key in self._waiting and self._connection.up:
            name, payload = self._waiting[key]
            try:
                reply = await self._connection.request(name, payload)
            except Lost:
                return  # ``up`` sends it again
            error = None if reply.get("ok") else error_from_wire(reply.get("error") or {})
            if error is None or not error.retryable:
                self._waiting.pop(key, None)
                if not self._waiting:
                    self._settled.set()
                if error is not None:
                    _log.error("%s was refused: %s: %s", name, error.code, error.message)
                return
            await asyncio.sleep(spread(RETRY))
