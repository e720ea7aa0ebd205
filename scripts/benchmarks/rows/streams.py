"""One agent process that streams: how many appends a second it carries with the library, and how late they are at half of what
is asked for."""

from __future__ import annotations

from typing import Any

from hub.agent.growing import JOINED
from scripts.benchmarks.author import WORD
from scripts.benchmarks.bench import Bench, Meter
from scripts.benchmarks.contestants import HUB, PYTHON
from scripts.benchmarks.figures import Goal, Measure
from scripts.benchmarks.processes import BenchError, Process
from scripts.benchmarks.sources import stamp

MANY = 100
"""Sessions."""
GOAL = 60_000.0
"""Appends a second."""
P99 = 50.0
"""Milliseconds."""
_EVERY = 7
"""In each so-many-th frame the time is read."""


def row(bench: Bench) -> list[Measure]:
    """Into one session and over many, one viewer each; with python-socketio's client and server the same."""
    seconds = bench.plan.pick(10.0, 1.0)
    measures: list[Measure] = []
    for sessions, where in ((1, "into one session"), (MANY, f"over {MANY} sessions")):
        rate = Measure(title=f"Appends of one agent process {where}", unit="1/s", growth=True)
        rate.goals = [Goal(HUB, None, GOAL, at_least=True)]
        joined = Measure(title=f"Appends to an operation of the hub, {where}", unit="appends", growth=True)
        joined.goals = [Goal(HUB, None, float(JOINED))]
        late = Measure(title=f"p99 at half of {GOAL:,.0f} appends/s, {where}", unit="ms")
        late.goals = [Goal(HUB, None, P99)]
        sides = {name: _Side(bench, name, sessions, f"{sessions}-") for name in (HUB, PYTHON)}
        for _, name in bench.rounds(list(sides)):
            side = sides[name]
            with Meter(side) as meter:
                told = side.stream(seconds, None)
            tokens = told["tokens"]
            each = tokens / told["seconds"]
            rate.add(name, meter.sample(each, tokens, operations_per_second=told["operations"] / told["seconds"]))
            joined.add(name, meter.sample(tokens / told["operations"], tokens))
            side.crowd.reset(every=_EVERY, shared=False)
            with Meter(side) as meter:
                told = side.stream(seconds, min(each, GOAL) / 2)
            side.crowd.settle(0.3)
            late.add(name, meter.sample(side.crowd.report()["p99"] / 1e3, told["tokens"]))
        measures += [rate, joined, late]
    measures[0].notes.append(
        "A checkpoint after each append; until the last one is confirmed. The hub with its embedded Valkey and the library; "
        "python-socketio with its Redis manager, and 64 emits of its client without an answer per session."
    )
    measures[1].notes.append(
        "Text that waits while a send is under way goes together. The hub counts: positions in its record; what it has of "
        "the text is checked."
    )
    measures[2].notes.append(
        "From when a token was due to its receipt. Who carries less than is asked for is measured at half of what it carries."
    )
    return measures


class _Side:
    """A contestant, an author that streams into some sessions, and a viewer of each."""

    def __init__(self, bench: Bench, name: str, sessions: int, prefix: str) -> None:
        self.server = bench.start(name, mirror=True)
        self.author: Process = bench.author(self.server, sessions, prefix)
        self.crowd = bench.crowd()
        self.crowd.open(self.server.viewer(f"{prefix}$N"), sessions)
        self._sessions = sessions
        self._counting = bench.agent(self.server, name=prefix) if name == HUB else None
        self._before = self._recorded()

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU so far, apart."""
        return {**self.server.cpu(), "agent": self.author.cpu(), "load": self.crowd.cpu()}

    def stream(self, seconds: float, rate: float | None) -> dict[str, Any]:
        """Stream for a while: so many tokens a second, or as fast as it goes. ``operations``: appends that the server counted."""
        told = self.author.ask("stream", within=seconds + 60, seconds=seconds, rate=rate)
        now = self._recorded()
        new = {name: now[name] - self._before[name] for name in now}
        self._before = now
        told["operations"] = new["changes"] - new["entries"] if new else told["tokens"]
        size = len(WORD) if rate is None else len(f"{stamp()} {WORD}")
        if new and new["characters"] != size * told["tokens"]:
            raise BenchError(f"the hub has {new['characters']} characters of {told['tokens']} tokens of {size}")
        return told

    def _recorded(self) -> dict[str, int]:
        if self._counting is None:
            return {}
        return self._counting.ask("recorded", sessions=self._sessions)
