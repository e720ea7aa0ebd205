"""Appends to one entry: twice as many must cost about twice as many bytes."""

from __future__ import annotations

import time

from scripts.benchmarks.bench import Bench, Meter, Side, quiet
from scripts.benchmarks.contestants import HUB
from scripts.benchmarks.figures import Goal, Measure
from scripts.benchmarks.rows.sizes import received_bytes

_DEADLINE = 120.0


def row(bench: Bench) -> list[Measure]:
    """Bytes to a viewer in either mode, and to Valkey with the hashes that follow."""
    count = bench.plan.pick(2_000, 300)
    valkey = bench.valkey()
    server = bench.start_hub(valkey=valkey)
    patch, snapshot = bench.crowd(), bench.crowd()
    side = Side(server, patch, bench.agent(server))
    side.agent.ask("prepare", sessions=1)
    patch.open(server.viewer("s0"), 1)
    snapshot.open(server.viewer("s0", deliver="snapshot"), 1)
    names = [f"{count:,} appends", f"{2 * count:,} appends"]
    measures = []
    for title in ("a viewer in patch mode", "a viewer in snapshot mode", "Valkey"):
        measure = Measure(
            title=f"Bytes to {title}, by appends to one entry", unit="KB", reference=names[0], growth=True
        )
        measure.goals = [Goal(names[1], names[0], 2.2)]
        measures.append(measure)
    measures[0].notes.append(
        f"One append after the other, each answered by the {HUB} before the next; the entry grows."
    )
    for number, name in bench.rounds(names):
        times = 1 + names.index(name)
        side.agent.ask("entries", sessions=1, name=f"e{number}-{times}")
        _calm(side)
        for crowd in (patch, snapshot):
            crowd.reset(shared=False)
        before = received_bytes(valkey)
        with Meter(side) as meter:
            side.agent.ask("appends", within=_DEADLINE, count=times * count)
            _calm(side)
        sizes = [patch.report()["bytes"], snapshot.report()["bytes"], received_bytes(valkey) - before]
        for measure, size in zip(measures, sizes, strict=True):
            measure.add(name, meter.sample(size / 1e3, times * count))
    return measures


def _calm(side: Side) -> None:
    """Wait until the hashes have followed: a large field is written 1 s after its last change at the latest."""
    time.sleep(1.2)
    quiet(side.server, 5.0)
