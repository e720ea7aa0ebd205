"""A single change on an idle server: from the agent's socket to the viewer's."""

from __future__ import annotations

from scripts.benchmarks.bench import Bench, Meter, Side
from scripts.benchmarks.contestants import BARE, HUB, NODE, PYTHON, PYTHON_UVLOOP
from scripts.benchmarks.figures import Goal, Measure

PAUSE = 0.005
"""Seconds between two changes."""


def row(bench: Bench) -> list[Measure]:
    """Both sockets are in one process, which waits for the viewer's before it goes on."""
    names = [HUB, *bench.peers(PYTHON, PYTHON_UVLOOP, NODE, BARE)]
    sides: dict[str, Side] = {}
    for name in names:
        side = sides[name] = bench.side(name, mirror=True)
        side.agent.ask("prepare", sessions=1)
        side.agent.ask("entries", sessions=1, name="e")
    middle = Measure(title="One change on an idle server, median", unit="ms", goals=[Goal(HUB, None, 1.5)])
    middle.notes.append(
        "The hub answers and shows it after its embedded Valkey has it on disk (appendfsync always). "
        "python-socketio with its Redis manager on a Valkey of the same kind; Node and transport.write keep nothing."
    )
    worst = Measure(title="One change on an idle server, p99", unit="ms")
    count = bench.plan.pick(500, 60)
    for _, name in bench.rounds(names):
        side = sides[name]
        with Meter(side) as meter:
            got = side.agent.ask("probe", viewer=side.server.viewer("s0"), count=count, warm=20, pause=PAUSE)
        middle.add(name, meter.sample(got["p50"] / 1e3, count + 20))
        worst.add(name, meter.sample(got["p99"] / 1e3, count + 20))
    return [middle, worst]
