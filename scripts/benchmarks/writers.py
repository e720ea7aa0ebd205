"""Writers that change one session at the same time: each on a connection of its own, with several requests under way."""

from __future__ import annotations

import select
import time
from typing import Any

from scripts.benchmarks.link import Link, LinkError, way_from
from scripts.benchmarks.sources import HubSource

_SILENCE_SECONDS = 10.0


def contend(command: dict[str, Any]) -> dict[str, Any]:
    """Let a writer for each of the ``ways`` add to the counter of session 0 for some ``seconds``, with ``under_way``
    requests of each unanswered, then wait for all answers.

    Returns how many answers each ``got`` in that time, how many came in all (``answered``), and for how long a writer had
    none at most (``gap``, seconds). Raises LinkError if not every change of the session is one that was answered.
    """
    writers: list[HubSource] = []
    try:
        for way in command["ways"]:
            writers.append(HubSource(Link(way_from(way), binary=True), command["name"]))
        return _contend(writers, command["under_way"], command["seconds"])
    finally:
        for writer in writers:
            writer.link.close()


def _contend(writers: list[HubSource], under_way: int, seconds: float) -> dict[str, Any]:
    of = {writer.link.sock: number for number, writer in enumerate(writers)}
    began = time.monotonic()
    got, last, gap = [0] * len(writers), [began] * len(writers), 0.0
    seqs: list[int] = []
    for writer in writers:
        writer.count_up(0, under_way)
    unanswered = under_way * len(writers)
    while unanswered:
        ready = select.select(list(of), [], [], _SILENCE_SECONDS)[0]
        if not ready:
            raise LinkError(f"{unanswered} requests had no answer for {_SILENCE_SECONDS:g} s")
        for sock in ready:
            number = of[sock]
            answers, now = writers[number].counted(), time.monotonic()
            seqs += answers
            unanswered -= len(answers)
            if answers and now < began + seconds:
                got[number] += len(answers)
                gap, last[number] = max(gap, now - last[number]), now
                writers[number].count_up(0, len(answers))
                unanswered += len(answers)
    gap = max(gap, *(began + seconds - at for at in last))
    seqs.sort()
    if seqs != list(range(seqs[0], seqs[0] + len(seqs))):
        raise LinkError(f"{len(seqs)} answers, {len(set(seqs))} of them different, for changes {seqs[0]} to {seqs[-1]}")
    return {"got": got, "answered": len(seqs), "gap": gap}
