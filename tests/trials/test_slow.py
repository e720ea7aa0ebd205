"""Clients that do not read: memory stays bounded, others do not notice, and each is resynced or let go with a reason."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.benchmarks.figures import percentile
from tests.support import HubProcess, wait_until
from tests.trials.load import Load, events, loaded, p99

MB = 1_000_000
PAD = 4_000
"""Characters of one change; ten of them are sent together."""


@pytest.fixture
def load(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Load]:
    variables = getattr(request, "param", {})
    with HubProcess(tmp_path, **variables) as hub, loaded(hub, tmp_path) as load:
        load.source.prepare(4)
        yield load


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("deliver", "megabytes"), [("patch", 200), ("snapshot", 40)])
def test_one_that_reads_nothing_beside_fifty_that_do(load: Load, deliver: str, megabytes: int) -> None:
    """Trial S1."""
    healthy = load.crowd(50)
    load.rounds(healthy, 200, 10, PAD)
    before = load.rounds(healthy, 300, 10, PAD)
    baseline = load.resident
    stalled = load.silent(deliver=deliver)
    files = load.files
    during, most = [], 0
    for _ in range(megabytes * MB // (100 * 10 * PAD)):
        during += load.rounds(healthy, 100, 10, PAD)
        most = max(most, load.resident - baseline)
    assert most < 20 * MB
    assert healthy.report()["lost"] == 0
    wait_until(lambda: load.files < files, "the end of the one that reads nothing")
    after = load.rounds(healthy, 300, 10, PAD)
    without = max(p99(before), p99(after))  # the machine may have become busier since it began
    assert p99(during) < 2 * without + 0.02, (p99(before), p99(during), p99(after))
    # It reads after all: what it was sent has no gap up to its end, of which it is told when it comes back.
    seqs = [event["seq"] for name, event in events(stalled) if name == ("change" if deliver == "patch" else "snapshot")]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
    hello = next(event for name, event in events(load.link()) if name == "hello")
    assert hello["previous"]["code"] == 4008
    assert "wait" in hello["previous"]["reason"]


@pytest.mark.long
def test_one_that_reads_again_is_resynced(load: Load) -> None:
    """Trial S1, for one that stalls for a while only: one snapshot in place of what it missed, then changes again."""
    healthy = load.crowd(5)
    stalled = load.silent()
    load.rounds(healthy, 500, 10, PAD)
    came = events(stalled)
    snapshot = next(event for name, event in came if name == "snapshot")
    assert (snapshot["recovered"], snapshot["reason"]) == (False, "lagged")
    load.rounds(healthy, 3)
    seqs = [event["seq"] for _, event in itertools.islice(came, 3)]
    assert seqs == [snapshot["seq"] + n for n in (1, 2, 3)]
    assert next(event for name, event in events(load.link()) if name == "hello").get("previous") is None


@pytest.mark.parametrize("load", [{"HUB_PING_SECONDS": "1", "HUB_PING_TIMEOUT": "2"}], indirect=True)
@pytest.mark.parametrize("traffic", [True, False])
@pytest.mark.long
def test_who_answers_no_ping_leaves_nothing(load: Load, traffic: bool) -> None:
    """Trial L2."""
    healthy = load.crowd(2)
    load.rounds(healthy, 100, 10, PAD)
    baseline, files = load.resident, load.files
    silent = [load.silent(deliver=("patch", "snapshot")[n % 2], kept=4096) for n in range(50)]
    assert load.files >= files + len(silent)
    began = time.monotonic()
    while load.files > files:
        load.rounds(healthy, 10, 10, PAD if traffic else 0)
        assert time.monotonic() - began < 1 + 2 * 2, "a ping, and twice the time to answer it"
    load.rounds(healthy, 100, 10, PAD)
    wait_until(lambda: load.resident < baseline + 5 * MB, "memory near the baseline")
    assert healthy.report()["lost"] == 0


@pytest.mark.long
def test_ten_tabs_are_not_slower_than_one(load: Load) -> None:
    """Trial F6: the time until the last of them has a token."""
    one, ten = load.crowd(1, "s1"), load.crowd(10, "s2")
    times: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(6):
        for session, crowd in ((1, one), (2, ten)):
            times[session] += load.rounds(crowd, 50, session=session)
    p95 = [percentile(times[session], 0.95) for session in (1, 2)]
    assert p95[1] < 2 * p95[0], p95
