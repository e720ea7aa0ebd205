"""What a change of 1 KB costs by the size of the document, in patch mode and in snapshot mode."""

from __future__ import annotations

import redis

from scripts.benchmarks.bench import Bench, Meter, Side, quiet
from scripts.benchmarks.contestants import Valkey
from scripts.benchmarks.figures import Measure
from scripts.benchmarks.processes import BenchError

CHANGE = 1_000
PAUSE = 0.02
"""Seconds between two changes: token speed."""
_KEYS = {"1 KB": 1, "32 KB": 32, "1 MB": 1_000}
"""Keys of 1,000 bytes in the document's state, by the name of its size."""
_MODES = ("patch", "snapshot")


def received_bytes(valkey: Valkey) -> int:
    """Bytes that a Valkey was sent since it started."""
    with redis.Redis.from_url(valkey.url) as client:
        return int(client.info("stats")["total_net_input_bytes"])


def row(bench: Bench) -> list[Measure]:
    """Each size has a hub of its own, whose Valkey says what it was sent."""
    plan = bench.plan
    count = plan.pick(200, 30)
    names = [f"{size}, {mode}" for mode in _MODES for size in _KEYS]
    base = names[0]
    wire = Measure(
        title="Bytes to a viewer for each 1 KB change, by document and mode", unit="bytes", reference=base, growth=True
    )
    kept = Measure(
        title="Bytes to Valkey for each 1 KB change, by document and mode", unit="bytes", reference=base, growth=True
    )
    cost = Measure(
        title="CPU of the hub for each 1 KB change, by document and mode", unit="us", reference=base, growth=True
    )
    wire.notes.append(
        f"{count} changes at {1 / PAUSE:g} a second with one viewer, the hashes' writes included. Snapshot mode gets each "
        "state while the document is under 32 KB, else the newest at most 40 times and 2 MB a second."
    )
    hubs = {size: _start(bench, keys) for size, keys in _KEYS.items()}
    for _, name in bench.rounds(names):
        size, mode = name.split(", ")
        valkey, side = hubs[size]
        side.crowd.open(side.server.viewer("s0", deliver=mode), 1)
        side.agent.ask("keys", count=3, size=CHANGE, pause=PAUSE)
        _calm(side)
        side.crowd.reset(shared=False)
        before = received_bytes(valkey)
        with Meter(side) as meter:
            side.agent.ask("keys", within=count * PAUSE + 60, count=count, size=CHANGE, pause=PAUSE)
            _calm(side)
        sent, report = received_bytes(valkey) - before, side.crowd.report()
        if report["frames"] < (count if mode == "patch" else 1):
            raise BenchError(f"{name}: the viewer got {report['frames']} frames of {count}")
        wire.add(name, meter.sample(report["bytes"] / count, count, frames=report["frames"] / count))
        kept.add(name, meter.sample(sent / count, count))
        cost.add(name, meter.sample(meter.cpu["server"] / count * 1e6, count))
        side.crowd.close_viewers()
    return [wire, kept, cost]


def _start(bench: Bench, keys: int) -> tuple[Valkey, Side]:
    valkey = bench.valkey()
    server = bench.start_hub(valkey=valkey)
    crowd = bench.crowd()
    side = Side(server, crowd, bench.agent(server))
    side.agent.ask("prepare", sessions=1)
    side.agent.ask("fill", keys=keys, size=CHANGE)
    return valkey, side


def _calm(side: Side) -> None:
    side.crowd.settle(0.6)  # a snapshot of 1 MB comes every half second
    quiet(side.server, 3.0)
