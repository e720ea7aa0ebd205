"""Keeps the hashes in step with the live contexts (RECORD.md, "Hashes")."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from hub.core.changes import Change
from hub.core.errors import Overloaded, Unavailable
from hub.node.contexts import Contexts
from hub.node.live import LiveContext
from hub.node.tasks import end_tasks
from hub.record.mirror import SMALL_SECONDS, MirrorState
from hub.record.port import Loaded, MirrorWrite, Record

_log = logging.getLogger(__name__)

GROUP: Final = 64
"""Contexts whose hashes are written together."""
STILL: Final = 2.0
"""Seconds for which the hashes of what another node appended may stand still; then this node writes them."""
AHEAD: Final = 0.02
"""Seconds that a context may be written before its time, when another one is due: few large calls cost less than many."""


class Mirroring:
    """One MirrorState a live context, and the task that writes what is due."""

    def __init__(self, record: Record, contexts: Contexts) -> None:
        self._record = record
        self._contexts = contexts
        self._states: dict[str, MirrorState] = {}
        self._others: dict[str, float] = {}  # where others appended since the last write: until when it is theirs
        self._due: list[tuple[float, str]] = []
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._now: Callable[[], float] = time.monotonic  # the running loop's time, once there is one

    def start(self) -> None:
        self._now = asyncio.get_running_loop().time
        self._task = asyncio.create_task(self._write_forever(), name="mirror")

    async def close(self) -> None:
        """Write what is behind, as long as the record answers, then stop."""
        if self._task is not None:
            await end_tasks([self._task])
        try:
            behind = [id for id, state in self._states.items() if state.behind]
            for first in range(0, len(behind), GROUP):
                await self._write(behind[first : first + GROUP], everything=True)
        except Unavailable:
            _log.warning("the record is away; the hashes will follow at the next start")

    def loaded(self, live: LiveContext, loaded: Loaded | None) -> None:
        """A context became live. What its hashes lack may be on its way from who appended it."""
        self._states[live.id] = state = MirrorState.of(loaded, self._now()) if loaded else MirrorState()
        if state.behind:
            self._others[live.id] = self._now() + STILL
        self._plan(live.id, state)

    def changed(self, live: LiveContext, changes: Sequence[Change], *, own: bool) -> None:
        """``own``: this node appended them, so it writes them."""
        state = self._states.get(live.id)
        if state is None:
            state = self._states[live.id] = MirrorState()
        now = self._now()
        before = state.due_at
        for change in changes:
            state.note(change, now)
        waited = self._others.get(live.id)
        if not own:
            self._others[live.id] = now + STILL if waited is None else waited
        elif waited is not None:
            self._others[live.id] = 0.0
        if state.due_at is not None and (before is None or state.due_at < before or (own and waited)):
            self._plan(live.id, state)

    async def settle(self, ids: Sequence[str]) -> None:
        """Write all that the hashes of contexts lack, and keep a short stream: they are to leave memory. Raises
        Unavailable."""
        await self._write(ids, everything=True)

    def behind(self, id: str) -> bool:
        """Whether the hashes lack something, or may."""
        state = self._states.get(id)
        return state is not None and (state.behind or state.busy)

    def forget(self, id: str) -> None:
        self._states.pop(id, None)
        self._others.pop(id, None)

    def _plan(self, id: str, state: MirrorState, earliest: float = 0.0) -> None:
        if state.due_at is not None:
            heapq.heappush(self._due, (max(state.due_at, self._others.get(id, 0.0), earliest), id))
            if self._due[0][1] == id:
                self._wanted.set()

    async def _write_forever(self) -> None:
        while True:
            self._wanted.clear()
            pause = self._due[0][0] - self._now() if self._due else None
            if pause is None or pause > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):  # wait_for could lose a cancellation, before Python 3.12
                        await self._wanted.wait()
                continue
            await self._write_due()

    async def _write_due(self) -> None:
        until = self._now() + AHEAD
        ids: dict[str, None] = {}
        while self._due and len(ids) < GROUP and self._due[0][0] <= until:
            ids[heapq.heappop(self._due)[1]] = None
        try:
            await self._write(list(ids))
        except (Unavailable, Overloaded):  # it is away, or full
            await asyncio.sleep(0.2)
            for id in ids:
                heapq.heappush(self._due, (self._now(), id))
        except Exception:
            _log.exception("writing the hashes of %s", ", ".join(ids))

    async def _write(self, ids: Sequence[str], *, everything: bool = False) -> None:
        """Write what is due of these contexts, together."""
        ids = await self._without_others(ids, everything)
        writes: list[tuple[MirrorState, MirrorWrite]] = []
        now = self._now()
        for id in ids:
            state, live = self._states.get(id), self._contexts.live.get(id)
            if state is None or live is None or live.closed is not None:
                continue
            write = None
            if not state.busy if everything else state.due(now + AHEAD):
                with live.replica.confirmed() as confirmed:
                    write = state.write(confirmed, now, everything=everything)
            if write is None:
                self._plan(id, state)
            else:
                writes.append((state, write))
        if not writes:
            return
        done = [False] * len(writes)
        try:
            done = await self._record.mirror([write for _, write in writes])
        finally:
            now = self._now()
            for (state, _), fine in zip(writes, done, strict=True):
                state.wrote(fine, now)
        for (state, write), fine in zip(writes, done, strict=True):
            if fine and state.mirrored == write.position.seq:
                self._others.pop(write.context, None)
            if fine:
                self._plan(write.context, state)
            else:
                await self._refused(state, write)

    async def _refused(self, state: MirrorState, write: MirrorWrite) -> None:
        """Somebody else wrote, or it was this node's and the answer was lost; or the record is not what this node thinks."""
        [there] = await self._record.mirrored([write.context])
        now, live = self._now(), self._contexts.live.get(write.context)
        if live is None or self._states.get(write.context) is not state:
            return
        if there is None or there[0] == write.base:
            self._contexts.doubt(live)
        else:
            state.moved(*there, now)
        self._plan(write.context, state, now + SMALL_SECONDS)

    async def _without_others(self, ids: Sequence[str], everything: bool) -> list[str]:
        """Those of the contexts that this node writes now. Where others appended, the hashes are looked at first: as long as
        they move, somebody writes them."""
        mine = [id for id in ids if id not in self._others]
        theirs = [id for id in ids if id in self._others]
        found = await self._record.mirrored(theirs) if theirs else []
        for id, there in zip(theirs, found, strict=True):
            until, state = self._others.get(id), self._states.get(id)
            if there is None or until is None or state is None:
                continue
            before = state.mirrored
            state.moved(*there, self._now())
            if not state.behind:
                self._others.pop(id, None)
            elif until and state.mirrored != before and not everything:
                self._others[id] = self._now() + STILL
                self._plan(id, state)
            else:
                mine.append(id)
        return mine
