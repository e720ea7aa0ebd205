"""Who follows a memory record. What happens is told in the next iteration of the event loop: in order, and never inside
the call that made it happen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from hub.core.position import Position
from hub.record import plain
from hub.record.memory_context import MemoryContext
from hub.record.packing import pack, unpack
from hub.record.port import Follower, RowTold


class MemoryFollowing:
    """One node's; several nodes of a process may share a record. Its methods do what the port says (port.py)."""

    ignored = 0

    def __init__(self, everybody: dict[MemoryFollowing, None], follower: Follower, own: str | None) -> None:
        """``everybody`` has those that were started, in that order."""
        self._everybody = everybody
        self._follower = follower
        self._own = own
        self._followed: set[str] = set()

    @property
    def is_deaf(self) -> bool:
        return self not in self._everybody

    async def start(self) -> None:
        self._everybody[self] = None

    async def close(self) -> None:
        self._everybody.pop(self, None)

    def add(self, contexts: Sequence[str]) -> None:
        self._followed.update(contexts)
        for context in contexts:
            self._soon(self._about, context, self._follower.followed, context)

    def drop(self, context: str) -> None:
        self._followed.discard(context)

    async def tell(self, message: dict[str, Any]) -> None:
        packed = pack(message)
        for following in self._everybody:
            following.told(packed)

    # what the record calls

    def appended(self, context: str, there: MemoryContext) -> None:
        """The context has a new last entry."""
        if context in self._followed and (self._own is None or not there.tip.startswith(self._own)):
            self._soon(self._about, context, self._follower.appended, context, there.epoch, there.last, there.newest())

    def new_epoch(self, context: str, there: MemoryContext) -> None:
        """The context has another epoch."""
        if context in self._followed:
            self._soon(self._about, context, self._follower.appended, context, there.epoch, there.last, None)

    def row(self, row: RowTold) -> None:
        """A row changed."""
        self._soon(self._follower.row, row)

    def notice(self, id: str) -> None:
        """A notice changed."""
        self._soon(self._follower.notice, id)

    def told(self, packed: bytes) -> None:
        """A node told all nodes something."""
        self._soon(self._follower.told, unpack(packed))

    def _about(self, context: str, call: Callable[..., None], *given: Any) -> None:
        if context in self._followed:
            call(*given)

    def _soon(self, call: Callable[..., None], *given: Any) -> None:
        asyncio.get_running_loop().call_soon(self._unless_closed, call, *given)

    def _unless_closed(self, call: Callable[..., None], *given: Any) -> None:
        if self in self._everybody:
            call(*given)


def row_told(context: str, there: MemoryContext, before: str | None, gone: str | None) -> RowTold:
    """A context's row; ``before``: its owner before, ``gone``: the type of one that is closed."""
    version = Position(there.epoch, there.last)
    if gone is not None:
        return RowTold(context, version, None, gone, before, before)
    row = plain.values(there.fields)
    return RowTold(context, version, row, row["type"], row["user_id"], before)
