"""The bench: frames, counting, figures and table by themselves; one quick row from end to end."""

from __future__ import annotations

import io
import json
import math
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from scripts.benchmarks.contestants import BARE, HUB, PYTHON, Server, cpu_of
from scripts.benchmarks.figures import Goal, Measure, Sample, Spread, percentile
from scripts.benchmarks.frames import PING, TEXT, bounds, client_frame, server_frame, split
from scripts.benchmarks.loads import shares
from scripts.benchmarks.processes import Process
from scripts.benchmarks.receiver import LARGE, Receiver
from scripts.benchmarks.returning import ResumingWay
from scripts.benchmarks.rows import ROWS
from scripts.benchmarks.rows.sessions import search
from scripts.benchmarks.table import number, show
from scripts.benchmarks.viewers import Refused, Stage, Viewer, Way
from tests.cli.processes import processes_naming
from tests.support import environment

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "scripts" / "benchmarks" / "peers"
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the bench reads /proc and uses epoll")

# frames


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536])
def test_frames_come_back_whole_whatever_their_size(size: int) -> None:
    data = server_frame(b"x" * size) + server_frame(b"", PING)
    assert split(data) == ([(TEXT, b"x" * size), (PING, b"")], b"")
    assert bounds(data, 0) == (len(data) - 2 - size, len(data) - 2)


def test_what_is_not_complete_is_left_over() -> None:
    whole, cut = server_frame(b"abc"), server_frame(b"y" * 300)
    for length in range(len(cut)):
        assert split(whole + cut[:length]) == ([(TEXT, b"abc")], cut[:length])


def test_a_client_masks_with_a_key_that_changes_nothing() -> None:
    frame = client_frame(b"hello")
    assert frame[1] & 0x80
    assert frame[2:6] == bytes(4)
    assert frame[6:] == b"hello"


# viewers


@pytest.fixture
def ends() -> Iterator[tuple[Viewer, socket.socket]]:
    """A viewer, and the server's end of its connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        viewer = Viewer(7, server.getsockname()[1])
        there, _ = server.accept()
        there.settimeout(5)
        with there:
            yield viewer, there
        viewer.close()


def test_a_viewer_gets_in_and_answers_pings_on_the_way(ends: tuple[Viewer, socket.socket]) -> None:
    viewer, there = ends
    way = Way(1, "/socket.io/", '{"token":"t"}', '["join","s$N"]')
    viewer.stage = Stage.UPGRADING
    told = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"
    told += b"".join(
        map(server_frame, (b'0{"sid":"a"}', b"2", b'40{"sid":"b"}', b'42["hello",{}]', b'430[{"ok":true}]'))
    )
    after = b""
    for byte in told:  # one at a time: nothing depends on how it is cut
        assert viewer.stage is not Stage.READY
        after = viewer.advance(bytes((byte,)), way)
    assert (viewer.stage, after) == (Stage.READY, b"")
    said = there.recv(1000)
    assert said == b"".join(map(client_frame, (b'40{"token":"t"}', b"3", b'420["join","s7"]')))


@pytest.mark.parametrize("told", [b'44{"message":"no"}', b'430[{"ok":false}]'])
def test_a_viewer_that_is_refused_says_so(ends: tuple[Viewer, socket.socket], told: bytes) -> None:
    viewer, _ = ends
    viewer.stage = Stage.JOINING
    with pytest.raises(Refused):
        viewer.advance(server_frame(told), Way(1, "/", "", "[]"))


def test_a_viewer_that_comes_back_names_its_position() -> None:
    way = ResumingWay(1, "/", "", '["subscribe", {"topic": "context:s$N"}]', {3: ("e", 9)})
    assert json.loads(way.join_for(3) or "")[1] == {"topic": "context:s3", "from": {"epoch": "e", "seq": 9}}
    assert json.loads(way.join_for(4) or "")[1] == {"topic": "context:s4"}


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 64, 5_000, 1_000_000])
def test_frames_are_counted_however_they_are_cut(ends: tuple[Viewer, socket.socket], piece: int) -> None:
    viewer, there = ends
    viewer.stage = Stage.READY
    payloads = [b"a" * 20, b"2", b"b" * 300, b"c" * (LARGE + 1), b"2", b"d" * 70_000, b"e"]
    data = b"".join(map(server_frame, payloads))
    receiver = Receiver(None)
    for at in range(0, len(data), piece):
        receiver.take(viewer, data[at : at + piece])
    assert (receiver.frames, receiver.bytes) == (5, len(data))
    assert (viewer.rest, viewer.skip) == (b"", 0)
    assert there.recv(1000) == 2 * client_frame(b"3")
    receiver.epoll.close()


# figures


def test_percentiles_are_values_that_came() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert [percentile(values, share) for share in (0.5, 0.99, 1.0)] == [50, 99, 100]
    assert percentile([3.0], 0.99) == 3
    assert math.isnan(percentile([], 0.5))


def measure(**values: list[float]) -> Measure:
    names = {"hub": HUB, "peer": PYTHON, "bare": BARE}
    made = Measure(title="CPU per delivery", unit="us", goals=[Goal(HUB, PYTHON, 0.25), Goal(HUB, BARE, 1.3)])
    for name, rounds in values.items():
        for value in rounds:
            cpu = {"server": 0.0025, "agent": 0.001, "load": 0.5}
            made.add(names[name], Sample(value=value, cpu=cpu, seconds=2.0, units=1_000.0))
    return made


def test_ratios_are_taken_within_a_round() -> None:
    made = measure(hub=[1.0, 4.0, 2.0], peer=[10.0, 20.0, 4.0])
    assert made.ratio(HUB, PYTHON) == Spread(0.2, 0.1, 0.5)
    assert made.spread(HUB) == Spread(2.0, 1.0, 4.0)
    made.growth = True
    assert made.against_reference(PYTHON) == Spread(5.0, 2.0, 10.0)


def test_goals_look_at_the_median() -> None:
    made = measure(hub=[1.0, 4.0, 2.0], peer=[10.0, 20.0, 4.0])
    assert made.judge(made.goals[0]) == (Spread(0.2, 0.1, 0.5), True)
    assert made.judge(made.goals[1]) is None
    assert Goal(HUB, PYTHON, 5.0, at_least=True).met(5.0)
    assert not Goal(HUB, None, 25.0).met(25.1)


def test_what_could_not_be_measured_is_null_in_the_json() -> None:
    told = measure(hub=[math.nan, 2.0], peer=[10.0, 20.0]).to_json()
    text = json.dumps(told, allow_nan=False)
    hub = json.loads(text)["contestants"][HUB]
    assert [sample["value"] for sample in hub["rounds"]] == [None, 2.0]
    assert hub["figure"] == {"median": 2.0, "min": 2.0, "max": 2.0}


@pytest.mark.parametrize("limit", [0, 1, 2, 31, 64, 100, 777, 1_000, 5_000])
def test_the_search_finds_the_largest_that_holds(limit: int) -> None:
    tried: list[int] = []

    def holds(sessions: int) -> bool:
        tried.append(sessions)
        return sessions <= limit

    found = search(holds, 32, 1_000, 0.08)
    assert found <= min(limit, 1_000)
    assert found >= min(limit, 1_000) * 0.92 - 1
    assert len(tried) < 20


@pytest.mark.parametrize(("count", "split"), [(0, [0, 0, 0]), (2, [1, 1, 0]), (9, [3, 3, 3]), (11, [4, 4, 3])])
def test_sessions_are_split_evenly(count: int, split: list[int]) -> None:
    assert shares(count, 3) == split


def test_the_valkey_that_nodes_share_counts_once(tmp_path: Path) -> None:
    busy = [sys.executable, "-c", "print(sum(range(3_000_000)), flush=True); input()"]
    processes = [Process(name, busy, tmp_path) for name in ("a", "b", "valkey")]
    try:
        for process in processes:
            process.line()
        *nodes, valkey = processes
        used = cpu_of([Server(HUB, "hub", node, 0, valkeys=[valkey.pid]) for node in nodes])
        there = {"server": sum(node.cpu() for node in nodes), "valkey": valkey.cpu()}
        assert used == pytest.approx(there, rel=0.2)  # they may just be beginning to wait
    finally:
        for process in processes:
            process.end()


# what people see


@pytest.mark.parametrize(
    ("value", "text"), [(0.04567, "0.046"), (1.234, "1.23"), (12.34, "12.3"), (1234.5, "1,234"), (math.nan, "–")]
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_the_table_has_figures_ratios_processes_and_goals() -> None:
    console = Console(width=120, file=io.StringIO(), record=True)
    console.print(show([measure(hub=[1.0, 4.0, 2.0], peer=[10.0, 20.0, 4.0])]))
    text = console.export_text()
    assert "CPU per delivery" in text
    assert re.search(r"hub +│ +2\.00 \(1\.00–4\.00\) │ +1 │ +2\.50 │ +1\.00 │ +25 %", text)
    assert re.search(r"python-socketio +│ +10\.0 \(4\.00–20\.0\) │ 0\.200 \(0\.100–0\.500\)", text)
    assert "✓ hub ≤ 0.25 × python-socketio" in text
    assert "? hub ≤ 1.3 × transport.write: not measured" in text


def test_a_table_has_no_column_for_what_was_not_measured() -> None:
    made = Measure(title="Appends", unit="1/s", reference="1 node")
    made.add("1 node", Sample(value=5.0, cpu={"server": 0.5}, seconds=1.0, units=1_000.0))
    console = Console(width=120, file=io.StringIO(), record=True)
    console.print(show([made]))
    text = console.export_text()
    assert re.search(r"1 node +│ +5\.00 │ +1 │ +500 │", text)
    assert "viewers" not in text
    assert "Valkey" not in text


def test_the_scripts_help_names_every_row() -> None:
    done = subprocess.run(
        [ROOT / "scripts" / "bench", "--help"], capture_output=True, text=True, timeout=30, check=True
    )
    named = re.search(r"only these rows: (.*)", done.stdout)
    assert named is not None
    assert named[1].split() == list(ROWS)


def test_the_peers_lock_names_no_registry_and_has_hashes() -> None:
    packages = json.loads((PEERS / "package-lock.json").read_text())["packages"]
    assert not [name for name, package in packages.items() if "resolved" in package]
    assert not [name for name, package in packages.items() if name and "integrity" not in package]


@pytest.mark.timeout(60)
def test_a_quick_row_from_end_to_end(tmp_path: Path) -> None:
    said, (median, *_) = _quick("latency", tmp_path)
    assert "One change on an idle server, median" in said
    assert {HUB, PYTHON, BARE} <= median["contestants"].keys()
    for name in (HUB, PYTHON):
        (sample,) = median["contestants"][name]["rounds"]
        assert sample["value"] > 0
        assert sample["cpu_seconds"]["server"] > 0
        assert sample["cpu_seconds"]["valkey"] > 0
    assert median["contestants"][BARE]["ratio"]["median"] > 0


@pytest.mark.long
@pytest.mark.timeout(120)
def test_what_conflicts_cost_is_seen_with_more_nodes_than_one(tmp_path: Path) -> None:
    _, (rate, appends, cost, stale, slowest) = _quick("conflicts", tmp_path)
    for measure in (rate, appends, cost, slowest):
        assert list(measure["contestants"]) == ["1 node", "2 nodes", "3 nodes"]
        assert all(each["figure"]["median"] > 0 for each in measure["contestants"].values())
    shares = [each["figure"]["median"] for each in stale["contestants"].values()]
    assert shares[0] < min(shares[1:]) <= 100
    for name in rate["contestants"]:  # many changes go into one append
        assert appends["contestants"][name]["figure"]["median"] < rate["contestants"][name]["figure"]["median"]


@pytest.mark.long
@pytest.mark.timeout(120)
def test_an_agent_that_streams_is_measured_at_the_hub(tmp_path: Path) -> None:
    _, measures = _quick("streams", tmp_path)
    assert len(measures) == 6
    for rate, joined, late in (measures[:3], measures[3:]):
        for measure in (rate, late):
            assert all(measure["contestants"][name]["figure"]["median"] > 0 for name in (HUB, PYTHON))
        assert 1 < joined["contestants"][HUB]["figure"]["median"] <= 20
        (sample,) = rate["contestants"][HUB]["rounds"]
        assert sample["operations_per_second"] >= sample["value"] / 20


def _quick(row: str, folder: Path) -> tuple[str, list[dict[str, Any]]]:
    """What a row said, and its measures; nothing of it is left."""
    scratch, file = folder / "scratch", folder / "bench.json"
    scratch.mkdir()
    command = [sys.executable, "-m", "scripts.benchmarks", "--quick", "--rows", row, "--json", str(file)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(TMPDIR=str(scratch)),
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert processes_naming(str(folder)) == []
    assert list(scratch.iterdir()) == []
    measures: list[dict[str, Any]] = json.loads(file.read_text())["rows"][row]["measures"]
    return done.stdout, measures
