"""serve starts, tells where, refuses clearly, and ends cleanly."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from hub.cli.settings import settings_from
from hub.core.errors import StartError
from hub.record.valkey import server_binary
from tests.cli.processes import children, processes_naming
from tests.clients import Client
from tests.record.servers import Server, running
from tests.support import SECONDS, HubProcess, Running, alive, free_port, hanging, run_command, wait_until


@pytest.mark.parametrize("hub_process", ["embedded", "memory"], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_starts_and_ends(hub_process: HubProcess, number: int) -> None:
    assert hub_process.running is not None
    printed = re.search(r"^ +(http://127\.0\.0\.1:\d+/)#token=(\S+)$", hub_process.running.out, re.MULTILINE)
    assert printed is not None
    assert printed[1] == f"{hub_process.url}/"
    assert printed[2] == hub_process.token
    assert stat.S_IMODE((hub_process.folder / "token").stat().st_mode) == 0o600
    assert stat.S_IMODE(hub_process.folder.stat().st_mode) == 0o700
    assert run_command("contexts", "--url", printed[0].strip()).returncode == 0
    assert hub_process.stop(number) == 0
    assert hub_process.running.err == ""
    assert "[not_running]" in hub_process.run("health").stderr


def test_what_was_kept_is_there_again(hub_process: HubProcess) -> None:
    id = hub_process.json("new", "--name", "Kept")["id"]
    token = hub_process.token
    for end in (hub_process.stop, hub_process.kill):
        before = hub_process.json("show", id)
        end()
        hub_process.start()
        assert hub_process.json("show", id) == before
        assert hub_process.token == token


def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_command("serve", "--port", str(port), "--data-dir", str(tmp_path / "d"))
    _refused(done, rf"port {port} .* in use.*--port")
    assert processes_naming(str(tmp_path)) == []


def test_a_folder_in_use_is_told(hub_process: HubProcess) -> None:
    done = run_command("serve", "--port", "0", "--data-dir", str(hub_process.folder))
    _refused(done, rf"in use by another hub \(pid {hub_process.pid}\).*--data-dir")
    assert hub_process.json("health")["status"] == "ok"


@pytest.mark.parametrize("record", ["memory", "embedded"])
def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path, record: str) -> None:
    (tmp_path / "file").write_text("")
    done = run_command("serve", "--port", "0", "--data-dir", str(tmp_path / "file" / "d"), "--record", record)
    _refused(done, "cannot make the data folder")


def test_a_redis_that_does_not_answer_is_told(tmp_path: Path) -> None:
    url = f"redis://127.0.0.1:{free_port()}/0"
    arguments = ("serve", "--port", "0", "--data-dir", str(tmp_path))
    away = (
        rf"no Redis answers at {url} \(connection refused\)\. Is it running, and is --redis \(HUB_REDIS_URL\) right\? "
    )
    _refused(run_command(*arguments, "--redis", url), away)
    _refused(run_command(*arguments, HUB_REDIS_URL="nonsense://"), "'nonsense://' is not a Redis URL")
    _refused(run_command(*arguments, "--redis", "foo"), r"'foo' is not a Redis URL \(redis://[^)]*\) \[")
    with running(server_binary(), "requirepass secret") as guarded:
        _refused(run_command(*arguments, "--redis", guarded), rf"the Redis at {guarded} refuses the hub \(Auth")


def test_a_record_in_memory_and_a_redis_exclude_each_other(tmp_path: Path) -> None:
    arguments = ("serve", "--port", "0", "--data-dir", str(tmp_path / "d"), "--record", "memory")
    done = run_command(*arguments, HUB_REDIS_URL="redis://127.0.0.1:1/0")
    _refused(
        done, r"--record memory keeps nothing, --redis \(HUB_REDIS_URL\) keeps everything there: leave one of them"
    )
    assert not (tmp_path / "d").exists()


def test_a_file_is_no_data_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for command in ("serve", "contexts", "token --sub a --role user"):
        done = run_command(*command.split(), "--data-dir", "file", cwd=tmp_path)
        _refused(done, "error: file is a file; --data-dir takes a folder")


def test_variables_that_nothing_reads_are_told(tmp_path: Path) -> None:
    misspelt = {"HUB_RING_BYTEZ": "1", "HUB_LIMITS_CONTENTS": "1", "HUB_DATADIR": "x", "HUB_PLANET": "x"}
    read = {
        "HUB_RING_BYTES": "1000000",
        "HUB_LIMITS_NAME": "50",
        "HUB_URL": "x",
        "HUB_TOKEN": "x",
        "HUB_SECRET": "s" * 40,
    }
    ours = {"HUB_REQUIRE_NODE": "1", "HUB_TEST_LAG": "x", "HUB_PYTHON": "python3"}
    with HubProcess(tmp_path, record="memory", **misspelt, **read, **ours) as hub:
        assert hub.running is not None
        assert hub.running.err.splitlines() == [
            "HUB_DATADIR is no setting and does nothing; did you mean HUB_DATA_DIR?",
            "HUB_LIMITS_CONTENTS is no setting and does nothing; did you mean HUB_LIMITS_CONTENT?",
            "HUB_PLANET is no setting and does nothing; hub/node/settings.py has them all",
            "HUB_RING_BYTEZ is no setting and does nothing; did you mean HUB_RING_BYTES?",
        ]


def test_where_the_record_is_and_what_it_survives_is_told(tmp_path: Path) -> None:
    with Server(server_binary(), "requirepass secret", "appendonly no") as record:
        hub = HubProcess(tmp_path, HUB_REDIS_URL=record.url.replace("unix://", "unix://:secret@"))
        with hub:
            assert hub.running is not None
            words = "none: nothing is written to disk: whatever ends it loses everything"
            assert f", record: {record.url} ({words}), the hub's own files in {hub.folder}\n" in hub.running.out
            assert "secret" not in hub.running.out
            assert words in " ".join(hub.run("health").stdout.split())

            def away() -> bool:
                done = hub.run("nodes")
                assert done.returncode == 0, done.stderr
                return "The record is away; this is what was known last." in done.stderr

            assert not away()
            with hanging(record.pid):
                wait_until(away, "that the record is away")
            wait_until(lambda: not away(), "the record")


@pytest.mark.parametrize("hub_process", ["memory"], indirect=True)
def test_draining_the_last_node_ends_the_hub_and_says_so(hub_process: HubProcess) -> None:
    name = hub_process.json("health")["node"]
    done = hub_process.run("drain")
    assert done.returncode == 0
    assert done.stderr == f"{name} drains; it is the last one, so the hub ends.\n"
    assert hub_process.running is not None
    assert hub_process.running.process.wait(SECONDS) == 0
    assert "drained by an operator; the hub ends" in hub_process.running.err


def test_a_token_needs_the_secret_that_the_hub_has(tmp_path: Path) -> None:
    hub = HubProcess(tmp_path, record="memory", HUB_SECRET="s" * 40)
    arguments = ("token", "--sub", "a", "--role", "user")
    for _ in range(2):
        with hub:
            _refused(hub.run(*arguments), f"the hub of {hub.folder} has its secret from HUB_SECRET: set the same here")
            made = run_command(*arguments, HUB_SECRET="s" * 40, HUB_DATA_DIR=str(hub.folder)).stdout.strip()
            assert hub.run("contexts", "--token", made).returncode == 0
        (hub.folder / "secret").write_text("o" * 40)  # of an earlier hub


def test_two_secrets_on_one_record_are_told(tmp_path: Path) -> None:
    """A token is good at one of the hubs only."""
    with Server(server_binary()) as server, HubProcess(tmp_path / "a", HUB_REDIS_URL=server.url) as first:
        with HubProcess(tmp_path / "b", HUB_REDIS_URL=server.url) as second:
            assert second.running is not None
            name = first.json("health")["node"]
            assert f"the node {name} on" in second.running.err
            assert "until all have the same HUB_SECRET" in second.running.err
        first.kill()
        with HubProcess(tmp_path / "c", HUB_REDIS_URL=server.url) as alone:
            assert alone.running is not None
            assert "HUB_SECRET" not in alone.running.err


def test_a_damaged_folder_is_told(hub_process: HubProcess) -> None:
    id = hub_process.json("new")["id"]
    for number in range(3):
        hub_process.json("send", id, f"message {number}")
    hub_process.stop()
    (file,) = (hub_process.folder / "valkey").glob("**/*.incr.aof")
    data = file.read_bytes()
    command = data.index(b"\r\n*", len(data) // 2) + 2
    file.write_bytes(data[:command] + b"x" * 40 + data[command + 40 :])
    arguments = ("serve", "--port", "0", "--data-dir", str(hub_process.folder))
    _refused(run_command(*arguments), r"is damaged.*hub\.record\.repair")
    (hub_process.folder / "secret").write_bytes(b"\xff\xfe")
    _refused(run_command(*arguments, "--record", "memory"), "secret is damaged")


@pytest.mark.redis
def test_a_redis_of_ones_own(tmp_path: Path, redis_url: str) -> None:
    with HubProcess(tmp_path, HUB_REDIS_URL=redis_url) as hub:
        id = hub.json("new")["id"]
        hub.kill()
        hub.start()
        assert hub.json("show", id)["document"]["id"] == id
        assert not (hub.folder / "valkey").exists()
        assert hub.stop() == 0


def test_other_addresses_need_a_secret(tmp_path: Path) -> None:
    arguments = ("serve", "--host", "0.0.0.0", "--port", "0", "--data-dir", str(tmp_path), "--record", "memory")
    _refused(run_command(*arguments), "HUB_SECRET")
    _refused(run_command(*arguments, HUB_SECRET="short"), "32 characters")
    with Running(*arguments, folder=tmp_path / "run", HUB_SECRET="s" * 40) as hub:
        hub.wait_for("#token=")
        made = run_command("token", "--sub", "a", "--role", "operator", HUB_SECRET="s" * 40).stdout.strip()
        url = (tmp_path / "url").read_text().strip()
        assert run_command("contexts", "--url", url, "--token", made).returncode == 0


@pytest.mark.parametrize(
    ("app", "what"),
    [("nonsense", "module:function"), ("no_such_module:setup", "no_such_module"), ("json:nothing", "no function")],
)
def test_an_app_that_is_not_there_is_told(app: str, what: str, tmp_path: Path) -> None:
    _refused(run_command("serve", "--port", "0", "--data-dir", str(tmp_path / "d"), "--app", app), what)


def test_settings_come_from_the_environment(tmp_path: Path) -> None:
    settings = settings_from({"HUB_UPLOAD_BYTES": "10", "HUB_RUN_GRACE": "1.5", "HUB_LIMITS_NAME": "7", "HUB_URL": "x"})
    assert (settings.upload_bytes, settings.run_grace, settings.limits.name) == (10, 1.5, 7)
    for name, value in (
        ("HUB_IDLE", "soon"),
        ("HUB_CONNECTIONS", "-1"),
        ("HUB_IDLE", "nan"),
        ("HUB_LIMITS_NAME", "1.5"),
        ("HUB_KEEP_SESSIONS", "59"),
    ):
        with pytest.raises(StartError, match=name):
            settings_from({name: value})
    done = run_command("serve", "--port", "0", "--data-dir", str(tmp_path), HUB_IDLE="soon")
    _refused(done, "HUB_IDLE takes a number")


def test_a_hub_that_is_killed_leaves_no_process(hub_process: HubProcess) -> None:
    below = children(hub_process.pid)
    assert below, "the embedded server has a guard"
    hub_process.kill()
    wait_until(lambda: not any(map(alive, below)), "the end of guard and server")


def _refused(done: subprocess.CompletedProcess[str], pattern: str) -> None:
    """One clear line, in time, and exit code 1."""
    assert done.returncode == 1, done.stderr
    assert re.search(pattern, done.stderr), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stdout == ""


def test_being_ended_while_it_starts_leaves_nothing(tmp_path: Path) -> None:
    with Running("serve", "--port", "0", "--data-dir", str(tmp_path / "d"), folder=tmp_path / "run") as hub:
        wait_until(lambda: (tmp_path / "d" / "lock").exists(), "the beginning of the start")
        assert hub.end(signal.SIGTERM) in (0, -signal.SIGTERM)
        wait_until(lambda: not processes_naming(str(tmp_path / "d")), "the end of the server")


@pytest.mark.parametrize("hub_process", ["memory"], indirect=True)
async def test_connections_that_vanish_do_not_disturb_the_hub_or_its_end(hub_process: HubProcess) -> None:
    hub = hub_process
    clients = [await Client(hub.url, hub.token).connect() for _ in range(20)]
    operator = await Client(hub.url, hub.token).connect()
    await operator.ok("context.create", id="c", key="a/1")
    for client in clients:
        await client.ok("subscribe", topic="context:c", deliver="patch")
    for client in clients:
        client.drop()
    for n in range(2, 30):
        await operator.ok("apply", context="c", ops=[{"op": "state.incr", "path": "/n"}], key=f"a/{n}")
    late = [await Client(hub.url, hub.token).connect() for _ in range(20)]
    for client in late:
        client.drop()
    assert await asyncio.to_thread(hub.stop) == 0
    assert hub.running is not None
    assert "Traceback" not in hub.running.err
    for client in (*clients, *late, operator):
        await client.close()
