"""The rows of the bench, by the names that ``--rows`` takes, in the order in which they run."""

from __future__ import annotations

from dataclasses import dataclass

from scripts.benchmarks.bench import Row
from scripts.benchmarks.rows import (
    appends,
    broadcast,
    conflicts,
    connecting,
    fanout,
    latency,
    memory,
    sessions,
    sizes,
    streams,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A row, and how many seconds it may take in all (a round's share grows with the rounds)."""

    run: Row
    about: str
    fixed: float
    per_round: float


ROWS: dict[str, Entry] = {
    "fanout": Entry(fanout.single, "one change at a time to 500 viewers", 120, 60),
    "bursts": Entry(fanout.bursts, "ten changes at a time to 500 viewers", 120, 60),
    "latency": Entry(latency.row, "one change on an idle server", 60, 60),
    "sessions": Entry(sessions.row, "sessions at token speed, the mirror on", 300, 900),
    "streams": Entry(streams.row, "one agent process that streams as fast as it can", 120, 180),
    "conflicts": Entry(conflicts.row, "writers on several nodes that change one session", 120, 120),
    "broadcast": Entry(broadcast.row, "one request that tells every session", 300, 120),
    "sizes": Entry(sizes.row, "a small change in small and large documents", 60, 120),
    "appends": Entry(appends.row, "thousands of appends to one entry", 60, 240),
    "connect": Entry(connecting.rate, "how fast viewers get in", 120, 120),
    "resume": Entry(connecting.resume, "how fast all are back after a crash", 60, 300),
    "connections": Entry(memory.connections, "memory of idle connections", 60, 240),
    "contexts": Entry(memory.contexts, "memory of live contexts", 60, 300),
}
