"""What a row works with: the servers and loads that it starts (ended when the row is), rounds in alternating order, meters."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from scripts.benchmarks import contestants
from scripts.benchmarks.contestants import HUB, NODE, Server, Valkey
from scripts.benchmarks.figures import Measure, Sample
from scripts.benchmarks.loads import Crowd, start_agent, start_author
from scripts.benchmarks.processes import Process

HUB_DOUBLED = "hub, load doubled"
"""The hub again, with its viewers spread over twice as many processes: the load is the limit where this differs."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much to do. ``quick`` is for looking whether things work, not for figures to quote."""

    quick: bool
    rounds: int
    node: bool
    """Whether Socket.IO for Node is there to be measured."""

    def pick(self, full: Any, quick: Any) -> Any:
        """One of two sizes."""
        return quick if self.quick else full


@dataclass
class Side:
    """A contestant with its load, ready to be measured."""

    server: Server
    crowd: Crowd
    agent: Process
    more: dict[str, Any] = field(default_factory=dict)

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU so far, apart."""
        return {**self.server.cpu(), "agent": self.agent.cpu(), "load": self.crowd.cpu()}


class Metered(Protocol):
    """What a Meter looks at."""

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU so far, apart."""


class Meter:
    """CPU by process and wall time of a phase."""

    def __init__(self, side: Metered) -> None:
        self._side = side
        self.cpu: dict[str, float] = {}
        self.seconds = 0.0

    def __enter__(self) -> Meter:
        self._cpu, self._began = self._side.cpu(), time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.monotonic() - self._began
        self.cpu = {name: used - self._cpu[name] for name, used in self._side.cpu().items()}

    def sample(self, value: float, units: float, **more: Any) -> Sample:
        """A round's result."""
        return Sample(value=value, cpu=self.cpu, seconds=self.seconds, units=units, more=more)


class Bench:
    """One row's work. Leaving ``row`` ends everything that was started."""

    def __init__(self, plan: Plan, scratch: Path, tell: Callable[[str, float], None]) -> None:
        self.plan = plan
        self.scratch = scratch
        self._tell = tell
        self._stack = ExitStack()
        self._done = 0.0

    @contextmanager
    def row(self) -> Iterator[Bench]:
        """Everything that is started inside is ended at the end, by its process id."""
        with ExitStack() as stack:
            self._stack, self._done = stack, 0.0
            yield self

    def tell(self, doing: str, done: float | None = None) -> None:
        """Say what is being done; ``done`` of the row, 0 to 1."""
        self._done = self._done if done is None else done
        self._tell(doing, self._done)

    # what takes part

    def peers(self, *names: str) -> list[str]:
        """Those of some peers that are here."""
        return [name for name in names if name != NODE or self.plan.node]

    def start(self, name: str, *, mirror: bool = False) -> Server:
        """Start a contestant."""
        self.tell(f"starting {name}")
        if name in (HUB, HUB_DOUBLED):
            return self.keep(contestants.start_hub(self.scratch))
        return self.keep(contestants.start_peer(name, self.scratch, mirror=mirror))

    def start_hub(self, *, port: int = 0, folder: Path | None = None, valkey: Valkey | None = None) -> Server:
        """Start the hub in another way."""
        return self.keep(contestants.start_hub(self.scratch, port=port, folder=folder, valkey=valkey))

    def nodes(self, count: int) -> tuple[Valkey, list[Server]]:
        """Start the hub as so many nodes on one Valkey."""
        valkey = self.valkey()
        servers = []
        for number in range(count):
            self.tell(f"starting node {number + 1} of {count}")
            servers.append(self.start_hub(valkey=valkey))
        return valkey, servers

    def valkey(self) -> Valkey:
        """A Valkey whose socket is known."""
        valkey = contestants.start_valkey(self.scratch)
        self._stack.callback(valkey.end)
        return valkey

    def keep(self, server: Server) -> Server:
        """End a server with the row."""
        self._stack.callback(server.end)
        return server

    def crowd(self, processes: int = 1, *, module: str = "receiver") -> Crowd:
        """Processes for viewers."""
        crowd = Crowd(self.scratch, processes, module=module)
        self._stack.callback(crowd.end)
        return crowd

    def agent(self, server: Server, crowd: Crowd | None = None, *, name: str = "s") -> Process:
        """A source of changes for a server; its sessions' ids begin with ``name``."""
        agent = start_agent(self.scratch, server, crowd, name=name)
        self._stack.callback(agent.end)
        return agent

    def author(self, server: Server, sessions: int, name: str) -> Process:
        """An agent process that streams into so many sessions of a server."""
        author = start_author(self.scratch, server, sessions, name)
        self._stack.callback(author.end)
        return author

    def side(self, name: str, *, mirror: bool = False, processes: int = 1) -> Side:
        """A contestant with its load, nobody connected but the agent."""
        server = self.start(name, mirror=mirror)
        crowd = self.crowd(2 * processes if name == HUB_DOUBLED else processes)
        return Side(server, crowd, self.agent(server, crowd))

    # rounds

    def rounds(self, names: Sequence[str], *, most: int | None = None) -> Iterator[tuple[int, str]]:
        """Every contestant in every round, each round in the other direction than the one before."""
        rounds = min(most or self.plan.rounds, self.plan.rounds)
        total = rounds * len(names)
        for step in range(total):
            number, place = divmod(step, len(names))
            name = names[place] if number % 2 == 0 else names[-1 - place]
            self.tell(f"round {number + 1} of {rounds}: {name}", step / total)
            yield number, name


Row = Callable[[Bench], list[Measure]]
"""Measures something; the figures that come of it."""


def quiet(server: Server, seconds: float = 10.0) -> None:
    """Wait until a server has nothing left to do (it uses under 3 % of a core), for so long at most."""
    until = time.monotonic() + seconds
    calm = 0
    before = server.cpu()
    while time.monotonic() < until and calm < 3:
        time.sleep(0.1)
        now = server.cpu()
        calm = calm + 1 if sum(now.values()) - sum(before.values()) < 0.003 else 0
        before = now
