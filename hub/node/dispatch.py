"""Which worker runs what. Contexts that wait are taken from their agent's work stream when a worker has room; what the
context says counts, the stream only wakes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from hub.core.errors import HubError, Unavailable
from hub.core.requests import Request, RunRef, RunStart
from hub.core.runs import ACTIVE
from hub.node.contexts import Contexts
from hub.node.live import Answer, LiveContext
from hub.node.offers import Offers, waits
from hub.node.presence import Presence
from hub.node.rights import HUB
from hub.node.run_ends import Missed
from hub.node.runs import Runs
from hub.node.tasks import RETRY, Background, Upkeep, end_tasks
from hub.node.workers import Worker
from hub.record.port import Record, Work

_log = logging.getLogger(__name__)

DROP_AFTER = 10.0
"""Seconds after which an item with nothing behind it is dropped: longer than a request may wait."""

REST_SECONDS = 15.0
"""How long a worker that did not say that it has a run is given no other."""

TAKE_SECONDS = 5.0
"""How long the record is asked to wait for work at a time."""


class Dispatch:
    """Offers contexts that wait, starts runs at the workers of this node."""

    def __init__(
        self,
        record: Record,
        contexts: Contexts,
        presence: Presence,
        *,
        default_agent: str,
        grace: float,
        stop_grace: float,
    ) -> None:
        self._runs = Runs(record, contexts, presence, grace=grace, stop_grace=stop_grace)
        self._runs.on_room = self._look_for_room
        self._record = record
        self._contexts = contexts
        self._presence = presence
        self._node = presence.node
        self._workers = self._runs.workers
        self._offers = Offers(record, default_agent)
        self._early: dict[str, Work] = {}  # items whose message is on its way into the record
        self._room: dict[str, asyncio.Event] = {}
        self._loops: dict[str, asyncio.Task[None]] = {}
        self._draining = False
        self._left_behind = Upkeep("what dead nodes left behind", self._look_through)
        self._background = Background("dispatch of runs")

    async def start(self) -> None:
        """Look after what was left behind: by this node under the same name, and by nodes that nobody knows any more."""
        for id in await self._record.runs_of(self._node):
            self._runs.notes.hold_soon(id)
            if await self._open(id) is None:
                self._runs.look(id)
        if self._presence.is_first:
            self._left_behind.call()

    async def close(self) -> None:
        await end_tasks(self._loops.values())
        await self._left_behind.end()
        await self._background.end()
        await self._offers.close()
        await self._runs.close()

    @property
    def agents(self) -> list[str]:
        """Names of the agents that are served here now."""
        return self._workers.agents

    @property
    def runs(self) -> int:
        """How many runs the workers here have."""
        return self._workers.runs

    @property
    def draining(self) -> bool:
        """Whether no more runs are to start here."""
        return self._draining

    @draining.setter
    def draining(self, draining: bool) -> None:
        self._draining = draining
        for agent in self._room:
            self._look_for_room(agent)

    # workers

    async def serve(self, worker: Worker, held: Sequence[tuple[str, RunRef]]) -> list[dict[str, Any]]:
        """A worker takes runs from now on, and goes on with those that it held, here or at another node. Returns those it has
        lost. Raises Unavailable."""
        lost: list[dict[str, Any]] = []
        for id, ref in held:
            if not worker.covers(id) or not await self._runs.take_over(id, ref, worker):
                lost.append({"context": id, "run": {"id": ref.id, "fence": ref.fence}})
        self._workers.add(worker)
        if worker.capacity and worker.agent not in self._loops:
            self._room[worker.agent] = asyncio.Event()
            self._loops[worker.agent] = asyncio.create_task(self._take_forever(worker.agent))
        self._look_for_room(worker.agent)
        return lost

    def gone(self, worker: Worker) -> None:
        """A worker went away."""
        self._runs.gone(worker)

    async def expect(self, id: str) -> None:
        """A worker here is about to open a run of its own; ``opened`` must follow. Raises Unavailable."""
        await self._runs.notes.hold(id)
        self._runs.expect(id)

    def expect_own(self, id: str) -> None:
        """The same for code of this process: its runs end with it in any case."""
        self._runs.notes.hold_soon(id)
        self._runs.expect(id)

    def opened(self, id: str, answer: Answer, worker: Worker | None) -> None:
        """What became of the run that a worker here was to open; None: it went away. The answer may be an earlier one."""
        self._runs.opened(id, answer, worker)

    def needs(self, id: str) -> bool:
        """Whether a context must stay live here: its run is looked after."""
        return id in self._runs

    def _look_for_room(self, agent: str) -> None:
        """Let the agent's loop take work, or let it wait; without workers it ends."""
        event = self._room.get(agent)
        if event is None:
            return
        has_room = self._workers.pick(agent) is not None and not self._draining
        if has_room or agent not in self._workers.agents:
            event.set()
        else:
            event.clear()

    # what happens in contexts

    def loaded(self, live: LiveContext) -> None:
        """It became live, or stands on another state now: what was known of it before does not count."""
        self._offers.forget(live.id)
        self.changed(live)

    def changed(self, live: LiveContext, *, own: bool = True) -> None:
        """Act on a context's confirmed state. ``own``: this node appended the change; what waits is offered by that one."""
        self._runs.changed(live)
        early = self._early.pop(live.id, None) if waits(live.replica.state.document) else None
        if early is not None:
            self._background.run(self._start(early))
        else:
            self._offers.look(live, own=own)

    def closed(self, live: LiveContext) -> None:
        """A context was removed: its run must not go on."""
        self.forget(live.id)
        self._runs.closed(live)

    def forget(self, id: str) -> None:
        """A context is live here no longer."""
        self._offers.forget(id)
        self._early.pop(id, None)

    async def offer_first(self, live: LiveContext) -> None:
        """Let a context wait for its agent before it gets a message, so that a crash in between cannot lose that. Raises
        Unavailable."""
        await self._offers.offer_first(live)

    # nodes that are gone

    async def node_died(self, node: str, missed: float) -> None:
        """A node is gone, and this one has missed it for some seconds: the workers of its runs have what is left of the grace
        to come back, at any node. Raises Unavailable."""
        for live in self._contexts:
            self._runs.left_by(node, live, missed)
            self._offers.look(live, own=True)  # it may have died before it offered what it was to offer
        if self._presence.is_first:
            self._left_behind.call()
        for id in await self._record.runs_of(node):
            live_now = await self._open(id)
            if live_now is not None:
                self._runs.left_by(node, live_now, missed)

    def was_late(self) -> None:
        """Others may have taken this node for dead, and forgotten which runs it has."""
        self._runs.notes.again()

    async def _look_through(self) -> None:
        """Open what nobody looks after: contexts whose hashes are behind, or whose run is no living node's. Raises
        Unavailable."""
        left = await self._record.unmirrored()
        others = {id for node in self._presence.others for id in await self._record.runs_of(node)}
        for id in left:
            if id not in others:
                await self._open(id)

    async def _open(self, id: str) -> LiveContext | None:
        """A context, or None if there is none that can be read. Raises Unavailable."""
        try:
            return await self._contexts.open(id)
        except HubError as error:
            if error.retryable:
                raise
            return None

    # work

    async def _take_forever(self, agent: str) -> None:
        """Take work while there are workers, and one of them has room."""
        while True:
            await self._room[agent].wait()
            if agent not in self._workers.agents:
                break
            try:
                work = await self._record.take(agent, self._node, TAKE_SECONDS)
                if work is not None:
                    await self._start(work)
            except Unavailable:
                await asyncio.sleep(RETRY)
            except Exception:
                _log.exception("taking work of agent %s", agent)
                await asyncio.sleep(0.5)
        del self._room[agent], self._loops[agent]

    async def _start(self, work: Work) -> None:
        """Start the run of a context that waits, at the worker that had it last if that has room. Raises Unavailable."""
        self._offers.forget(work.context)
        live = await self._waiting(work)
        if live is None or self._runs.expects(live.id):  # in the second case the item comes again, in vain
            return
        document = live.replica.state.document
        agent = self._offers.agent_of(document)
        worker = self._workers.pick(agent, live.id, document["run"] and document["run"]["worker"])
        if agent != work.agent or self._draining or self._workers.pick(agent) is None:
            await self._offers.offer(live.id, agent)  # it has another agent now, or nobody has room any more
            await self._record.done(work)
        elif worker is not None:  # else nobody of those with room may be given it; the item comes again
            await self._start_at(worker, live, work)

    async def _waiting(self, work: Work) -> LiveContext | None:
        """The context of an item, if it waits. Else the message may be on its way into the record: the item comes again,
        until it is too old for that. Raises Unavailable."""
        id, is_old = work.context, work.age > DROP_AFTER
        self._early[id] = work  # from now on the message, when this node hears of it, starts the run
        try:
            live = await self._open(id)
            if is_old and live is not None and not waits(live.replica.state.document):
                await self._contexts.compare([live])  # perhaps it has only not heard of it
        except BaseException:
            self._early.pop(id, None)
            raise
        is_waiting = live is not None and waits(live.replica.state.document)
        if live is not None and not is_waiting and not is_old:
            return None
        is_new = self._early.pop(id, None) is not None  # else its run is being started already
        if is_waiting:
            return live if is_new else None
        if is_old and is_new:
            await self._record.done(work)
        return None

    async def _start_at(self, worker: Worker, live: LiveContext, work: Work) -> None:
        self._runs.hold(live.id, worker)
        self._runs.expect(live.id)
        key = f"start/{work.agent}/{work.item}"
        start = RunStart(
            context=live.id,
            agent=work.agent,
            worker=worker.name,
            node=self._node,
            attempts=worker.attempts,
            version=worker.version,
            key=key,
        )
        try:
            answer = await self._append_start(self._contexts.stamp(start, HUB))
        finally:
            self._runs.arrived(live.id)
        if not isinstance(answer, HubError):
            self._look_for_room(work.agent)
            self._background.run(self._hand_over(live, worker, answer))
        else:
            _log.info("context %s: no run started: %s", live.id, answer.message)
            if self._workers.holder(live.id) is worker:
                self._runs.drop(live.id)
        self._runs.look(live.id)
        if isinstance(answer, HubError) and answer.retryable:
            return  # the item comes again
        if waits(live.replica.state.document):  # what the item had started was an earlier run
            await self._offers.offer(live.id, work.agent)
        await self._record.done(work)

    async def _append_start(self, request: Request) -> Answer:
        """The answer to the start of a run. While the record is away nobody knows what became of it: the same request says so
        later."""
        while True:
            try:
                await self._runs.notes.hold(request.body.context)
                answer = await self._contexts.request(request)
            except Unavailable as error:
                answer = error
            if not isinstance(answer, Unavailable):
                return answer
            await asyncio.sleep(RETRY)

    async def _hand_over(self, live: LiveContext, worker: Worker, answer: dict[str, Any]) -> None:
        run = live.replica.state.document["run"]
        if run is None or run["id"] != answer["run"]["id"] or run["status"] not in ACTIVE:
            if self._workers.holder(live.id) is worker:  # it ended before it was handed over
                self._runs.drop(live.id)
            self._runs.look(live.id)
            return
        if worker.gone:
            message = "its worker went away before it was handed over"
            await self._runs.ends.end(Missed.of(live.id, run), "interrupted", message, again=True)
            return
        payload = {
            "context": live.id,
            "agent": worker.agent,
            "run": answer["run"],
            "attempt": answer["attempt"],
            "messages": run["messages"],
            "position": {"epoch": answer["epoch"], "seq": answer["seq"]},
        }
        reply = await worker.start(payload)
        if reply.get("ok"):
            self._workers.doubted.discard(worker)
        else:
            await self._not_taken(live, worker, run, reply.get("error"))

    async def _not_taken(self, live: LiveContext, worker: Worker, run: dict[str, Any], error: Any) -> None:
        """The worker refused a run, or did not say that it has it: the messages wait again, a little longer each time."""
        missed = Missed.of(live.id, run)
        error = error if isinstance(error, dict) else {}
        if error.get("code") == Unavailable.code:
            self._let_rest(worker)
        message = str(error.get("message", "not taken"))
        _log.info("worker %s did not take context %s: %s", worker.name, live.id, message)
        await asyncio.sleep(min(0.5 * 2 ** (run["attempt"] - 1), 30.0))
        if self._workers.holder(live.id) is not worker:  # it went away, and perhaps came back with the run
            return
        if error.get("code") != Unavailable.code:  # else it may have the run all the same, and is told to stop
            self._runs.drop(live.id)
        if error.get("retryable") is False:
            await self._runs.ends.end(missed, "failed", message)
        else:
            await self._runs.ends.end(missed, "interrupted", message, again=True)

    def _let_rest(self, worker: Worker) -> None:
        if worker not in self._workers.resting:
            self._workers.resting.add(worker)
            self._workers.doubted.add(worker)
            self._look_for_room(worker.agent)
            asyncio.get_running_loop().call_later(REST_SECONDS, self._rested, worker)

    def _rested(self, worker: Worker) -> None:
        self._workers.resting.discard(worker)
        self._look_for_room(worker.agent)
