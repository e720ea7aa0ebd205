"""A connection that serves an agent, as dispatch sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from hub.core.errors import HubError

Call = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Sends an event to the connection and waits for its acknowledgement. Raises Unavailable."""


class SessionWorker:
    """A connection that serves an agent."""

    def __init__(self, agent: str, name: str, covers: Callable[[str], bool], call: Call) -> None:
        self.agent = agent
        self.name = name
        self.capacity = 0
        self.attempts = 1
        self.version: str | None = None
        self.covers = covers
        self.gone = False
        self._call = call

    async def start(self, run: dict[str, Any]) -> dict[str, Any]:
        """Hand over a run."""
        try:
            return await self._call("run.start", run)
        except HubError as error:
            return {"ok": False, "error": error.to_wire()}

    async def control(self, order: dict[str, Any]) -> None:
        """Tell about a control of a run. Raises Unavailable."""
        await self._call("run.control", order)
