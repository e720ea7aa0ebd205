"""Writers on several nodes that change one session at the same time: what it costs that one of them must be first."""

from __future__ import annotations

from typing import Any

import redis

from scripts.benchmarks.bench import Bench, Meter
from scripts.benchmarks.contestants import cpu_of
from scripts.benchmarks.figures import Measure, Sample

WRITERS = 6
"""A number that 1, 2 and 3 nodes divide evenly."""
UNDER_WAY = 16
"""Requests of each that are unanswered."""
_NODES = {"1 node": 1, "2 nodes": 2, "3 nodes": 3}
_WARM = 0.5


def row(bench: Bench) -> list[Measure]:
    """The same writers, spread over more nodes."""
    seconds = bench.plan.pick(10.0, 1.0)

    def measure(title: str, unit: str) -> Measure:
        return Measure(title=title, unit=unit, reference="1 node", growth=True)

    rate = measure("Changes to one session", "1/s")
    appends = measure("Appends to its record", "1/s")
    cost = measure("CPU of all nodes per change", "us")
    stale = measure("Stale appends, of all", "%")
    slowest = measure("Slowest writer, of the fastest", "%")
    rate.notes.append(
        f"{WRITERS} writers, evenly at so many nodes, {UNDER_WAY} requests of each under way. What waits at a node goes into "
        "one append. Each change is one that was answered: that is checked."
    )
    stale.notes.append(
        "Another node was first, so that its requests were worked out again. Counted by Valkey: the append script runs XADD "
        "when it appends, XRANGE when that is stale."
    )
    sides = {name: _Nodes(bench, count) for name, count in _NODES.items()}
    for _, name in bench.rounds(list(sides)):
        side = sides[name]
        before = side.appended()
        with Meter(side) as meter:
            done = side.contend(seconds)
        appended, not_first = (now - then for now, then in zip(side.appended(), before, strict=True))
        answered, got = done["answered"], done["got"]
        rate.add(name, Sample(value=sum(got) / seconds))
        appends.add(name, Sample(value=appended / meter.seconds))
        each = meter.cpu["server"] / answered * 1e6
        cost.add(name, meter.sample(each, answered, got=got, longest_gap_ms=1e3 * done["gap"]))
        stale.add(name, Sample(value=100 * not_first / (appended + not_first)))
        slowest.add(name, Sample(value=100 * min(got) / max(got)))
    return [rate, appends, cost, stale, slowest]


class _Nodes:
    """So many nodes, a session, and its writers."""

    def __init__(self, bench: Bench, count: int) -> None:
        self._valkey, self._nodes = bench.nodes(count)
        self._agent = bench.agent(self._nodes[0])
        self._agent.ask("prepare", sessions=1)
        self.contend(_WARM)

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU so far, apart; the agent's is the writers'."""
        return {**cpu_of(self._nodes), "agent": self._agent.cpu()}

    def contend(self, seconds: float) -> dict[str, Any]:
        """Let the writers write."""
        ways = [self._nodes[number % len(self._nodes)].source() for number in range(WRITERS)]
        return self._agent.ask(
            "contend", within=seconds + 60, name="s", ways=ways, seconds=seconds, under_way=UNDER_WAY
        )

    def appended(self) -> tuple[int, int]:
        """How many appends were made so far, and how many were stale."""
        with redis.Redis.from_url(self._valkey.url) as client:
            calls = client.info("commandstats")
        return calls["cmdstat_xadd"]["calls"], calls.get("cmdstat_xrange", {}).get("calls", 0)
