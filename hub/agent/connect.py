"""The connection of an agent process, or of any other program, to a hub."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from hub.agent.config import AgentConfig
from hub.agent.connection import Connection, Token
from hub.agent.context import AgentContext
from hub.agent.errors import Unconfirmed
from hub.agent.files import download, upload
from hub.agent.moving import until_steps
from hub.agent.opening import open as open_context
from hub.agent.registry import current_registry
from hub.agent.remote import RemoteLink
from hub.agent.serving import Agent
from hub.core.errors import HubError, Unavailable

_log = logging.getLogger(__name__)


@asynccontextmanager
async def connect(
    url: str, *, token: Token, wait: float = 10.0, leave: float = 10.0, config: AgentConfig | None = None
) -> AsyncIterator[Client]:
    """``async with hub.connect(url, token=token) as client:`` a connection that comes back by itself.

    New contexts of this process go to that hub while it lasts. ``token`` is text, or a function (async or not) that gives
    it for each connection. ``wait``: seconds to try for until the hub is there. At the end what was written is confirmed
    for up to ``leave`` seconds, also when the process is to exit. ``config`` is that of the contexts that are opened.

    Raises Unavailable, Unauthorized, Forbidden; at the end Unconfirmed, which says how many writes the hub did not confirm,
    or the first write that was refused and that nobody had heard of.
    """
    client = Client(url, token, config or AgentConfig())
    await client._start(wait)
    try:
        yield client
    except BaseException as error:
        try:
            await client._end(leave)
        except HubError as unsaid:
            if isinstance(error, SystemExit):  # which would say nothing
                raise
            error.add_note(f"and {unsaid.code}: {unsaid.message}")
        raise
    await client._end(leave)


class Client:
    """A process's side of a hub. Made by ``connect``."""

    keeps_open = False

    def __init__(self, url: str, token: Token, config: AgentConfig) -> None:
        self.config = config
        self.link = RemoteLink()
        """Where the contexts of this client are kept."""
        self.connection = Connection(url, token, on_event=self._event, on_up=self._up, on_down=self._down)
        self.url = self.connection.url
        self.link.use(self.connection)
        self.hello: dict[str, Any] = {}
        """What the hub said about itself and us: protocol, node, role, sub, limits."""
        self.error: HubError | None = None
        """Why the hub will not have us any more, or None."""
        self.worker = secrets.token_hex(4)
        """What this process calls itself as a worker, also after a reconnect."""
        self._agents: list[Agent] = []
        self._registry = current_registry()
        self._unbind: Callable[[], None] = lambda: None

    # contexts

    async def open(self, id: str) -> AgentContext:
        """A context of the hub, by id. Raises NotFound if it does not exist or the token does not cover it."""
        return await open_context(id, config=self.config, link=self.link)

    async def create(self, **fields: Any) -> AgentContext:
        """A new context at the hub, once it is confirmed. Takes what AgentContext takes. Raises Exists."""
        context = AgentContext(**{"config": self.config, **fields, "link": self.link})
        await context.flush()
        return context

    # agents

    def agent(self, name: str, *, capacity: int = 1, attempts: int = 1, version: str | None = None) -> Agent:
        """An agent that this process serves: give it a handler with ``@agent.on_message``, then ``await agent.serve()``.
        ``capacity``: how many runs at a time. ``attempts``: how often a message is given to it at most, while its runs are
        interrupted, as when this process dies. ``version`` shows in its runs."""
        agent = Agent(self, name, capacity=capacity, attempts=attempts, version=version)
        self._agents.append(agent)
        return agent

    # files and anything else

    async def upload(self, name: str, data: bytes, type: str = "application/octet-stream") -> dict[str, Any]:
        """Give the hub a file. Returns ``{id, name, size, type, expires_at}``. Raises TooLarge."""
        return await upload(self.connection, name, data, type)

    async def download(self, upload_id: str) -> bytes:
        """A file's content. Raises NotFound once it has expired."""
        return await download(self.connection, upload_id)

    async def request(self, name: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Any request of the protocol. Raises HubError; Unavailable says that there was no answer."""
        return await self.connection.ask(name, payload)

    @property
    def unconfirmed(self) -> int:
        """How many writes of this process the hub has not confirmed."""
        return sum(context.writer.unconfirmed for context in self._contexts()) + len(self.link.announcements)

    # inside

    def _contexts(self) -> list[AgentContext]:
        return [context for context in self._registry.all() if context.writer.link is self.link]

    async def _start(self, wait: float) -> None:
        await self.connection.start(wait)
        self._unbind = self._registry.bind(self.link)

    async def _end(self, leave: float) -> None:
        self._unbind()
        error: HubError | None = None
        try:
            async with asyncio.timeout(leave):
                await asyncio.gather(*(agent.stop() for agent in self._agents))
                error = await self._flush()
        except TimeoutError:
            pass
        unconfirmed = self.unconfirmed
        for context in self._contexts():
            self._registry.drop(context)
            context._stop_tasks()
        await self.link.stop()
        self.link.end(Unavailable("the connection to the hub was closed"))
        await self.connection.close()
        if unconfirmed:
            raise Unconfirmed(f"{unconfirmed} writes were not confirmed by the hub at {self.url}", writes=unconfirmed)
        if error is not None:
            raise error

    async def _flush(self) -> HubError | None:
        for context in self._contexts():
            context.log.release()
        outcomes = await asyncio.gather(*(context.flush() for context in self._contexts()), return_exceptions=True)
        await self.link.announcements.settle()
        errors = [outcome for outcome in outcomes if isinstance(outcome, HubError)]
        return errors[0] if errors else None

    def _event(self, name: str, payload: dict[str, Any]) -> dict[str, Any] | None:
        if self.link.event(name, payload):
            return None
        if name == "hub.drain":
            self.link.run(self._move(payload))
            return None
        for agent in self._agents:
            answer = agent.event(name, payload)
            if answer is not None:
                return answer
        return None

    async def _move(self, drain: dict[str, Any]) -> None:
        """The node of this connection ends: go on at another one, in good order if there is time, runs first."""
        leave, seconds = self.connection.leaver(), drain.get("seconds")
        contexts = self._contexts()
        has_runs = any(context.writer.held_run is not None for context in contexts)
        if isinstance(seconds, int | float):
            await asyncio.gather(
                until_steps(contexts, seconds), asyncio.sleep(0 if has_runs else random.uniform(0, seconds / 2))
            )
        leave()

    def _up(self, hello: dict[str, Any]) -> None:
        self.hello = hello
        self.link.up(hello)
        for agent in self._agents:
            agent.up()
        self._hold_own_runs()

    def _hold_own_runs(self) -> None:
        """Say after a reconnect which runs of ``run_task`` go on here."""
        served = {run for agent in self._agents for run in agent.runs}
        runs = [
            {"context": context.id, "run": {"id": run.id, "fence": run.fence}}
            for context in self._contexts()
            if (run := context.writer.held_run) is not None and run not in served
        ]
        if runs:
            self.link.run(self._announce(runs))

    async def _announce(self, runs: list[dict[str, Any]]) -> None:
        await self.connection.ask(
            "agent.serve", {"agent": "run-task", "capacity": 0, "worker": self.worker, "runs": runs}
        )

    def _down(self, error: HubError | None) -> None:
        self.link.down(error)
        if error is not None:
            self.error = error
            _log.error("the hub at %s ended the connection for good: %s", self.url, error.message)
        for agent in self._agents:
            agent.down(error)
