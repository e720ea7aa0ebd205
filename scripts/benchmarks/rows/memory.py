"""Memory of an idle connection and of a live context."""

from __future__ import annotations

import time

from scripts.benchmarks.bench import Bench, quiet
from scripts.benchmarks.contestants import BARE, HUB, NODE, PYTHON, Server
from scripts.benchmarks.figures import Goal, Measure, Sample
from scripts.benchmarks.loads import start_agent
from scripts.benchmarks.machine import raise_file_limit, resident_bytes

_FIRST = 200
"""So many come before memory is first looked at: pools and code are there then."""
_FORGOTTEN_SECONDS = 45.0
"""By then the hub has let go of the requests that it keeps for 30 s after their answer."""
_JSON = "the same as JSON"
_ENTRIES = 20


def connections(bench: Bench) -> list[Measure]:
    """Connected and let in, nothing subscribed, measured while they are open."""
    count = min(bench.plan.pick(10_000, 1_000), raise_file_limit() - 500)
    names = [HUB, *bench.peers(PYTHON, NODE, BARE)]
    measure = Measure(title=f"Memory of an idle connection, of {count:,}", unit="KB", goals=[Goal(HUB, None, 25.0)])
    measure.notes.append(
        f"Resident memory beyond the first {_FIRST} connections. transport.write is a bare aiohttp WebSocket."
    )
    for _, name in bench.rounds(names, most=3):
        server = bench.start(name)
        crowd = bench.crowd()
        crowd.open(server.viewer(None), _FIRST)
        before = _settled(server)
        crowd.open(server.viewer(None), count - _FIRST, first=_FIRST)
        each = (_settled(server) - before) / (count - _FIRST)
        measure.add(name, Sample(value=each / 1e3))
        crowd.end()
        server.end()
    return [measure]


def contexts(bench: Bench) -> list[Measure]:
    """Made by an agent, twenty short entries each, nobody watching."""
    count, forgotten = bench.plan.pick((10_000, _FORGOTTEN_SECONDS), (1_000, 0.0))
    measure = Measure(title=f"Memory of a live context with {_ENTRIES} short entries, of {count:,}", unit="KB")
    measure.goals = [Goal(HUB, None, 20.0)]
    measure.notes.append(
        f"Resident memory of the hub, its embedded Valkey's apart, beyond the first {_FIRST} contexts, {forgotten:g} s after "
        "the last request."
    )
    for _, name in bench.rounds([HUB], most=3):
        server = bench.start(name)
        agent = start_agent(bench.scratch, server)
        try:
            before, valkey = 0, 0
            for first, last in ((0, _FIRST), (_FIRST, count)):
                before, valkey = _settled(server), sum(map(resident_bytes, server.valkeys))
                agent.ask("prepare", sessions=last, first=first, within=120)
                agent.ask("logs", first=first, last=last, entries=_ENTRIES, within=300)
            bench.tell(f"{forgotten:g} s until the last requests are forgotten")
            time.sleep(forgotten)
            each = (_settled(server) - before) / (count - _FIRST)
            kept = (sum(map(resident_bytes, server.valkeys)) - valkey) / (count - _FIRST)
            measure.add(name, Sample(value=each / 1e3, more={"valkey_kb": kept / 1e3}))
            measure.add(_JSON, Sample(value=agent.ask("snapshot")["bytes"] / 1e3))
        finally:
            agent.end()
            server.end()
    return [measure]


def _settled(server: Server) -> int:
    quiet(server, 20.0)
    return resident_bytes(server.pid)
