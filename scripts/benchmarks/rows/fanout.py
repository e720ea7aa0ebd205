"""One session that many watch: CPU per delivery, one change per loop iteration, and ten."""

from __future__ import annotations

from functools import partial

from scripts.benchmarks.bench import HUB_DOUBLED, Bench, Meter, Side
from scripts.benchmarks.contestants import BARE, HUB, NODE, PYTHON, PYTHON_UVLOOP
from scripts.benchmarks.figures import Goal, Measure
from scripts.benchmarks.processes import BenchError

VIEWERS = 500
PAYLOAD = 256
"""Bytes of a change as viewers get it."""
_FRAME_HEAD = 4


def row(bench: Bench, burst: int) -> list[Measure]:
    """Change by change in lockstep: the next one leaves when all viewers have the last."""
    names = [HUB, HUB_DOUBLED, *bench.peers(PYTHON, PYTHON_UVLOOP, NODE, BARE)]
    sides = {name: _ready(bench, name) for name in names}
    many = f", {burst} changes at a time" if burst > 1 else ", one change at a time"
    measure = Measure(title=f"CPU per delivery to {VIEWERS} viewers{many}", unit="us", goals=_goals(burst))
    measure.notes.append(
        f"{PAYLOAD}-byte changes in patch mode; the hub keeps each in its embedded Valkey besides, the peers keep nothing. "
        f"The source waits until all viewers have a change, so none are joined but those sent together."
    )
    seconds = bench.plan.pick(3.0, 0.5)
    for name in names:
        _phase(sides[name], burst, seconds / 3)  # warm
    for _, name in bench.rounds(names):
        side = sides[name]
        with Meter(side) as meter:
            steps, frames, size = _phase(side, burst, seconds)
        if frames != steps * burst * VIEWERS:
            raise BenchError(f"{name}: {frames} deliveries of {steps * burst * VIEWERS}")
        each = meter.cpu["server"] / frames * 1e6
        measure.add(
            name, meter.sample(each, frames, bytes_each=size / frames, changes_a_second=steps * burst / meter.seconds)
        )
    return [measure]


def _ready(bench: Bench, name: str) -> Side:
    side = bench.side(name)
    side.agent.ask("prepare", sessions=1)
    side.crowd.open(side.server.viewer("s0"), VIEWERS)
    side.more["pad"] = 0
    _phase(side, 1, 10.0, most=3)
    report = side.crowd.report()
    side.more["pad"] = max(0, PAYLOAD + _FRAME_HEAD - round(report["bytes"] / report["frames"]))
    return side


def _phase(side: Side, burst: int, seconds: float, most: int = 1 << 30) -> tuple[int, int, int]:
    """Steps, frames and bytes of a lockstep."""
    side.crowd.reset(burst=burst)
    done = side.agent.ask("lockstep", burst=burst, seconds=seconds, pad=side.more["pad"], most=most)
    report = side.crowd.report()
    return int(done["rounds"]), int(report["frames"]), int(report["bytes"])


def _goals(burst: int) -> list[Goal]:
    if burst > 1:
        return [Goal(HUB, PYTHON, 1 / 25), Goal(HUB, BARE, 1.5)]
    return [Goal(HUB, PYTHON, 1 / 4), Goal(HUB, NODE, 1.0), Goal(HUB, BARE, 1.3)]


single = partial(row, burst=1)
bursts = partial(row, burst=10)
