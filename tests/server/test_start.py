"""What keeps a hub from starting: an error that says what to do, and nothing left running or locked; and clean ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest
import socketio

from hub.core.errors import StartError
from hub.core.requests import Role
from hub.node.node import Node
from hub.server.auth import Tokens
from hub.server.server import HubServer, Options
from tests.clients import serving
from tests.support import alive, free_port, until, without_privileges


def children() -> set[int]:
    """Processes that this one started and that are not waited for yet, with theirs."""
    found, todo = set[int](), [os.getpid()]
    while todo:
        for task in Path(f"/proc/{todo.pop()}/task").glob("*"):
            with contextlib.suppress(OSError):
                fresh = {int(pid) for pid in (task / "children").read_text().split()} - found
                found |= fresh
                todo += fresh
    return {pid for pid in found if alive(pid)}


async def fails(folder: Path, **options: Any) -> str:
    """The message of the StartError. Whatever was started is gone, and the folder can be used at once."""
    before = children()
    server = HubServer(Options(**{"data_dir": folder, "port": 0, **options}))
    with pytest.raises(StartError) as raised:
        await server.start()
    assert children() == before, "something was left running"
    await server.stop()  # harmless
    return raised.value.message


async def starts(folder: Path) -> None:
    """A hub starts there, and ends."""
    async with serving(folder, record="embedded") as people:
        await (await people.operator()).ok("contexts.page")


async def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for record in ("memory", "embedded"):
            message = await fails(tmp_path, port=port, record=record)
            assert str(port) in message
            assert "--port" in message
    assert not (tmp_path / "url").exists()
    await starts(tmp_path)


async def test_a_folder_in_use(tmp_path: Path) -> None:
    async with serving(tmp_path, record="embedded") as people:
        message = await fails(tmp_path)
        assert str(tmp_path) in message
        assert str(os.getpid()) in message
        assert (tmp_path / "url").read_text().strip() == people.server.url, "the other hub's file"
        await (await people.operator()).ok("contexts.page")
    await starts(tmp_path)


async def test_a_folder_that_is_not_writable() -> None:
    with without_privileges():
        assert "cannot write into the data folder /usr" in await fails(Path("/usr"))


@pytest.mark.parametrize("name", ["file", "file/below"])
async def test_a_folder_that_is_none(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("no folder")
    assert "data folder" in await fails(tmp_path / name)


async def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    assert "secret" in await fails(tmp_path)
    (tmp_path / "secret").rmdir()
    (tmp_path / "url").mkdir()
    assert "url" in await fails(tmp_path)
    (tmp_path / "url").rmdir()
    await starts(tmp_path)


async def test_a_secret_that_is_too_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB_SECRET", "short")
    assert "HUB_SECRET" in await fails(tmp_path)
    monkeypatch.setenv("HUB_SECRET", "x" * 32)
    await starts(tmp_path)
    token = (tmp_path / "token").read_text().strip()
    assert Tokens("x" * 32).read(token).role is Role.OPERATOR


async def test_other_addresses_need_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HUB_SECRET", raising=False)
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        assert "HUB_SECRET" in await fails(tmp_path, host=host)
    assert not (tmp_path / "lock").exists()
    monkeypatch.setenv("HUB_SECRET", "x" * 32)
    assert "192.0.2.1" in await fails(tmp_path, host="192.0.2.1", record="memory")


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "redis://user:pass-word@127.0.0.1:1/0", "unix:///nowhere/s"])
async def test_a_redis_that_does_not_answer(tmp_path: Path, url: str) -> None:
    message = await fails(tmp_path, redis=url)
    assert "127.0.0.1:1" in message or "/nowhere/s" in message
    assert "pass-word" not in message


async def test_a_server_that_is_no_redis(tmp_path: Path) -> None:
    with socket.socket() as silent:  # it takes connections, and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        began = time.monotonic()
        assert str(port) in await fails(tmp_path, redis=f"redis://127.0.0.1:{port}")
        assert time.monotonic() - began < 20


@pytest.mark.parametrize("url", ["http://127.0.0.1", "nonsense", ""])
async def test_urls_that_are_none(tmp_path: Path, url: str) -> None:
    assert "Redis" in await fails(tmp_path, redis=url)


async def test_an_unknown_record(tmp_path: Path) -> None:
    assert "redis" in await fails(tmp_path, record="redis")


async def test_a_damaged_folder(tmp_path: Path) -> None:
    await starts(tmp_path)
    async with serving(tmp_path, record="embedded") as people:
        op = await people.operator()
        for n in range(50):
            await op.ok("context.create", id=f"c{n}", state={"pad": "x" * 1000})
    files = [file for file in (tmp_path / "valkey").rglob("*.aof") if file.stat().st_size > 10_000]
    assert files
    whole = {file: file.read_bytes() for file in files}
    for file, data in whole.items():
        file.write_bytes(data[: len(data) // 2] + b"\0garbage\0" * 500 + data[len(data) // 2 + 4500 :])
    message = await fails(tmp_path)
    assert str(tmp_path) in message
    for file, data in whole.items():
        file.write_bytes(data)
    async with serving(tmp_path, record="embedded") as people:
        assert len((await (await people.operator()).ok("contexts.page"))["rows"]) == 50


@pytest.mark.parametrize("record", ["memory", "embedded"])
async def test_a_start_that_is_cancelled(tmp_path: Path, record: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, reached = children(), asyncio.Event()

    async def never(self: Node) -> None:
        reached.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(Node, "start", never)
        starting = asyncio.create_task(HubServer(Options(data_dir=tmp_path, port=0, record=record)).start())
        await reached.wait()
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
    assert children() == before
    await starts(tmp_path)


async def test_the_end_with_many_connections(tmp_path: Path) -> None:
    """Everybody is told that it restarts, WebSocket and polling; it takes no long; the port is free."""
    port = free_port()
    clients = []
    async with serving(tmp_path, port=port, record="embedded") as people:
        for n in range(40):
            clients.append(await people.operator("polling" if n % 4 == 0 else "websocket"))
        began = time.monotonic()
        await people.server.stop()
        assert time.monotonic() - began < 5
        for client in clients:
            farewell = await client.next("hub.disconnect")
            assert (farewell["code"], farewell["reconnect"]) == (4001, True)
            await client.next("disconnect")
    async with serving(tmp_path, port=port, record="embedded"):
        assert not [task for task in asyncio.all_tasks() if "close" in str(task.get_coro())]


async def test_stock_clients_come_back_by_themselves(tmp_path: Path) -> None:
    port = free_port()
    client = socketio.AsyncClient(reconnection_delay=0.05, randomization_factor=0.01)
    hellos: list[dict[str, Any]] = []
    client.on("hello", hellos.append)
    try:
        async with serving(tmp_path, port=port) as people:
            await client.connect(people.server.url, auth={"token": people.server.token}, transports=["websocket"])
            await until(lambda: len(hellos) == 1)
        async with serving(tmp_path, port=port):
            await until(lambda: len(hellos) == 2, "the client's return")
            assert (await client.call("contexts.page", {}))["ok"]
    finally:
        await client.disconnect()
