"""Sleep: contexts that nothing uses leave memory. Whoever asks for one next loads it, just as it was."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from hub.core.errors import Unavailable
from hub.node.contexts import Contexts
from hub.node.live import LiveContext
from hub.node.mirroring import Mirroring
from hub.node.recent import Recent
from hub.node.tasks import end_tasks

_log = logging.getLogger(__name__)

GROUP: Final = 64
"""Contexts that fall asleep together."""


class Sleeping:
    """Looks now and then which contexts may leave memory, and lets them go."""

    def __init__(
        self,
        contexts: Contexts,
        mirroring: Mirroring,
        recent: Recent,
        *,
        idle: float,
        needed: Callable[[str], bool],
        too_long: Callable[[LiveContext], bool],
        let_go: Callable[[LiveContext], None],
    ) -> None:
        """``idle``: seconds without use; ``needed``: whether something else keeps a context awake, such as its run;
        ``too_long``: whether its log is to be trimmed first; ``let_go``: everything in the node forgets a context."""
        self._contexts = contexts
        self._mirroring = mirroring
        self._recent = recent
        self._idle = idle
        self._needed = needed
        self._too_long = too_long
        self._let_go = let_go
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._look_forever(), name="sleep")

    async def close(self) -> None:
        if self._task is not None:
            await end_tasks([self._task])

    async def _look_forever(self) -> None:
        pause = min(10.0, max(0.05, self._idle / 4))
        while True:
            await asyncio.sleep(pause)
            try:
                await self._look()
            except Unavailable:
                continue
            except Exception:
                _log.exception("letting contexts fall asleep")

    async def _look(self) -> None:
        """Raises Unavailable."""
        self._recent.expire(asyncio.get_running_loop().time())
        tired = [live for live in self._contexts if self._may_sleep(live) and not self._too_long(live)]
        for first in range(0, len(tired), GROUP):
            await self._put_to_sleep(tired[first : first + GROUP])

    async def _put_to_sleep(self, lives: Sequence[LiveContext]) -> None:
        """Write their hashes whole: so loading is short, also after the stream was cut. Raises Unavailable."""
        await self._mirroring.settle([live.id for live in lives if self._may_sleep(live)])
        for live in lives:  # one that was used meanwhile stays
            if self._may_sleep(live) and not self._mirroring.behind(live.id):
                self._let_go(live)

    def _may_sleep(self, live: LiveContext) -> bool:
        return (
            asyncio.get_running_loop().time() - live.touched > self._idle
            and self._contexts.live.get(live.id) is live
            and live.idle
            and live.audience.empty
            and live.id not in self._recent  # what the record loses of it would be lost
            and not self._needed(live.id)
        )
