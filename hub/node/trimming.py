"""Retention of log entries: of each context the newest are kept, and those that are written to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from hub.core.changes import Change
from hub.core.errors import HubError
from hub.core.log import LogState
from hub.core.requests import Trim
from hub.node.contexts import Contexts
from hub.node.live import Answer, LiveContext
from hub.node.rights import HUB

STREAMS: Final = 60.0
"""Seconds for which an entry stays after it was written to: more of it may come."""
STEP: Final = 500
"""Entries that go at a time: a change must not be large."""
_AGAIN: Final = 1.0
"""Seconds until a log is looked at again that could not be trimmed."""


class _Writes:
    """When entries of one context were written to, the latest last."""

    __slots__ = ("asked", "at", "look_at")

    def __init__(self, look_at: float) -> None:
        self.at: dict[str, float] = {}
        self.look_at = look_at
        """Nothing is trimmed before."""
        self.asked = False
        """Whether a trim is on its way."""

    def forget_before(self, time: float) -> None:
        while self.at and self.at[first := next(iter(self.at))] < time:
            del self.at[first]


class Trimming:
    """Asks for a trim when a log has a tenth more than is kept; so what it costs is in proportion to what was added."""

    def __init__(self, contexts: Contexts, keep: int) -> None:
        """``keep``: entries of a context; 0: all."""
        self._contexts = contexts
        self._keep = keep
        self._most = keep + max(keep // 10, 1)
        self._writes: dict[str, _Writes] = {}

    def loaded(self, live: LiveContext, *, created: bool) -> None:
        """A context became live. What was written to before is not known, unless it is a new one."""
        if self._keep:
            self._writes[live.id] = _Writes(0.0 if created else _now() + STREAMS)

    def forget(self, id: str) -> None:
        """A context is live here no longer."""
        self._writes.pop(id, None)

    def changed(self, live: LiveContext, changes: Sequence[Change], *, own: bool) -> None:
        """``own``: this node appended them; it is the one that looks whether too many entries are there."""
        writes = self._writes.get(live.id)
        if writes is None:
            return
        now, at = _now(), writes.at
        for change in changes:
            for part in change.parts:
                if part["kind"] == "log.append" or part["kind"] == "log.update":
                    at.pop(part["id"], None)
                    at[part["id"]] = now
        writes.forget_before(now - STREAMS)
        if own:
            self.look(live)

    def look(self, live: LiveContext) -> bool:
        """Whether a context has too many entries. They go as soon as they may; until then it is to stay awake."""
        log, writes = live.replica.state.log, self._writes.get(live.id)
        if writes is None or log.length - log.begin <= self._most:
            return False
        now = _now()
        if not writes.asked and now >= writes.look_at:
            writes.forget_before(now - STREAMS)
            before = self._before(live, log, writes)
            if before > log.begin:
                writes.asked = True
                request = self._contexts.stamp(Trim(context=live.id, log=log.id, before=before), HUB)
                self._contexts.submit(live, request, partial(self._answered, writes))
            else:
                writes.look_at = now + _AGAIN
        return True

    def _before(self, live: LiveContext, log: LogState, writes: _Writes) -> int:
        """Where the log may begin: not behind any entry that is written to."""
        document = live.replica.state.document
        written = [*writes.at, document["progress"]["entry"]] if document["running"] else writes.at
        stays = [no for id in written if (no := log.no_of(id)) is not None]
        return min(log.length - self._keep, log.begin + STEP, *stays)

    def _answered(self, writes: _Writes, answer: Answer) -> None:
        writes.asked = False
        if isinstance(answer, HubError):
            writes.look_at = _now() + _AGAIN


def _now() -> float:
    return asyncio.get_running_loop().time()
