"""Following a context: its state here, kept exact through lost connections, without a gap and without anything twice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, Final

from hub.cli.client import Connection, connect
from hub.cli.target import NotRunning, Target
from hub.core.changes import Change, Entry
from hub.core.errors import HubError, Internal, NotFound, RateLimited, Unavailable
from hub.core.position import Position
from hub.core.state import ContextState, DoesNotFit

MOST_PAGED: Final = 5_000
"""Entries that are fetched to close a gap; of a longer one the newest."""
_PAGE: Final = 200
_MOST_RESYNCS: Final = 5
"""Resyncs without a change that fits in between; more mean that it will never fit."""


@dataclass(frozen=True, slots=True)
class Begun:
    """The whole state, at first and wherever the changes in between could not be had. The document is the state's own.

    ``entries``: the newest of the log; after the first time, all that were not seen before, but for ``skipped``.
    """

    document: dict[str, Any]
    entries: list[Entry]
    position: Position
    reason: str | None = None
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Changed:
    """One change, already applied to the follower's state."""

    change: Change


@dataclass(frozen=True, slots=True)
class Offline:
    """The connection is lost; the follower tries to come back."""

    reason: str


@dataclass(frozen=True, slots=True)
class Online:
    """The connection is back; what was missed follows."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The context ended. Nothing follows."""

    reason: str


Happened = Begun | Changed | Offline | Online | Closed


class _Resync(Exception):
    """What came does not fit what is here."""


@dataclass(slots=True)
class Follower:
    """Follows one context of a hub. ``tail``: how many entries the first ``Begun`` has."""

    target: Target
    context: str
    tail: int = 50
    state: ContextState = field(default_factory=lambda: ContextState(Position("", 0)))
    """Position, document and log; the log holds the entries that were seen."""
    _seen: tuple[str, int] | None = None  # the log, and how many of its entries were given out
    _resyncs: int = 0

    async def happenings(self) -> AsyncGenerator[Happened, None]:
        """What happens, in order, until the context ends. Raises HubError if it cannot be followed at all."""
        attempt, online = 0, False
        while True:
            try:
                async with connect(self.target) as connection:
                    if self._seen is not None:
                        yield Online()
                    online, attempt = True, 0
                    async for happened in self._connected(connection):
                        yield happened
                        if isinstance(happened, Closed):
                            return
            except NotFound:
                if self._seen is None:
                    raise
                yield Closed("removed")
                return
            except (NotRunning, Unavailable, RateLimited) as error:
                if self._seen is None:
                    raise
                if online:
                    yield Offline(error.message)
                online = False
            attempt += 1
            await asyncio.sleep(min(0.1 * 2 ** min(attempt, 6), 5.0) * random.uniform(0.7, 1.3))

    async def _connected(self, connection: Connection) -> AsyncGenerator[Happened, None]:
        begun = await self._subscribe(connection, resume=self._seen is not None)
        if begun is not None:
            yield begun
        while True:
            event = await connection.events.get()
            if event.name == "lost":
                raise Unavailable(event.payload["reason"])
            if event.payload.get("topic") != f"context:{self.context}":
                continue
            try:
                happened = await self._take(connection, event.name, event.payload)
            except (DoesNotFit, _Resync):
                self._resyncs += 1
                if self._resyncs > _MOST_RESYNCS:
                    raise Internal("the hub's changes do not fit its snapshots; please report this") from None
                happened = await self._subscribe(connection, resume=False, reason="resync")
            if happened is not None:
                yield happened
            if self.state.closed is not None:
                yield Closed(self.state.closed)
                return

    async def _subscribe(self, connection: Connection, *, resume: bool, reason: str | None = None) -> Begun | None:
        wanted: dict[str, Any] = {"topic": f"context:{self.context}", "deliver": "patch", "tail": self.tail}
        if resume:
            wanted["from"] = {"epoch": self.state.position.epoch, "seq": self.state.position.seq}
        reply = await connection.request("subscribe", wanted)
        if reply["recovered"]:
            return None
        return await self._begin(connection, reply, reply.get("reason") or reason)

    async def _take(self, connection: Connection, name: str, payload: dict[str, Any]) -> Happened | None:
        """Take in one event. Raises DoesNotFit or _Resync."""
        if name == "snapshot":
            if payload.get("recovered") is False:
                return await self._begin(connection, payload, payload.get("reason"))
            return None
        if name != "change":
            return None
        change = Change(Position(payload["epoch"], payload["seq"]), payload["parts"])
        here = self.state.position
        if change.position.epoch == here.epoch and change.position.seq <= here.seq:
            return None  # was in the snapshot already
        if change.position != here.after():
            raise _Resync
        self.state.apply(change)
        self._resyncs = 0
        self._seen = (self.state.log.id, self.state.log.length)
        return Changed(change)

    async def _begin(self, connection: Connection, snapshot: dict[str, Any], reason: str | None) -> Begun:
        entries: list[Entry] = snapshot["entries"]
        log, skipped = snapshot["log_id"], 0
        if self._seen is not None and self._seen[0] == log:
            entries, skipped = await self._close_gap(connection, log, entries)
        position = Position(snapshot["epoch"], snapshot["seq"])
        document = snapshot["document"]
        self.state = ContextState.from_snapshot(
            {**position._asdict(), "document": document, "log": {"id": log, "entries": entries}, "data": {}}
        )
        self._seen = (log, self.state.log.length)
        return Begun(document, entries, position, reason, skipped)

    async def _close_gap(self, connection: Connection, log: str, entries: list[Entry]) -> tuple[list[Entry], int]:
        """The entries between the last one seen and the snapshot's first, in front of the snapshot's."""
        assert self._seen is not None
        known = self._seen[1]
        while entries and entries[0]["no"] > known and len(entries) < MOST_PAGED:
            before = entries[0]["no"]
            wanted = {"context": self.context, "log": log, "before": before, "limit": min(_PAGE, before - known)}
            try:
                page = (await connection.request("log.page", wanted))["entries"]
            except Unavailable:
                raise
            except HubError:  # the log was reset meanwhile: that comes as a change
                break
            older = [entry for entry in reversed(page) if known <= entry["no"] < before]
            if not older:
                break
            entries = older + entries
        return entries, max(entries[0]["no"] - known, 0) if entries else 0


__all__ = ["Begun", "Changed", "Closed", "Follower", "Happened", "Offline", "Online"]
