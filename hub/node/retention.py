"""Retention of sessions: what nobody has used for long is removed.

A context counts as used while it is live in any node, so the time runs from when it fell asleep. The record notes the uses,
and finds what was not used without looking at all that there is. Contexts are removed where they sleep, without being
loaded: by an append at the end that they had when they were found. Who used one meanwhile was there first.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import Final

from hub.core.changes import Change, Part, RecordEntry
from hub.core.errors import Unavailable
from hub.node.contexts import Contexts
from hub.node.tasks import RETRY, Upkeep, end_tasks
from hub.record.port import Append, Outcome, Record

_log = logging.getLogger(__name__)

GROUP: Final = 64
"""Contexts that are removed together."""
_SLACK: Final = 1.0
"""Seconds by which a look at what is unused may be late."""
_REMOVED: Final[Part] = {"kind": "closed", "reason": "removed"}


class Retention:
    """Notes which contexts this node uses, and removes those that no node does."""

    def __init__(self, record: Record, contexts: Contexts, keep: float, clock: Callable[[], float]) -> None:
        """``keep``: seconds since the last use; 0: for ever. ``clock`` gives seconds since 1970."""
        self._record = record
        self._contexts = contexts
        self._keep = keep
        self._clock = clock
        self._used: set[str] = set()  # and not noted yet
        self._noting = Upkeep("noting which contexts are used", self._note)
        self._noted_at = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._look_forever(), name="retention")

    async def close(self) -> None:
        if self._task is not None:
            await end_tasks([self._task])
        await self._noting.end()

    def used(self, context: str) -> None:
        """Somebody uses it here."""
        if self._keep:
            self._used.add(context)
            self._noting.call()

    async def _note(self) -> None:
        used = list(self._used)
        await self._record.used(used)
        self._used.difference_update(used)

    async def _look_forever(self) -> None:
        pause = min(60.0, max(0.05, self._keep / 10))
        begun = False
        while True:
            try:
                if not begun:
                    await self._record.note_uses(bool(self._keep))
                    begun = True
                if not self._keep:
                    return
                await self._look(pause)
            except Unavailable:
                await asyncio.sleep(RETRY)
                continue
            except Exception:
                _log.exception("removing contexts that nobody uses")
            await asyncio.sleep(pause)

    async def _look(self, pause: float) -> None:
        """Note what is used here, then remove what nobody uses; ``pause``: seconds since the last look. Raises Unavailable."""
        await self._record.used([live.id for live in self._contexts])
        before, self._noted_at = self._noted_at, self._clock()
        if self._noted_at - before < 2 * pause + _SLACK:  # else the others may not have come to note theirs either
            await self._remove_unused()

    async def _remove_unused(self) -> None:
        """Raises Unavailable."""
        while unused := await self._record.unused(self._keep, GROUP):
            appends = [
                Append(id, at, RecordEntry(secrets.token_urlsafe(9), tip, [Change(at.after(), [_REMOVED])]))
                for id, at, tip in unused
                if id not in self._contexts.live
            ]
            try:
                outcomes = await self._record.append(appends)
            except Unavailable:
                for id, _, _ in unused:  # nobody else looks at them: they are found again after another while
                    self.used(id)
                raise
            for append, appended in zip(appends, outcomes, strict=True):
                if appended.outcome is Outcome.APPENDED:
                    _log.info("context %s was not used for %g s and is removed", append.context, self._keep)
                    live = self._contexts.live.get(append.context)
                    if live is not None:  # it was being loaded
                        self._contexts.doubt(live)
                elif appended.outcome is not Outcome.REMOVED:
                    self.used(append.context)
