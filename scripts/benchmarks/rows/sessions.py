"""Many sessions at token speed: how many can be sustained, what a change costs, how late it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from math import nan
from typing import Any

from scripts.benchmarks.bench import HUB_DOUBLED, Bench, Meter
from scripts.benchmarks.contestants import BARE, HUB, NODE, PYTHON, PYTHON_UVLOOP, Server, cpu_of
from scripts.benchmarks.figures import Goal, Measure, Sample
from scripts.benchmarks.loads import shares
from scripts.benchmarks.processes import Process

TOKENS = 50
"""Changes a second of one session."""
P99 = 100.0
"""Milliseconds from when a change was due to its receipt, for sustainable."""
TWO_NODES = "hub, two nodes"
"""Half of the sessions at each: their viewers and their agent are at the same node."""
AS_MANY_EACH = "hub, two nodes, as many each"
"""Twice the sessions, so that each node has as much to do as the one of ``hub``."""
APART = "hub, two nodes, viewers apart"
"""The agent is at one node, all viewers at the other."""
TWICE = "hub, twice as many"
_MOST = 4_000
_TIMES_A_SECOND = 3_000
"""Receipts a second whose time is read."""


@dataclass
class Trial:
    """So many sessions for a while."""

    sessions: int
    p99: float
    why_not: list[str]
    """What keeps it from being sustained."""
    sample: Sample

    @property
    def sustained(self) -> bool:
        return not self.why_not


def row(bench: Bench) -> list[Measure]:
    """First how many each sustains; then all, and the hub as two nodes, at what python-socketio sustains; then the hub at
    twice that."""
    names = [HUB, *bench.peers(PYTHON, PYTHON_UVLOOP, NODE)]
    most = Measure(title=f"Sessions at {TOKENS} changes/s, one viewer each, that are sustained", unit="sessions")
    most.goals = [Goal(HUB, PYTHON, 5.0, at_least=True)]
    most.notes += [
        f"Sustained: p99 from when a change was due to its receipt under {P99:g} ms, everything sent and received in time, "
        "and no later at the end than at the beginning. Found by short trials, confirmed by a long one.",
        "The hub with its embedded Valkey, python-socketio with its Redis manager on a Valkey of the same kind, Node without.",
    ]
    cost = Measure(title="CPU per change, at what python-socketio sustains, and the hub's at twice that", unit="us")
    cost.goals = [Goal(HUB, NODE, 1.0), Goal(TWO_NODES, HUB, 1.3), Goal(AS_MANY_EACH, HUB, 1.3), Goal(APART, HUB, 2.2)]
    cost.notes.append(
        "Two nodes: on one Valkey, the CPU of both together. Half of the sessions at each, with their viewers and an agent; "
        "as many each: twice the sessions; viewers apart: the agent at one, all viewers at the other. With half as much to "
        "do a node makes smaller batches, so each change costs more; as many each is without that."
    )
    late = Measure(title="p99 at what python-socketio sustains, and the hub's at twice that", unit="ms")
    late.goals = [Goal(TWICE, None, 25.0)]
    sides = {name: _Sessions(bench, name) for name in [*names, HUB_DOUBLED, TWO_NODES, APART, BARE]}
    sustained: dict[str, int] = {}
    for number, name in bench.rounds(names):
        trial = _search(bench, sides[name], sustained.get(name))
        most.add(name, trial.sample if trial.sustained else trial.sample.of(nan))
        if not trial.sustained:
            most.notes.append(
                f"{name}, round {number + 1}: not even {trial.sessions} sessions ({', '.join(trial.why_not)})"
            )
        sustained[name] = trial.sessions
        if all(len(most.samples.get(name, [])) > number for name in names):
            _compare(bench, sides, names, sustained[PYTHON], cost, late)
    return [most, cost, late]


def _compare(
    bench: Bench, sides: dict[str, _Sessions], names: list[str], sessions: int, cost: Measure, late: Measure
) -> None:
    seconds = bench.plan.pick(10.0, 2.0)
    runs = [(name, sides[name], sessions) for name in [HUB, TWO_NODES, APART, HUB_DOUBLED, *names[1:], BARE]]
    runs += [(TWICE, sides[HUB], 2 * sessions), (AS_MANY_EACH, sides[TWO_NODES], 2 * sessions)]
    for name, side, so_many in runs:
        trial = side.run(so_many, seconds)
        cost.add(name, trial.sample.of(trial.sample.cpu["server"] / trial.sample.units * 1e6))
        late.add(name, trial.sample.of(trial.p99))


@dataclass
class _Lane:
    """The sessions of one agent, and how their viewers get in."""

    agent: Process
    way: dict[str, Any]
    there: int = 0

    @classmethod
    def of(cls, bench: Bench, agent_at: Server, viewers_at: Server, name: str = "s") -> _Lane:
        """``name``: how the ids of its sessions begin."""
        return cls(bench.agent(agent_at, name=name), viewers_at.viewer(f"{name}$N"))


class _Sessions:
    """A contestant with as many sessions and viewers as were needed so far."""

    def __init__(self, bench: Bench, name: str) -> None:
        self._servers: list[Server]
        if name in (TWO_NODES, APART):
            _, self._servers = bench.nodes(2)
        else:
            self._servers = [bench.start(name, mirror=True)]
        first, last = self._servers[0], self._servers[-1]
        if name == TWO_NODES:
            self._lanes = [_Lane.of(bench, first, first), _Lane.of(bench, last, last, "t")]
        else:
            self._lanes = [_Lane.of(bench, first, last)]
        self._crowd = bench.crowd(2 if name == HUB_DOUBLED else 1)
        self._names: Iterator[int] = count()

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU so far, apart."""
        agents = sum(lane.agent.cpu() for lane in self._lanes)
        return {**cpu_of(self._servers), "agent": agents, "load": self._crowd.cpu()}

    def run(self, sessions: int, seconds: float) -> Trial:
        """Let so many sessions run for a while."""
        crowd, entry = self._crowd, f"e{next(self._names)}"
        split = zip(self._lanes, shares(sessions, len(self._lanes)), strict=True)
        lanes = [(lane, share) for lane, share in split if share]
        for lane, share in lanes:
            if share > lane.there:
                lane.agent.ask("prepare", sessions=share, first=lane.there)
                crowd.open(lane.way, share - lane.there, first=lane.there)
                lane.there = share
            lane.agent.ask("entries", sessions=share, name=entry)
        crowd.settle(0.3)
        rate = sessions * TOKENS
        crowd.reset(every=max(1, rate // _TIMES_A_SECOND), shared=False)
        with Meter(self) as meter:
            for lane, share in lanes:
                lane.agent.tell("stream", sessions=share, rate=TOKENS, seconds=seconds)
            told = [lane.agent.answer(seconds + 60) for lane, _ in lanes]
        done = {name: sum(each[name] for each in told) for name in ("due", "sent", "held")}
        got = crowd.report()
        crowd.settle(0.3)
        late = crowd.report()
        p50, p99 = late["p50"] / 1e3, late["p99"] / 1e3
        grows = late["last_quarter"] > 2 * late["first_quarter"] + 10_000
        # What was due in the last tenth of a second may still be under way.
        missing = done["due"] - got["frames"]
        unsent = done["due"] - done["sent"]
        reasons = {
            f"p99 {p99:.0f} ms": not p99 < P99,
            f"median from {late['first_quarter'] / 1e3:.0f} to {late['last_quarter'] / 1e3:.0f} ms": grows,
            f"{missing} of {done['due']} not received": missing > 0.1 * rate + 1,
            f"{unsent} of {done['due']} not sent": unsent > 0.1 * rate + 1,
        }
        why_not = [reason for reason, holds in reasons.items() if holds]
        more = {"p50_ms": p50, "p99_ms": p99, "agent_held": done["held"], "sessions": sessions, "why_not": why_not}
        return Trial(sessions, p99, why_not, meter.sample(sessions, got["frames"], **more))


def _search(bench: Bench, sessions: _Sessions, guess: int | None) -> Trial:
    """The most sessions that a long trial confirms; or the last trial, if it confirms none."""
    short, long = bench.plan.pick((3.0, 30.0), (1.0, 5.0))
    close = bench.plan.pick(0.08, 0.25)
    found = search(lambda n: sessions.run(n, short).sustained, guess or 32, _MOST, close)
    trial = sessions.run(max(1, found), long)
    for _ in range(3):
        if trial.sustained or trial.sessions == 1:
            break
        trial = sessions.run(max(1, int(trial.sessions * 0.85)), long)
    return trial


def search(holds: Callable[[int], bool], guess: int, most: int, close: float) -> int:
    """The largest number up to ``most`` that holds, within the share ``close``; 0 if not even 1 does.

    By doubling or halving from a guess, then by halving the interval.
    """
    good, bad = 0, most + 1
    number = min(guess, most)
    while 1 <= number <= most and bad == most + 1 and good < most:
        if holds(number):
            good, number = number, min(2 * number, most)
        else:
            bad = number
    while good == 0 and bad > 1:
        number = bad // 2
        if holds(number):
            good = number
        else:
            bad = number
    while bad - good > max(1, close * good):
        number = (good + bad) // 2
        if holds(number):
            good = number
        else:
            bad = number
    return good
