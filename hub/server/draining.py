"""How a node ends in order: it is not ready, it starts no runs, and it goes once its workers have moved on."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from hub.node.node import Node
from hub.server.sockets import Sockets

_log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.02


class Drain:
    """A node's way out. It is asked for first; whoever runs the process begins it, and then ends."""

    def __init__(self, node: Node, sockets: Sockets) -> None:
        self.asked = asyncio.Event()
        """Set when the node is to drain."""
        self.begun = False
        """Whether it is not ready any more."""
        self._node = node
        self._sockets = sockets
        self._deadline: float | None = None  # by the event loop's time: a clock may be set meanwhile

    def ask(self, seconds: float | None = None) -> float:
        """Let it drain. ``seconds`` until it goes whatever is under way, by default the setting; of several deadlines the
        earliest counts, which is returned, in seconds since 1970."""
        deadline = self._now() + (self._node.settings.drain_seconds if seconds is None else seconds)
        self._deadline = deadline if self._deadline is None else min(self._deadline, deadline)
        self.asked.set()
        return self._deadline_for_people()

    async def run(self) -> None:
        """Drain: returns when no worker has a run of this node, or at the deadline. Begun once more, it takes no longer than
        the setting says."""
        if self.begun or self._deadline is None:
            self.ask()
        self.begun = self._node.dispatch.draining = True
        assert self._deadline is not None
        self._sockets.drain(self._deadline_for_people() if self._node.dispatch.runs else None)
        while runs := self._node.dispatch.runs:
            if self._now() >= self._deadline:
                _log.warning("%d runs did not come to a step in time; their workers go on elsewhere", runs)
                return
            await asyncio.sleep(LOOK_SECONDS)

    def _deadline_for_people(self) -> float:
        assert self._deadline is not None
        return self._node.clock() + self._deadline - self._now()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
