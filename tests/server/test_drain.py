"""Drain: not ready, no new runs, runs move on at a step or at the deadline, clients are told to come back; then the node ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from socketio.exceptions import ConnectionError as RefusedConnection

import hub
from hub.agent import serving as agent_serving
from hub.node.settings import Settings
from hub.record.reader import MirrorReader
from hub.record.valkey import server_binary
from hub.server.sockets import BACK_SECONDS
from tests.clients import Client, People, health, refusal, serving
from tests.record.servers import Server
from tests.support import HubProcess, until

WORK = "work on it"


async def drain(url: str, token: str, **body: Any) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession(headers=headers) as web,
        web.post(f"{url}/api/v1/drain", json=body) as answer,
    ):
        reply: dict[str, Any] = await answer.json()
        return reply


async def run_of(op: Client, worker: Client, context: str) -> dict[str, Any]:
    """A run that a raw worker holds."""
    await op.ok("context.create", id=context, agent="bot")
    await op.ok("message", context=context, text=WORK)
    await worker.until(lambda: any(run["context"] == context for run in worker.runs))
    run: dict[str, Any] = next(run for run in worker.runs if run["context"] == context)["run"]
    await worker.ok("apply", context=context, ops=[{"op": "run.set", "status": "running"}], run=run)
    return run


@pytest.fixture
async def worker(people: People) -> Client:
    """A stock client that serves an agent, and knows nothing of draining."""
    client = await people.operator()
    await client.ok("agent.serve", agent="bot", capacity=5)
    return client


async def test_a_node_that_drains_waits_for_its_runs(people: People, op: Client, worker: Client) -> None:
    server = people.server
    run = await run_of(op, worker, "c")
    await op.ok("message", context="c", text="later")
    assert await drain(server.url, server.token, seconds=60) == {"ok": True, "node": server.node.name}
    await asyncio.wait_for(server.asked_to_end(), 5)
    draining = asyncio.create_task(server.drain())
    told = await op.next("hub.drain")
    assert 55 < told["seconds"] <= 60
    assert told["deadline"].endswith("Z")

    status, body = await health(server.url)
    assert (status, body["status"], body["reason"]) == (503, "draining", "this node ends; others go on")
    for kind in ("websocket", "polling"):
        with pytest.raises(RefusedConnection):
            await people.operator(kind)
    await op.ok("apply", context="c", ops=[{"op": "state.incr", "path": "/n"}])  # those that are there go on
    await op.ok("context.create", id="d", agent="bot")
    await op.ok("message", context="d", text=WORK)
    assert not draining.done()
    again = asyncio.create_task(server.drain())
    assert (await op.next("hub.drain", lambda later: later != told))["seconds"] <= 10, "as a signal would"
    assert not again.done()

    await worker.ok("apply", context="c", ops=[{"op": "run.set", "status": "finished"}], run=run)
    await asyncio.wait_for(asyncio.gather(draining, again), 5)
    assert [run["context"] for run in worker.runs] == ["c"], "no new run has started"
    for context in ("c", "d"):
        document = (await op.ok("context.get", context=context))["document"]
        assert (len(document["queue"]), document["running"]) == (1, False)


async def test_a_run_that_comes_to_no_step_does_not_keep_the_node(people: People, op: Client, worker: Client) -> None:
    await run_of(op, worker, "c")
    server = people.server
    server._drain.ask(60)
    draining = asyncio.create_task(server.drain())
    await op.next("hub.drain")
    assert not draining.done()
    began = time.monotonic()
    await drain(server.url, server.token, seconds=0.5)
    await asyncio.wait_for(draining, 5)
    assert 0.4 < time.monotonic() - began < 3
    document = (await op.ok("context.get", context="c"))["document"]
    assert document["run"]["status"] == "running", "its worker may go on elsewhere"


async def test_without_runs_nothing_waits(people: People, op: Client) -> None:
    await asyncio.wait_for(people.server.drain(), 1)
    assert not op.of("hub.drain")


async def test_clients_are_told_to_come_back_at_moments_of_their_own(people: People) -> None:
    clients = [await people.operator("polling" if n % 4 == 0 else "websocket") for n in range(40)]
    await people.server.drain()
    await people.server.stop()
    moments = set()
    for client in clients:
        farewell = await client.next("hub.disconnect")
        assert (farewell["code"], farewell["reconnect"]) == (4001, True)
        moments.add(farewell["retry_after_ms"])
    assert len(moments) > 5
    assert 1000 * BACK_SECONDS <= min(moments) < max(moments) < 2_000


@pytest.mark.parametrize(
    "body", [{"seconds": -1}, {"seconds": "5"}, {"seconds": True}, {"seconds": 1e9}, {"node": 7}, [], "x"]
)
async def test_what_is_no_order_to_drain(people: People, body: Any) -> None:
    headers = {"Authorization": f"Bearer {people.server.token}"}
    async with (
        aiohttp.ClientSession(headers=headers) as web,
        web.post(f"{people.server.url}/api/v1/drain", json=body) as answer,
    ):
        assert answer.status == 400
        refusal(await answer.json(), "invalid_request")
    assert not people.server._drain.asked.is_set()


# whole processes


@asynccontextmanager
async def idle_clients(hub: HubProcess, count: int, *kinds: str) -> AsyncIterator[list[Client]]:
    async with AsyncExitStack() as stack:
        clients = []
        for n in range(count):
            client = Client(hub.url, hub.token, kinds[n % len(kinds)])
            stack.push_async_callback(client.close)
            clients.append(await client.connect())
        yield clients


@pytest.mark.parametrize(
    ("nodes", "kinds"), [(1, ("websocket", "polling", "msgpack", "polling")), (2, ("websocket", "msgpack"))]
)
async def test_t5_sigterm_with_200_idle_clients(tmp_path: Path, nodes: int, kinds: tuple[str, ...]) -> None:
    with Server(server_binary()) as record:
        hub_process = HubProcess(tmp_path)
        hub_process.options = ["--redis", record.url, "--nodes", str(nodes)]
        with hub_process:
            async with idle_clients(hub_process, 200, *kinds) as clients:
                await clients[0].ok("context.create", id="c", state={"n": 0})
                for client in clients:
                    await client.ok("subscribe", topic="context:c", deliver="patch")
                await asyncio.gather(
                    *(client.ok("apply", context="c", ops=[{"op": "state.incr", "path": "/n"}]) for client in clients)
                )
                end = (await clients[0].ok("context.get", context="c"))["seq"]
                began = time.monotonic()
                assert await asyncio.to_thread(hub_process.stop) == 0
                took = time.monotonic() - began
                assert took < 5, took
                for client in clients:
                    assert (await client.next("hub.disconnect"))["code"] == 4001
                    await client.next("disconnect")
            assert hub_process.running is not None
            assert hub_process.running.err == ""
        async with MirrorReader(record.url) as reader:
            kept = await reader.get("c")
            hashes = await reader._connection.run("HMGET", "hub:ctx:{c}", "last", "mirrored", "held")
            nodes = await reader._connection.run("HLEN", "hub:nodes")
        assert kept is not None
        assert (kept["seq"], kept["document"]["state"]) == (end, {"n": 200})
        assert hashes == [str(end).encode(), str(end).encode(), None], "the hashes lack nothing"
        assert nodes == 0, "its beat is gone"


class Steps:
    """An agent of the SDK, in this process, that takes one step after the other until it is told to stop."""

    def __init__(self, *, checkpoints: bool = True) -> None:
        self.steps = 0
        self.over = asyncio.Event()
        self.nodes: list[str] = []
        self._checkpoints = checkpoints

    async def handle(self, ctx: hub.AgentContext, message: hub.UserMessage) -> None:
        while not self.over.is_set():
            ctx.log.log("info", content=str(self.steps))
            self.steps += 1
            if self._checkpoints:
                await ctx.checkpoint()
            await asyncio.sleep(0.02)

    @asynccontextmanager
    async def serving(self, hub_process: HubProcess) -> AsyncIterator[hub.agent.connect.Client]:
        async with hub.connect(hub_process.url, token=hub_process.token) as client:
            agent = client.agent("bot")
            agent.on_message(self.handle)
            task = asyncio.create_task(agent.serve())
            await until(lambda: agent._serving is not None)
            yield client
            self.over.set()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def goes_on(steps: Steps) -> None:
    before = steps.steps
    await until(lambda: steps.steps > before + 3, "more steps")


async def begin(op: Client, steps: Steps) -> None:
    await op.ok("context.create", id="c", agent="bot")
    await op.ok("message", context="c", text=WORK)
    await goes_on(steps)


async def whole(op: Client, steps: Steps) -> None:
    """The run ends well, under its first attempt, and each of its entries is there once, in order."""
    steps.over.set()

    async def finished() -> Any:
        document = (await op.ok("context.get", context="c"))["document"]
        return document if not document["running"] else None

    document = await until(finished, "the end of the run")
    assert (document["run"]["status"], document["run"]["attempt"]) == ("finished", 1)
    entries: list[Any] = []
    while len(entries) < document["log"]["length"]:
        before = entries[0]["no"] if entries else document["log"]["length"]
        page = await op.ok("log.page", context="c", log=document["log"]["id"], before=before, limit=100)
        entries = page["entries"][::-1] + entries
    assert [entry["content"] for entry in entries] == [WORK, *map(str, range(steps.steps))]


async def run_node(op: Client) -> str:
    node: str = (await op.ok("context.get", context="c"))["document"]["run"]["node"]
    return node


@pytest.mark.parametrize("checkpoints", [True, False])
async def test_a_run_of_the_sdk_moves_to_another_node(tmp_path: Path, checkpoints: bool) -> None:
    """With checkpoints as soon as it comes to one, else at the deadline."""
    two = HubProcess(tmp_path)
    two.options = ["--nodes", "2"]
    with two:
        async with AsyncExitStack() as stack:
            steps = Steps(checkpoints=checkpoints)
            client = await stack.enter_async_context(steps.serving(two))
            left: str = client.hello["node"]
            op = await until_on_another(two, stack, left)
            await begin(op, steps)
            assert await run_node(op) == left
            seconds = 30.0 if checkpoints else 1.0
            began = time.monotonic()

            async def told() -> Any:  # by a node that knows the other one by now
                return (await drain(two.url, two.token, node=left, seconds=seconds))["ok"]

            await until(told)
            await until(lambda: client.connection.up and client.hello["node"] != left, "another node")
            took = time.monotonic() - began
            assert took < 10 if checkpoints else took > 0.9
            await goes_on(steps)

            async def moved() -> bool:
                return await run_node(op) != left

            await until(moved, "the run's move")
            await whole(op, steps)
            assert client.unconfirmed == 0
        assert two.running is not None
        assert f"{left} was drained" in two.running.err


async def until_on_another(two: HubProcess, stack: AsyncExitStack, node: str) -> Client:
    for _ in range(4):
        client = await Client(two.url, two.token).connect()
        stack.push_async_callback(client.close)
        if (await client.next("hello"))["node"] != node:
            return client
    raise AssertionError("all connections come to one node")


async def test_a_run_of_the_sdk_goes_on_when_its_only_node_starts_again(tmp_path: Path) -> None:
    with HubProcess(tmp_path) as hub_process:
        async with AsyncExitStack() as stack:
            steps = Steps()
            client = await stack.enter_async_context(steps.serving(hub_process))
            op = await Client(hub_process.url, hub_process.token).connect()
            stack.push_async_callback(op.close)
            await begin(op, steps)
            began = time.monotonic()
            assert await asyncio.to_thread(hub_process.stop) == 0
            assert time.monotonic() - began < 5, "it came to a step at once"
            await goes_on(steps)
            await asyncio.to_thread(hub_process.start)
            await until(lambda: client.connection.up)
            again = await Client(hub_process.url, hub_process.token).connect()
            stack.push_async_callback(again.close)
            await whole(again, steps)
            assert client.unconfirmed == 0


async def test_a_step_is_waited_for_and_what_was_written_is_confirmed(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An SDK agent that is in the middle of a step when the node drains: it stays until the step's end."""
    monkeypatch.setattr(agent_serving, "LEAVE", 0.2)
    step, over = asyncio.Event(), asyncio.Event()
    server, op = people.server, await people.operator()

    async def handle(ctx: hub.AgentContext, message: hub.UserMessage) -> None:
        await step.wait()
        ctx.log.log("info", "the step's end")
        while not over.is_set():
            await ctx.checkpoint()
            await asyncio.sleep(0.01)

    stack = AsyncExitStack()
    client = await stack.enter_async_context(hub.connect(server.url, token=server.token, leave=0.2))
    agent = client.agent("bot")
    agent.on_message(handle)
    task = asyncio.create_task(agent.serve())
    await op.ok("context.create", id="c", agent="bot")
    await op.ok("message", context="c", text=WORK)
    await until(lambda: agent.runs and agent._held[0].task is not None)
    draining = asyncio.create_task(server.drain())
    await op.next("hub.drain")
    assert client.connection.up
    assert not draining.done()
    step.set()
    await asyncio.wait_for(draining, 5)
    document = (await op.ok("context.get", context="c"))["document"]
    assert (document["log"]["length"], document["run"]["status"]) == (2, "running")
    over.set()
    await until(lambda: client.unconfirmed)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    with pytest.raises(hub.Unconfirmed):  # there is no other node that the end of the run could be told
        await stack.aclose()


async def test_settings_say_how_long(tmp_path: Path) -> None:
    async with serving(tmp_path / "hub", settings=Settings(drain_seconds=0.3)) as people:
        op, worker = await people.operator(), await people.operator()
        await worker.ok("agent.serve", agent="bot", capacity=5)
        await run_of(op, worker, "c")
        began = time.monotonic()
        await asyncio.wait_for(people.server.drain(), 5)
        assert 0.2 < time.monotonic() - began < 3
