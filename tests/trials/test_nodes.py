"""Any node serves anyone (RECORD.md, DESIGN.md): which node somebody is at shows in nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import hub as library
from hub import MirrorReader
from hub.record.valkey import server_binary
from tests.clients import Client, Follower, People, health, serving
from tests.leaks import kept, own_tasks
from tests.proxy import Proxy
from tests.record.servers import Server
from tests.support import hanging, until
from tests.trials.nodes import Nodes
from tests.trials.viewers import Viewers, check_entries, write


@pytest.fixture
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Nodes]:
    with Nodes(tmp_path, getattr(request, "param", 2), {"HUB_RUN_GRACE": "3"}) as nodes:
        yield nodes


@pytest.fixture
async def viewers(nodes: Nodes) -> AsyncIterator[Viewers]:
    async with AsyncExitStack() as stack:
        yield await Viewers(nodes, stack).join("c")


@pytest.mark.parametrize("nodes", [3], indirect=True)
async def test_writers_at_all_nodes_on_one_context(nodes: Nodes, viewers: Viewers) -> None:
    """Viewers anywhere get the same changes at the same positions; every writer gets on; Redis has the same."""
    answered: set[str] = set()
    shares = dict.fromkeys(range(3), 0)

    async def write_at(node: int, name: str) -> None:
        client = await viewers.client(node, ("websocket", "msgpack")[node % 2])
        until_then = time.monotonic() + 3
        for n in range(1, 10_000):
            if time.monotonic() > until_then:
                return
            await write(client, "c", name, [n], answered)
            shares[node] += 1

    await asyncio.gather(*(write_at(n % 3, f"w{n}") for n in range(6)))
    await viewers.converge()
    assert min(shares.values()) > sum(shares.values()) / 10, shares
    told = {}
    for client, follower in viewers.all:
        if follower.checker.deliver == "patch":
            changes = [(event["epoch"], event["seq"], str(event["parts"])) for event in client.of("change")]
            told[client] = changes
    first, *others = told.values()
    assert len(first) >= len(answered)
    assert all(other == first for other in others), "the same changes at the same positions"
    got = await viewers.ops[0].ok("context.get", context="c")
    assert got["document"]["log"]["length"] == len(answered)
    async with MirrorReader(nodes.record_url) as reader:
        mirrored = await reader.get("c")
        assert mirrored is not None
        assert (mirrored["epoch"], mirrored["seq"], mirrored["document"]) == (got["epoch"], got["seq"], got["document"])
        assert {entry["id"] for entry in mirrored["log"]["entries"]} == answered


@pytest.mark.parametrize("deliver", ["patch", "snapshot"])
async def test_a_viewer_that_moves(nodes: Nodes, viewers: Viewers, deliver: str) -> None:
    """It comes to the other node with its position: recovered, no snapshot anew, and what it missed follows."""
    follower, answered = Follower("c", deliver), set[str]()
    client = await viewers.client(0)
    await follower.subscribe(client)
    for turn in range(6):
        await write(viewers.ops[turn % 2], "c", f"w{turn}", range(10), answered)
        if turn % 3:
            await client.until(lambda: follower.read(client).log.length == len(answered))  # noqa: B023 - right here
        if turn % 2:
            client.drop()
        else:
            await client.close()
        await write(viewers.ops[turn // 2 % 2], "c", f"v{turn}", range(10), answered)
        client = await viewers.client((turn + 1) % 2, ("websocket", "msgpack")[turn % 2])
        assert (await follower.subscribe(client))["recovered"], turn
    truth = await viewers.truth("c")
    await client.until(lambda: follower.read(client).document == truth["document"])
    assert follower.checker.restarted == 0
    follower.checker.compare(truth)


async def test_a_viewer_that_is_ahead_of_its_new_node(nodes: Nodes, viewers: Viewers) -> None:
    """The node has not heard of what the viewer knows: it reads the record first."""
    follower, answered = Follower("c"), set[str]()
    client = await viewers.client(0)
    await follower.subscribe(client)
    for round in range(5):
        nodes.networks[1].to_client.delay = 0.05
        await write(viewers.ops[0], "c", f"w{round}", range(10), answered)
        await client.until(lambda: follower.read(client).log.length == len(answered))  # noqa: B023 - right here
        at = follower.state.position
        client = await viewers.client(1)
        assert (await follower.subscribe(client))["recovered"]
        assert follower.state.position == at
        nodes.networks[1].to_client.delay = 0.0
        await write(viewers.ops[1], "c", f"v{round}", [0], answered)
        await client.until(lambda: follower.read(client).log.length == len(answered))  # noqa: B023 - right here
        await client.close()
        client = await viewers.client(0)
        assert (await follower.subscribe(client))["recovered"]
    assert follower.checker.restarted == 0


async def test_a_node_dies(nodes: Nodes, viewers: Viewers) -> None:
    """Its viewers go on at the other one, with no snapshot and no gap, as soon as they have connected."""
    answered: set[str] = set()
    moving = [Follower("c", deliver) for deliver in ("patch", "snapshot", "patch")]
    clients = [await viewers.client(0, kind) for kind in ("websocket", "msgpack", "msgpack")]
    for follower, client in zip(moving, clients, strict=True):
        await follower.subscribe(client)
    writing = asyncio.create_task(write(viewers.ops[1], "c", "w", range(300), answered))
    await until(lambda: len(answered) > 50)
    nodes.all[0].kill()
    for follower, client in zip(moving, clients, strict=True):
        await client.next("disconnect")
        follower.read(client)
    back = [await viewers.client(1) for _ in moving]
    for follower, client in zip(moving, back, strict=True):
        began = time.monotonic()
        assert (await follower.subscribe(client))["recovered"]
        assert time.monotonic() - began < 1
    await writing
    truth = await viewers.ops[1].ok("subscribe", topic="context:c", tail=1000)
    check_entries(truth, answered)
    for follower, client in zip(moving, back, strict=True):
        await client.until(lambda: follower.read(client).log.length == 300)  # noqa: B023 - waited for right here
        assert follower.checker.restarted == 0
    assert len(answered) == 300


@pytest.mark.parametrize("seconds", [3, pytest.param(20, marks=pytest.mark.long)])
async def test_a_node_that_slept(nodes: Nodes, viewers: Viewers, seconds: int) -> None:
    """Stopped and continued, beyond every time-out: it does no harm, catches up, and its clients go on."""
    answered: set[str] = set()
    stopped = [await viewers.client(0) for _ in range(5)]
    tasks = [asyncio.create_task(write(client, "c", f"s{n}", range(100), answered)) for n, client in enumerate(stopped)]
    await until(lambda: len(answered) > 50)
    with hanging(nodes.all[0].pid):
        await asyncio.sleep(seconds)  # that it is away for so long is the point
        await write(viewers.ops[1], "c", "w", range(100), answered)
        assert (await viewers.ops[1].ok("control", context="c", action="pause"))["ok"]
        assert (await viewers.ops[1].ok("broadcast", type="info", content="meanwhile", key="b"))["contexts"] == 1
        await viewers.ops[1].ok("context.create", id="new")
        await viewers.ops[1].ok("notice.post", id="n", message="meanwhile")
    began = time.monotonic()
    await asyncio.gather(*tasks)
    await write(viewers.ops[0], "c", "after", range(5), answered)
    await viewers.converge()
    assert time.monotonic() - began < 15
    truth = await viewers.truth("c")
    ids = [entry["id"] for entry in truth["entries"]]
    contents = [entry["content"] for entry in truth["entries"]]
    assert len(ids) == len(set(ids))
    assert answered <= set(ids)
    assert len(answered) + 1 == truth["document"]["log"]["length"], "nothing else came in"
    assert contents.count("meanwhile") == 1
    assert truth["document"]["paused"] is True
    for op in viewers.ops:
        assert {row["id"] for row in (await op.ok("subscribe", topic="contexts"))["rows"]} == {"c", "new"}
        assert [row["id"] for row in (await op.ok("subscribe", topic="notices"))["rows"]] == ["n"]


async def test_what_a_sleeping_node_had_not_read_is_not_done_when_it_wakes(nodes: Nodes, viewers: Viewers) -> None:
    """Its client gave up and did the same at another node, and then took it back: it stays taken back."""
    asleep = await viewers.client(0)
    with hanging(nodes.all[0].pid):
        await asleep.send("context.create", {"id": "x", "key": "w/1"})
        await asyncio.sleep(7)  # longer than a request may wait
        asleep.drop()
        await viewers.ops[1].ok("context.create", id="x", key="w/1")
        await viewers.ops[1].ok("context.remove", context="x", key="w/2")
    await viewers.ops[0].ok("apply", context="c", ops=[{"op": "state.incr", "path": "/n"}])
    for op in viewers.ops:
        await op.refused("context.get", "not_found", context="x")
        assert {row["id"] for row in (await op.ok("subscribe", topic="contexts"))["rows"]} == {"c"}


async def test_retries_at_another_node_apply_once(nodes: Nodes, viewers: Viewers) -> None:
    """The same key, at any node, at the same time or later: one change, and its outcome for all."""
    for n in range(1, 30):
        ops = [{"op": "log.add", "type": "info", "content": f"{n}"}, {"op": "state.incr", "path": "/n"}]
        replies = await asyncio.gather(*(op.ok("apply", context="c", ops=ops, key=f"w/{n}") for op in viewers.ops * 2))
        assert len({(reply["epoch"], reply["seq"]) for reply in replies}) == 1
        assert sum("duplicate" not in reply for reply in replies) == 1
    for op in viewers.ops:
        await op.refused("apply", "key_reused", context="c", ops=[{"op": "log.reset"}], key="w/29")
    made = await asyncio.gather(*(op.ok("context.create", key="k/1") for op in viewers.ops * 2))
    assert len({reply["id"] for reply in made}) == 1
    truth = await viewers.truth("c")
    assert truth["document"]["state"]["n"] == truth["document"]["log"]["length"] == 29
    refusals = [
        op.ask("apply", context="c", ops=[{"op": "state.incr", "path": "/n"}], expected={"state": "x:1"})
        for op in viewers.ops
    ]
    for reply in await asyncio.gather(*refusals):
        assert reply["error"]["code"] == "conflict"
        assert reply["error"]["details"]["versions"]["state"] == truth["document"]["versions"]["state"]


# runs


async def test_work_is_taken_by_any_node_with_a_free_worker(nodes: Nodes, viewers: Viewers) -> None:
    op = viewers.ops[0]
    workers = [await viewers.client(1), await viewers.client(1), await viewers.client(0)]
    for n in range(12):
        await op.ok("context.create", id=f"s{n}", agent="bot")
        await op.ok("message", context=f"s{n}", text="work")
    for worker in workers[:2]:
        await worker.ok("agent.serve", agent="bot", capacity=4)
    for worker in workers[:2]:
        await worker.until(lambda: len(worker.runs) == 4)  # noqa: B023 - waited for right here
    await workers[2].ok("agent.serve", agent="bot", capacity=10)
    await workers[2].until(lambda: len(workers[2].runs) == 4)
    taken = [run["context"] for worker in workers for run in worker.runs]
    assert sorted(taken) == sorted(f"s{n}" for n in range(12)), "each by one"
    for worker in workers:
        for run in worker.runs:
            ops = [{"op": "run.set", "status": "finished"}]
            await worker.ok("apply", context=run["context"], ops=ops, run=run["run"])
    for n in range(12):
        run = (await op.ok("context.get", context=f"s{n}"))["document"]["run"]
        assert run["status"] == "finished"


async def test_a_stop_at_one_node_reaches_the_worker_at_another(nodes: Nodes, viewers: Viewers) -> None:
    op, worker = viewers.ops[0], await viewers.client(1)
    await worker.ok("agent.serve", agent="bot", capacity=1)
    await op.ok("message", context="c", text="work")
    run = (await worker.next("run.start"))["run"]
    began = time.monotonic()
    await op.ok("control", context="c", action="stop")
    order = await worker.next("run.control")
    assert (order["action"], order["run"]) == ("stop", run)
    assert time.monotonic() - began < 1
    await worker.ok("apply", context="c", ops=[{"op": "run.set", "status": "stopped"}], run=run)
    await viewers.converge()


async def test_a_run_outlives_its_node(nodes: Nodes, viewers: Viewers) -> None:
    """The agent process comes back by another node, and goes on where it was."""
    go_on, began = asyncio.Event(), asyncio.Event()
    async with library.connect(nodes.address, token=nodes.token) as client:
        agent = client.agent("bot", capacity=1)

        @agent.on_message
        async def handle(ctx: library.AgentContext, message: library.UserMessage) -> None:
            entry = ctx.log.log("response", id="answer", content="half")
            await ctx.flush()
            began.set()
            await go_on.wait()
            entry.stream(content=" and whole")
            await ctx.flush()

        serving = asyncio.create_task(agent.serve())
        serves = await until(lambda: _serving(nodes, client.hello["node"]), "a node that knows of the agent") - 1
        other = viewers.ops[1 - serves]
        await other.ok("message", context="c", text="work")
        await asyncio.wait_for(began.wait(), 20)
        run = (await other.ok("context.get", context="c"))["document"]["run"]
        nodes.away(nodes.all[serves])
        nodes.all[serves].kill()
        await until(lambda: client.connection.up and client.hello["node"] != run["node"], "the other node")
        go_on.set()
        await other.ok("subscribe", topic="context:c")
        await other.next("snapshot", lambda event: event["document"]["run"]["status"] == "finished")
        truth = await other.ok("subscribe", topic="context:c")
        assert [entry["content"] for entry in truth["entries"]] == ["work", "half and whole"]
        assert truth["document"]["run"]["id"] == run["id"], "the same run"
        await other.ok("message", context="c", text="more")
        await other.next("snapshot", lambda event: event["document"]["run"]["fence"] == run["fence"] + 1)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def _serving(nodes: Nodes, name: str) -> int:
    """Which node has this name, counted from 1; 0 while the agent is not served."""
    for number, node in enumerate(nodes.all, 1):
        body = (await health(node.url))[1]
        if body["node"] == name and "bot" in body["agents"]:
            return number
    return 0


@pytest.mark.long
async def test_a_run_whose_node_and_worker_die(nodes: Nodes, viewers: Viewers) -> None:
    """Nobody announces it again: once the node is known to be dead it is interrupted, and what waits goes on elsewhere."""
    worker, op = await viewers.client(0), viewers.ops[1]
    await worker.ok("agent.serve", agent="bot", capacity=1)
    await op.ok("message", context="c", text="work")
    run = await worker.next("run.start")
    await op.ok("message", context="c", text="more")
    nodes.all[0].kill()
    began = time.monotonic()
    await op.ok("subscribe", topic="context:c")
    await op.next("snapshot", lambda event: event["document"]["run"]["status"] == "interrupted", 40)
    assert time.monotonic() - began < 30
    other = await viewers.client(1)
    await other.refused("apply", "run_lost", context="c", ops=[], run=run["run"])
    await other.ok("agent.serve", agent="bot", capacity=1)
    assert (await other.next("run.start"))["messages"][0]["text"] == "more"


@pytest.mark.long
async def test_a_node_that_slept_has_lost_its_runs(nodes: Nodes, viewers: Viewers) -> None:
    """It is taken for dead. When it wakes, its late worker is refused and told, and gets the next run."""
    worker, op = await viewers.client(0), viewers.ops[1]
    await worker.ok("agent.serve", agent="bot", capacity=1)
    await op.ok("message", context="c", text="work")
    run = (await worker.next("run.start"))["run"]
    await worker.ok("apply", context="c", ops=[{"op": "run.set", "status": "running"}], run=run)
    ops = [{"op": "log.add", "type": "info", "content": "late"}]
    began = time.monotonic()
    with hanging(nodes.all[0].pid):
        request = {"context": "c", "ops": ops, "run": run, "key": "w/1"}
        late = asyncio.create_task(worker.call("apply", request, seconds=60))
        await op.ok("subscribe", topic="context:c")
        await op.next("snapshot", lambda event: event["document"]["run"]["status"] == "interrupted", 40)
        assert time.monotonic() - began < 25
        await asyncio.sleep(max(0.0, began + 25 - time.monotonic()))
    assert (await late)["error"]["code"] in ("run_lost", "unavailable")
    await worker.refused("apply", "run_lost", context="c", ops=ops, run=run, key="w/1")
    order = await worker.next("run.control")
    assert (order["action"], order["run"]) == ("stop", run)
    await op.ok("message", context="c", text="next")
    await worker.next("run.start", lambda start: start["messages"][0]["text"] == "next")
    truth = await viewers.truth("c")
    assert [entry["content"] for entry in truth["entries"]] == ["work", "next"]
    for node in nodes.all:
        assert len(node.json("nodes")["nodes"]) == 2
    await viewers.converge()


async def test_a_node_that_comes_hears_of_everything(nodes: Nodes, viewers: Viewers) -> None:
    """Contexts were live in a node that was alone: from when the other serves, each hears what the other appends."""
    answered: set[str] = set()
    nodes.all[1].stop()
    writing = asyncio.create_task(write(viewers.ops[0], "c", "w", range(400), answered))
    await asyncio.to_thread(nodes.all[1].start)
    follower, client = Follower("c"), await viewers.client(1)
    await follower.subscribe(client)
    await write(client, "c", "v", range(50), answered)
    await writing
    await client.until(lambda: follower.read(client).log.length == 450)
    truth = await client.ok("subscribe", topic="context:c", tail=1000)
    check_entries(truth, answered)
    for other, theirs in viewers.all[:2]:  # those at the first node
        await other.until(lambda: theirs.read(other).document == truth["document"])  # noqa: B023 - right here


async def test_a_context_that_is_removed_or_replaced_elsewhere(nodes: Nodes, viewers: Viewers) -> None:
    await viewers.ops[0].ok("context.remove", context="c")
    for client, follower in viewers.all:
        await client.until(lambda: follower.read(client).closed == "removed")  # noqa: B023 - waited for right here
    for op in viewers.ops:
        await op.refused("apply", "not_found", context="c", ops=[{"op": "state.incr", "path": "/n"}])
    made: dict[str, Any] = await viewers.ops[1].ok("context.create", id="c", state={"new": True})
    for op in viewers.ops:
        got = await op.ok("context.get", context="c")
        assert (got["epoch"], got["document"]["state"]) == (made["epoch"], {"new": True})


async def listed(client: Client) -> set[str]:
    return {row["id"] for row in (await client.ok("contexts.page", filter={"type": "all"}))["rows"]}


async def test_sessions_that_are_made_at_both_nodes_at_once(nodes: Nodes, viewers: Viewers) -> None:
    """One of them makes it; the other one says that it is there."""
    for n in range(20):
        replies = await asyncio.gather(
            *(op.ask("context.create", id=f"s{n}", state={"by": at}) for at, op in enumerate(viewers.ops))
        )
        assert sorted(reply["ok"] for reply in replies) == [False, True]
        winner = next(at for at, reply in enumerate(replies) if reply["ok"])
        assert replies[1 - winner]["error"]["code"] == "exists"
        for op in viewers.ops:
            assert (await op.ok("context.get", context=f"s{n}"))["document"]["state"] == {"by": winner}
    assert await listed(viewers.ops[0]) == await listed(viewers.ops[1]) == {"c", *(f"s{n}" for n in range(20))}
    numbers = [(await viewers.ops[n % 2].ok("context.get", context=f"s{n}"))["document"]["no"] for n in range(20)]
    assert len(set(numbers)) == 20, "a number is given once"


async def test_no_task_is_left_by_trouble(tmp_path: Path) -> None:
    """What the record's troubles began has ended when they are over."""
    with Server(server_binary()) as server, Proxy(server.url) as one, Proxy(server.url) as other:
        async with (
            serving(tmp_path / "one", redis=one.url) as people,
            serving(tmp_path / "other", redis=other.url) as others,
        ):
            counted = [kept(people), kept(others)]
            baseline = own_tasks(lanes=False)
            for round in range(3):
                await trouble(people, others, one, other, round)
            await until(lambda: own_tasks(lanes=False) <= baseline, "tasks to end")
            await until(lambda: [kept(people), kept(others)] == counted, "what was kept to go")


async def trouble(people: People, others: People, one: Proxy, other: Proxy, round: int) -> None:
    """People at two nodes, whose connections to the record break."""
    clients, id = [await people.operator(), await others.operator("msgpack")], f"c{round}"
    for client in clients:
        reply = await client.ask("context.create", id=id, agent="bot")
        assert reply["ok"] or reply["error"]["code"] == "exists"
        for topic in (f"context:{id}", "contexts", "notices"):
            await client.ok("subscribe", topic=topic)
        await client.ok("agent.serve", agent="bot", capacity=1)
    await clients[0].ok("message", context=id, text="work")
    one.cut()
    ops = [{"op": "state.incr", "path": "/n"}]
    with other.silent(cut=round % 2 == 0):
        await clients[0].ok("apply", context=id, ops=ops)
        asked = asyncio.create_task(clients[1].ask("apply", context=id, ops=ops, key="w/1"))
        await clients[1].next("hub.degraded", lambda event: event["degraded"])
    await asked
    for n, client in enumerate(clients):
        await client.ok("broadcast", type="info", content="to all", key=f"b{round}-{n}")
    await clients[0].ok("context.remove", context=id)
    for client in clients:
        await client.close()
