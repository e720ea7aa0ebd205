"""The active runs and their workers. A run names the node that has its worker: only that node tells the worker, and waits for it
when it is gone. Others look after the run once that node is dead, or once the worker came to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from hub.core.errors import HubError
from hub.core.requests import RunMove, RunRef
from hub.core.runs import active_run
from hub.node.contexts import Contexts
from hub.node.live import Answer, LiveContext
from hub.node.presence import Presence
from hub.node.rights import HUB
from hub.node.run_ends import RunEnds
from hub.node.run_notes import RunNotes
from hub.node.tasks import Background
from hub.node.workers import Worker, Workers
from hub.record.port import Record


class Runs:
    """Knows which worker here has which run, and acts on what becomes of them."""

    def __init__(
        self, record: Record, contexts: Contexts, presence: Presence, *, grace: float, stop_grace: float
    ) -> None:
        self.workers = Workers()
        self.notes = RunNotes(record, presence.node)
        self.ends = RunEnds(contexts, presence, grace=grace, stop_grace=stop_grace)
        self.on_room: Callable[[str], None] = lambda agent: None
        """Called with an agent whose workers may have room now."""
        self._contexts = contexts
        self._presence = presence
        self._node = presence.node
        self._stopping: set[str] = set()  # contexts whose worker was told to stop
        self._coming: Counter[str] = Counter()  # contexts whose run is on its way into the record, as this node's
        self._background = Background("runs")

    async def close(self) -> None:
        await self.ends.close()
        await self._background.end()
        await self.notes.close()

    def __contains__(self, id: str) -> bool:
        """Whether the run of a context is looked after here."""
        return id in self._coming or self.workers.holder(id) is not None or id in self.ends

    # which worker has it

    def hold(self, id: str, worker: Worker) -> None:
        """A worker executes the active run of a context."""
        self.drop(id)
        self.workers.hold(id, worker)
        self.on_room(worker.agent)
        self.ends.cancel(id)

    def drop(self, id: str) -> Worker | None:
        """Nobody here executes it any more. Returns who did."""
        holder = self.workers.drop(id)
        if holder is not None:
            self.on_room(holder.agent)
        return holder

    def gone(self, worker: Worker) -> None:
        """A worker went away. It may come back to its runs within the grace, here or at another node."""
        worker.gone = True
        held = self.workers.remove(worker)
        self.on_room(worker.agent)
        for id in held:
            self.look(id)

    async def take_over(self, id: str, ref: RunRef, worker: Worker) -> bool:
        """A worker says that it has a run: the record is to say so before anybody counts on it. False if it has lost it.
        Raises Unavailable."""
        try:
            live = await self._contexts.open(id)
            run = active_run(live.replica.state.document)
            known = run is not None and (run["id"], run["fence"]) == (ref.id, ref.fence)
            if known:
                self.ends.cancel(id)
                self._stopping.discard(id)  # it was told to who held it before, perhaps in vain
            if run is None or not known or (run["node"], run["worker"]) != (self._node, worker.name):
                await self._move(id, ref, worker)
        except HubError as error:
            self.look(id)
            if error.retryable:
                raise
            return False
        if not worker.gone:
            self.hold(id, worker)
        self.look(id)
        return True

    async def _move(self, id: str, ref: RunRef, worker: Worker) -> None:
        """Let the record say that a worker here has a run. Raises RunLost, NotFound, Removed, Unavailable."""
        self.expect(id)
        try:
            await self.notes.hold(id)
            move = RunMove(context=id, run=ref, worker=worker.name, node=self._node)
            answer = await self._contexts.request(self._contexts.stamp(move, HUB))
        finally:
            self.arrived(id)
        if isinstance(answer, HubError):
            raise answer

    # runs on their way into the record

    def expect(self, id: str) -> None:
        """A run of this context may become this node's. Ends with ``arrived``, or ``opened``."""
        self._coming[id] += 1

    def expects(self, id: str) -> bool:
        return id in self._coming

    def arrived(self, id: str) -> None:
        """What was expected is in the record now, or never will be."""
        self._coming[id] -= 1
        if not self._coming[id]:
            del self._coming[id]

    def opened(self, id: str, answer: Answer, worker: Worker | None) -> None:
        """What became of a run that a worker here opens itself, which was expected; None: it went away. The answer may be an
        earlier one."""
        self.arrived(id)
        live = self._contexts.live.get(id)
        run = active_run(live.replica.state.document) if live is not None else None
        if worker is None or isinstance(answer, HubError) or run is None or run["id"] != answer["run"]["id"]:
            self.look(id)
        elif run["node"] == self._node:
            self.hold(id, worker)
            self.look(id)
        else:  # it was asked for at another node first
            self._background.run(self.take_over(id, RunRef(run["id"], run["fence"]), worker))

    # what happens in contexts

    def look(self, id: str) -> None:
        """A run may be without its worker now, or not be this node's after all."""
        live = self._contexts.live.get(id)
        if live is not None and live.created is None:
            self.changed(live)
        elif id not in self._coming:
            self.notes.let(id)

    def changed(self, live: LiveContext) -> None:
        """Act on a context's confirmed state: free its worker, stop its run, wait for a worker that is missed."""
        id, run = live.id, active_run(live.replica.state.document)
        if run is None:
            self._over(id, live.replica.state.document["run"])
        elif id in self._coming:
            pass  # whose it is shows once that is in the record: then it is looked at again
        elif run["node"] != self._node:
            self._elsewhere(id, run)
        elif run["status"] == "stopping":
            self._stop(id, run)
        elif self.workers.holder(id) is None and id not in self.ends:
            self.ends.unless_back(id, run)

    def _over(self, id: str, run: dict[str, Any] | None) -> None:
        """No run is active."""
        told = id in self._stopping
        self._stopping.discard(id)
        self.ends.cancel(id)
        if id in self._coming:
            return
        holder = self.drop(id)
        if holder is not None and run is not None and run["status"] in ("stopped", "interrupted") and not told:
            self._tell_stop(id, run, holder)  # others ended it: it must not go on
        self.notes.let(id)

    def _elsewhere(self, id: str, run: dict[str, Any]) -> None:
        """The run is another node's. It may have moved there; a worker that had it here must not go on with it."""
        holder = self.drop(id)
        self._stopping.discard(id)
        self.notes.let(id)
        if holder is not None and holder.name != run["worker"]:
            self._tell_stop(id, run, holder)
        if self._presence.may_live(run["node"]):
            self.ends.cancel(id)
        elif id not in self.ends:
            self.ends.unless_back(id, run)

    def _stop(self, id: str, run: dict[str, Any]) -> None:
        """The worker is to stop its run, which is this node's."""
        if id in self._stopping:
            return
        self._stopping.add(id)
        holder = self.workers.holder(id)
        if holder is None:
            self.ends.now(id, run, "stopped", "its worker was away")
        else:
            self._tell_stop(id, run, holder)
            self.ends.unless_stopped(id, run)

    def closed(self, live: LiveContext) -> None:
        """A context was removed: its run must not go on."""
        id, run = live.id, live.replica.state.document.get("run")
        self.ends.cancel(id)
        self._stopping.discard(id)
        holder = self.drop(id)
        if holder is not None and run is not None:
            self._tell_stop(id, run, holder)
        self.notes.let(id)

    def left_by(self, node: str, live: LiveContext, missed: float) -> None:
        """A node is gone, and was missed for some seconds: if it had the run, its worker has what is left of the grace."""
        run = active_run(live.replica.state.document)
        if run is not None and run["node"] == node and live.id not in self._coming:
            self.ends.unless_back(live.id, run, missed)

    def _tell_stop(self, id: str, run: dict[str, Any], worker: Worker) -> None:
        order = {"context": id, "run": {"id": run["id"], "fence": run["fence"]}, "action": "stop"}
        self._background.run(worker.control(order))
