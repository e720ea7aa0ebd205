"""What an operator asks of a node through another one: to drain. It is told until it says that it heard: a message on a channel
reaches nobody who does not hear just then."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any

from hub.core.errors import Unavailable
from hub.node.tasks import Background

TELLS = 5
TELL_SECONDS = 1.0
"""How often a node is told, and how long each time its answer is waited for."""


class Orders:
    """Those of one node, and to others. ``tell`` tells all nodes something."""

    def __init__(self, node: str, tell: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
        self.on_drain: Callable[[float | None], object] = lambda seconds: None
        """Called when this node is to drain, with the seconds that it has; None: as many as its settings say."""
        self._node = node
        self._tell = tell
        self._waiting: dict[str, asyncio.Event] = {}  # nodes that were told, and did not answer yet
        self._background = Background("orders")

    async def close(self) -> None:
        await self._background.end()

    async def drain(self, node: str, seconds: float | None) -> None:
        """Let another node drain. Twice does no harm. Raises Unavailable."""
        heard = self._waiting.setdefault(node, asyncio.Event())
        for _ in range(TELLS):
            await self._tell({"kind": "drain", "node": node, "seconds": seconds})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TELL_SECONDS):
                    await heard.wait()
                return
        raise Unavailable(f"node {node!r} does not answer; try again, or end its process")

    def told(self, message: dict[str, Any]) -> None:
        """A node told all nodes something; if it is an order to this one, or the answer to one, act on it."""
        match message:
            case {"kind": "drain", "node": self._node, "seconds": float() | None as seconds}:
                if seconds is None or 0 <= seconds < inf:
                    self.on_drain(seconds)
                self._background.run(self._say_heard())
            case {"kind": "draining", "node": str(name)} if name in self._waiting:
                self._waiting.pop(name).set()

    async def _say_heard(self) -> None:
        await self._tell({"kind": "draining", "node": self._node})
