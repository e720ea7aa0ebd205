"""The embedded server: it lives as long as its hub, and the data folder belongs to one hub at a time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hub.core.errors import StartError, Unavailable
from hub.record.connection import Connection
from hub.record.embedded import EmbeddedServer, socket_url
from hub.record.folder import FolderLock, make_folder, try_lock
from hub.record.redis import RedisRecord
from hub.record.repair import repair
from hub.record.valkey import server_binary, write_settings
from tests.record.writer import Writer, put
from tests.support import alive, until, until_done, without_privileges

HUB = Path(__file__).with_name("hub_process.py")
ROOT = Path(__file__).parents[2]


def unguarded(data: Path) -> subprocess.Popen[bytes]:
    """A server that runs in a data folder and has its lock."""
    settings = write_settings(make_folder(data), data / "valkey.sock")
    with (data / "server.lock").open("w") as lock:
        assert try_lock(lock.fileno())
        return subprocess.Popen([server_binary(), settings], pass_fds=(lock.fileno(),), stdout=subprocess.DEVNULL)


class Hub:
    """A process with an embedded server."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, HUB, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self.told = self.listen()

    def listen(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        told: dict[str, Any] = json.loads(self.process.stdout.readline())
        return told

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=10)


@pytest.fixture
def hubs() -> Iterator[Callable[[Path], Hub]]:
    started: list[Hub] = []

    def start(folder: Path) -> Hub:
        started.append(Hub(folder))
        return started[-1]

    yield start
    for hub in started:
        hub.end()


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Callable[..., EmbeddedServer]]:
    started: list[EmbeddedServer] = []

    def make(folder: Path = tmp_path / "data", **options: Any) -> EmbeddedServer:
        started.append(EmbeddedServer(folder, **options))
        return started[-1]

    yield make
    for server in started:
        await server.stop()


async def gone(pid: int, seconds: float) -> float:
    """Wait for a process's end; the seconds it took."""
    began = time.monotonic()
    await until(lambda: not alive(pid), f"the end of {pid}", seconds)
    return time.monotonic() - began


async def another(server: EmbeddedServer, old: int) -> None:
    """Wait until a server runs that is not the old one."""
    await until(lambda: server.pid not in (old, None))


async def command(url: str, *words: Any) -> Any:
    connection = Connection(url, connections=1)
    try:
        return await connection.run(*words)
    finally:
        await connection.close()


async def test_data_is_there_after_a_stop_and_a_start(servers: Callable[..., EmbeddedServer]) -> None:
    for value in (1, 2):
        server = servers()
        url = await server.start()
        assert await command(url, "INCR", "x") == value
        assert server.pid is not None
        pid, guard = server.pid, server.guard_pid
        await server.stop()
        assert not alive(pid)
        assert guard is not None
        assert not alive(guard)


async def test_it_can_be_used_as_a_record_and_says_how_durable_it_is(servers: Callable[..., EmbeddedServer]) -> None:
    server = servers()
    record = RedisRecord(await server.start())
    await record.start()
    assert record.durability == "aof always"
    writer = Writer()
    await writer.create(record)
    assert await record.end("ctx1") is not None
    await record.close()


async def test_only_its_owner_can_reach_it(servers: Callable[..., EmbeddedServer], tmp_path: Path) -> None:
    server = servers()
    await server.start()
    data = tmp_path / "data"
    assert data.stat().st_mode & 0o777 == 0o700
    assert (data / "valkey" / "valkey.sock").stat().st_mode & 0o777 == 0o700
    assert (data / "valkey" / "appendonlydir").stat().st_mode & 0o077 == 0
    assert await command(socket_url(data), "CONFIG", "GET", "port") == [b"port", b"0"]


async def test_killed_hub_takes_the_server_with_it_and_a_new_one_goes_on(
    hubs: Callable[[Path], Hub], tmp_path: Path
) -> None:
    first = hubs(tmp_path)
    assert os.getsid(first.told["server"]) != os.getsid(first.told["hub"])
    await command(first.told["url"], "SET", "x", "kept")
    first.process.kill()
    assert await gone(first.told["server"], 1.0) < 1.0
    second = hubs(tmp_path)
    assert await command(second.told["url"], "GET", "x") == b"kept"


def open_files(pid: int) -> dict[int, str]:
    return {int(fd.name): os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()}


@pytest.mark.skipif(sys.platform != "linux", reason="only there it is told which files a process has")
async def test_guard_and_server_have_the_lock_and_nothing_else_of_the_hub(
    hubs: Callable[[Path], Hub], tmp_path: Path
) -> None:
    told = hubs(tmp_path).told
    pids = [told[name] for name in ("hub", "guard", "server")]
    assert len({os.getsid(pid) for pid in pids}) == 3, "sessions of their own: no terminal's signal takes them"
    hub, guard, server = (open_files(pid) for pid in pids)
    lock, log = (str(tmp_path / "valkey" / name) for name in ("server.lock", "valkey.log"))
    for files in (guard, server):
        assert lock in files.values(), "the next server must wait for the end of this one"
        assert [files[1], files[2]] == [log, log]
        assert not {hub[0], hub[1]} & {*files.values()}, "who reads the hub's output hears of its end"
    assert server[0] == "/dev/null"
    assert lock not in hub.values()


async def test_a_new_hub_may_start_at_once_after_a_kill(hubs: Callable[[Path], Hub], tmp_path: Path) -> None:
    for count in range(1, 5):
        hub = hubs(tmp_path)
        assert await command(hub.told["url"], "INCR", "x") == count
        hub.process.kill()  # not waited for: the next one starts while this one ends


async def test_a_child_that_outlives_the_hub_keeps_nothing(hubs: Callable[[Path], Hub], tmp_path: Path) -> None:
    first = hubs(tmp_path)
    first.say("fork")
    child = first.listen()["child"]
    try:
        first.process.kill()
        await gone(first.told["server"], 1.0)
        assert "url" in hubs(tmp_path).told
    finally:
        os.kill(child, signal.SIGKILL)


async def test_killed_server_comes_back_with_its_data(servers: Callable[..., EmbeddedServer]) -> None:
    server = servers()
    record = RedisRecord(await server.start(), timeout=1.0)
    await record.start()
    writer = Writer()
    await writer.create(record)
    for n in range(3):
        assert server.pid is not None
        old = server.pid
        os.kill(old, signal.SIGKILL)
        await another(server, old)
        await until_done(record.ping, Unavailable)
        assert (await writer.write(record, put("/state/n", n))).outcome == "appended"
    await record.close()


async def test_killed_guard_is_replaced(servers: Callable[..., EmbeddedServer]) -> None:
    server = servers()
    url = await server.start()
    await command(url, "SET", "x", "kept")
    old_server, old_guard = server.pid, server.guard_pid
    assert old_server is not None
    assert old_guard is not None
    os.kill(old_guard, signal.SIGKILL)
    await gone(old_server, 5.0)
    await another(server, old_server)
    assert await until_done(lambda: command(server.url, "GET", "x"), Unavailable) == b"kept"


async def test_a_server_that_nobody_guards_any_more_is_ended(
    servers: Callable[..., EmbeddedServer], tmp_path: Path
) -> None:
    """Where the kernel does not end it with its guard, a server may be left; it holds the lock, and its URL is there."""
    left = unguarded(tmp_path / "data" / "valkey")
    try:
        await until_done(lambda: command(socket_url(tmp_path / "data"), "SET", "x", "kept"), Unavailable)
        url = await servers().start()
        assert await command(url, "GET", "x") == b"kept"
        assert not alive(left.pid)
    finally:
        left.kill()
        left.wait(10)


async def test_a_signal_to_everything_does_not_take_the_server_first(servers: Callable[..., EmbeddedServer]) -> None:
    server = servers()
    url = await server.start()
    assert server.guard_pid is not None
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(server.guard_pid, number)
    assert await command(url, "PING") == b"PONG"
    assert alive(server.guard_pid)


async def test_second_hub_on_a_folder_is_told_who_has_it(hubs: Callable[[Path], Hub], tmp_path: Path) -> None:
    first = hubs(tmp_path)
    second = hubs(tmp_path)
    assert f"in use by another hub (pid {first.told['hub']})" in second.told["error"]
    assert await command(first.told["url"], "PING") == b"PONG"


async def test_lock_of_a_folder(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    with pytest.raises(StartError, match="in use"):
        FolderLock(tmp_path)
    lock.release()
    lock.release()
    FolderLock(tmp_path).release()


async def test_folder_that_cannot_be_written() -> None:
    for folder in ("/dev/null/data", "/proc/nothing"):
        with pytest.raises(StartError, match="data folder"):
            await EmbeddedServer(Path(folder)).start()


def test_folder_of_somebody_else() -> None:
    with without_privileges(), pytest.raises(StartError, match="cannot write"):
        FolderLock(Path("/usr"))


async def test_long_and_odd_paths(servers: Callable[..., EmbeddedServer], tmp_path: Path) -> None:
    odd = tmp_path / 'a "quoted" ünï\\code %41 folder'
    long = tmp_path / ("d" * 100) / ("e" * 100)
    for folder in (odd, long):
        server = servers(folder)
        url = await server.start()
        assert await command(url, "INCR", "x") == 1
        assert await command(socket_url(folder), "GET", "x") == b"1"
        private = None if "session-hub-" not in url else Path(url.removeprefix("unix://")).parent
        assert (private is None) == (folder is odd)
        assert private is None or private.stat().st_mode & 0o777 == 0o700
        await server.stop()
        assert private is None or not private.exists()
        with pytest.raises(StartError):
            socket_url(folder)


def appended(folder: Path) -> Path:
    (path,) = (folder / "valkey" / "appendonlydir").glob("*.incr.aof")
    return path


async def fill(server: EmbeddedServer) -> None:
    url = await server.start()
    for n in range(50):
        await command(url, "SET", f"key{n}", "value" * 10)
    await server.stop()


async def test_truncated_tail_is_loaded(servers: Callable[..., EmbeddedServer], tmp_path: Path) -> None:
    await fill(servers())
    path = appended(tmp_path / "data")
    os.truncate(path, path.stat().st_size - 10)
    url = await servers().start()
    assert await command(url, "DBSIZE") == 49


async def test_damage_in_the_middle_says_why_and_what_to_do(
    servers: Callable[..., EmbeddedServer], tmp_path: Path
) -> None:
    await fill(servers())
    data = tmp_path / "data"
    path = appended(data)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\0" * 64)
    began = time.monotonic()
    with pytest.raises(StartError) as caught:
        await servers().start()
    assert time.monotonic() - began < 5
    assert "Bad file format" in caught.value.message
    assert "hub.record.repair" in caught.value.message

    done = repair(data)
    assert any("cut" in line for line in done)
    url = await servers().start()
    assert 20 < await command(url, "DBSIZE") < 30
    assert list((data / "valkey").glob("appendonlydir.damaged-*"))


def test_repair_tells_how_it_is_used(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hub.record.repair"]
    told = subprocess.run([*command, "--help"], capture_output=True, text=True, cwd=ROOT, check=True).stdout
    assert told.startswith("usage: python -m hub.record.repair [-h] DATA_DIR\n")
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr.startswith(f"no record in {tmp_path}: ")) == (1, True)


async def test_damaged_base_file(servers: Callable[..., EmbeddedServer], tmp_path: Path) -> None:
    server = servers()
    url = await server.start()
    await command(url, "SET", "x", "value" * 100)
    await command(url, "BGREWRITEAOF")
    files = tmp_path / "data" / "valkey" / "appendonlydir"
    await until(lambda: (files / "appendonly.aof.2.base.rdb").exists() and len(list(files.iterdir())) == 3)
    await server.stop()
    (path,) = (tmp_path / "data" / "valkey" / "appendonlydir").glob("*.base.rdb")
    content = bytearray(path.read_bytes())
    content[-40:-20] = b"\xff" * 20
    path.write_bytes(content)
    with pytest.raises(StartError, match="damaged"):
        await servers().start()


async def test_progress_is_told_while_much_is_loaded(servers: Callable[..., EmbeddedServer]) -> None:
    server = servers()
    url = await server.start()
    for n in range(15):
        await command(
            url, "EVAL", "for i = 1, 20000 do redis.call('SET', KEYS[1] .. i, string.rep('x', 100)) end", 1, f"k{n}"
        )
    await server.stop()
    told: list[str] = []
    again = servers(progress=told.append)
    await again.start()
    assert any("%" in line for line in told)


async def test_repair_of_what_is_no_record(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="no record"):
        repair(tmp_path)
