"""The same to every session: from the request to the last receipt."""

from __future__ import annotations

from scripts.benchmarks.bench import Bench, Meter
from scripts.benchmarks.contestants import BARE, HUB, NODE, PYTHON, PYTHON_UVLOOP
from scripts.benchmarks.figures import Goal, Measure
from scripts.benchmarks.processes import BenchError

_TEXT = "The hub goes down for maintenance at six; save your work."
_SECONDS = 60.0


def row(bench: Bench) -> list[Measure]:
    """One viewer each."""
    sessions = bench.plan.pick(5_000, 300)
    names = [HUB, *bench.peers(PYTHON, PYTHON_UVLOOP, NODE, BARE)]
    sides = {}
    for name in names:
        side = sides[name] = bench.side(name, mirror=True)
        side.agent.ask("prepare", sessions=sessions)
        bench.tell(f"{sessions} viewers of {name}")
        side.crowd.open(side.server.viewer(), sessions)
    measure = Measure(title=f"A broadcast to {sessions} sessions, to the last receipt", unit="ms")
    measure.goals = [Goal(HUB, PYTHON, 0.25)]
    measure.notes.append(
        "The hub adds a log entry to each session, kept in its embedded Valkey before it is shown. Peers emit to each "
        "session's room, python-socketio through its Redis manager, Node and transport.write without any."
    )
    for _, name in bench.rounds(names):
        side = sides[name]
        side.crowd.settle(0.2)
        side.crowd.reset(shared=False, nap=0.001)
        with Meter(side) as meter:
            sent = side.agent.ask("everybody", text=_TEXT, within=_SECONDS)
            last = side.crowd.wait(1, _SECONDS)
        side.crowd.settle(0.2)
        frames = side.crowd.report()["frames"]
        if frames != sessions:
            raise BenchError(f"{name}: {frames} receipts of a broadcast to {sessions}")
        measure.add(name, meter.sample((last - sent["at_us"]) / 1e3, sessions))
    return [measure]
