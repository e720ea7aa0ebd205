"""The record in memory: for tests, ``--record memory`` and contexts without a hub. It ends with its process.

Entries are kept packed, as in Redis: so what cannot be kept there is refused here too, and nobody shares a value with it.
"""

from __future__ import annotations

import heapq
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

from hub.core.changes import RecordEntry
from hub.core.errors import Conflict, NotFound
from hub.core.position import Position
from hub.record import plain
from hub.record.memory_context import MemoryContext, prepare
from hub.record.memory_extras import MemoryNotices, MemoryUploads, MemoryWork
from hub.record.memory_following import MemoryFollowing, row_told
from hub.record.memory_nodes import MemoryNodes
from hub.record.names import TOMBSTONE_SECONDS
from hub.record.port import Append, Appended, Beat, Follower, Loaded, MirrorWrite, Outcome, Upload, Work
from hub.record.rows import cursor_at, parse_cursor
from hub.record.uploads import TOTAL_BYTES

_MISSED: Final = 64


class MemoryRecord:
    """A Record that lives and dies with its process. Its methods do what the port says (port.py)."""

    durability = "memory"

    def __init__(self, *, upload_bytes: int = TOTAL_BYTES, clock: Callable[[], float] = time.time) -> None:
        """``clock`` gives seconds since 1970."""
        self._clock = clock
        self._contexts: dict[str, MemoryContext] = {}
        self._tombstones: OrderedDict[str, MemoryContext] = OrderedDict()  # those that are forgotten first come first
        self._followings: dict[MemoryFollowing, None] = {}
        self._used: dict[str, float] = {}
        self._no = 0
        self._work = MemoryWork()
        self._nodes = MemoryNodes(clock)
        self._notices = MemoryNotices()
        self._uploads = MemoryUploads(upload_bytes, clock)

    async def start(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""

    async def ping(self) -> float:
        return 0.0

    # contexts

    async def append(self, appends: Sequence[Append]) -> list[Appended]:
        return [self._append(append) for append in appends]

    def _append(self, append: Append) -> Appended:
        prepared = prepare(append)
        if isinstance(prepared, Appended):
            return prepared
        there, position, entry = self._there(append.context), append.position, append.entry
        before = None if there is None else there.fields.get("user_id")
        if prepared.creates:
            refused = None if there is None else _refused_creation(append, there)
            if refused is not None:
                return refused
            there = MemoryContext(position.epoch, append.born, append.since)
            self._contexts[append.context] = there
        elif there is None:
            return Appended(Outcome.MISSING)
        elif append.born not in ("", there.born):
            return Appended(Outcome.REMOVED)
        elif there.closed is not None:
            mine = there.epoch == position.epoch
            return Appended(Outcome.REMOVED, *(there.after(position.seq, _MISSED) if mine else ()))
        elif there.epoch != position.epoch:
            return Appended(Outcome.EPOCH)
        elif (there.last, there.tip) != (position.seq, entry.before):
            there.wanted = there.wanted or (_writer_of(entry.id) if entry.changes else "")
            return Appended(Outcome.STALE, *there.after(position.seq, _MISSED))
        if not entry.changes:
            return Appended(Outcome.APPENDED)
        wanted, there.wanted = there.wanted, ""
        type = there.fields.get("type", "")
        there.add(prepared, self._clock() + TOMBSTONE_SECONDS)
        there.made_by = append.key
        for following in self._followings:
            following.appended(append.context, there)
        if there.closed is not None:
            self._bury(append.context, there)
            self._tell_row(append.context, there, before, gone=type)
        elif prepared.fields:
            self._tell_row(append.context, there, before)
        return Appended(Outcome.APPENDED, wanted="" if wanted == _writer_of(entry.id) else wanted)

    def _tell_row(self, context: str, there: MemoryContext, before: str | None, gone: str | None = None) -> None:
        for following in self._followings:
            following.row(row_told(context, there, before, gone))

    def _bury(self, context: str, there: MemoryContext) -> None:
        """A tombstone more; those whose time is over go, asked for or not."""
        self._used.pop(context, None)
        self._tombstones[context] = there
        self._tombstones.move_to_end(context)
        now = self._clock()
        while self._tombstones:
            oldest = next(iter(self._tombstones))
            forget_at = self._tombstones[oldest].forget_at
            if forget_at is not None and forget_at > now:
                break
            buried = self._tombstones.pop(oldest)
            if self._contexts.get(oldest) is buried:
                del self._contexts[oldest]

    def _there(self, context: str) -> MemoryContext | None:
        """A context or its tombstone."""
        there = self._contexts.get(context)
        if there is not None and there.forget_at is not None and there.forget_at <= self._clock():
            del self._contexts[context]
            return None
        return there

    def _live(self, context: str) -> MemoryContext | None:
        there = self._there(context)
        return None if there is None or there.closed is not None else there

    async def read(self, context: str, after: Position, limit: int = 256) -> tuple[list[RecordEntry], bool]:
        there = self._there(context)
        if there is None:
            raise NotFound(f"no context {context!r}")
        entries, more = there.after(after.seq, limit)
        first = entries[0].changes[0].position.seq if entries else there.last + 1
        if there.epoch != after.epoch or there.last < after.seq or first != after.seq + 1:
            at = Position(there.epoch, there.last)
            raise Conflict(f"the record stands at {at} and does not continue {after}", end=str(at))
        return entries, more

    async def end(self, context: str) -> tuple[Position, str] | None:
        there = self._live(context)
        return None if there is None else (Position(there.epoch, there.last), there.tip)

    async def farewell(self, context: str) -> RecordEntry | None:
        there = self._there(context)
        return None if there is None or there.closed is None else there.after(there.last - 1, 1)[0][0]

    async def load(self, context: str) -> Loaded | None:
        there = self._live(context)
        return None if there is None else there.load()

    async def mirror(self, writes: Sequence[MirrorWrite]) -> list[bool]:
        return [self._mirror(write) for write in writes]

    def _mirror(self, write: MirrorWrite) -> bool:
        there = self._live(write.context)
        if there is None or (there.epoch, there.mirrored) != (write.position.epoch, write.base):
            return False
        if write.position.seq > there.last:
            return False
        there.mirrored, there.held = write.position.seq, dict(write.held)
        there.trim(write.trim)
        return True

    async def mirrored(self, contexts: Sequence[str]) -> list[tuple[int, dict[str, int]] | None]:
        found = [self._live(context) for context in contexts]
        return [None if there is None else (there.mirrored, dict(there.held)) for there in found]

    async def differ(self, ends: Sequence[tuple[str, Position, str]]) -> list[str]:
        return [context for context, position, tip in ends if await self.end(context) != (position, tip)]

    async def new_epoch(self, context: str, before: str, after: str) -> None:
        there = self._live(context)
        if there is not None and there.epoch == before:
            there.new_epoch(after)
            for following in self._followings:
                following.new_epoch(context, there)
            self._tell_row(context, there, there.fields.get("user_id"))

    async def next_no(self, at_least: int = 1) -> int:
        self._no = max(self._no, at_least - 1) + 1
        return self._no

    async def rows(
        self, *, user_id: str | None = None, before: str | None = None, limit: int = 100
    ) -> tuple[list[dict[str, Any]], str | None]:
        after = None if before is None else parse_cursor(before)
        live = [(id, there) for id in list(self._contexts) if (there := self._live(id)) is not None]
        places = [
            (there.created_ms, id)
            for id, there in live
            if (after is None or (there.created_ms, id) < after)
            and (user_id is None or there.fields.get("user_id") == user_id)
        ]
        page = heapq.nlargest(limit + 1, places)
        rows = []
        for _, id in page[:limit]:
            there = self._contexts[id]
            rows.append({**plain.values(there.fields), "version": f"{there.epoch}:{there.last}"})
        cursor = cursor_at(page[limit - 1][1], page[limit - 1][0]) if len(page) > limit else None
        return rows, cursor

    async def unmirrored(self) -> list[str]:
        live = [(id, there) for id in list(self._contexts) if (there := self._live(id)) is not None]
        return [
            id
            for id, there in live
            if there.mirrored != there.last or there.held or there.fields.get("running") == "true"
        ]

    # retention

    async def note_uses(self, on: bool) -> None:
        now = self._clock()
        self._used = {id: self._used.get(id, now) for id in self._contexts} if on else {}

    async def used(self, contexts: Sequence[str]) -> None:
        self._used.update(dict.fromkeys(contexts, self._clock()))

    async def unused(self, seconds: float, limit: int = 64) -> list[tuple[str, Position, str]]:
        now = self._clock()
        found: list[tuple[str, Position, str]] = []
        for id in sorted([id for id, at in self._used.items() if at < now - seconds], key=self._used.__getitem__):
            there = self._live(id)
            if there is not None and there.fields.get("running") == "true":
                self._used[id] = now
                continue
            del self._used[id]
            if there is not None:
                found.append((id, Position(there.epoch, there.last), there.tip))
            if len(found) == limit:
                break
        return found

    # work

    async def offer(self, agent: str, context: str) -> None:
        self._work.offer(agent, context)

    async def take(self, agent: str, node: str, wait: float) -> Work | None:
        return await self._work.take(agent, wait)

    async def done(self, work: Work) -> None:
        self._work.done(work)

    # nodes

    def follow(self, node: str, follower: Follower, *, own: str | None = None) -> MemoryFollowing:
        return MemoryFollowing(self._followings, follower, own)

    async def beat(self, node: str, info: dict[str, Any]) -> dict[str, Beat]:
        return self._nodes.beat(node, info)

    async def leave(self, node: str) -> None:
        self._nodes.leave(node)

    async def hold_run(self, node: str, context: str) -> None:
        self._nodes.hold_run(node, context)

    async def let_run(self, node: str, context: str) -> None:
        self._nodes.let_run(node, context)

    async def runs_of(self, node: str) -> list[str]:
        return self._nodes.runs_of(node)

    async def add_broadcast(self, broadcast: dict[str, Any]) -> str:
        return self._nodes.add_broadcast(broadcast)

    async def broadcasts(self, after: str | None) -> tuple[list[dict[str, Any]], str]:
        return self._nodes.broadcasts(after)

    # notices

    async def notices(self) -> dict[str, dict[str, Any]]:
        return self._notices.all()

    async def notice(self, id: str) -> dict[str, Any] | None:
        return self._notices.get(id)

    async def put_notice(self, notice: dict[str, Any]) -> None:
        self._notices.put(notice)
        self._tell_notices([notice["id"]])

    async def drop_notices(self, ids: Sequence[str]) -> None:
        self._notices.drop(ids)
        self._tell_notices(ids)

    def _tell_notices(self, ids: Sequence[str]) -> None:
        for following in self._followings:
            for id in ids:
                following.notice(id)

    async def read_marks(self, user: str) -> set[str]:
        return self._notices.read_by(user)

    async def mark_read(self, user: str, ids: Sequence[str]) -> None:
        self._notices.mark(user, ids)

    # uploads

    async def put_upload(self, upload: Upload, chunks: AsyncIterator[bytes]) -> Upload:
        return await self._uploads.put(upload, chunks)

    async def get_upload(self, id: str) -> Upload | None:
        return self._uploads.get(id)

    def read_upload(self, id: str) -> AsyncIterator[bytes]:
        return self._uploads.read(id)


def _writer_of(id: str) -> str:
    """Who appends: the ids of its entries begin alike."""
    return id.rpartition(".")[0] or id


def _refused_creation(append: Append, there: MemoryContext) -> Appended | None:
    """Why what is there, or its tombstone, is in the way of a creation; None: it is not."""
    if there.closed is not None:
        again = append.born not in ("", append.position.epoch) or (append.key and append.key == there.made_by)
        return Appended(Outcome.REMOVED) if again else None
    if there.epoch == append.position.epoch:
        return Appended(Outcome.EXISTS, *there.after(0, _MISSED))
    return None if append.replace else Appended(Outcome.EXISTS)
