"""What a change costs follows from the change: not from the message so far, and not from the document around it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from hub.record.embedded import socket_url
from scripts.benchmarks.loads import Crowd
from tests.support import HubProcess, wait_until
from tests.trials.load import Load, events, loaded, subscribe

TOKEN = "a few words "


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    with HubProcess(tmp_path) as hub, loaded(hub, tmp_path) as load:
        load.source.prepare(4)
        yield load


@pytest.mark.long
def test_appends_to_one_entry(load: Load) -> None:
    """Trial S3: twice as many appends cost twice as many bytes, to viewers of either mode and to the record."""
    crowds = [load.crowd(1, "s0", deliver) for deliver in ("patch", "snapshot")]
    sizes = {}
    for count in (2_000, 4_000):
        name = f"e{count}"
        load.source.begin_entries(1, name)
        settled(load, name, "")
        for crowd in crowds:
            crowd.reset(shared=False)
        before = load.to_record()
        for _ in range(count):
            load.source.append_one(0, TOKEN)
        settled(load, name, TOKEN * count)
        for crowd in crowds:
            crowd.wait(count, 10)
        sizes[count] = [crowd.report()["bytes"] for crowd in crowds] + [load.to_record() - before]
    ratios = [large / small for small, large in zip(sizes[2_000], sizes[4_000], strict=True)]
    assert max(ratios) <= 2.2, (ratios, sizes)


def settled(load: Load, entry: str, content: str) -> None:
    """Wait until the hash of the log has the entry as it is."""
    with redis.Redis.from_url(socket_url(load.hub.folder)) as client:

        def there() -> bool:
            fields = client.hgetall("hub:ctx:{s0}:log")
            return any(entry.encode() in field + value and content.encode() in value for field, value in fields.items())

        wait_until(there, "the hashes")


@pytest.mark.long
def test_a_small_change_in_a_large_document(load: Load) -> None:
    """Issue 3, item 6: 1 KB in 1 MB costs patch viewers, the record and the CPU what it costs in 1 KB."""
    load.source.fill(1, 980, 1_000)
    small, large = load.crowd(10, "s0"), load.crowd(10, "s1")
    cost: dict[int, list[tuple[float, int, int]]] = {0: [], 1: []}
    for turn in range(4):
        for session, crowd in ((0, small), (1, large)):
            cost[session].append(changes(load, session, crowd, turn))
    viewers, record, cpu = ([[one[n] for one in cost[session][1:]] for session in (0, 1)] for n in (1, 2, 0))
    assert viewers[0] == viewers[1], "to the byte"
    assert min(record[1]) < 1.1 * min(record[0]), record  # the least: what the machine does besides only adds
    assert min(cpu[1]) < 1.5 * min(cpu[0]), cpu


def changes(load: Load, session: int, crowd: Crowd, turn: int) -> tuple[float, int, int]:
    """CPU, bytes to viewers and bytes to the record of 200 changes of 1 KB; a turn has the same positions in each session."""
    crowd.reset(shared=False)
    load.source.set_key(session, "pace", f"{turn}")
    cpu, record = load.cpu, load.to_record()
    for n in range(200):
        load.source.set_key(session, "changed", f"{turn}-{n:04d}".ljust(1_000, "x"))
    crowd.wait(201, 10)
    load.mirrored(f"s{session}", "changed", lambda value: value and f"{turn}-0199".encode() in value)
    return load.cpu - cpu, crowd.report()["bytes"], load.to_record() - record


@pytest.mark.long
@pytest.mark.parametrize(("keys", "most"), [(50, 40), (200, 10), (980, 2)])
def test_snapshots_of_a_large_document(load: Load, keys: int, most: float) -> None:
    """Issue 3, item 6: at most 40 a second and 2 MB/s, and the newest state last."""
    load.source.fill(1, keys, 1_000)
    link = load.link()
    size = len(json.dumps(subscribe(link, "s1", "snapshot")["document"]))
    for _ in events(link, 1.0):
        pass  # what the pace owes for the filling
    began = time.monotonic()
    n = 0
    while time.monotonic() - began < 3:
        n += 1
        load.source.set_key(1, "changed", f"{n}".rjust(1_000))
    snapshots: list[dict[str, Any]] = []
    for name, event in events(link, 2.0):
        if name == "snapshot":
            snapshots.append(event)
            if event["document"]["state"]["changed"].strip() == str(n):
                break
    took = time.monotonic() - began
    assert snapshots[-1]["document"]["state"]["changed"].strip() == str(n), "the newest is there"
    assert not [name for name, _ in events(link, 1.5) if name == "snapshot"], "and it was the last"
    assert len(snapshots) <= min(most, 40) * 3 + 2
    assert (len(snapshots) - 1) * size <= 2_100_000 * took
    assert len(snapshots) >= min(most, 40) * 3 * 0.5, "and not much less"
