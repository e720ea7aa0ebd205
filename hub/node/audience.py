"""Who hears of a context's changes: viewers by their mode, and the contexts' facades in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Protocol

from hub.agent.link import Linked
from hub.core.changes import Change, Part
from hub.core.pointer import own
from hub.core.replica import Pending, Replica
from hub.core.state import ContextState
from hub.fanout.outbox import Outbox
from hub.fanout.ring import Budget, Ring
from hub.fanout.room import Room, Told, Viewer
from hub.wire.codec import Encoded, Variant, encoded_value

SMALL_DOCUMENT = 32_768
"""Bytes up to which snapshot mode gets every mutation's snapshot."""
SNAPSHOTS_PER_SECOND = 40
SNAPSHOT_BYTES_PER_SECOND = 2_000_000
TAIL_BYTES = 262_144
TAIL = 50


class Apart(Protocol):
    """A member that is still being sent what it missed."""

    @property
    def outbox(self) -> Outbox: ...

    @property
    def viewer(self) -> Viewer: ...

    def end(self) -> None:
        """Send no more: it left, or was told the whole state."""


class Audience:
    """A context's room, its replay ring, and the facades that follow it in this process."""

    def __init__(self, id: str, replica: Replica, budget: Budget) -> None:
        self.id = id
        self.topic = f"context:{id}"
        self.room = Room(self._resync)
        self.facades: list[Linked] = []
        self.ring = Ring(self.topic, replica.position, budget)
        self._replica = replica
        self._apart: dict[Outbox, Apart] = {}
        self._prepared: dict[int, Encoded] = {}  # id of a pending write -> the snapshot after it
        self._next_snapshot = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def empty(self) -> bool:
        return not self.room.members and not self.facades

    # snapshots

    def _snapshot(self, state: ContextState, variants: Iterable[Variant], **more: Any) -> Encoded:
        """The snapshot event of a state as it is now."""
        at = state.position
        payload: dict[str, Any] = {"topic": self.topic, "epoch": at.epoch, "seq": at.seq, "document": state.document}
        if state.closed is not None:
            payload["closed"] = state.closed
        event = Encoded("snapshot", payload | more)
        event.encode_now(variants)
        return event

    def _resync(self, viewer: Viewer, reason: str = "lagged", variants: Iterable[Variant] = Variant) -> Encoded:
        """The state whole, with the reason and the log's tail: for who missed changes."""
        with self._replica.confirmed() as state:
            entries = state.log.tail(TAIL, TAIL_BYTES)
            more: dict[str, Any] = {"recovered": False, "reason": reason, "log_id": state.log.id, "entries": entries}
            if viewer.private:
                more["data"] = dict(state.data)
            return self._snapshot(state, variants, **more)

    def prepare_snapshot(self, pending: Pending) -> None:
        """Keep what snapshot mode will be shown of a write, while the state is just as the write left it."""
        state = self._replica.state
        if self.room.snapshot_variants and state.size <= SMALL_DOCUMENT and not _only_appends(pending.worked.parts):
            self._prepared[id(pending)] = self._snapshot(state, Variant)  # all: others may join before it is told

    def forget_prepared(self) -> None:
        """The writes were taken back; what was prepared for them is void."""
        self._prepared.clear()

    def tell(self, changes: list[Change], pending: list[Pending]) -> None:
        """Changes that the record has now, in order. ``pending`` are the writes that they were, if they were this node's."""
        prepared: list[Encoded | None] = [None] * len(changes)
        if self._prepared:
            prepared = [self._prepared.get(id(write)) for write in pending if write.worked.parts] or prepared
        told: list[Told] = []
        overtaken = False
        for change, snapshot in zip(changes, prepared, strict=True):
            sent = self.ring.push(change)
            for facade in self.facades:
                facade.followed(Change(change.position, sent.private.payload["parts"]))
            overtaken = snapshot is None and (overtaken or not sent.only_appends)
            told.append(tuple.__new__(Told, (sent, snapshot)))  # twice as fast as Told(...), on the hot path
        self._prepared.clear()
        self.room.tell(told)
        if self._timer is not None and told and told[-1].snapshot is not None:  # it is the newest
            self._timer.cancel()
            self._timer = None
        if overtaken and self.room.snapshot_variants:
            self._send_newest()

    def _send_newest(self) -> None:
        """The newest state to snapshot mode: now, or when the pace allows the next one."""
        loop = asyncio.get_running_loop()
        if self._timer is None:
            if loop.time() >= self._next_snapshot:
                self._snapshot_now()
            else:
                self._timer = loop.call_at(self._next_snapshot, self._snapshot_now)

    def _snapshot_now(self) -> None:
        self._timer = None
        variants = self.room.snapshot_variants
        if not variants:
            return
        with self._replica.confirmed() as state:
            if not state.exists and state.closed is None:
                return
            self.room.tell([Told(snapshot=self._snapshot(state, variants))])
            size = state.size
        if size > SMALL_DOCUMENT:
            pace = max(1 / SNAPSHOTS_PER_SECOND, size / SNAPSHOT_BYTES_PER_SECOND)
            self._next_snapshot = asyncio.get_running_loop().time() + pace

    # viewers

    def join(self, outbox: Outbox, viewer: Viewer) -> None:
        """Let a member in that is told what happens from now on."""
        self._end_apart(outbox)
        self.room.join(outbox, viewer)

    def enter(self, apart: Apart) -> None:
        """Let a member in that is sent what it missed before it joins."""
        self._end_apart(apart.outbox)
        self.room.enter(apart.outbox, apart.viewer)
        self._apart[apart.outbox] = apart

    def resync(self, apart: Apart, reason: str) -> None:
        """One snapshot for all that is still missing; then the member joins."""
        apart.outbox.send(self._resync(apart.viewer, reason, (apart.outbox.variant,)))
        self.join(apart.outbox, apart.viewer)

    def leave(self, outbox: Outbox) -> None:
        self._end_apart(outbox)
        self.room.leave(outbox)

    def _end_apart(self, outbox: Outbox) -> None:
        apart = self._apart.pop(outbox, None)
        if apart is not None:
            apart.end()

    def expel(self, user_id: str | None) -> None:
        """The context is this user's now: who may not see it any more is told that it ended, and leaves."""
        for outbox, viewer in list(self.room.members.items()):
            if not viewer.sees(user_id):
                self.leave(outbox)
                outbox.send(self._end(viewer, "forbidden"))

    def _end(self, viewer: Viewer, reason: str) -> Encoded:
        at = self._replica.position
        if viewer.patch:
            part: Part = {"kind": "closed", "reason": reason}
            return Encoded("change", {"topic": self.topic, "epoch": at.epoch, "seq": at.seq + 1, "parts": [part]})
        document = {"id": self.id}
        payload = {"topic": self.topic, "epoch": at.epoch, "seq": at.seq, "document": document, "closed": reason}
        return Encoded("snapshot", payload)

    def get_reply(self, variant: Variant, *, private: bool) -> dict[str, Any]:
        """Position, document and, for who may see it, the private data. These are encoded already: that costs a fraction of
        copying them."""
        with self._replica.confirmed() as state:
            reply: dict[str, Any] = {
                "epoch": state.position.epoch,
                "seq": state.position.seq,
                "document": encoded_value(variant, state.document),
            }
            if private:
                reply["data"] = encoded_value(variant, state.data)
        return reply

    def full_reply(self, variant: Variant, viewer: Viewer, tail: int, reason: str | None) -> dict[str, Any]:
        """The subscribe reply of a client that begins, or that must begin again."""
        reply = self.get_reply(variant, private=viewer.private)
        with self._replica.confirmed() as state:
            reply |= {"recovered": False, "log_id": state.log.id, "entries": state.log.tail(tail, TAIL_BYTES)}
        if reason is not None:
            reply["reason"] = reason
        return reply

    def may_lack_snapshot(self, outbox: Outbox) -> bool:
        """Whether a reader in snapshot mode that stands at the end may know only the log part of the last change: its connection
        may have ended before the snapshot behind it came. What is still told on this connection comes in order."""
        members = self.room.members
        if outbox in members and outbox not in self.room.behind and outbox not in self._apart:
            return False
        last = self.ring.since(self._replica.position.after(-1))
        return not last or last[0].in_log

    def newest(self, variant: Variant) -> Encoded:
        """The snapshot of the newest state, for one member."""
        with self._replica.confirmed() as state:
            return self._snapshot(state, (variant,))

    def start_over(self, replica: Replica, reason: str) -> None:
        """The state is another one: everybody gets it whole, with the reason."""
        self._replica = replica
        self._prepared.clear()
        self.ring.start_over(replica.position)
        events: dict[bool, Encoded] = {}
        for outbox, viewer in self.room.members.items():
            if viewer.private not in events:
                events[viewer.private] = self._resync(viewer, reason)
            outbox.send(events[viewer.private])
        for apart in list(self._apart.values()):
            self.join(apart.outbox, apart.viewer)
        with replica.confirmed() as state:
            for facade in self.facades:
                facade.loaded(owned_snapshot(state))

    def end(self) -> None:
        """The context leaves memory: no circle of references keeps what it had."""
        self.ring.start_over(self._replica.position)
        self.room.end()

    def close(self, reason: str) -> None:
        """Nobody hears more of this context."""
        if self._timer is not None:
            self._timer.cancel()
            self._snapshot_now()  # the last one always comes
        for facade in self.facades:
            facade.closed(reason)
        self.facades = []
        for outbox, viewer in self.room.members.items():
            if outbox in self.room.behind or outbox in self._apart:
                outbox.send(self._resync(viewer))
            if self._replica.state.closed is None:  # otherwise the change or the snapshot said so
                outbox.send(self._end(viewer, reason))
        for outbox in list(self._apart):
            self._end_apart(outbox)
        self.room.clear()


def owned_snapshot(state: ContextState) -> dict[str, Any]:
    """A snapshot that shares nothing with the state."""
    snapshot = state.snapshot()
    return {**snapshot, "document": own(snapshot["document"]), "data": own(snapshot["data"])}


def _only_appends(parts: list[Part]) -> bool:
    kinds = {part["kind"] for part in parts} - {"key"}
    return kinds == {"log.append"}
