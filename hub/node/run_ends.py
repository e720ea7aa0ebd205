"""Ends the runs whose workers do not: those that are gone, and those that do not stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

from hub.core.errors import HubError
from hub.core.requests import RunEnd, RunRef
from hub.node.contexts import Contexts
from hub.node.presence import Presence
from hub.node.rights import HUB
from hub.node.tasks import Background

_log = logging.getLogger(__name__)

AGAIN = 1.0
"""Seconds until a run is ended again, while the record is away."""

Ended = Literal["interrupted", "stopped", "failed"]


class Missed(NamedTuple):
    """A run, and the node at which its worker is missed: one that moves on since is not ended."""

    context: str
    ref: RunRef
    node: str

    @classmethod
    def of(cls, context: str, run: dict[str, Any]) -> Missed:
        return cls(context, RunRef(run["id"], run["fence"]), run["node"])


class RunEnds:
    """One timer a context at most."""

    def __init__(self, contexts: Contexts, presence: Presence, *, grace: float, stop_grace: float) -> None:
        self._contexts = contexts
        self._presence = presence
        self._grace = grace
        self._stop_grace = stop_grace
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._background = Background("ending runs")

    def __contains__(self, context: str) -> bool:
        """Whether its run will be ended."""
        return context in self._timers

    def __len__(self) -> int:
        return len(self._timers)

    async def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        await self._background.end()

    def cancel(self, context: str) -> None:
        """Its run goes on, or is over."""
        timer = self._timers.pop(context, None)
        if timer is not None:
            timer.cancel()

    def unless_back(self, context: str, run: dict[str, Any], missed: float = 0.0) -> None:
        """Its worker has a while to come back, of which ``missed`` seconds are over. One that is to stop is over."""
        if run["status"] == "stopping":
            self.now(context, run, "stopped", "its worker went away")
        else:
            end = partial(self._interrupt, Missed.of(context, run))
            self._set(context, max(self._grace - missed, 0.0), end)

    def unless_stopped(self, context: str, run: dict[str, Any]) -> None:
        """Its worker was told to stop."""
        end = partial(self.end, Missed.of(context, run), "stopped", "the agent did not stop in time")
        self._set(context, self._stop_grace, lambda: self._background.run(end()))

    def now(self, context: str, run: dict[str, Any], status: Ended, error: str) -> None:
        self.cancel(context)
        self._background.run(self.end(Missed.of(context, run), status, error))

    def _set(self, context: str, seconds: float, end: Callable[[], None]) -> None:
        self.cancel(context)
        self._timers[context] = asyncio.get_running_loop().call_later(seconds, self._over, context, end)

    def _over(self, context: str, end: Callable[[], None]) -> None:
        del self._timers[context]
        end()

    def _interrupt(self, missed: Missed) -> None:
        """Whoever had it is not back. A node that was not known may have shown up since."""
        elsewhere = missed.node != self._presence.node
        if elsewhere and not self._presence.sure:
            self._set(missed.context, self._grace, partial(self._interrupt, missed))
        elif not elsewhere or not self._presence.may_live(missed.node):
            self._background.run(self.end(missed, "interrupted", "its worker went away"))

    async def end(self, missed: Missed, status: Ended, error: str, *, again: bool = False) -> None:
        """End it, unless it is over or has moved on; with ``again`` its messages wait once more."""
        body = RunEnd(context=missed.context, run=missed.ref, status=status, error=error, again=again, node=missed.node)
        while True:
            answer = await self._contexts.request(self._contexts.stamp(body, HUB))
            if not isinstance(answer, HubError):
                return
            if not answer.retryable:
                _log.info("run %s of context %s goes on, or is over: %s", missed.ref.id, missed.context, answer.message)
                return
            await asyncio.sleep(AGAIN)
