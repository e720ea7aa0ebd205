"""serve --nodes: many processes on one port, which come again, are drained by name, and end with their parent."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import re
import signal
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from hub import __version__
from hub.cli.tables import nodes_table
from hub.server.sockets import WEBSOCKET_NEEDED
from tests.cli.processes import children, node_pids, processes_naming
from tests.clients import Client, Follower
from tests.support import HubProcess, Running, alive, free_port, hanging, run_command, until, wait_until


@pytest.fixture
def two(tmp_path: Path) -> Iterator[HubProcess]:
    """Two nodes with an embedded server."""
    hub = HubProcess(tmp_path)
    hub.options = ["--nodes", "2"]
    with hub:
        yield hub


@pytest.fixture
async def people(two: HubProcess) -> AsyncIterator[People]:
    async with AsyncExitStack() as stack:
        yield People(two, stack)


class People:
    """Clients of a hub of several nodes, each with the name of its node in its greeting."""

    def __init__(self, hub: HubProcess, stack: AsyncExitStack) -> None:
        self._hub = hub
        self._stack = stack

    async def join(self, kind: str = "websocket") -> Client:
        client = Client(self._hub.url, self._hub.token, kind)
        self._stack.push_async_callback(client.close)
        await client.connect()
        await client.next("hello")
        return client

    async def on_each(self) -> list[Client]:
        """One client on each of the two nodes."""
        clients = [await self.join() for _ in range(2)]
        assert len({node_of(client) for client in clients}) == 2, "connections are handed out in turn"
        return clients


def node_of(client: Client) -> str:
    node: str = client.of("hello")[-1]["node"]
    return node


def names(hub: HubProcess) -> dict[str, dict[str, Any]]:
    return {row["name"]: row["info"] for row in hub.json("nodes")["nodes"]}


async def test_two_nodes_are_one_hub(two: HubProcess, people: People) -> None:
    assert two.running is not None
    assert two.running.out.count("Session Hub is ready") == 1
    assert f"Version {__version__}, 2 nodes, record: aof always, data in {two.folder}\n" in two.running.out
    assert (two.folder / "url").read_text().strip() == two.url
    writer, reader = await people.on_each()
    await writer.ok("context.create", id="c")
    follower = Follower("c")
    await follower.subscribe(reader)
    for n in range(1, 21):
        client = (writer, reader)[n % 2]
        await client.ok("apply", context="c", ops=[{"op": "state.incr", "path": "/n"}], key=f"a/{n}")
    await reader.until(lambda: follower.read(reader).document["state"] == {"n": 20})

    def told() -> bool:
        infos = names(two).values()
        return len(infos) == 2 and all(info["connections"] == 1 and info["contexts"] == 1 for info in infos)

    await asyncio.to_thread(wait_until, told, "beats that say what the nodes have")
    listed = await asyncio.to_thread(two.run, "nodes")
    assert all(len(line) <= 80 for line in listed.stdout.splitlines())
    assert node_of(writer) in listed.stdout
    assert all(f":{info['pid']}\n" in re.sub(" +\n", "\n", listed.stdout) for info in names(two).values())
    assert "version" not in listed.stdout
    with pytest.raises(Exception, match="failed to connect"):
        await Client(two.url, two.token, "polling").connect()
    assert await asyncio.to_thread(two.stop) == 0
    assert two.running.err == ""


@pytest.mark.parametrize("versions", [["1.0.0", "1.0.0"], ["1.0.0", "1.1.0"]])
def test_nodes_show_where_they_run_and_versions_that_differ(versions: list[str]) -> None:
    rows = [
        {"name": f"node-{number:08x}", "age": 0.5, "info": {"host": "h" * 60, "pid": 4_194_304, "version": version}}
        for number, version in enumerate(versions)
    ]
    console = Console(width=80, file=io.StringIO())
    with console.capture() as shown:
        console.print(nodes_table(rows))
    lines = [line.rstrip() for line in shown.get().splitlines()]
    assert lines.count(f"{'h' * 13}…:4194304") == 2
    assert all(len(line) <= 80 for line in lines)
    assert [line for line in lines if line.startswith("version")] == (
        [f"version {version}" for version in versions] if len(set(versions)) > 1 else []
    )


async def test_connections_are_shared_out_and_not_to_who_does_not_take_them(two: HubProcess, people: People) -> None:
    clients = [await people.join() for _ in range(20)]
    counts = [sum(node_of(client) == name for client in clients) for name in {node_of(client) for client in clients}]
    assert counts == [10, 10]
    stopped = node_pids(two.pid)[0]
    with hanging(stopped):
        late = []
        for _ in range(6):  # one at the most is lost to the node that hangs, until it goes on
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    late.append(await people.join())
        assert len(late) >= 5
        assert len({node_of(client) for client in late}) == 1


async def test_a_node_that_lost_its_clients_gets_the_next_ones(two: HubProcess, people: People) -> None:
    clients = [await people.join() for _ in range(10)]
    full = node_of(clients[0])
    for client in clients:
        if node_of(client) != full:
            await client.close()
    empty = next(node_of(client) for client in clients if node_of(client) != full)

    def known() -> bool:
        return empty in (told := names(two)) and told[empty]["connections"] == 0

    async def got_the_next() -> bool:
        """Once the parent has heard, too, who left."""
        await asyncio.to_thread(wait_until, known, "a beat after its clients left")
        new = [await people.join() for _ in range(4)]
        if [node_of(client) for client in new] == [empty] * 4:
            return True
        for client in new:
            await client.close()
        return False

    await until(got_the_next, "the next clients at the node that has none")


async def test_a_node_that_is_killed_is_started_again_and_its_viewers_go_on_at_the_other(
    two: HubProcess, people: People
) -> None:
    assert two.running is not None
    writer, viewer = await people.on_each()
    await writer.ok("context.create", id="c")
    follower = Follower("c")
    await follower.subscribe(viewer)
    await writer.ok("apply", context="c", ops=[{"op": "state.incr", "path": "/n"}], key="a/1")
    await viewer.until(lambda: follower.read(viewer).document["state"] == {"n": 1})
    before = node_pids(two.pid)
    victim = (await asyncio.to_thread(wait_until, lambda: names(two).get(node_of(viewer))))["pid"]

    os.kill(victim, signal.SIGKILL)
    await viewer.next("disconnect")
    await writer.ok("apply", context="c", ops=[{"op": "state.incr", "path": "/n"}], key="a/2")
    again = await people.join()
    assert node_of(again) == node_of(writer), "the other one has not come again so soon"
    reply = await follower.subscribe(again)
    assert reply["recovered"] is True
    await again.until(lambda: follower.read(again).document["state"] == {"n": 2})

    await asyncio.to_thread(wait_until, lambda: len(node_pids(two.pid)) == 2, "another node")
    assert set(node_pids(two.pid)) != set(before)
    said = re.search(
        rf"^20\d\d-\S+ \S+ WARNING \S+: {node_of(viewer)} ended \(signal 9\); it is started again in 0\.2 s",
        two.running.err,
        re.M,
    )
    assert said is not None, two.running.err

    newest = (set(node_pids(two.pid)) - set(before)).pop()
    os.kill(newest, signal.SIGKILL)
    await asyncio.to_thread(wait_until, lambda: two.running and "it is started again in 0.4 s" in two.running.err)
    await asyncio.to_thread(wait_until, lambda: len(node_pids(two.pid)) == 2, "another node")

    async def on_a_new_one() -> bool:
        return node_of(await people.join()) not in (node_of(writer), node_of(viewer))

    await until(on_a_new_one, "a connection to the new node")


async def test_a_node_is_drained_by_name_from_the_other_and_does_not_come_again(
    two: HubProcess, people: People
) -> None:
    assert two.running is not None
    clients = {node_of(client): client for client in await people.on_each()}
    first, second = clients
    await asyncio.to_thread(wait_until, lambda: len(names(two)) == 2)
    assert (await asyncio.to_thread(two.json, "drain", second)) == {"node": second}
    farewell = await clients[second].next("hub.disconnect")
    assert (farewell["code"], farewell["reconnect"]) == (4001, True)
    await clients[second].next("disconnect")
    assert not clients[first].of("hub.disconnect", "hub.drain")
    assert node_of(await people.join()) == first
    await asyncio.to_thread(wait_until, lambda: list(names(two)) == [first], "the end of its beat")
    assert f"{second} was drained; it is not started again" in two.running.err
    unknown = await asyncio.to_thread(two.run, "drain", second)
    assert unknown.returncode == 1
    assert f"there is no node '{second}'; there are: {first}" in unknown.stderr
    user = two.json("token", "--sub", "maria", "--role", "user")["token"]
    for command in ("drain", "nodes"):
        assert "[forbidden]" in (await asyncio.to_thread(two.run, command, "--token", user)).stderr

    last = await asyncio.to_thread(two.run, "drain")
    assert last.stderr == f"{first} drains; it is the last one, so the hub ends.\n"
    assert await asyncio.to_thread(two.running.process.wait, 20) == 0
    assert "all nodes were drained; the hub ends" in two.running.err
    assert processes_naming(str(two.folder)) == []


def test_nothing_is_left_when_the_parent_is_killed_and_it_starts_again(two: HubProcess) -> None:
    id = two.json("new", "--name", "Kept")["id"]
    below = children(two.pid)
    assert len(below) == 4, "guard, server, two nodes"
    two.kill()
    wait_until(lambda: not any(map(alive, below)), "the end of guard, server and nodes")
    two.start()
    assert two.json("show", id)["document"]["name"] == "Kept"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_being_ended_while_it_starts_leaves_nothing(tmp_path: Path, number: int) -> None:
    folder = tmp_path / "d"
    arguments = ("serve", "--nodes", "2", "--port", "0", "--data-dir", str(folder))
    with Running(*arguments, folder=tmp_path / "run") as running:
        wait_until(lambda: len(processes_naming(f"hub node --data-dir {folder}")) == 2, "the nodes")
        assert running.end(number) == 0
        assert running.err == ""
    assert processes_naming(str(folder)) == []


def test_what_keeps_a_node_from_starting_is_told_once(tmp_path: Path) -> None:
    url = f"redis://127.0.0.1:{free_port()}/0"
    done = run_command("serve", "--nodes", "3", "--port", "0", "--data-dir", str(tmp_path), "--redis", url)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    assert "HUB_REDIS_URL" in done.stderr
    assert processes_naming(str(tmp_path)) == []


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--record", "memory"], "leave --record memory out"),
        (["--record", "memory", "--redis", "redis://127.0.0.1:1/0"], "leave --record memory out"),
        (["--app", "json:dumps"], "--app sets agents up inside one process"),
    ],
)
def test_what_several_nodes_cannot_do_is_told(tmp_path: Path, arguments: list[str], what: str) -> None:
    done = run_command("serve", "--nodes", "2", "--port", "0", "--data-dir", str(tmp_path / "d"), *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert what in done.stderr
    assert not (tmp_path / "d").exists()


def test_a_node_is_run_by_its_parent_only(tmp_path: Path) -> None:
    done = run_command("node", "--data-dir", str(tmp_path / "d"))
    assert done.returncode == 1
    assert "serve --nodes" in done.stderr


def test_up_with_two_nodes_serves_the_demo_agent(tmp_path: Path) -> None:
    hub = HubProcess(tmp_path, command="up")
    hub.options = ["--nodes", "2"]
    with hub:
        assert hub.running is not None
        assert hub.running.err == ""
        for _ in range(2):
            id = hub.json("new")["id"]
            assert hub.json("send", id, "analyse access.log", "--wait")["run"]["status"] == "finished"
        below = children(hub.pid)
        assert hub.stop(signal.SIGINT) == 0
        assert not any(map(alive, below))


def test_websocket_only_without_nodes(tmp_path: Path) -> None:
    for variables in ({}, {"HUB_WEBSOCKET_ONLY": "1"}):
        hub = HubProcess(tmp_path, record="memory", **variables)
        hub.options = [] if variables else ["--websocket-only"]
        with hub:
            with urllib.request.urlopen(f"{hub.url}/socket.io/?EIO=4&transport=polling", timeout=10) as answer:
                assert WEBSOCKET_NEEDED in answer.read().decode()
