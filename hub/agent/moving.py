"""When a process may leave a node that ends, for another one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from hub.agent.context import AgentContext

LOOK_SECONDS: Final = 0.05


async def until_steps(contexts: Iterable[AgentContext], seconds: float) -> None:
    """Wait until what the contexts wrote so far is confirmed, and the code of each run came to a step: a checkpoint or a flush.
    Not for longer than ``seconds``: a run that comes to none loses nothing either."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    waiting = [_Before(context) for context in contexts]
    while waiting and loop.time() < until:
        await asyncio.sleep(LOOK_SECONDS)
        waiting = [before for before in waiting if not before.may_move]


class _Before:
    """Where a context stood when the waiting began."""

    def __init__(self, context: AgentContext) -> None:
        self._context = context
        self._steps = context.steps
        self._written = context.writer.settled + context.writer.unconfirmed

    @property
    def may_move(self) -> bool:
        writer = self._context.writer
        if writer.closed_by is not None:
            return True
        came = writer.held_run is None or self._context.steps != self._steps or self._context.paused
        return came and writer.settled >= self._written
