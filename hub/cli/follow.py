"""Following a context: its state here, kept exact through lost connections, without a gap and without anything twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, Final

from hub.cli.client import Connection, Event, connect
from hub.cli.target import Target
from hub.core.changes import Change, Entry
from hub.core.errors import HubError, Internal, NotFound, Overloaded, RateLimited, Unavailable
from hub.core.position import Position
from hub.core.state import ContextState, DoesNotFit

MOST_PAGED: Final = 5_000
"""Entries that are fetched to close a gap; of a longer one the newest."""
_PAGE: Final = 200
_RETRY_SECONDS: Final = 0.3
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
        async with connect(self.target) as connection:
            begun = await self._subscribe(connection, resume=False)
            if begun is not None:
                yield begun
            lost = False
            while True:
                event = await connection.events.get()
                if event.name == "down":
                    if event.payload["error"] is not None:
                        raise event.payload["error"]
                    lost = True
                    yield Offline("the connection was lost")
                    continue
                if event.name == "up" and not lost:
                    continue  # the first one
                if event.name == "up":
                    yield Online()
                try:
                    happened = await self._next(connection, event)
                except NotFound:
                    self.state.closed = "removed"
                    happened = None
                if happened is not None:
                    yield happened
                if self.state.closed is not None:
                    yield Closed(self.state.closed)
                    return

    async def _next(self, connection: Connection, event: Event) -> Happened | None:
        if event.name == "up":
            return await self._resume(connection, None)
        if event.payload.get("topic") != f"context:{self.context}":
            return None
        try:
            return await self._take(connection, event.name, event.payload)
        except (DoesNotFit, _Resync):
            self._resyncs += 1
            if self._resyncs > _MOST_RESYNCS:
                raise Internal("the hub's changes do not fit its snapshots; please report this") from None
        except (Unavailable, Overloaded, RateLimited):
            pass  # in the middle of taking in a snapshot
        return await self._resume(connection, "resync")

    async def _resume(self, connection: Connection, anew: str | None) -> Begun | None:
        """Subscribe again, from the own position or ``anew`` for a reason; tried until the connection goes, which is told."""
        while True:
            try:
                return await self._subscribe(connection, resume=anew is None, reason=anew)
            except (Unavailable, Overloaded, RateLimited):
                if not connection.up:
                    return None
            await asyncio.sleep(_RETRY_SECONDS)

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
        if here.includes(change.position):
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
