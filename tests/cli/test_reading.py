"""contexts, show and health against a running hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hub.core.contexts import ROW_FIELDS
from hub.record.valkey import server_binary
from tests.cli.test_text import EVIL
from tests.cli.worker import connected
from tests.record.servers import Server
from tests.support import HubProcess, run_command


def test_health(shared_hub: HubProcess) -> None:
    found = shared_hub.json("health")
    assert found["status"] == "ok"
    assert found["record"]["durability"] == "memory"
    shown = shared_hub.run("health")
    assert shared_hub.url in shown.stdout
    assert run_command("health", "--url", shared_hub.url).returncode == 0  # needs no token


async def test_contexts_are_listed_newest_first(shared_hub: HubProcess) -> None:
    async with connected(shared_hub.url, shared_hub.token) as client:
        for number in range(12):
            await client.ok("context.create", id=f"list-{number}", name=f"[red]Name[/] {number}")
        await client.ok("context.create", id="hidden", type="background")
    listed = shared_hub.json("contexts")
    rows = listed["contexts"]
    assert not listed["more"]
    assert set(rows[0]) == {*ROW_FIELDS, "version"}
    assert {row["id"] for row in rows} >= {f"list-{number}" for number in range(12)}
    created = [row["created_at"] for row in rows]
    assert created == sorted(created, reverse=True)
    assert "hidden" not in {row["id"] for row in rows}
    assert "hidden" in {row["id"] for row in shared_hub.json("contexts", "--all")["contexts"]}
    few = shared_hub.json("contexts", "--limit", "3")
    assert few == {"contexts": rows[:3], "more": True}
    shown = shared_hub.run("contexts")
    assert "[red]Name[/] 11" in shown.stdout
    assert all(len(line) <= 80 for line in shown.stdout.splitlines())


async def test_show_has_everything_and_steers_nothing(shared_hub: HubProcess) -> None:
    async with connected(shared_hub.url, shared_hub.token) as client:
        await client.ok("context.create", id="full", name="Full", state={"rows": 7, EVIL: EVIL})
        plan = [{"text": "Read", "status": "done"}, {"text": "Count", "status": "active"}, {"text": "Tell"}]
        await client.apply(
            "full",
            {"op": "session_context.save", "value": {"goal": "Count " + EVIL, "plan": plan}},
            {"op": "output.set", "key": "result", "value": {"total": 7}},
            {"op": "data.set", "key": "secret", "value": 1},
            *({"op": "log.add", "type": "response", "heading": f"H{n}", "content": EVIL} for n in range(15)),
        )
        await client.ok("message", context="full", text="please " + EVIL)
    found = shared_hub.json("show", "full", "--entries", "4")
    assert set(found) == {"epoch", "seq", "document", "data", "entries"}
    assert [entry["no"] for entry in found["entries"]] == [11, 12, 13, 14]
    assert found["entries"][0]["content"] == EVIL
    assert found["document"]["state"]["rows"] == 7
    assert found["data"] == {"secret": 1}
    shown = shared_hub.run("show", "full").stdout
    for text in (
        "✓ Read",
        "▶ Count",
        "· Tell",
        "rows",
        '{"total": 7}',
        "idle, 1 message waits ",
        "Waiting messages (1)",
        "the last 10 of 15",
        "H14",
    ):
        assert text in shown
    assert "H4\n" not in shown
    assert not set(shown) & set("\x00\x07\x08\x1b\x9b\u202e\u2066")
    assert len(shared_hub.json("show", "full", "-n", "0")["entries"]) == 0


def test_errors_are_one_line_with_code_and_advice(shared_hub: HubProcess) -> None:
    unknown = shared_hub.run("show", "no-such-one")
    assert unknown.returncode == 1
    assert unknown.stdout == ""
    assert unknown.stderr.count("\n") == 1
    assert "[not_found]" in unknown.stderr
    assert "session-hub contexts" in unknown.stderr
    bad = shared_hub.run("contexts", "--token", "bad")
    assert bad.returncode == 1
    assert "[unauthorized]" in bad.stderr
    assert "HUB_TOKEN" in bad.stderr
    malformed = shared_hub.run("show", "not an id")
    assert malformed.returncode == 1
    assert "[invalid_request]" in malformed.stderr


@pytest.mark.parametrize("command", ["contexts", "health", "new"])
def test_where_no_hub_runs_it_says_how_to_start_one(command: str, shared_hub: HubProcess) -> None:
    nobody = run_command(command, "--url", "http://127.0.0.1:1", "--token", "x")
    assert nobody.returncode == 1
    assert "[not_running]" in nobody.stderr
    assert "session-hub up" in nobody.stderr
    assert nobody.stderr.count("\n") == 1


async def test_what_is_no_hub_is_told() -> None:
    import asyncio

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for command in ("contexts", "health"):
            done = await asyncio.to_thread(run_command, command, "--url", url, "--token", "x")
            assert done.returncode == 1
            assert "[not_running]" in done.stderr
            assert "Traceback" not in done.stderr


async def test_a_reader_sees_only_what_its_token_covers(shared_hub: HubProcess) -> None:
    async with connected(shared_hub.url, shared_hub.token) as client:
        await client.ok("context.create", id="seen-1", user_id="maria")
        await client.ok("context.create", id="unseen-1", user_id="otto")
    token = shared_hub.json("token", "--sub", "maria", "--role", "user")["token"]
    rows = shared_hub.json("contexts", "--token", token)["contexts"]
    assert [row["id"] for row in rows] == ["seen-1"]
    assert "data" not in shared_hub.json("show", "seen-1", "--token", token)
    refused = shared_hub.run("show", "unseen-1", "--token", token)
    assert refused.returncode == 1
    assert "[not_found]" in refused.stderr


COMMANDS = (
    ("contexts",),
    ("contexts", "-n", "2"),
    ("contexts", "-n", "6", "--all"),
    ("show", "c1"),
    ("show", "c1", "-n", "0"),
)


def test_redis_is_read_without_a_hub(tmp_path: Path) -> None:
    with Server(server_binary()) as record:
        hub = HubProcess(tmp_path)
        hub.options = ["--redis", record.url]
        with hub:
            for number in range(4):
                hub.json("new", "--id", f"c{number}", "--name", f"Name {number}", "--agent", "nobody")
            hub.json("new", "--id", "hidden", "--type", "background")
            hub.json("send", "c1", "hello")
            told = {command: hub.json(*command) for command in COMMANDS}
            direct = {command: _json(*command, "--redis", record.url) for command in told}
            assert direct == told
        for command, answer in told.items():
            assert _json(*command, "--redis", record.url) == answer
        shown = run_command("show", "c1", "--redis", record.url)
        assert "Name 1" in shown.stdout
        missing = run_command("show", "nothing", "--redis", record.url)
        assert (missing.returncode, "[not_found]" in missing.stderr) == (1, True)
    for arguments in (["contexts"], ["show", "c1"]):
        away = run_command(*arguments, "--redis", record.url)
        assert away.returncode == 1
        assert f"{record.url} cannot be reached (no such file or directory): is it running" in away.stderr
        assert "session-hub health" not in away.stderr
        assert away.stderr.count("\n") == 1
    assert run_command("contexts", "--redis", "nonsense://").returncode == 1


def _json(*arguments: str) -> Any:
    done = run_command(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
