"""watch follows without a gap and without anything twice: while it streams, through kill -9, through resets and removals."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import re
import subprocess
from functools import partial
from typing import Any

import pytest

from hub.core.changes import Change
from hub.core.position import Position
from hub.core.state import ContextState
from tests.cli.worker import Client, connected
from tests.support import COMMAND, SECONDS, HubProcess, environment, until, wait_until


def replay(lines: list[dict[str, Any]]) -> ContextState:
    """What a script makes of the lines: the state in the end. Every change must follow the one before it."""
    state: ContextState | None = None
    for line in lines:
        if line["event"] == "snapshot":
            kept = [entry.to_json() for entry in state.log.entries] if state and state.log.id == line["log_id"] else []
            first = line["entries"][0]["no"] if line["entries"] else None
            entries = [entry for entry in kept if first is None or entry["no"] < first] + line["entries"]
            log = {"id": line["log_id"], "entries": entries}
            state = ContextState.from_snapshot({**line, "log": log, "data": {}})
        elif line["event"] == "change":
            assert state is not None
            state.apply(Change(Position(line["epoch"], line["seq"]), line["parts"]))
    assert state is not None
    return state


def added(lines: list[dict[str, Any]]) -> list[str]:
    """Contents of the entries, as they came."""
    found = []
    for line in lines:
        if line["event"] == "snapshot":
            found += [entry["content"] for entry in line["entries"]]
        elif line["event"] == "change":
            found += [part["entry"]["content"] for part in line["parts"] if part["kind"] == "log.add"]
    return found


async def write(client: Client, context: str, numbers: range) -> None:
    for number in numbers:
        await client.log(context, content=f"entry {number}")


@pytest.mark.parametrize("hub_process", ["memory"], indirect=True)
async def test_entries_come_in_order_and_grow(hub_process: HubProcess) -> None:
    async with connected(hub_process.url, hub_process.token) as client:
        await client.ok("context.create", id="w")
        await write(client, "w", range(30))
        with hub_process.beside("watch", "w", "--json", "--tail", "5") as watch:
            await until(lambda: watch.lines)
            await client.apply("w", {"op": "log.add", "id": "s", "type": "response", "content": "a"})
            for piece in "bcdé😀f":
                await client.apply("w", {"op": "log.append", "id": "s", "text": piece})
            await client.apply("w", {"op": "state.merge", "value": {"rows": 3}})
            await client.ok("context.remove", context="w")
            assert await asyncio.to_thread(watch.process.wait, 20) == 0
        lines = watch.lines
    assert added(lines[:1]) == [f"entry {number}" for number in range(25, 30)]
    assert lines[-1] == {"event": "closed", "reason": "removed"}
    state = replay(lines)
    assert state.log.entries[-1].content == "abcdé😀f"
    assert state.document["state"] == {"rows": 3}
    assert {line["event"] for line in lines} == {"snapshot", "change", "closed"}


async def test_a_killed_hub_leaves_no_gap_and_nothing_twice(hub_process: HubProcess) -> None:
    async with connected(hub_process.url, hub_process.token) as client:
        await client.ok("context.create", id="w")
        await write(client, "w", range(20))
    with hub_process.beside("watch", "w", "--json", "--tail", "100") as watch, hub_process.beside("watch", "w") as seen:
        await until(lambda: watch.lines and "entry 19" in seen.out)
        for start in (20, 40):
            async with connected(hub_process.url, hub_process.token) as client:
                writing = asyncio.create_task(write(client, "w", range(start, start + 10)))
                await until(partial(watch.has, f"entry {start + 5}"))
                await writing
                hub_process.kill()
            await asyncio.to_thread(hub_process.start)
            async with connected(
                hub_process.url, hub_process.token
            ) as client:  # before the watchers are back, or after
                await write(client, "w", range(start + 10, start + 20))
        await until(lambda: "entry 59" in watch.out and "entry 59" in seen.out)
        assert [line["event"] for line in watch.lines if "line" in line["event"]] == ["offline", "online"] * 2
        assert added(watch.lines) == [f"entry {number}" for number in range(60)]
        replay(watch.lines)
        shown = [line.strip() for line in seen.out.splitlines() if line.strip().startswith("entry ")]
        assert shown == [f"entry {number}" for number in range(60)]
        assert watch.process.poll() is None
        assert watch.end(2) == 130  # as Ctrl-C


async def test_what_cannot_be_replayed_comes_as_a_snapshot_without_a_gap(hub_process: HubProcess) -> None:
    """More changes than a hub replays, while the watcher was away."""
    async with connected(hub_process.url, hub_process.token) as client:
        await client.ok("context.create", id="w")
        await write(client, "w", range(3))
    with hub_process.beside("watch", "w", "--json", "--tail", "2") as watch:
        await until(lambda: watch.lines)
        watch.process.send_signal(19)  # SIGSTOP: away
        hub_process.restart()
        async with connected(hub_process.url, hub_process.token) as client:
            for block in range(24):
                ops = [{"op": "log.add", "type": "info", "content": f"entry {3 + block * 100 + n}"} for n in range(100)]
                await asyncio.gather(*(client.apply("w", op) for op in ops))
        watch.process.send_signal(18)  # SIGCONT
        await until(lambda: "entry 2402" in watch.out)
        assert sorted(added(watch.lines), key=lambda text: int(text[6:])) == [f"entry {n}" for n in range(1, 2403)]
        snapshots = [line for line in watch.lines if line["event"] == "snapshot"]
        assert len(snapshots) == 2
        assert snapshots[1]["reason"] == "too_far_behind"
        assert snapshots[1]["skipped"] == 0
        replay(watch.lines)


@pytest.mark.parametrize("hub_process", ["memory"], indirect=True)
async def test_for_people_it_tells_what_happens(hub_process: HubProcess) -> None:
    async with connected(hub_process.url, hub_process.token) as client:
        await client.ok("context.create", id="w", name="Logs [bold]x[/]")
        with hub_process.beside("watch", "w") as watch:
            await until(lambda: "Logs [bold]x[/]" in watch.out)
            await client.apply(
                "w", {"op": "log.add", "id": "t", "type": "response", "content": "| a | b |\n|---|---|\n"}
            )
            await client.apply("w", {"op": "log.append", "id": "t", "text": "| 1 | \x1b[31m2 |\n"})
            await client.apply("w", {"op": "progress.set", "text": "counting", "active": True})
            await client.log("w", heading="next")
            await until(lambda: "next" in watch.out and "counting" in watch.out)
            await client.ok("control", context="w", action="reset")
            await client.log("w", heading="after the reset")
            await until(lambda: "after the reset" in watch.out)
            hub_process.kill()
            await until(lambda: "disconnected" in watch.out)
            await asyncio.to_thread(hub_process.start)  # with nothing in its memory
            assert await asyncio.to_thread(watch.process.wait, 20) == 0
            assert "the session ended: removed" in watch.out
            assert "the log was emptied" in watch.out
            assert "\x1b" not in watch.out
            assert re.search(r"^ +1 +\[31m2 *$", watch.out, re.MULTILINE), watch.out


@pytest.mark.parametrize("hub_process", ["memory"], indirect=True)
def test_an_unknown_session_is_an_error_and_an_idle_one_ends_at_once_if_asked(hub_process: HubProcess) -> None:
    missing = hub_process.run("watch", "nothing")
    assert missing.returncode == 1
    assert "[not_found]" in missing.stderr
    id = hub_process.json("new")["id"]
    done = hub_process.run("watch", id, "--until-idle", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["event"] == "snapshot"


@pytest.mark.parametrize("hub_process", ["memory"], indirect=True)
def test_a_reader_that_has_enough_is_no_error(hub_process: HubProcess) -> None:
    id = hub_process.json("new")["id"]
    with subprocess.Popen(
        [*COMMAND, "watch", id, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(HUB_DATA_DIR=str(hub_process.folder)),
    ) as watch:
        assert watch.stdout is not None
        assert watch.stderr is not None
        assert watch.stdout.readline()
        watch.stdout.close()
        hub_process.json("broadcast", "one")
        hub_process.json("broadcast", "two")
        assert watch.wait(20) == 1  # without a word
        assert watch.stderr.read() == ""


@pytest.mark.parametrize("hub_process", ["memory"], indirect=True)
def test_on_a_terminal_it_is_live(hub_process: HubProcess, tmp_path: Any) -> None:
    """In a pseudo-terminal: the live part is there, and is cleaned away at the end."""
    id = hub_process.json("new", "--name", "Live one")["id"]
    master, slave = pty.openpty()
    variables = environment(HUB_DATA_DIR=str(hub_process.folder), TERM="xterm-256color", COLUMNS="80", LINES="24")
    del variables["NO_COLOR"]
    process = subprocess.Popen([*COMMAND, "watch", id], stdin=slave, stdout=slave, stderr=slave, env=variables)
    os.close(slave)
    os.set_blocking(master, False)
    shown = bytearray()

    def has(text: str) -> bool:
        with contextlib.suppress(OSError):
            shown.extend(os.read(master, 65_536))
        return text.encode() in shown

    try:
        wait_until(lambda: has("0 entries"), "the live part")
        hub_process.json("broadcast", "hello there")
        wait_until(lambda: has("1 entries"), "the next state")
        assert b"hello there" in shown
        process.send_signal(2)
        wait_until(lambda: (has("\x1b[?25h"), process.poll() is not None)[1], "its end")
        assert process.returncode == 130
        assert has("\x1b[?25h"), "the cursor is back"
    finally:
        process.kill()
        process.wait(SECONDS)
        os.close(master)
