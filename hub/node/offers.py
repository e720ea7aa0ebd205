"""Which contexts wait for an agent on its stream. What a context says counts, the stream only wakes; so an offer too many does no
harm, and one too few leaves a message unheard."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from math import inf
from typing import Any, Final

from hub.core.errors import Unavailable
from hub.core.runs import active_run
from hub.node.live import LiveContext
from hub.node.tasks import RETRY, Background
from hub.record.port import Record

AHEAD: Final = 4.0
"""Seconds for which an offer is good whose message is not in the record yet. Items with nothing behind them are dropped when
they are older than that by more than a request may wait."""


def waits(document: dict[str, Any]) -> bool:
    """Whether a run is to be started for a context."""
    return bool(document["queue"]) and active_run(document) is None and not document["paused"]


@dataclass(slots=True)
class _Offer:
    agent: str
    until: float
    """The loop's time until which its item is there for sure, whatever becomes of the context."""


class Offers:
    """What this node has offered, so that a context is not offered again with each message."""

    def __init__(self, record: Record, default_agent: str) -> None:
        self._record = record
        self._default_agent = default_agent
        self._made: dict[str, _Offer] = {}
        self._background = Background("offering work")

    async def close(self) -> None:
        await self._background.end()

    def agent_of(self, document: dict[str, Any]) -> str:
        """The agent that a context waits for."""
        agent: str = document["agent"] or self._default_agent
        return agent

    async def offer_first(self, live: LiveContext) -> None:
        """Offer a context that is about to get a message, so that a crash in between cannot lose it. Raises Unavailable."""
        agent = self.agent_of(live.replica.state.document)
        if not self._stands(live.id, agent):
            await self.offer(live.id, agent)

    def look(self, live: LiveContext, *, own: bool) -> None:
        """Offer a context that waits; ``own``: because of what this node did. Else the one that did it offers it."""
        document = live.replica.state.document
        if not waits(document):
            self._made.pop(live.id, None)  # an item that nobody needs is dropped
            return
        agent = self.agent_of(document)
        if self._stands(live.id, agent):
            self._made[live.id].until = inf  # it waits for it now
        elif own:
            self._background.run(self._offer_until_heard(live, agent))

    def forget(self, id: str) -> None:
        """Whether there is an item is not known any more."""
        self._made.pop(id, None)

    def _stands(self, id: str, agent: str) -> bool:
        offer = self._made.get(id)
        return offer is not None and offer.agent == agent and asyncio.get_running_loop().time() < offer.until

    async def _offer_until_heard(self, live: LiveContext, agent: str) -> None:
        while live.closed is None and waits(live.replica.state.document) and not self._stands(live.id, agent):
            try:
                await self.offer(live.id, agent)
            except Unavailable:
                await asyncio.sleep(RETRY)
        self.look(live, own=False)

    async def offer(self, id: str, agent: str) -> None:
        """Put a context at the end of the line. Raises Unavailable."""
        offer = self._made[id] = _Offer(agent, asyncio.get_running_loop().time() + AHEAD)
        try:
            await self._record.offer(agent, id)
        except BaseException:
            if self._made.get(id) is offer:
                del self._made[id]
            raise
