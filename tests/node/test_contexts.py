"""Live contexts over a record that loses requests and answers, and beside another node that writes the same contexts."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from hub.core.errors import Exists, HubError, NotFound, Removed, Unavailable
from hub.core.requests import Create, Remove
from hub.fanout.room import Viewer
from hub.node import contexts as contexts_module
from hub.node.node import Node
from hub.record.memory import MemoryRecord
from tests.node.support import ANN, KeptOutbox, LossyRecord, ask, create, incr, node_on, ok, push
from tests.support import until


def state_of(node: Node, id: str = "c") -> dict[str, Any]:
    document: dict[str, Any] = node.contexts.live[id].replica.state.document
    return document["state"]  # type: ignore[no-any-return]


async def test_group_commit() -> None:
    """What comes while an append is under way goes together in the next one, answers in order."""
    record = LossyRecord()
    async with node_on(record) as node:
        await create(node)
        before, answers = record.appended, list[Any]()
        live = node.contexts.live["c"]
        for n in range(100):
            node.contexts.submit(live, node.contexts.stamp(push(n), ANN), answers.append)
        await until(lambda: len(answers) == 100)
        assert [answer["seq"] for answer in answers] == list(range(2, 102))
        assert state_of(node)["l"] == list(range(100))
        assert record.appended - before <= 3


async def test_lost_requests_and_answers_apply_once(monkeypatch: pytest.MonkeyPatch) -> None:
    record = LossyRecord(random.Random(3), lost=0.2, unanswered=0.2)
    async with node_on(record) as node:
        await create(node, key="create")
        answers = await asyncio.gather(*(ok(node, push(n, key=f"w/{n}")) for n in range(1, 61)))
        assert sorted(answer["seq"] for answer in answers) == list(range(2, 62))
        assert sorted(state_of(node)["l"]) == list(range(1, 61))
    loaded = await record.load("c")
    assert loaded is not None
    assert sorted(loaded.state.document["state"]["l"]) == list(range(1, 61))


@pytest.mark.parametrize("seed", range(4))
async def test_two_nodes_write_the_same_context(seed: int) -> None:
    """Every answered request is in it once; both stand at the same end; viewers of both see every change in order."""
    chance = random.Random(seed)
    record = LossyRecord(chance, lost=0.05 * (seed % 2), unanswered=0.05 * (seed // 2))
    async with node_on(record) as first, node_on(record) as second:
        nodes = (first, second)
        await create(first)
        await second.contexts.open("c")
        outboxes = [KeptOutbox(), KeptOutbox()]
        for node, outbox in zip(nodes, outboxes, strict=True):
            live = await node.contexts.open("c")
            live.audience.join(outbox, Viewer(patch=True, private=True, sees=lambda user: True))

        async def write(name: str) -> list[str]:
            keys = []
            for n in range(1, 31):
                key = f"{name}/{n}"
                answer = await ask(chance.choice(nodes), push(key, key=key))
                assert not isinstance(answer, HubError), answer
                if chance.random() < 0.2:  # sent once more, perhaps elsewhere
                    again = await ask(chance.choice(nodes), push(key, key=key))
                    assert isinstance(again, dict)
                    assert (again["seq"], again.get("duplicate")) == (answer["seq"], True)
                keys.append(key)
            return keys

        written = await asyncio.gather(*(write(f"w{n}") for n in range(4)))
        ends = [await ok(node, incr(path=f"/end{n}")) for n, node in enumerate(nodes)]
        await ok(first, incr(path="/last"))  # so that it reads what the other wrote
        assert ends
        loaded = await record.load("c")
        assert loaded is not None
        values = loaded.state.document["state"]["l"]
        assert sorted(values) == sorted(key for keys in written for key in keys)
        for keys in written:
            assert [value for value in values if value in keys] == keys, "each writer's own order"
        assert state_of(first) == loaded.state.document["state"]
        await until(lambda: all(outbox.of("change") for outbox in outboxes))
        await asyncio.sleep(0)
        for outbox in outboxes:
            seqs = [event["seq"] for event in outbox.of("change")]
            assert seqs == list(range(2, seqs[-1] + 1)), "a gap, or a step back"


async def test_only_one_of_many_creations_wins() -> None:
    record = MemoryRecord()
    async with node_on(record) as first, node_on(record) as second:
        nodes = (first, second)
        bodies = [Create(context="c", name=str(n), key=f"w{n}/1") for n in range(10)]
        answers = await asyncio.gather(*(ask(nodes[n % 2], body) for n, body in enumerate(bodies)))
        won = [n for n, answer in enumerate(answers) if isinstance(answer, dict)]
        assert len(won) == 1
        assert all(isinstance(answer, Exists) for n, answer in enumerate(answers) if n not in won)
        for node in nodes:
            live = await node.contexts.open("c")
            assert live.replica.state.document["name"] == str(won[0])
            again = await ask(node, bodies[won[0]])
            assert isinstance(again, dict)
            assert again["duplicate"]


async def test_a_removal_elsewhere_ends_it_here() -> None:
    record = MemoryRecord()
    async with node_on(record) as first, node_on(record) as second:
        await create(first)
        live, outbox = await second.contexts.open("c"), KeptOutbox()
        live.audience.join(outbox, Viewer(patch=True, private=True, sees=lambda user: True))
        await ok(first, Remove(context="c"))
        assert isinstance(await ask(second, incr()), Removed | NotFound)  # it may have heard of it already
        assert isinstance(await ask(second, incr()), NotFound)
        await until(lambda: outbox.of("change"))
        assert outbox.of("change")[-1]["parts"][-1]["kind"] == "closed"
        assert not second.contexts.live
        await create(first)
        assert isinstance(await ask(second, incr()), dict)


async def test_requests_wait_for_a_creation_that_is_under_way() -> None:
    record = LossyRecord()
    async with node_on(record) as node:
        asked = [asyncio.create_task(create(node))]
        await until(lambda: "c" in node.contexts.live)
        asked += [asyncio.create_task(ok(node, push(n))) for n in range(5)]
        answers = await asyncio.gather(*asked)
        assert [answer["seq"] for answer in answers] == [1, 2, 3, 4, 5, 6]
        assert state_of(node)["l"] == [0, 1, 2, 3, 4]


async def test_a_creation_that_is_refused_leaves_nothing() -> None:
    async with node_on(MemoryRecord()) as node:
        asked = asyncio.create_task(ask(node, Create(context="c", name="x" * 500)))
        waiting = asyncio.create_task(ask(node, incr()))
        assert isinstance(await asked, HubError)
        assert isinstance(await waiting, NotFound)
        assert not node.contexts.live
        await create(node)


async def test_waiting_for_a_record_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts_module, "WAIT", 0.3)
    monkeypatch.setattr(contexts_module, "LOOK", 0.05)
    record = LossyRecord()
    told: list[bool] = []

    async def no_ping() -> float:
        raise Unavailable("away")

    async with node_on(record) as node:
        node.on_degraded = told.append
        await create(node)
        record.lost = 1.0
        monkeypatch.setattr(record, "ping", no_ping)
        answers = await asyncio.gather(*(ask(node, incr(key=f"w/{n}")) for n in range(1, 6)))
        assert all(isinstance(answer, Unavailable) for answer in answers)
        assert node.degraded
        record.lost = 0.0
        monkeypatch.undo()
        assert (await ok(node, incr(key="w/1")))["seq"] in (2, 6, 7)
        await until(lambda: not node.degraded)
        for n in range(1, 6):
            await ok(node, incr(key=f"w/{n}"))
        assert state_of(node) == {"n": 5}
        assert told == [True, False]


async def test_an_answer_that_raises_costs_the_others_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with node_on(MemoryRecord()) as node:
        await create(node)
        live, answers = node.contexts.live["c"], list[Any]()

        def broken(answer: Any) -> None:
            raise RuntimeError("a fault for the test")

        for done in (answers.append, broken, answers.append):
            node.contexts.submit(live, node.contexts.stamp(incr(), ANN), done)
        await until(lambda: len(answers) == 2)
        assert "a fault for the test" in caplog.text
        assert (await ok(node, incr()))["seq"] == 5


async def test_a_removal_that_is_tried_again_gets_its_first_outcome() -> None:
    """At the node that did it, at one that had the context live, and where it is not there any more."""
    record = MemoryRecord()
    async with node_on(record) as first, node_on(record) as second:
        await create(first)
        await second.contexts.open("c")
        remove = Remove(context="c", key="k")
        answers: list[Any] = []
        live = first.contexts.live["c"]
        for _ in range(2):
            first.contexts.submit(live, first.contexts.stamp(remove, ANN), answers.append)
        other = second.contexts.live["c"]
        second.contexts.submit(other, second.contexts.stamp(remove, ANN), answers.append)
        await until(lambda: len(answers) == 3)
        first.contexts.submit(live, first.contexts.stamp(remove, ANN), answers.append)
        assert all(not isinstance(answer, HubError) for answer in answers), answers
        assert len({(answer["epoch"], answer["seq"]) for answer in answers}) == 1
        assert [bool(answer.get("duplicate")) for answer in answers].count(False) == 1
        late: list[Any] = []
        second.contexts.submit(other, second.contexts.stamp(incr(), ANN), late.append)
        assert isinstance(late[0], Removed)
