"""How fast viewers get in, and how fast all are back after a crash."""

from __future__ import annotations

import time
from math import nan

from scripts.benchmarks.bench import Bench, Meter, quiet
from scripts.benchmarks.contestants import BARE, HUB, NODE, PYTHON, PYTHON_UVLOOP, start_hub, start_peer
from scripts.benchmarks.figures import Measure, Sample
from scripts.benchmarks.processes import BenchError

_RETURN_SECONDS = 90.0


def rate(bench: Bench) -> list[Measure]:
    """From the TCP handshake to the answer of the subscription, 64 at a time."""
    viewers = bench.plan.pick(2_000, 300)
    names = [HUB, *bench.peers(PYTHON, PYTHON_UVLOOP, NODE, BARE)]
    sides = {}
    for name in names:
        sides[name] = bench.side(name)
        sides[name].agent.ask("prepare", sessions=viewers)
    measure = Measure(title=f"{viewers:,} viewers connect, each to a session of its own", unit="a second")
    cost = Measure(title="CPU of the server per viewer that connects", unit="us")
    measure.notes.append("WebSocket from the start; the hub answers the subscription with the session's document.")
    for _, name in bench.rounds(names):
        side = sides[name]
        with Meter(side) as meter:
            seconds = side.crowd.open(side.server.viewer(), viewers)["seconds"]
        measure.add(name, meter.sample(viewers / seconds, viewers))
        cost.add(name, meter.sample(meter.cpu["server"] / viewers * 1e6, viewers))
        side.crowd.close_viewers()
        quiet(side.server)
    return [measure, cost]


def resume(bench: Bench) -> list[Measure]:
    """Viewers leave, something happens, the server is killed and started again; they come back at once."""
    viewers = bench.plan.pick(2_000, 200)
    names = [HUB, *bench.peers(PYTHON, PYTHON_UVLOOP, NODE)]
    whole = Measure(title=f"{viewers:,} viewers back after kill -9, each on a session of its own", unit="s")
    after = Measure(title="The same, from when the server is up again", unit="s")
    whole.notes.append(
        "At the hub all have what they missed, by their positions, from the record. A peer keeps nothing: its viewers "
        "are in their rooms again, no more. Everybody tries again every 0.1 s, 64 at a time."
    )
    for number, name in bench.rounds(names, most=3):
        hub = name == HUB
        folder = bench.scratch / f"resume-{number}" if hub else None
        server = bench.start_hub(folder=folder) if hub else bench.start(name, mirror=True)
        crowd = bench.crowd(module="returning")
        agent = bench.agent(server)
        agent.ask("prepare", sessions=viewers)
        agent.ask("entries", sessions=viewers, name="e")
        crowd.open(server.viewer(), viewers)
        viewers_process = crowd.processes[0]
        viewers_process.ask("leave")
        mark = f"mark-{number}" if hub else ""
        agent.ask("mark", sessions=viewers, text=mark)
        server.process.kill()
        agent.end()
        killed = time.monotonic()
        way = server.viewer()
        viewers_process.tell("return", **way, mark=mark, concurrency=64, seconds=_RETURN_SECONDS)
        if hub:
            again = bench.keep(start_hub(bench.scratch, port=server.port, folder=folder))
        else:
            again = bench.keep(start_peer(name, bench.scratch, port=server.port, mirror=True))
        up = time.monotonic()
        got = viewers_process.answer(_RETURN_SECONDS + 10)
        if got["caught_up"] < viewers:
            raise BenchError(f"{name}: {got['caught_up']} of {viewers} are back: {got['refusal']}")
        cpu = {**again.cpu(), "load": crowd.cpu()}
        took = got["last_us"] / 1e6 - killed
        more = {"start_seconds": up - killed, "recovered": got["recovered"]}
        sample = Sample(value=took, cpu=cpu, seconds=took, units=viewers, more=more)
        whole.add(name, sample)
        after.add(name, sample.of(max(0.0, took - (up - killed)) or nan))
        crowd.end()
        again.end()
        server.end()
    return [whole, after]
