"""Which worker runs what. Contexts that wait are taken from their agent's work stream when a worker has room; what the
context says counts, the stream only wakes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from hub.core.changes import Change
from hub.core.errors import HubError, NotFound, Unavailable
from hub.core.requests import Author, Role, RunEnd, RunRef, RunStart
from hub.core.runs import ACTIVE, active_run
from hub.node.contexts import Contexts
from hub.node.live import LiveContext
from hub.node.tasks import Background, end_tasks
from hub.node.workers import Worker, Workers
from hub.record.port import Record, Work

_log = logging.getLogger(__name__)

HUB = Author("hub", Role.OPERATOR)
DROP_AFTER = 10.0
"""Seconds after which an item with nothing behind it is dropped: longer than a request may wait."""

REST_SECONDS = 15.0
"""How long a worker that did not say that it has a run is given no other."""

TAKE_SECONDS = 5.0
"""How long the record is asked to wait for work at a time."""


class Dispatch:
    """Offers contexts that wait, starts runs at workers, ends the runs of workers that are gone."""

    def __init__(
        self, record: Record, contexts: Contexts, *, node: str, default_agent: str, grace: float, stop_grace: float
    ) -> None:
        self._record = record
        self._contexts = contexts
        self._node = node
        self._default_agent = default_agent
        self._grace = grace
        self._stop_grace = stop_grace
        self._workers = Workers()
        self._room: dict[str, asyncio.Event] = {}
        self._loops: dict[str, asyncio.Task[None]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._stopping: set[str] = set()
        self._starting: set[str] = set()  # contexts that are held for a run whose start is not in the record yet
        self._offered: dict[str, str] = {}  # contexts that wait on an agent's stream, and the agent
        self._background = Background("dispatch of runs")

    async def start(self) -> None:
        """Look after the runs that were active when the hub ended: their workers have a while to come back."""
        for id in await self._record.unmirrored():
            try:
                await self._contexts.open(id)
            except NotFound:
                continue

    async def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        await end_tasks(self._loops.values())
        await self._background.end()

    @property
    def agents(self) -> list[str]:
        """Names of the agents that are served here now."""
        return self._workers.agents

    # workers

    async def serve(self, worker: Worker, held: Sequence[tuple[str, RunRef]]) -> list[dict[str, Any]]:
        """A worker takes runs from now on, and goes on with those that it held. Returns those it has lost."""
        lost: list[dict[str, Any]] = []
        for id, ref in held:
            run = None
            try:
                live = await self._contexts.open(id)
                run = active_run(live.replica.state.document)
            except NotFound:
                pass
            if run is None or (run["id"], run["fence"]) != (ref.id, ref.fence) or not worker.covers(id):
                lost.append({"context": id, "run": {"id": ref.id, "fence": ref.fence}})
                continue
            self.hold(id, worker)
            if run["status"] == "stopping":  # told to who held it before, perhaps in vain
                self._stopping.discard(id)
                self._stop(id, run, worker)
        self._workers.add(worker)
        if worker.capacity and worker.agent not in self._loops:
            self._room[worker.agent] = asyncio.Event()
            self._loops[worker.agent] = asyncio.create_task(self._take_forever(worker.agent))
        self._look_for_room(worker.agent)
        return lost

    def hold(self, id: str, worker: Worker) -> None:
        """A worker executes the active run of a context."""
        self._drop_hold(id)
        self._workers.hold(id, worker)
        self._cancel_timer(id)

    def gone(self, worker: Worker) -> None:
        """A worker went away. Its runs are interrupted, unless they are announced again within the grace."""
        held = self._workers.remove(worker)
        self._look_for_room(worker.agent)
        for id in held:
            self._orphaned(id)

    def _look_for_room(self, agent: str) -> None:
        """Let the agent's loop take work, or let it wait; without workers it ends."""
        event = self._room.get(agent)
        if event is None:
            return
        if self._workers.pick(agent) is not None or agent not in self._workers.agents:
            event.set()
        else:
            event.clear()

    # what happens in contexts

    def changed(self, live: LiveContext, changes: Sequence[Change]) -> None:
        """Act on a context's confirmed state: free its worker, stop its run, offer what waits."""
        document = live.replica.state.document
        run = active_run(document)
        holder = self._workers.holder(live.id)
        if run is None:
            told = live.id in self._stopping
            self._stopping.discard(live.id)
            self._cancel_timer(live.id)
            if holder is not None and live.id not in self._starting:
                self._release(live.id, holder, document["run"], told)
        elif run["status"] == "stopping":
            self._stop(live.id, run, holder)
        elif holder is None and live.id not in self._timers and run["worker"] != "":
            self._orphaned(live.id)
        if self._waits(document):
            self.offer(live.id, document["agent"])

    def closed(self, live: LiveContext) -> None:
        """A context was removed: its run must not go on."""
        id, run = live.id, live.replica.state.document.get("run")
        self._cancel_timer(id)
        self._stopping.discard(id)
        self._offered.pop(id, None)
        holder = self._drop_hold(id)
        if holder is not None and run is not None:
            self._background.run(holder.control(_order(id, run, "stop")))

    def _waits(self, document: dict[str, Any]) -> bool:
        return bool(document["queue"]) and active_run(document) is None and not document["paused"]

    def _release(self, id: str, holder: Worker, run: dict[str, Any] | None, told: bool) -> None:
        self._drop_hold(id)
        if run is not None and run["status"] in ("stopped", "interrupted") and not told:  # by others: it must not go on
            self._background.run(holder.control(_order(id, run, "stop")))

    def _drop_hold(self, id: str) -> Worker | None:
        """Nobody executes a context's run any more. Returns who did."""
        holder = self._workers.drop(id)
        if holder is not None:
            self._look_for_room(holder.agent)
        return holder

    def _stop(self, id: str, run: dict[str, Any], holder: Worker | None) -> None:
        if id in self._stopping:
            return
        self._stopping.add(id)
        if holder is None:
            self._background.run(self._end(id, run, "stopped", "its worker was away"))
            return
        self._background.run(holder.control(_order(id, run, "stop")))
        self._cancel_timer(id)
        self._timers[id] = asyncio.get_running_loop().call_later(
            self._stop_grace,
            lambda: self._background.run(self._end(id, run, "stopped", "the agent did not stop in time")),
        )

    def _orphaned(self, id: str) -> None:
        """An active run that nobody here executes."""
        live = self._contexts.live.get(id)
        run = active_run(live.replica.state.document) if live is not None else None
        if run is None:
            return
        self._cancel_timer(id)
        if run["status"] == "stopping":
            self._background.run(self._end(id, run, "stopped", "its worker went away"))
            return
        self._timers[id] = asyncio.get_running_loop().call_later(
            self._grace, lambda: self._background.run(self._end(id, run, "interrupted", "its worker went away"))
        )

    def _cancel_timer(self, id: str) -> None:
        timer = self._timers.pop(id, None)
        if timer is not None:
            timer.cancel()

    async def _end(self, id: str, run: dict[str, Any], status: str, error: str, *, again: bool = False) -> None:
        self._timers.pop(id, None)
        ref = RunRef(run["id"], run["fence"])
        body = RunEnd(context=id, run=ref, status=status, error=error, again=again)  # type: ignore[arg-type]
        answer = await self._contexts.request(self._contexts.stamp(body, HUB))
        if isinstance(answer, HubError):
            _log.info("run %s of context %s had ended: %s", ref.id, id, answer.message)

    # work

    def offer(self, id: str, agent: str | None) -> None:
        """Let a context wait for its agent, on the agent's stream."""
        if self._offered.get(id) != (agent or self._default_agent):
            self._background.run(self._offer(id, agent or self._default_agent))

    async def offer_first(self, id: str, agent: str | None) -> None:
        """The same before the message is appended, so that a crash in between cannot lose it. Raises Unavailable."""
        if self._offered.get(id) != (agent or self._default_agent):
            await self._offer(id, agent or self._default_agent)

    async def _offer(self, id: str, agent: str) -> None:
        self._offered[id] = agent
        try:
            await self._record.offer(agent, id)
        except Unavailable:
            if self._offered.get(id) == agent:
                del self._offered[id]
            raise

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
                await asyncio.sleep(0.2)
            except Exception:
                _log.exception("taking work of agent %s", agent)
                await asyncio.sleep(0.5)
        del self._room[agent], self._loops[agent]

    async def _start(self, work: Work) -> None:
        """Start the run of a context that waits, at the worker with the most room."""
        if self._offered.get(work.context) == work.agent:
            del self._offered[work.context]
        try:
            live = await self._contexts.open(work.context)
        except NotFound:
            live = None
        if live is None or not self._waits(live.replica.state.document):
            if work.age > DROP_AFTER:  # until then the message may be on its way into the record; the item comes again
                await self._record.done(work)
            return
        if (live.replica.state.document["agent"] or self._default_agent) != work.agent:
            self.offer(work.context, live.replica.state.document["agent"])  # it has another agent now
            await self._record.done(work)
            return
        worker = self._workers.pick(work.agent, work.context)
        if worker is None:
            if self._workers.pick(work.agent) is None:  # nobody has room any more: it goes back to the line
                await self._offer(work.context, work.agent)
                await self._record.done(work)
            return  # else nobody of those who have may be given it; the item comes again
        start = RunStart(context=work.context, agent=work.agent, worker=worker.name, node=self._node)
        self.hold(work.context, worker)
        self._starting.add(work.context)
        try:
            answer = await self._contexts.request(self._contexts.stamp(start, HUB))
        finally:
            self._starting.discard(work.context)
        self._look_for_room(work.agent)
        if isinstance(answer, HubError):
            if self._workers.holder(work.context) is worker:
                self._drop_hold(work.context)
            _log.warning("context %s: no run could start: %s", work.context, answer.message)
        else:
            self._background.run(self._hand_over(live, worker, answer))
        await self._record.done(work)

    async def _hand_over(self, live: LiveContext, worker: Worker, answer: dict[str, Any]) -> None:
        run = live.replica.state.document["run"]
        if run is None or run["id"] != answer["run"]["id"] or run["status"] not in ACTIVE:
            if self._workers.holder(live.id) is worker:  # it ended before it was handed over
                self._drop_hold(live.id)
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
        if not reply.get("ok"):
            await self._not_taken(live, worker, run, reply.get("error"))

    async def _not_taken(self, live: LiveContext, worker: Worker, run: dict[str, Any], error: Any) -> None:
        """The worker refused a run, or did not say that it has it: the messages wait again, a little longer each time."""
        error = error if isinstance(error, dict) else {}
        if error.get("code") == Unavailable.code:
            self._let_rest(worker)
        message = str(error.get("message", "not taken"))
        _log.info("worker %s did not take context %s: %s", worker.name, live.id, message)
        await asyncio.sleep(min(0.5 * 2 ** (run["attempt"] - 1), 30.0))
        if self._workers.holder(live.id) is not worker:  # it went away, and perhaps came back with the run
            return
        if error.get("code") != Unavailable.code:  # else it may have the run all the same, and is told to stop
            self._drop_hold(live.id)
        if error.get("retryable") is False:
            await self._end(live.id, run, "failed", message)
        else:
            await self._end(live.id, run, "interrupted", message, again=True)

    def _let_rest(self, worker: Worker) -> None:
        if worker not in self._workers.resting:
            self._workers.resting.add(worker)
            self._look_for_room(worker.agent)
            asyncio.get_running_loop().call_later(REST_SECONDS, self._rested, worker)

    def _rested(self, worker: Worker) -> None:
        self._workers.resting.discard(worker)
        self._look_for_room(worker.agent)


def _order(id: str, run: dict[str, Any], action: str) -> dict[str, Any]:
    return {"context": id, "run": {"id": run["id"], "fence": run["fence"]}, "action": action}
