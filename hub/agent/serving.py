"""An agent that a process serves: runs come from the hub, handlers work on them."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, Literal, Protocol, TypeVar

from hub.agent.config import UserMessage
from hub.agent.context import AgentContext
from hub.agent.driving import LooseTasks
from hub.agent.link import Link
from hub.agent.tasks import DeferredTask
from hub.agent.waiting import spread, until
from hub.core.errors import Busy, HubError, InvalidRequest, Unavailable
from hub.core.position import Position
from hub.core.requests import RunRef, RunSet

_log = logging.getLogger(__name__)

REACH: Final = 30.0
"""Seconds for a context's view to come to where its run began."""
LEAVE: Final = 10.0
"""Seconds for runs to end when their agent is served no more."""
AGAIN: Final = 0.5
"""Seconds, about, until the hub is told again what is served here, if it could not hear it just now."""
IDLE: Final = 256
"""Contexts without a run that stay open for their next message."""

Handler = Callable[[AgentContext, UserMessage], Awaitable[None] | None]
H = TypeVar("H", bound=Handler)


class Asking(Protocol):
    """A way to the hub, while it is ``up``."""

    @property
    def up(self) -> bool:
        """Whether requests can be sent now."""

    async def ask(self, name: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Any request of the protocol. Raises HubError."""


class Host(Protocol):
    """Where an agent is served: a connection to a hub, or the hub's own process."""

    @property
    def error(self) -> HubError | None:
        """Why the hub will not have us any more, or None."""

    @property
    def keeps_open(self) -> bool:
        """Whether contexts stay open by themselves, so that an agent need not close those that rest."""

    @property
    def connection(self) -> Asking:
        """The way to the hub."""

    @property
    def link(self) -> Link:
        """Where the contexts of its runs are kept."""

    @property
    def worker(self) -> str:
        """What this process calls itself as a worker, also after a reconnect."""

    async def open(self, id: str) -> AgentContext:
        """A context of the hub, by id. Raises NotFound."""

    async def request(self, name: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Any request of the protocol. Raises HubError."""


class Agent:
    """Takes runs of one agent. Made by ``client.agent``."""

    def __init__(
        self, client: Host, name: str, *, capacity: int, attempts: int = 1, version: str | None = None
    ) -> None:
        if capacity < 1 or attempts < 1:
            raise InvalidRequest("an agent's capacity and its attempts are 1 or more")
        self.name = name
        self.capacity = capacity
        self.attempts = attempts
        self.version = version
        self._client = client
        self._handler: Handler | None = None
        self._held: list[_Held] = []
        self._idle: OrderedDict[str, AgentContext] = OrderedDict()
        self._serving: asyncio.Future[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def on_message(self, handler: H) -> H:
        """Let ``handler(ctx, message)`` work on messages: a coroutine function on this event loop, a plain one in a thread.

        It is called for each message, with the context as the current one; what it writes is part of the run. When it
        returns the run is finished; an exception ends it as failed, with an error entry."""
        self._handler = handler
        return handler

    async def serve(self) -> None:
        """Take runs until cancelled. Raises what the hub refuses with, for good."""
        if self._handler is None:
            raise InvalidRequest("an agent needs a handler: @agent.on_message")
        if self._serving is not None:
            raise InvalidRequest(f"agent {self.name!r} is served already")
        if self._client.error is not None:
            raise self._client.error
        self._serving = asyncio.get_running_loop().create_future()
        loose = LooseTasks.on(asyncio.get_running_loop())
        try:
            await self._announce()
            await self._serving
        finally:
            await self.stop()
            loose.off()

    @property
    def runs(self) -> list[RunRef]:
        """The runs that are worked on here."""
        return [held.run for held in self._held]

    async def stop(self) -> None:
        """Serve no more. The hub hears that before runs are given up: what it offers again then must not come here."""
        serving, self._serving = self._serving, None
        if serving is not None:
            serving.cancel()
            await self._take_no_more()
        await self._give_up_runs()

    # the connection

    def up(self) -> None:
        """The connection is there, again."""
        if self._serving is not None:
            self._run(self._announce_until_heard())

    def down(self, error: HubError | None) -> None:
        """The connection is gone; with an error, for good."""
        if error is not None and self._serving is not None and not self._serving.done():
            self._serving.set_exception(error)

    async def _announce_until_heard(self) -> None:
        while self._serving is not None and self._client.connection.up:
            try:
                await self._announce()
                return
            except HubError as error:
                if not error.retryable:
                    self.down(error)
                    return
            await asyncio.sleep(spread(AGAIN))

    async def _announce(self) -> None:
        held = [{"context": held.id, "run": {"id": held.run.id, "fence": held.run.fence}} for held in self._active()]
        asked = {
            "agent": self.name,
            "capacity": self.capacity,
            "worker": self._client.worker,
            "attempts": self.attempts,
            **({"version": self.version} if self.version is not None else {}),
            "runs": held,
        }
        reply = await self._client.connection.ask("agent.serve", asked)
        for lost in reply.get("lost", []):
            self._stop(lost["context"], lost["run"])

    async def _take_no_more(self) -> None:
        asked = {"agent": self.name, "capacity": 0, "worker": self._client.worker}
        try:
            async with asyncio.timeout(LEAVE):
                await self._client.connection.ask("agent.serve", asked)
        except (HubError, TimeoutError) as error:
            _log.debug("agent %s: the hub does not hear that it is served no more: %s", self.name, error)

    def _active(self) -> list[_Held]:
        return [held for held in self._held if not held.ending]

    # what the hub asks

    def event(self, name: str, payload: dict[str, Any]) -> dict[str, Any] | None:
        """An event of the hub, and its acknowledgement; None if it is not for this agent."""
        if name == "run.start" and self._serving is not None and payload.get("agent") == self.name:
            return self._start(payload)
        if name == "run.control" and any(held.id == payload.get("context") for held in self._held):
            if payload.get("action") == "stop":
                self._stop(payload["context"], payload.get("run"))
            return {"ok": True}
        return None

    def _start(self, payload: dict[str, Any]) -> dict[str, Any]:
        id, run = payload["context"], RunRef(payload["run"]["id"], payload["run"]["fence"])
        if any(held.id == id and held.run == run for held in self._held):
            return {"ok": True}
        if len(self._active()) >= self.capacity:
            return {"ok": False, "error": Busy("this worker has no room").to_wire()}
        before = next((held for held in reversed(self._held) if held.id == id), None)
        held = _Held(id, run, before.task if before is not None else None)
        self._held.append(held)
        self._run(self._work(held, payload))
        return {"ok": True}

    def _stop(self, id: str, run: dict[str, Any] | None) -> None:
        for held in self._held:
            if held.id == id and (run is None or run["id"] == held.run.id):
                held.stop("stopped")

    # a run

    async def _work(self, held: _Held, payload: dict[str, Any]) -> None:
        try:
            ctx = await self._client.open(held.id)
            self._idle.pop(held.id, None)
            await _reached(ctx, Position(payload["position"]["epoch"], payload["position"]["seq"]))
            messages = [
                UserMessage(item["text"], item["attachments"], item["id"], payload["attempt"])
                for item in payload["messages"]
            ]
            ctx.writer.held_run = held.run
            task = held.task = DeferredTask(
                ctx, partial(self._handle, ctx, messages), run=held.run, loop=asyncio.get_running_loop()
            )
            if held.stopped is not None:
                task.ask_to_stop(held.stopped)
            ctx.take_run(task, held.before)
            await asyncio.wrap_future(task.ended)
            await ctx.flush()
        except HubError as error:
            _log.warning("context %s: run %s: %s: %s", held.id, held.run.id, error.code, error.message)
            if held.task is None:
                await self._refuse(held, error)
        except Exception:
            _log.exception("context %s: run %s", held.id, held.run.id)
        finally:
            self._held.remove(held)
            self._rest(held.id)

    def _handle(self, ctx: AgentContext, messages: list[UserMessage]) -> Awaitable[None] | None:
        """Call the handler for each message: called in the task's thread, a coroutine runs on the loop."""
        assert self._handler is not None
        ctx.writer.apply([RunSet(status="running")], 100)
        if inspect.iscoroutinefunction(self._handler):
            return self._handle_on_loop(ctx, self._handler, messages)
        for message in messages:
            self._handler(ctx, message)
        ctx.wait_flush()
        return None

    async def _handle_on_loop(
        self,
        ctx: AgentContext,
        handler: Callable[[AgentContext, UserMessage], Awaitable[None]],
        messages: list[UserMessage],
    ) -> None:
        for message in messages:
            await handler(ctx, message)
        await ctx.flush()

    async def _refuse(self, held: _Held, error: HubError) -> None:
        """The run could not even begin: say so, and do not leave it to the hub to find out."""
        run = {"id": held.run.id, "fence": held.run.fence}
        over = {"op": "run.set", "status": "failed", "error": f"the agent could not begin: {error.message}"}
        asked = {"context": held.id, "ops": [over], "run": run, "key": f"refused-{held.run.id}"}
        try:
            await self._client.request("apply", asked)
        except HubError as refused:
            _log.debug("run %s: %s", held.run.id, refused.message)

    def _rest(self, id: str) -> None:
        """Keep a context open for its next message, and close the ones that waited longest."""
        ctx = AgentContext.get(id)
        if ctx is None or ctx.writer.link is not self._client.link or self._client.keeps_open:
            return
        self._idle[id] = ctx
        self._idle.move_to_end(id)
        while len(self._idle) > IDLE:
            _, oldest = self._idle.popitem(last=False)
            oldest.close()

    async def _give_up_runs(self) -> None:
        """This process ends: its runs are interrupted, and can be taken up again."""
        for held in self._held:
            held.stop("interrupted")
        if not self._tasks:
            return
        try:
            await asyncio.wait(self._tasks, timeout=LEAVE)
        finally:
            for late in self._tasks:  # they wait for a hub that is away
                late.cancel()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Held:
    """A run that is worked on here."""

    def __init__(self, id: str, run: RunRef, before: DeferredTask | None) -> None:
        self.id = id
        self.run = run
        self.before = before
        """The task of an earlier run of the same context, which ends first."""
        self.task: DeferredTask | None = None
        self.stopped: Literal["stopped", "interrupted"] | None = None

    @property
    def ending(self) -> bool:
        """Whether its work is over."""
        return self.task is not None and self.task.ending

    def stop(self, status: Literal["stopped", "interrupted"]) -> None:
        """Let it end as ``status``."""
        self.stopped = self.stopped or status
        if self.task is not None:
            self.task.ask_to_stop(status)


async def _reached(ctx: AgentContext, position: Position) -> None:
    """Wait until a context's view has come to a position. Raises HubError if it does not, or is closed."""

    def there() -> bool:
        with ctx.writer.lock:
            ctx.writer.check_open()
            ctx.writer.read()
            base = ctx.writer.view.base
        return base.epoch != position.epoch or base.seq >= position.seq

    try:
        async with asyncio.timeout(REACH):
            await until(ctx.writer, there)
    except TimeoutError:
        raise Unavailable(f"context {ctx.id!r} did not come to {position} within {REACH:.0f} s") from None
