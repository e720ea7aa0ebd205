"""up: a hub and its demo agent, which come, work and go together."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.processes import children, command_line, processes_naming
from tests.support import HubProcess, alive, run_command, wait_until


@pytest.fixture
def both(tmp_path: Path) -> Iterator[HubProcess]:
    """``session-hub up``, embedded."""
    with HubProcess(tmp_path, command="up") as process:
        yield process


def agents(hub: HubProcess) -> list[int]:
    return [pid for pid in children(hub.pid) if "agent demo" in command_line(pid)]


def test_the_agent_answers_comes_back_and_goes_with_the_hub(both: HubProcess) -> None:
    assert both.running is not None
    assert "Session Hub and its demo agent are ready" in both.running.out
    assert both.json("health")["agents"] == ["demo"]
    id = both.json("new")["id"]
    answer = both.json("send", id, "analyse access.log", "--wait")
    assert answer["run"]["status"] == "finished"
    assert answer["output"]

    (agent,) = agents(both)
    os.kill(agent, signal.SIGKILL)
    wait_until(lambda: len(agents(both)) == 1 and agents(both) != [agent], "another agent")
    wait_until(lambda: both.json("health")["agents"] == ["demo"], "its service")
    assert "the demo agent ended (signal 9)" in both.running.err
    assert both.json("send", id, "top 5 status codes", "--wait")["run"]["status"] == "finished"

    (agent,) = agents(both)
    below = children(both.pid)
    assert both.stop(signal.SIGINT) == 0
    assert not any(map(alive, below))


def test_nothing_is_left_of_one_that_is_killed_and_it_starts_again(both: HubProcess) -> None:
    id = both.json("new", "--name", "Kept")["id"]
    below = children(both.pid)
    assert len(below) == 3, "guard, server, agent"
    both.kill()
    wait_until(lambda: not any(map(alive, below)), "the end of guard, server and agent")
    both.start()
    assert both.json("show", id)["document"]["name"] == "Kept"
    assert both.json("health")["agents"] == ["demo"]


@pytest.mark.parametrize("away", [0.0, pytest.param(18.0, marks=pytest.mark.long)])
def test_the_agent_of_a_hub_that_is_killed_ends_its_run_at_the_next_hub_and_then_itself(
    tmp_path: Path, away: float
) -> None:
    both = HubProcess(tmp_path, command="up")
    both.options = ["--pace", "0.5"]
    with both:
        id = both.json("new")["id"]
        both.json("send", id, "analyse access.log")
        wait_until(lambda: both.json("show", id)["document"]["state"].get("rows"), "the first rows")
        (old,) = agents(both)
        both.kill()
        time.sleep(away)
        assert alive(old)
        both.start()  # from when it serves, the old agent may be done at any time
        assert agents(both) != [old]
        wait_until(lambda: not both.json("show", id)["document"]["running"], "the run's end", seconds=60)
        shown = both.json("show", id, "-n", "500")
        run = shown["document"]["run"]
        assert (run["status"], run["attempt"]) == ("finished", 1)
        headings = [entry["heading"] for entry in shown["entries"]]
        assert headings.count("Analysis of access.log") == 1
        assert not {"Taken up again", "Interrupted", "Stopped"} & set(headings)
        wait_until(lambda: not alive(old), "the end of the old agent")
        assert both.json("send", id, "how many rows", "--wait")["run"]["status"] == "finished"


def test_a_run_in_the_middle_of_a_kill_goes_on_or_can_be_taken_up(tmp_path: Path) -> None:
    both = HubProcess(tmp_path, command="up", HUB_RUN_GRACE="1")
    both.options = ["--pace", "0.5"]
    with both:
        id = both.json("new")["id"]
        with both.beside("watch", id, "--json", "--tail", "500") as watch:
            both.json("send", id, "analyse access.log")
            wait_until(lambda: watch.out.count('"log.add"') >= 3, "the run's first entries")
            assert both.json("show", id)["document"]["running"]
            both.kill()
            both.options = []
            both.start()

            def ended() -> bool:
                document = both.json("show", id)["document"]
                if not document["running"] and document["run"]["status"] == "interrupted":
                    both.json("control", id, "nudge")
                return bool(document["run"]["status"] == "finished")

            wait_until(ended, "the run's end", seconds=60)
            entries = both.json("show", id, "-n", "500")["entries"]
            wait_until(lambda: entries[-1]["id"] in watch.out)
        seen = [
            entry["no"]
            for line in watch.lines
            for entry in (
                line["entries"]
                if line["event"] == "snapshot"
                else [part["entry"] for part in line.get("parts", []) if part["kind"] == "log.add"]
            )
        ]
        assert seen == [entry["no"] for entry in entries]


def test_a_sample_is_written_and_an_agent_alone_says_what_it_lacks(tmp_path: Path) -> None:
    done = run_command("agent", "demo", "--sample", str(tmp_path / "s.log"), "--lines", "100")
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "s.log").read_text().splitlines()) == 100
    again = run_command("agent", "demo", "--sample", str(tmp_path / "s.log"), "--lines", "7")
    assert again.returncode == 1
    assert "--force replaces it" in again.stderr
    assert len((tmp_path / "s.log").read_text().splitlines()) == 100
    forced = run_command("agent", "demo", "--sample", str(tmp_path / "s.log"), "--lines", "7", "--force")
    assert forced.returncode == 0, forced.stderr
    assert len((tmp_path / "s.log").read_text().splitlines()) == 7
    alone = run_command("agent", "demo", "--data-dir", str(tmp_path / "none"))
    assert alone.returncode == 1
    assert "[not_running]" in alone.stderr
    wrong = run_command("agent", "demo", "--files", str(tmp_path / "none"))
    assert wrong.returncode == 1
    assert "no such folder" in wrong.stderr
    both = run_command("up", "--files", str(tmp_path / "none"), "--port", "0", "--data-dir", str(tmp_path / "d"))
    assert (both.returncode, both.stdout, both.stderr) == (1, "", wrong.stderr)
    assert processes_naming(str(tmp_path)) == []
