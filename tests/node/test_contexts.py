"""Live contexts over a record that loses requests and answers, and beside another node that writes the same contexts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from hub.core.errors import Exists, HubError, NotFound, Removed, Unavailable
from hub.core.requests import Create, LogAdd, Remove
from hub.fanout.room import Viewer
from hub.node import contexts as contexts_module
from hub.node.live import FIRST_PIECE, LiveContext
from hub.node.node import Node
from hub.record.memory import MemoryRecord
from hub.record.port import Append, Appended, Outcome
from tests.node.support import ANN, KeptOutbox, LossyRecord, ask, create, incr, node_on, ok, push
from tests.record.writer import Writer, creation, put
from tests.support import until


class KeptAppends(LossyRecord):
    """Knows what was sent to it, also what got lost."""

    def __init__(self, chance: random.Random | None = None, *, lost: float = 0.0, unanswered: float = 0.0) -> None:
        super().__init__(chance, lost=lost, unanswered=unanswered)
        self.sent: list[Append] = []

    async def append(self, appends: Sequence[Append]) -> list[Appended]:
        self.sent += appends
        return await super().append(appends)


class SlowRecord(MemoryRecord):
    """Takes this node's appends when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.go.set()
        self.waiting = 0

    async def append(self, appends: Sequence[Append]) -> list[Appended]:
        self.waiting += 1
        await self.go.wait()
        self.waiting -= 1
        return await super().append(appends)

    async def append_at_once(self, append: Append) -> Appended:
        """What another node appends."""
        [appended] = await super().append([append])
        return appended


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


@pytest.mark.parametrize("key", [None, "w/1"])
async def test_a_request_whose_answer_was_lost_keeps_its_first_outcome(key: str | None) -> None:
    """Without a key too: the node finds its own entry in the record, and works nothing out again."""
    record = KeptAppends()
    async with node_on(record) as node:
        await create(node)
        before, record.unanswered = record.appended, 1.0
        asked = asyncio.create_task(ok(node, incr(key=key)))
        await until(lambda: record.appended > before)
        record.unanswered = 0.0
        answer = await asked
        assert (answer["seq"], "duplicate" in answer) == (2, False)
        assert state_of(node) == {"n": 1}
        first, *again = record.sent[1:]
        assert {append.entry.id for append in again} == {first.entry.id}
        end = await record.end("c")
        assert end is not None
        assert (end[0].seq, end[1]) == (2, first.entry.id)


@pytest.mark.parametrize("key", [None, "w/1"])
async def test_a_creation_whose_answer_was_lost_keeps_its_first_outcome(key: str | None) -> None:
    """``exists``, in the epoch that this node gave it: it is its own."""
    record = LossyRecord(unanswered=1.0)
    async with node_on(record) as node:
        asked = asyncio.create_task(create(node, name="mine", key=key))
        await until(lambda: record.appended)
        record.unanswered = 0.0
        answer = await asked
        assert (answer["seq"], "duplicate" in answer) == (1, False)
        assert node.contexts.live["c"].replica.state.document["name"] == "mine"
        assert await record.end("c") == (node.contexts.live["c"].replica.position, node.contexts.live["c"].tip)


async def test_a_try_after_one_that_was_stale_is_small() -> None:
    """The less there is to work out, the sooner it is there: so no node starves."""
    record, count = KeptAppends(), 100
    async with node_on(record) as node:
        await create(node)
        live, other, answers = node.contexts.live["c"], Writer("c"), list[Any]()
        loaded = await record.load("c")
        assert loaded is not None
        other.state, other.tip = loaded.state, loaded.tip
        await other.write(record, put("/state/x", 1))  # a node that is alone does not hear of it
        record.sent.clear()
        for n in range(count):
            node.contexts.submit(live, node.contexts.stamp(push(n), ANN), answers.append)
        await until(lambda: len(answers) == count)
        assert [len(append.entry.changes) for append in record.sent] == [count, FIRST_PIECE, count - FIRST_PIECE]
        assert state_of(node) == {"x": 1, "l": list(range(count))}


async def test_a_node_that_is_far_behind_reads_piece_by_piece_to_the_end() -> None:
    """Also if nothing waits there that would be tried again."""
    record = KeptAppends()
    async with node_on(record) as node:
        await create(node)
        live, other = node.contexts.live["c"], Writer("c")
        loaded = await record.load("c")
        assert loaded is not None
        other.state, other.tip = loaded.state, loaded.tip
        for n in range(200):
            await other.write(record, put("/state/x", n))
        record.sent.clear()
        await asyncio.wait_for(node.contexts.doubt(live), 5)
        assert (live.replica.position, live.tip) == (other.position, other.tip)
        assert len(record.sent) > 2
        assert not any(append.entry.changes for append in record.sent)


async def test_no_entry_id_has_two_contents() -> None:
    """What is worked out again, after others' entries, is another entry."""
    record = KeptAppends(random.Random(5), lost=0.1, unanswered=0.1)
    async with node_on(record) as first, node_on(record) as second:
        await create(first)
        await second.contexts.open("c")

        async def write(node: Node, name: str) -> None:
            for n in range(1, 31):
                await ok(node, push(f"{name}/{n}", key=f"{name}/{n}"))

        await asyncio.gather(write(first, "a"), write(second, "b"), write(first, "c"), write(second, "d"))
    contents: dict[str, list[Any]] = {}
    for append in record.sent:
        place = [append.entry.before, [(str(change.position), change.parts) for change in append.entry.changes]]
        assert contents.setdefault(append.entry.id, place) == place
    positions = [append.position for append in record.sent if append.entry.changes]
    assert len({append.entry.id for append in record.sent}) > len(set(positions)), "nothing was worked out again"


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


async def test_a_creation_that_is_asked_of_two_nodes_at_once_is_one() -> None:
    """Who comes second finds the key in the context that is there."""
    record = MemoryRecord()
    async with node_on(record) as first, node_on(record) as second:
        answers = await asyncio.gather(*(create(node, key="w/1") for node in (first, second)))
        assert {(answer["epoch"], answer["seq"]) for answer in answers} == {(answers[0]["epoch"], 1)}
        assert sorted("duplicate" in answer for answer in answers) == [False, True]


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


async def test_a_creation_is_not_refused_because_of_what_was_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It found a context in its way that another node removes meanwhile."""
    record = MemoryRecord()
    async with node_on(record) as first, node_on(record) as second:
        await create(first)
        live = await second.contexts.open("c")
        await until(lambda: not second.lag)
        monkeypatch.setattr(LiveContext, "heard", lambda *told: None)
        await ok(first, Remove(context="c"))
        assert live.closed is None
        answer = await create(second, name="new")
        assert answer["seq"] == 1
        assert second.contexts.live["c"].replica.state.document["name"] == "new"


async def test_a_creation_begins_again_if_what_was_in_its_way_is_gone_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record = MemoryRecord()
    async with node_on(record) as first, node_on(record) as second:
        await create(first)
        load, second_load = record.load, asyncio.Event()

        async def removed_first(id: str) -> Any:
            if not second_load.is_set() and id == "c" and "c" in second.contexts.live:
                second_load.set()
                await ok(first, Remove(context="c"))
            return await load(id)

        monkeypatch.setattr(record, "load", removed_first)
        live = second.contexts.begin("c")
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        request = second.contexts.stamp(Create(context="c", name="new"), ANN)
        second.contexts.submit(live, request, answer.set_result)
        assert (await asyncio.wait_for(answer, 5))["seq"] == 1
        assert second_load.is_set()
        assert second.contexts.live["c"].replica.state.document["name"] == "new"


async def test_requests_wait_for_a_creation_that_is_under_way() -> None:
    record = LossyRecord()
    async with node_on(record) as node:
        asked = [asyncio.create_task(create(node))]
        await until(lambda: "c" in node.contexts.live)
        asked += [asyncio.create_task(ok(node, push(n))) for n in range(5)]
        answers = await asyncio.gather(*asked)
        assert [answer["seq"] for answer in answers] == [1, 2, 3, 4, 5, 6]
        assert state_of(node)["l"] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("wins", [True, False])
async def test_nobody_sees_a_context_whose_creation_is_under_way(wins: bool) -> None:
    """What others ask of it waits, and is about the context that the record has then."""
    record = SlowRecord()
    async with node_on(record) as node:
        record.go.clear()
        asked = asyncio.create_task(ask(node, Create(context="c", name="mine")))
        await until(lambda: record.waiting)
        assert list(node.contexts) == []
        opening = asyncio.create_task(node.contexts.open("c"))
        assert await node.broadcasts.broadcast("b", LogAdd(type="info"), None) == 0
        assert not opening.done()
        if not wins:
            other = Writer("c").append(creation("c", "E1", name="another's"))
            assert (await record.append_at_once(other)).outcome is Outcome.APPENDED
        record.go.set()
        assert isinstance(await asked, dict if wins else Exists)
        live = await opening
        assert live.replica.state.document["name"] == ("mine" if wins else "another's")
        assert live.replica.state.log.length == 0
        assert list(node.contexts) == [live]


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
