"""What viewers are sent while a context changes: in both modes, in order, without gaps, private things to some only."""

from __future__ import annotations

import asyncio
import json
import time
from functools import partial
from typing import Any

import pytest

from tests.clients import KINDS, Client, Follower, People, refusal


def incr(path: str = "/n") -> list[dict[str, Any]]:
    return [{"op": "state.incr", "path": path}]


@pytest.mark.parametrize("kind", KINDS)
async def test_patch_mode_while_twenty_write(everywhere: People, kind: str) -> None:
    """Every change once, in order, and it adds up to the state."""
    op = await everywhere.operator()
    await op.ok("context.create", id="c")
    await op.ok("apply", context="c", ops=[{"op": "log.add", "type": "info", "id": "e"}])
    viewer, follower = await everywhere.operator(kind), Follower("c")
    await follower.subscribe(viewer)
    begin = follower.state.position.seq
    writers = [await everywhere.operator("msgpack" if n % 2 else "websocket") for n in range(20)]

    async def write(n: int, client: Client) -> None:
        for i in range(1, 11):
            ops = [{"op": "log.append", "id": "e", "text": "ä😀"}] if i % 2 else incr(f"/w{n}")
            await client.ok("apply", context="c", ops=ops, key=f"writer{n}/{i}")

    await asyncio.gather(*(write(n, client) for n, client in enumerate(writers)))
    end = begin + 200
    await viewer.until(lambda: follower.read(viewer).position.seq == end)
    assert [event["seq"] for event in viewer.of("change")] == list(range(begin + 1, end + 1))
    assert follower.state.document["state"] == {f"w{n}": 5 for n in range(20)}
    assert follower.state.log.to_json()["entries"][0]["content"] == "ä😀" * 100
    got = await op.ok("context.get", context="c")
    assert got["document"] == follower.state.document
    assert got["seq"] == end


@pytest.mark.parametrize("kind", KINDS)
async def test_snapshot_mode_gets_every_mutation(everywhere: People, kind: str) -> None:
    """200 separate small mutations: 200 snapshots, in order; those of a pipeline too."""
    op, viewer = await everywhere.operator(), await everywhere.operator(kind)
    await op.ok("context.create", id="c")
    first = (await viewer.ok("subscribe", topic="context:c"))["seq"]
    asked = [op.ok("apply", context="c", ops=incr()) for _ in range(100)]
    await asyncio.gather(*asked)
    for _ in range(100):
        await op.ok("apply", context="c", ops=incr())
    await viewer.until(lambda: len(viewer.of("snapshot")) >= 200)
    snapshots = viewer.of("snapshot")
    assert [snapshot["seq"] for snapshot in snapshots] == list(range(first + 1, first + 201))
    assert [snapshot["document"]["state"]["n"] for snapshot in snapshots] == list(range(1, 201))
    for snapshot in snapshots:
        assert snapshot["document"]["versions"]["state"] == f"{snapshot['epoch']}:{snapshot['seq']}"
    assert not viewer.of("change")


async def test_log_before_the_snapshot_of_its_seq(people: People, op: Client) -> None:
    viewer = await people.operator()
    await op.ok("context.create", id="c")
    reply = await viewer.ok("subscribe", topic="context:c")
    add = {"op": "log.add", "type": "info", "id": "e", "content": "a"}
    for ops in ([add, *incr()], [{"op": "log.append", "id": "e", "text": "b"}], incr(), [{"op": "log.reset"}]):
        await op.ok("apply", context="c", ops=ops)
    await viewer.next("snapshot", lambda event: event["seq"] == reply["seq"] + 4)
    events = [(name, data["seq"] - reply["seq"]) for name, data in viewer.events if name in ("log", "snapshot")]
    assert events == [("log", 1), ("snapshot", 1), ("log", 2), ("snapshot", 3), ("log", 4), ("snapshot", 4)]
    after = reply["seq"]
    for log in viewer.of("log"):
        assert log["after"] == after or log["after"] <= reply["seq"], "a gap between log events"
        assert {part["kind"] for part in log["parts"]} <= {"log.add", "log.append", "log.update", "log.reset"}
        after = log["seq"]


async def test_a_large_document_is_paced(everywhere: People) -> None:
    """At most 40 snapshots a second, the newest one last."""
    op, viewer = await everywhere.operator(), await everywhere.operator()
    await op.ok("context.create", id="c", state={"pad": "x" * 40_000})
    await viewer.ok("subscribe", topic="context:c")
    began = time.monotonic()
    for _ in range(20):
        await asyncio.gather(*(op.ok("apply", context="c", ops=incr()) for _ in range(10)))
    last = (await op.ok("context.get", context="c"))["seq"]
    await viewer.next("snapshot", lambda event: event["seq"] == last)
    seconds = time.monotonic() - began
    snapshots = viewer.of("snapshot")
    assert snapshots[-1]["document"]["state"]["n"] == 200
    assert len(snapshots) <= 40 * seconds + 2
    seqs = [snapshot["seq"] for snapshot in snapshots]
    assert seqs == sorted(set(seqs))


async def test_one_snapshot_larger_than_the_outbox_gets_through(people: People, op: Client) -> None:
    viewer = await people.operator()
    await op.ok("context.create", id="c")
    await viewer.ok("subscribe", topic="context:c")
    for n in range(3):
        await op.ok("apply", context="c", ops=[{"op": "state.merge", "value": {f"pad{n}": "x" * 340_000}}])
    await viewer.next("snapshot", lambda event: len(event["document"]["state"]) == 3)
    for n in range(5):
        await op.ok("apply", context="c", ops=incr(f"/n{n}"))
    await viewer.next("snapshot", lambda event: "n4" in event["document"]["state"])
    assert not viewer.of("disconnect")


async def test_private_data_reaches_agents_and_operators_only(everywhere: People) -> None:
    ann = await everywhere.user("ann")
    await ann.ok("context.create", id="c")
    op, agent, eve = await everywhere.operator(), await everywhere.agent("c"), await everywhere.viewer("c")
    for client in (ann, eve, op, agent):
        await client.ok("subscribe", topic="context:c", deliver="patch")
    simple = await everywhere.user("ann")
    await simple.ok("subscribe", topic="context:c")
    epoch = ""
    seq = (await agent.ok("apply", context="c", ops=[{"op": "data.set", "key": "k", "value": "TOP-SECRET"}]))["seq"]
    mixed = [{"op": "data.set", "key": "l", "value": "TOP-SECRET"}, *incr()]
    await agent.ok("apply", context="c", ops=mixed, key="writer/1")
    for client in (ann, eve):
        event = await client.next("change", lambda event: event["seq"] == seq)
        assert event["parts"] == []
        mixed_event = await client.next("change", lambda event: event["seq"] == seq + 1)
        assert [part["kind"] for part in mixed_event["parts"]] == ["patch"]
    for client in (op, agent):
        event = await client.next("change", lambda event: event["seq"] == seq)
        epoch = event["epoch"]
        assert event["parts"] == [{"kind": "data", "key": "k", "value": "TOP-SECRET"}]
        mixed_event = await client.next("change", lambda event: event["seq"] == seq + 1)
        assert {part["kind"] for part in mixed_event["parts"]} == {"data", "patch"}
    await simple.next("snapshot", lambda event: event["seq"] == seq + 1)
    late = await everywhere.user("ann")
    replies = [
        await late.ok("subscribe", topic="context:c"),
        await late.ok("context.get", context="c"),
        await late.ok("subscribe", topic="context:c", from_={"epoch": epoch, "seq": seq - 1}, deliver="patch"),
    ]
    assert replies[2]["recovered"]
    await late.next("change", lambda event: event["seq"] == seq + 1)
    for client in (ann, eve, simple, late):
        assert "TOP-SECRET" not in json.dumps([client.events, replies], default=str)
        assert '"key"' not in json.dumps(client.of("change"))
    assert (await op.ok("context.get", context="c"))["data"] == {"k": "TOP-SECRET", "l": "TOP-SECRET"}


@pytest.mark.parametrize("kind", KINDS)
async def test_the_reply_comes_before_the_change(everywhere: People, kind: str) -> None:
    op = await everywhere.operator(kind)
    await op.ok("context.create", id="a")
    await op.ok("context.create", id="b")
    for id in ("a", "b"):
        await op.ok("subscribe", topic=f"context:{id}", deliver="patch")
    for n in range(20):
        await op.send("apply", {"context": "a", "ops": incr(), "key": f"writer/{n + 1}"})
        await op.send("apply.many", {"batches": [{"context": "b", "ops": incr()}]})
    await op.send("message", {"context": "a", "text": "hello"})
    await op.send("control", {"context": "a", "action": "pause"})
    await op.until(lambda: len(op.of("change")) == 42 and len(op.of("reply")) == 42)
    answered: set[tuple[str, int]] = set()
    for name, data in op.events:
        if name == "reply":
            for reply in data.get("replies", [data]):
                answered.add((reply["epoch"], reply["seq"]))
        elif name == "change":
            assert (data["epoch"], data["seq"]) in answered, "a change came before the answer to its request"


async def test_requests_of_one_client_keep_their_order(everywhere: People) -> None:
    """In a pipeline too: creation, writes, messages and control of one context, which may sleep."""
    op = await everywhere.operator()
    requests: list[tuple[str, dict[str, Any]]] = [("context.create", {"id": "c", "agent": "nobody"})]
    requests += [("apply", {"context": "c", "ops": [{"op": "state.append", "path": "/l", "value": 0}]})]
    for n in range(1, 30):
        requests.append(("message", {"context": "c", "text": str(n)}))
        ops = [{"op": "state.append", "path": "/l", "value": n}]
        requests.append(("apply", {"context": "c", "ops": ops}))
    requests.append(("control", {"context": "c", "action": "pause"}))
    for round in range(2):
        op.events.clear()
        for name, data in requests[round:]:
            await op.send(name, data)
        await op.until(partial(lambda count: len(op.of("reply")) == count, len(requests) - round))
        replies = op.of("reply")
        assert all(reply["ok"] for reply in replies)
        assert [reply["seq"] for reply in replies] == sorted(reply["seq"] for reply in replies)
        document = (await op.ok("context.get", context="c"))["document"]
        assert document["state"]["l"] == list(range(30)) * (round + 1)
        assert [item["text"] for item in document["queue"]] == [str(n) for n in range(1, 30)] * (round + 1)
        live = everywhere.server.node.contexts.live["c"]
        everywhere.server.node.contexts.forget(live)  # asleep: the next round loads it first
        everywhere.server.node.mirroring.forget("c")


async def test_modes_and_unsubscribing(people: People, op: Client) -> None:
    await op.ok("context.create", id="c")
    await op.ok("apply", context="c", ops=incr())
    assert not op.of("snapshot", "change", "log", "row"), "nothing is pushed before a subscription"
    await op.ok("subscribe", topic="context:c")
    await op.ok("subscribe", topic="context:c", deliver="patch")  # the later one counts
    await op.ok("apply", context="c", ops=incr())
    await op.next("change")
    assert not op.of("snapshot")
    await op.ok("unsubscribe", topic="context:c")
    await op.ok("apply", context="c", ops=incr())
    await op.ok("context.get", context="c")
    assert len(op.of("change")) == 1


async def test_a_removal_is_the_last_thing_that_is_told(everywhere: People) -> None:
    op, patches, snapshots = await everywhere.operator(), await everywhere.operator(), await everywhere.operator()
    await op.ok("context.create", id="c")
    await patches.ok("subscribe", topic="context:c", deliver="patch")
    await snapshots.ok("subscribe", topic="context:c")
    await snapshots.ok("subscribe", topic="contexts")
    await op.ok("context.remove", context="c", key="w/1")
    assert (await op.ok("context.create", id="c", name="another"))["seq"] == 1
    await op.ok("apply", context="c", ops=incr())
    assert (await patches.next("change"))["parts"] == [{"kind": "closed", "reason": "removed"}]
    assert (await snapshots.next("snapshot", lambda event: event.get("closed")))["closed"] == "removed"
    rows = await snapshots.until(lambda: len(snapshots.of("row")) == 2 and snapshots.of("row"))
    assert [event["row"] and event["row"]["name"] for event in rows] == [None, "another"]
    assert len(patches.of("change")) == 1
    assert len(snapshots.of("snapshot")) == 1


async def test_upgrades_under_traffic(people: People, op: Client) -> None:
    """Stock clients begin by polling and become WebSockets while changes stream: no gap, nothing twice."""
    await op.ok("context.create", id="c")
    stop = asyncio.Event()

    async def write() -> None:
        while not stop.is_set():
            await op.ok("apply", context="c", ops=incr())
            await asyncio.sleep(0.001)

    async def watch() -> None:
        client = Client(people.server.url, people.server.token, "upgrading")
        try:
            await client.connect()
            follower = Follower("c")
            await follower.subscribe(client)
            begin = follower.state.position.seq
            await client.until(lambda: client.sio.transport() == "websocket")
            await client.until(lambda: len(client.of("change")) > 30)
            seqs = [event["seq"] for event in client.of("change")]
            assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
            assert seqs[0] <= begin + 1
        finally:
            await client.close()

    writer = asyncio.create_task(write())
    try:
        for _ in range(5):
            await asyncio.gather(*(watch() for _ in range(4)))
    finally:
        stop.set()
        await writer


async def test_who_unsubscribed_before_the_context_was_there_does_not_join(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would take it out of the room when its connection ends."""
    op, node = await people.operator(), people.server.node
    await op.ok("context.create", id="c")
    node.contexts.forget(node.contexts.live["c"])
    load, asked, go_on = node.record.load, asyncio.Event(), asyncio.Event()

    async def slow(id: str) -> Any:
        asked.set()
        await go_on.wait()
        return await load(id)

    monkeypatch.setattr(node.record, "load", slow)
    subscribing = asyncio.ensure_future(op.call("subscribe", {"topic": "context:c"}))
    await asked.wait()
    await op.ok("unsubscribe", topic="context:c")
    go_on.set()
    refusal(await subscribing, "invalid_request")
    assert not node.contexts.live["c"].audience.room.members
    await op.ok("subscribe", topic="context:c")
    assert len(node.contexts.live["c"].audience.room.members) == 1
