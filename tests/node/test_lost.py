"""The record loses what it had: its last entries (a failover, an older backup), or whole contexts (a flush)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from hub.core.errors import HubError, KeyExpired, Removed
from hub.core.requests import Create
from hub.fanout.room import Viewer
from hub.node import contexts as contexts_module
from hub.node.node import Node
from hub.record.memory import MemoryRecord
from hub.record.memory_context import MemoryContext, Prepared
from hub.record.plain import touched
from hub.record.port import Outcome
from hub.wire.messages import From, Subscribe
from tests.node.support import KeptOutbox, LossyRecord, ask, create, node_on, ok, push
from tests.record.writer import Writer, put
from tests.support import until


def roll_back(record: MemoryRecord, id: str, count: int) -> None:
    """The last entries are gone, as after a failover; the creation stays."""
    before = record._contexts[id]
    entries, _ = before.after(0, 10_000)
    after = MemoryContext(before.epoch)
    after.born = before.born
    for entry in entries[: max(1, len(entries) - count)]:
        fields, closed = touched(entry.changes)
        packed = next(kept.packed for kept in before._entries if kept.id == entry.id)
        last = entry.changes[-1].position.seq
        after.add(Prepared(entry.id, entry.before, last, packed, fields, closed, last == len(entry.changes)), 0.0)
    record._contexts[id] = after


def flush(record: MemoryRecord) -> None:
    record._contexts.clear()


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends are compared often."""
    monkeypatch.setattr(contexts_module, "COMPARE", 0.05)


@asynccontextmanager
async def three_on(record: MemoryRecord) -> AsyncIterator[list[Node]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(node_on(record)) for _ in range(3)]


def list_of(node: Node, id: str = "c") -> list[Any]:
    live = node.contexts.live[id]
    with live.replica.confirmed() as state:
        return list(state.document["state"].get("l", []))


async def equal(nodes: list[Node], record: MemoryRecord, id: str = "c") -> list[Any]:
    """Wait until all nodes stand where the record stands, with nothing to do. Returns the list that they agree on."""

    def same() -> bool:
        lives = [node.contexts.live.get(id) for node in nodes]
        there = record._contexts.get(id)
        return there is not None and all(
            live is not None and live.idle and (live.replica.position.epoch, live.replica.position.seq, live.tip)
            == (there.epoch, there.last, there.tip)
            for live in lives
        )  # fmt: skip

    await until(same)
    lists = [list_of(node, id) for node in nodes]
    assert all(one == lists[0] for one in lists)
    return lists[0]


async def test_answered_requests_come_back_after_a_rollback_and_viewers_are_told() -> None:
    record = MemoryRecord()
    async with node_on(record) as node:
        await create(node)
        outbox = KeptOutbox()
        live = node.contexts.live["c"]
        live.audience.join(outbox, Viewer(patch=True, private=False, sees=lambda user: True))
        for n in range(6):
            await ok(node, push(n, key=f"w/{n}" if n % 2 else None))  # without a key too
        epoch = live.replica.position.epoch
        roll_back(record, "c", 4)
        assert await equal([node], record) == [0, 1, 2, 3, 4, 5]
        assert live.replica.position.epoch != epoch
        [snapshot] = outbox.of("snapshot")
        assert (snapshot["recovered"], snapshot["reason"]) == (False, "epoch_changed")
        assert [change["seq"] for change in outbox.of("change") if change["epoch"] == epoch] == list(range(2, 8))
        after = [change["seq"] for change in outbox.of("change") if change["epoch"] != epoch]
        assert after == list(range(snapshot["seq"] + 1, live.replica.position.seq + 1))


async def test_an_entry_that_does_not_name_the_one_a_node_holds_shows_a_loss() -> None:
    """Though the record's end is past the node's: somebody went on from the backup."""
    record = MemoryRecord()
    async with node_on(record) as node:
        await create(node)
        for n in range(3):
            await ok(node, push(n, key=f"w/{n}"))
        live = node.contexts.live["c"]
        epoch = live.replica.position.epoch
        roll_back(record, "c", 3)
        loaded, other = await record.load("c"), Writer("c")
        assert loaded is not None
        other.state, other.tip = loaded.state, loaded.tip
        for n in range(5):
            assert (await other.write(record, put("/state/x", n))).outcome is Outcome.APPENDED
        assert other.position.seq > live.replica.position.seq
        assert await equal([node], record) == [0, 1, 2]
        assert live.replica.state.document["state"] == {"x": 4, "l": [0, 1, 2]}
        assert live.replica.position.epoch != epoch


async def test_each_node_brings_back_what_it_had_answered() -> None:
    record = MemoryRecord()
    async with three_on(record) as nodes:
        await create(nodes[0])
        for n in range(9):
            await ok(nodes[n % 3], push(n, key=f"w{n % 3}/{n // 3}"))
        await equal(nodes, record)
        roll_back(record, "c", 6)
        found = await equal(nodes, record)
        await until(lambda: sorted(list_of(nodes[0])) == list(range(9)))
        assert found[:3] == [0, 1, 2]


async def test_a_flushed_context_is_written_anew_by_one_node_with_what_all_had_answered() -> None:
    record = MemoryRecord()
    async with three_on(record) as nodes:
        await create(nodes[0], name="kept")
        for n in range(9):
            await ok(nodes[n % 3], push(n, key=f"w{n % 3}/{n // 3}"))
        await equal(nodes, record)
        born = nodes[0].contexts.live["c"].born
        flush(record)
        await until(lambda: "c" in record._contexts)
        await equal(nodes, record)
        await until(lambda: sorted(list_of(nodes[0])) == list(range(9)))
        await equal(nodes, record)
        assert {node.contexts.live["c"].born for node in nodes} == {born}
        assert nodes[2].contexts.live["c"].replica.state.document["name"] == "kept"
        again = await ok(nodes[1], push(4, key="w1/1"))
        assert again["duplicate"]


async def test_a_context_that_is_written_anew_has_a_new_epoch() -> None:
    """Positions that were told are not given out again, also where nobody else has it."""
    record = MemoryRecord()
    async with node_on(record) as node:
        await create(node)
        for n in range(3):
            await ok(node, push(n))
        before = node.contexts.live["c"].replica.position
        flush(record)
        await until(lambda: "c" in record._contexts)
        assert await equal([node], record) == [0, 1, 2]
        after = node.contexts.live["c"].replica.position
        assert (after.epoch != before.epoch, after.seq) == (True, 1)


async def test_a_node_that_was_away_for_long_takes_missing_as_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    record = MemoryRecord()
    async with node_on(record) as node:
        await create(node)
        monkeypatch.setattr(contexts_module, "UNSEEN", -1.0)
        flush(record)
        await until(lambda: "c" not in node.contexts.live)
        assert "c" not in record._contexts


async def test_it_does_so_however_long_it_takes_to_read_what_the_comparison_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That comparison is over by then, and must not count as one that the node had made all the time."""
    monkeypatch.setattr(contexts_module, "WAIT", 0.1)
    record = LossyRecord()
    async with node_on(record) as node:
        await create(node)
        inside: Any = node.contexts
        record.lost = 1.0
        inside._compared_at = long_ago = -1e9
        flush(record)
        await until(lambda: inside._compared_at > long_ago)
        record.lost = 0.0
        await until(lambda: "c" not in node.contexts.live)
        assert "c" not in record._contexts


async def test_another_history_under_the_same_id_is_not_carried_over() -> None:
    record = MemoryRecord()
    async with node_on(record) as first, node_on(record) as second:
        await create(first)
        await ok(first, push(1, key="w/0"))
        flush(record)
        async with node_on(record) as third:
            await ok(third, Create(context="c", name="another"))
        await until(lambda: "c" not in first.contexts.live)
        await second.contexts.open("c")
        assert list_of(second) == []


async def test_what_waits_for_a_context_that_was_removed_and_made_again_ends_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node that heard nothing of either finds out when it appends."""
    monkeypatch.setattr(contexts_module, "COMPARE", 3600.0)
    record = MemoryRecord()
    async with node_on(record) as node:
        await create(node)
        await ok(node, push(1, key="w/1"))
        live, outbox = node.contexts.live["c"], KeptOutbox()
        live.audience.join(outbox, Viewer(patch=True, private=False, sees=lambda user: True))
        again = Writer("c", "E2")
        assert (await again.create(record, replace=True)).outcome is Outcome.APPENDED
        answers = await asyncio.gather(*(ask(node, push(n, key=f"w/{n}")) for n in range(2, 5)))
        assert [type(answer) for answer in answers] == [Removed] * 3
        assert [change["parts"] for change in outbox.of("change")] == [[{"kind": "closed", "reason": "removed"}]]
        assert "c" not in node.contexts.live
        assert await record.end("c") == (again.position, again.tip), "nothing is carried over"
        assert isinstance(await ask(node, push(5)), dict)
        assert list_of(node) == [5]


@pytest.mark.parametrize("seed", range(12))
async def test_random_histories_with_loss(seed: int) -> None:
    """As the model of the append has it: requests and answers get lost, clients retry elsewhere, nodes come and go, the record
    loses its last entries or everything. What a node answered that lives on is there once; all nodes are equal."""
    chance = random.Random(seed)
    record = LossyRecord(chance, lost=0.1, unanswered=0.1)
    async with three_on(record) as nodes, AsyncExitStack() as more:
        await create(nodes[0], key="create")
        answered: dict[int, Node] = {}
        asked: list[asyncio.Task[None]] = []

        async def write(node: Node, n: int) -> None:
            answer = await ask(node, push(n, key=f"k{n}"))
            if not isinstance(answer, HubError):
                answered.setdefault(n, node)
            else:
                assert not isinstance(answer, KeyExpired), answer

        for n in range(60):
            asked.append(asyncio.create_task(write(chance.choice(nodes), n)))
            if chance.random() < 0.2:
                asked.append(asyncio.create_task(write(chance.choice(nodes), n)))
            for _ in range(chance.randrange(6)):
                await asyncio.sleep(0)
            what = chance.random()
            if what < 0.08 and "c" in record._contexts:
                roll_back(record, "c", chance.randint(1, 3))
            elif what < 0.10:
                flush(record)
            elif what < 0.14:  # one more node, for good
                nodes.append(await more.enter_async_context(node_on(record)))
        await asyncio.wait_for(asyncio.gather(*asked), 20)
        record.lost = record.unanswered = 0.0
        for node in nodes:
            await node.contexts.open("c")
        await equal(nodes, record)
        await until(lambda: set(answered) <= set(list_of(nodes[0])))
        found = await equal(nodes, record)
        assert len(found) == len(set(found)), "applied twice"


async def test_a_client_that_is_past_the_end_shows_that_the_record_lost_something() -> None:
    """An older backup was restored while no node lived: positions that were told are not given out again in their epoch."""
    record = MemoryRecord()
    async with node_on(record) as node:
        await create(node)
        for n in range(3):
            await ok(node, push(n))
        told = await ok(node, push(3))
    roll_back(record, "c", 3)
    async with node_on(record) as node:
        live = await node.contexts.open("c")
        viewer = Viewer(patch=True, private=False, sees=lambda user: True)
        reasons, epochs = [], []
        for _ in range(3):
            body = Subscribe(topic="context:c", from_=From(epoch=told["epoch"], seq=told["seq"]))
            subscribed = await node.subscribing.subscribe(live, KeptOutbox(), viewer, body, lambda: True)
            assert subscribed is not None
            reply = subscribed[0]
            reasons.append(reply["reason"])
            epochs.append(reply["epoch"])
            assert (reply["recovered"], reply["seq"]) == (False, 2)
            told = {"epoch": reply["epoch"], "seq": 9}  # nobody can prove where it stands: one may make this up
        assert len(set(epochs)) == 1
        assert epochs[0] != live.born
        assert reasons == ["epoch_changed", "position_ahead", "position_ahead"]
        assert (await ok(node, push(9)))["seq"] == 3
