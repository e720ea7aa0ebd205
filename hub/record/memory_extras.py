"""Work, notices and uploads of the memory record; the methods do what those of the port do that call them."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from hub.core.errors import NotFound
from hub.record.notices import id_of
from hub.record.packing import pack, unpack
from hub.record.plain import ms_of
from hub.record.port import AGAIN_SECONDS, Upload, Work
from hub.record.uploads import CHUNK, check_expiry, in_chunks, no_room


@dataclass(slots=True)
class _Item:
    id: str
    context: str
    offered: float
    taken: float | None = None


class MemoryWork:
    """Items that wait for agents, oldest first."""

    def __init__(self) -> None:
        self._items: dict[str, dict[str, _Item]] = defaultdict(dict)
        self._waiting: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._ids = count(1)

    def offer(self, agent: str, context: str) -> None:
        item = _Item(str(next(self._ids)), context, time.monotonic())
        self._items[agent][item.id] = item
        for event in self._waiting[agent]:
            event.set()

    async def take(self, agent: str, wait: float) -> Work | None:
        until = time.monotonic() + wait
        event = asyncio.Event()
        self._waiting[agent].add(event)
        try:
            while True:
                event.clear()
                now = time.monotonic()
                for item in self._items[agent].values():
                    if item.taken is None or now - item.taken >= AGAIN_SECONDS:
                        item.taken = now
                        return Work(agent, item.id, item.context, now - item.offered)
                if now >= until:
                    return None
                again = [item.taken + AGAIN_SECONDS for item in self._items[agent].values() if item.taken is not None]
                try:
                    async with asyncio.timeout(min([until, *again]) - now):
                        await event.wait()
                except TimeoutError:
                    continue
        finally:
            self._waiting[agent].discard(event)

    def done(self, work: Work) -> None:
        self._items[work.agent].pop(work.item, None)


class MemoryNotices:
    """Notices, packed, and who has read which of them."""

    def __init__(self) -> None:
        self._notices: dict[str, tuple[int, bytes]] = {}
        self._marks: dict[str, dict[str, int]] = defaultdict(dict)
        self._counter = count(1)

    def all(self) -> dict[str, dict[str, Any]]:
        return {id: unpack(raw) for id, (_, raw) in self._notices.items()}

    def get(self, id: str) -> dict[str, Any] | None:
        return unpack(self._notices[id][1]) if id in self._notices else None

    def put(self, notice: dict[str, Any]) -> None:
        self._notices[id_of(notice)] = (next(self._counter), pack(notice))

    def drop(self, ids: Sequence[str]) -> None:
        for id in ids:
            self._notices.pop(id, None)

    def read_by(self, user: str) -> set[str]:
        marks = self._marks.get(user, {})
        return {id for id, (mark, _) in self._notices.items() if marks.get(id) == mark}

    def mark(self, user: str, ids: Sequence[str]) -> None:
        marks = {id: mark for id, mark in self._marks[user].items() if id in self._notices}
        self._marks[user] = marks | {id: self._notices[id][0] for id in ids if id in self._notices}


class MemoryUploads:
    """Files until they expire."""

    def __init__(self, total: int, clock: Callable[[], float]) -> None:
        self._total, self._clock = total, clock
        self._kept: dict[str, tuple[Upload, list[bytes]]] = {}

    async def put(self, upload: Upload, chunks: AsyncIterator[bytes]) -> Upload:
        check_expiry(upload, self._clock() * 1000)
        kept: list[bytes] = []
        size = 0
        async for chunk in in_chunks(chunks, CHUNK):
            size += len(chunk)
            if size + self._used() > self._total:
                raise no_room(self._total)
            kept.append(chunk)
        done = replace(upload, size=size)
        self._kept[upload.id] = (done, kept)
        return done

    def get(self, id: str) -> Upload | None:
        kept = self._kept.get(id)
        if kept is not None and ms_of(kept[0].expires_at) <= self._clock() * 1000:
            del self._kept[id]
            return None
        return None if kept is None else kept[0]

    async def read(self, id: str) -> AsyncIterator[bytes]:
        if self.get(id) is None:
            raise NotFound(f"no upload {id!r}; it may have expired")
        for chunk in self._kept[id][1]:
            yield chunk

    def _used(self) -> int:
        return sum(upload.size for id in list(self._kept) if (upload := self.get(id)) is not None)
