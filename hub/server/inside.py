"""Agent code inside the hub: what ``setup(hub)`` of ``serve --app module:setup`` gets.

It is a session like everybody's, but without a socket; its contexts are linked to the node directly.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hub.agent.config import AgentConfig
from hub.agent.context import AgentContext
from hub.agent.opening import open as open_context
from hub.agent.registry import current_registry
from hub.agent.serving import Agent
from hub.core.errors import HubError, NotFound, error_from_wire
from hub.core.requests import Role
from hub.node.inprocess import NodeLink
from hub.node.live import LiveContext
from hub.node.rights import Identity
from hub.node.session import Session
from hub.node.tasks import Background
from hub.wire.codec import Encoded, Variant

if TYPE_CHECKING:
    from hub.server.server import HubServer


class InsideHub:
    """The hub as its own agent code sees it. Has what a client of ``hub.connect`` has, and ``url``, ``token`` and ``node``."""

    up = True
    keeps_open = True
    error: HubError | None = None

    def __init__(self, server: HubServer) -> None:
        self.url = server.url
        self.token = server.token
        self.node = server.node
        self.config = AgentConfig()
        self.link = NodeLink(server.node)
        self.connection = self
        self.worker = secrets.token_hex(4)
        self._session = Session(server.node, Identity("app", Role.OPERATOR), _NoOutbox(), self._call)
        self._agents: list[Agent] = []
        self._background = Background("agent code in the hub")
        self._unbind = current_registry().bind(self.link)
        server.node.on_live.append(self._became_live)
        for live in server.node.contexts:
            self._became_live(live)

    def agent(self, name: str, *, capacity: int = 16, attempts: int = 1, version: str | None = None) -> Agent:
        """An agent that the hub itself serves: give it a handler with ``@agent.on_message``. It is served once ``setup`` has
        returned. Plain handlers run in threads of their own, so one that blocks delays nobody. ``capacity``, ``attempts`` and
        ``version`` are those of ``Client.agent``."""
        agent = Agent(self, name, capacity=capacity, attempts=attempts, version=version)
        self._agents.append(agent)
        return agent

    async def open(self, id: str) -> AgentContext:
        """A context, by id. Raises NotFound."""
        return await open_context(id, config=self.config, link=self.link)

    async def create(self, **fields: Any) -> AgentContext:
        """A new context, once it is confirmed. Takes what AgentContext takes. Raises Exists."""
        context = AgentContext(**{"config": self.config, **fields, "link": self.link})
        await context.flush()
        return context

    async def request(self, name: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Any request of the protocol, as an operator. Raises HubError."""
        return await self.ask(name, payload)

    async def ask(self, name: str, payload: dict[str, Any]) -> dict[str, Any]:
        """The same: this is its own connection."""
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

        def replied(reply: dict[str, Any]) -> None:
            if not answer.done():
                answer.set_result(reply)

        self._session.request(name, payload, replied)
        reply = await answer
        if not reply["ok"]:
            raise error_from_wire(reply["error"])
        return reply

    def serve(self) -> None:
        """Serve the agents that were set up."""
        for agent in self._agents:
            self._background.run(agent.serve())

    async def close(self) -> None:
        """Serve no more; what was written is handed to the node."""
        self.node.on_live.remove(self._became_live)
        for agent in self._agents:
            await agent.stop()
        self._unbind()
        await self._background.end()
        self._session.close()

    async def _call(self, event: str, payload: dict[str, Any]) -> dict[str, Any]:
        for agent in self._agents:
            answer = agent.event(event, payload)
            if answer is not None:
                return answer
        return {"ok": False, "error": NotFound("nobody here takes that").to_wire()}

    def _became_live(self, live: LiveContext) -> None:
        """What is live in the node is live for its agent code."""
        if AgentContext.get(live.id) is None:
            self._background.run(self.open(live.id))


class _NoOutbox:
    """Nobody subscribes here: contexts of this process hear of changes by their link."""

    variant = Variant.MSGPACK
    behind = False

    def send(self, event: Encoded) -> None: ...

    def stream(self, frames: bytes, events: Sequence[Encoded]) -> bool:
        return True

    def when_caught_up(self, call: Callable[[], None]) -> None: ...
