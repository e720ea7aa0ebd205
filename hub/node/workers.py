"""Who executes runs: the workers of each agent, how much room they have, and which contexts' runs they hold."""

from __future__ import annotations

from typing import Any, Protocol


class Worker(Protocol):
    """A process, or this one, that executes runs of one agent."""

    gone: bool
    """Whether it went away."""

    @property
    def agent(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def capacity(self) -> int: ...

    @property
    def attempts(self) -> int:
        """How often it is given a message at most, while its runs are interrupted."""

    @property
    def version(self) -> str | None:
        """The agent's."""

    def covers(self, context: str) -> bool:
        """Whether it may be given this context."""

    async def start(self, run: dict[str, Any]) -> dict[str, Any]:
        """Hand over a run (``run.start``). The reply is ``{ok: true}`` or ``{ok: false, error}``."""

    async def control(self, order: dict[str, Any]) -> None:
        """Tell about a control of a run it holds (``run.control``)."""


class Workers:
    """Plain bookkeeping."""

    def __init__(self) -> None:
        self.resting: set[Worker] = set()
        """Those that are given nothing for now."""
        self.doubted: set[Worker] = set()
        """Those that did not say that they have what they were given last: others that have room come first."""
        self._serving: dict[str, list[Worker]] = {}
        self._holders: dict[str, Worker] = {}
        self._held: dict[Worker, set[str]] = {}

    @property
    def agents(self) -> list[str]:
        """Names of the agents that somebody serves."""
        return sorted(self._serving)

    @property
    def runs(self) -> int:
        """How many runs are held."""
        return len(self._holders)

    def add(self, worker: Worker) -> None:
        """Let a worker be given runs; one without capacity is given none any more."""
        serving = self._serving.setdefault(worker.agent, [])
        if worker.capacity and worker not in serving:
            serving.append(worker)
        elif not worker.capacity and worker in serving:
            serving.remove(worker)
        if not serving:
            del self._serving[worker.agent]

    def remove(self, worker: Worker) -> set[str]:
        """Forget a worker. Returns the contexts whose runs it held."""
        serving = self._serving.get(worker.agent, [])
        if worker in serving:
            serving.remove(worker)
            if not serving:
                del self._serving[worker.agent]
        self.resting.discard(worker)
        self.doubted.discard(worker)
        held = self._held.pop(worker, set())
        for id in held:
            del self._holders[id]
        return held

    def pick(self, agent: str, context: str | None = None, last: str | None = None) -> Worker | None:
        """Of the workers that have room and may be given the context, and are not in doubt, the one that is named ``last``, else
        the one with the most room."""
        there = (worker for worker in self._serving.get(agent, []) if worker not in self.resting)
        free = [worker for worker in there if self._load(worker) < worker.capacity]
        if context is not None:
            free = [worker for worker in free if worker.covers(context)]

        def order(worker: Worker) -> tuple[bool, bool, float]:
            return worker in self.doubted, worker.name != last, self._load(worker) / worker.capacity

        return min(free, key=order, default=None)

    def _load(self, worker: Worker) -> int:
        return len(self._held.get(worker, ()))

    def holder(self, id: str) -> Worker | None:
        """Who executes the active run of a context."""
        return self._holders.get(id)

    def hold(self, id: str, worker: Worker) -> None:
        """A worker executes it, and nobody else does."""
        self.drop(id)
        self._holders[id] = worker
        self._held.setdefault(worker, set()).add(id)

    def drop(self, id: str) -> Worker | None:
        """Nobody executes it any more. Returns who did."""
        worker = self._holders.pop(id, None)
        if worker is not None:
            held = self._held[worker]
            held.discard(id)
            if not held:
                del self._held[worker]
        return worker
