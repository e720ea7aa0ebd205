"""Two nodes on one record: any of them starts what waits, and a run goes on where its worker is."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import pytest

from hub.core.errors import HubError, Unavailable
from hub.core.requests import (
    AnyBody,
    Apply,
    Author,
    Control,
    Message,
    Remove,
    Role,
    RunOpen,
    RunRef,
    RunSet,
    Update,
)
from hub.core.runs import active_run
from hub.node import dispatch as dispatch_module
from hub.node import mirroring as mirroring_module
from hub.node import offers as offers_module
from hub.node.node import Node
from hub.node.settings import Settings
from hub.record import memory_extras
from hub.record.memory import MemoryRecord
from hub.record.port import Appended, Beat, Work
from tests.node.support import ask, create, ok
from tests.support import until

GRACE = 0.4
DEAD = 0.3
SOON = 3.0
"""Seconds that are less than what it takes until an item comes again: what happens within needed no second try."""
BOT = Author("bot", Role.AGENT)


class Worker:
    """A worker that keeps what it is told."""

    agent = "bot"
    gone = False
    attempts = 1
    version: str | None = None

    def __init__(self, name: str, capacity: int = 1) -> None:
        self.name = name
        self.capacity = capacity
        self.runs: list[dict[str, Any]] = []
        self.orders: list[dict[str, Any]] = []
        self.answer: dict[str, Any] = {"ok": True}

    def covers(self, context: str) -> bool:
        return True

    async def start(self, run: dict[str, Any]) -> dict[str, Any]:
        self.runs.append(run)
        return self.answer

    async def control(self, order: dict[str, Any]) -> None:
        self.orders.append(order)


class Nodes:
    """Nodes on one record, which see each other's death soon."""

    def __init__(self, record: MemoryRecord, stack: AsyncExitStack) -> None:
        self.record = record
        self._stack = stack
        self._asleep: set[str] = set()
        self._beat = record.beat
        record.beat = self._beat_if_awake  # type: ignore[method-assign]

    async def _beat_if_awake(self, node: str, info: dict[str, Any]) -> dict[str, Beat]:
        if node in self._asleep:
            raise Unavailable("asleep")
        return await self._beat(node, info)

    @contextmanager
    def no_beats(self, *names: str) -> Iterator[None]:
        """Let nodes show no beats for as long as the block lasts."""
        self._asleep.update(names)
        try:
            yield
        finally:
            self._asleep.difference_update(names)

    async def join(self, name: str, grace: float = GRACE) -> Node:
        node = Node(self.record, Settings(run_grace=grace, stop_grace=GRACE), name=name)
        presence: Any = node.presence
        presence._every, presence._dead_after, presence._late = 0.03, DEAD, 0.2
        await node.start()
        self._stack.push_async_callback(node.close)
        return node

    async def kill(self, node: Node) -> None:
        """Let a node do nothing more, without a word."""
        internals: Any = node
        tasks = [internals.presence._task, *internals.dispatch._loops.values(), *internals.contexts._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for timer in internals.dispatch._runs.ends._timers.values():
            timer.cancel()
        internals.contexts._ended = True
        await internals.hearing._following.close()


@pytest.fixture
async def nodes() -> AsyncIterator[Nodes]:
    async with AsyncExitStack() as stack:
        yield Nodes(MemoryRecord(), stack)


@pytest.fixture
async def a(nodes: Nodes) -> Node:
    return await nodes.join("a")


@pytest.fixture
async def b(nodes: Nodes, a: Node) -> Node:
    return await nodes.join("b")


async def say(node: Node, text: str = "hello", context: str = "c") -> None:
    """A message as people send it: offered first."""
    await node.dispatch.offer_first(await node.contexts.open(context))
    await ok(node, Message(context=context, text=text))


async def document(node: Node, context: str = "c") -> dict[str, Any]:
    live = await node.contexts.open(context)
    await node.contexts.compare([live])
    return dict(live.replica.state.document)


async def run_is(node: Node, status: str, where: str | None = None, context: str = "c") -> dict[str, Any]:
    """The run, once a node sees that it has a status, and is there."""
    live = await node.contexts.open(context)

    def fits() -> dict[str, Any] | None:
        run = live.replica.state.document["run"]
        return dict(run) if run and run["status"] == status and where in (None, run["node"]) else None

    found: dict[str, Any] = await until(fits, f"a run that is {status}")
    return found


def ref_of(start: dict[str, Any]) -> RunRef:
    return RunRef(**start["run"])


async def set_status(node: Node, run: RunRef, status: Any, context: str = "c") -> Any:
    return await ask(node, Apply(context=context, ops=[RunSet(status)], run=run), BOT)


async def started(node: Node, worker: Worker, at: Node | None = None) -> RunRef:
    """A run of a worker at ``node``, for a message that came in at ``at``."""
    await node.dispatch.serve(worker, [])
    await say(at or node)
    await until(lambda: worker.runs, "a run")
    ref = ref_of(worker.runs[-1])
    await set_status(node, ref, "running")
    return ref


async def notes(nodes: Nodes, node: Node, expected: list[str]) -> None:
    async def fit() -> bool:
        return await nodes.record.runs_of(node.name) == expected

    await until(fit, f"notes {expected} of {node.name}")


# work


async def test_any_node_with_room_takes_what_waits(nodes: Nodes, a: Node, b: Node) -> None:
    await create(a, "c", agent="bot")
    worker = Worker("w")
    await b.dispatch.serve(worker, [])
    await say(a)
    await until(lambda: worker.runs, seconds=SOON)
    run = await run_is(a, "starting", "b")
    assert (run["worker"], run["node"]) == ("w", "b")
    assert await nodes.record.runs_of("b") == ["c"]
    assert (a.dispatch.runs, b.dispatch.runs) == (0, 1)
    await say(a, "next")
    await set_status(a, ref_of(worker.runs[0]), "finished")
    await until(lambda: len(worker.runs) == 2, seconds=SOON)
    assert worker.runs[1]["messages"][0]["text"] == "next"
    await set_status(b, ref_of(worker.runs[1]), "finished")
    await notes(nodes, b, [])
    assert b.dispatch.runs == 0


async def test_the_worker_that_had_a_context_last_has_it_next(nodes: Nodes, a: Node) -> None:
    await create(a, "c", agent="bot")
    workers = [Worker(f"w{n}", 10) for n in range(5)]
    first = workers[3]
    await started(a, first)
    await set_status(a, ref_of(first.runs[0]), "finished")
    for worker in workers:
        await a.dispatch.serve(worker, [])
    for n in range(5):
        await create(a, f"other{n}", agent="bot")
        a.dispatch._runs.hold(f"other{n}", first)  # it has less room than all others
    await say(a)
    await until(lambda: len(first.runs) == 2, seconds=SOON)
    assert not [worker for worker in workers if worker is not first and worker.runs]


async def test_a_worker_that_did_not_take_a_run_comes_after_those_that_may(
    nodes: Nodes, a: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it had the context last, and once it is given work again."""
    monkeypatch.setattr(dispatch_module, "REST_SECONDS", 0.05)
    await create(a, "c", agent="bot")
    silent, other = Worker("silent", 10), Worker("other", 2)
    silent.answer = {"ok": False, "error": Unavailable("no answer").to_wire()}
    await started(a, silent)
    await until(lambda: silent not in a.dispatch._workers.resting)
    await create(a, "d", agent="bot")
    await a.dispatch.serve(other, [])
    a.dispatch._runs.hold("d", other)
    await until(lambda: other.runs, seconds=SOON)
    assert (len(silent.runs), other.runs[0]["attempt"]) == (1, 2)
    silent.answer = {"ok": True}
    a.dispatch.gone(other)
    await create(a, "e", agent="bot")
    await say(a, context="e")
    await until(lambda: silent.runs[-1]["context"] == "e", seconds=SOON)
    await until(lambda: silent not in a.dispatch._workers.doubted)


async def test_a_run_says_how_often_its_message_is_tried_and_of_which_version_its_agent_is(
    nodes: Nodes, a: Node, b: Node
) -> None:
    await create(a, "c", agent="bot")
    first, second = Worker("w1"), Worker("w2")
    first.attempts = second.attempts = 2
    first.version = "1.2"
    await started(a, first)
    run = await run_is(b, "running")
    assert (run["attempt"], run["attempts"], run["version"]) == (1, 2, "1.2")
    a.dispatch.gone(first)
    await b.dispatch.serve(second, [])
    await until(lambda: second.runs, "another attempt")
    assert second.runs[0]["attempt"] == 2
    await run_is(a, "starting", "b")
    b.dispatch.gone(second)
    run = await run_is(a, "interrupted")
    assert [item["text"] for item in run["messages"]] == ["hello"]
    assert (await document(a))["queue"] == []


async def test_an_item_is_deleted_once_its_context_shows_a_run(nodes: Nodes, a: Node) -> None:
    done, shown = nodes.record.done, list[Any]()

    async def look(work: Work) -> None:
        loaded = await nodes.record.load(work.context)
        assert loaded is not None
        shown.append(loaded.state.document["run"])
        await done(work)

    nodes.record.done = look  # type: ignore[method-assign]
    await create(a, "c", agent="bot")
    ref = await started(a, Worker("w"))
    await until(lambda: not nodes.record._work._items["bot"])
    [run] = shown
    assert (run["id"], run["status"], run["node"]) == (ref.id, "starting", "a")


async def test_many_messages_at_both_nodes_are_each_handled_once(nodes: Nodes, a: Node, b: Node) -> None:
    workers = [(a, Worker("wa", 3)), (b, Worker("wb", 3))]
    for n in range(8):
        await create((a, b)[n % 2], f"c{n}", agent="bot")
    finishing: set[asyncio.Task[Any]] = set()
    for node, worker in workers:

        async def start(run: dict[str, Any], node: Node = node, worker: Worker = worker) -> dict[str, Any]:
            worker.runs.append(run)
            task = asyncio.create_task(set_status(node, ref_of(run), "finished", run["context"]))
            finishing.add(task)
            task.add_done_callback(finishing.discard)
            return {"ok": True}

        worker.start = start  # type: ignore[method-assign]
        await node.dispatch.serve(worker, [])
    await asyncio.gather(*(say((a, b)[m % 2], f"{n} {m}", f"c{n}") for n in range(8) for m in range(6)))
    texts = [f"{n} {m}" for n in range(8) for m in range(6)]

    def handled() -> list[str]:
        return [message["text"] for _, worker in workers for run in worker.runs for message in run["messages"]]

    await until(lambda: len(handled()) >= len(texts), "all runs")
    await until(lambda: not finishing)
    assert sorted(handled()) == sorted(texts)
    assert all(worker.runs for _, worker in workers)
    for node in (a, b):
        await notes(nodes, node, [])
        assert node.dispatch.runs == 0


async def test_an_item_that_comes_before_its_message_is_no_loss_of_time(nodes: Nodes, a: Node, b: Node) -> None:
    await create(a, "c", agent="bot")
    worker = Worker("w")
    await b.dispatch.serve(worker, [])
    live = await a.contexts.open("c")
    await a.dispatch.offer_first(live)
    early: Any = b.dispatch
    await until(lambda: "c" in early._early, "the item at the other node")
    await ok(a, Message(context="c", text="hello"))
    await until(lambda: worker.runs, seconds=SOON)
    assert not early._early


async def test_an_item_with_nothing_behind_it_is_dropped_and_its_message_offered_anew(
    nodes: Nodes, a: Node, b: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name, seconds in (
        (memory_extras, "AGAIN_SECONDS", 0.1),
        (dispatch_module, "DROP_AFTER", 0.3),
        (offers_module, "AHEAD", 0.1),
    ):
        monkeypatch.setattr(module, name, seconds)
    await create(a, "c", agent="bot")
    worker = Worker("w")
    await b.dispatch.serve(worker, [])
    await a.dispatch.offer_first(await a.contexts.open("c"))
    await until(lambda: nodes.record._work._items["bot"])
    await until(lambda: not nodes.record._work._items["bot"], "the item's end")
    await say(a)
    await until(lambda: worker.runs, seconds=SOON)


async def test_an_item_is_not_dropped_by_a_node_that_did_not_hear_of_its_message(
    nodes: Nodes, a: Node, b: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_extras, "AGAIN_SECONDS", 0.1)
    monkeypatch.setattr(dispatch_module, "DROP_AFTER", 0.0)
    await create(a, "c", agent="bot")
    await b.contexts.open("c")
    b.hearing.drop(b.contexts.live["c"])
    await ok(a, Message(context="c", text="hello"))
    worker = Worker("w")
    await b.dispatch.serve(worker, [])
    await until(lambda: worker.runs, seconds=SOON)


async def test_an_agent_that_changes_takes_its_messages_along(nodes: Nodes, a: Node, b: Node) -> None:
    await create(a, "c", agent="nobody")
    await say(a)
    worker = Worker("w")
    await b.dispatch.serve(worker, [])
    await ok(a, Update(context="c", agent="bot"))
    await until(lambda: worker.runs, seconds=SOON)


async def test_a_node_that_drains_starts_nothing(nodes: Nodes, a: Node, b: Node) -> None:
    await create(a, "c", agent="bot")
    here, there = Worker("wa"), Worker("wb")
    await a.dispatch.serve(here, [])
    await until(lambda: nodes.record._work._waiting["bot"], "that it takes already")
    a.dispatch.draining = True
    await say(a)
    await b.dispatch.serve(there, [])
    await until(lambda: there.runs, seconds=SOON)
    assert here.runs == []
    a.dispatch.draining = False
    await create(a, "d", agent="bot")
    await say(a, context="d")
    await until(lambda: here.runs, seconds=SOON)


async def test_a_start_whose_answer_is_lost_is_one_start(monkeypatch: pytest.MonkeyPatch) -> None:
    class Record(MemoryRecord):
        lost = 0

        async def append(self, appends: Any) -> list[Appended]:
            outcomes = await super().append(appends)
            if self.lost and any("start/" in str(append.entry.changes) for append in appends):
                self.lost -= 1
                raise Unavailable("its answer was lost")
            return outcomes

    monkeypatch.setattr("hub.node.contexts.WAIT", 0.05)  # so that the request itself is answered Unavailable
    async with AsyncExitStack() as stack:
        record = Record()
        node = await Nodes(record, stack).join("a")
        await create(node, "c", agent="bot")
        worker = Worker("w")
        await node.dispatch.serve(worker, [])
        record.lost = 3
        await say(node)
        await until(lambda: worker.runs)
        assert record.lost == 0
        assert worker.runs[0]["run"]["fence"] == 1
        await set_status(node, ref_of(worker.runs[0]), "finished")
        assert len(worker.runs) == 1


async def test_a_worker_that_goes_while_its_run_starts_leaves_the_message_waiting(nodes: Nodes, a: Node) -> None:
    await create(a, "c", agent="bot")
    worker, other = Worker("w"), Worker("w2")
    await a.dispatch.serve(worker, [])
    append = nodes.record.append

    async def goes(appends: Any) -> list[Appended]:
        outcomes = await append(appends)
        if not worker.gone and any("start/" in str(append.entry.changes) for append in appends):
            a.dispatch.gone(worker)
        return outcomes

    nodes.record.append = goes  # type: ignore[method-assign]
    await say(a)
    await until(lambda: worker.gone)
    await a.dispatch.serve(other, [])
    await until(lambda: other.runs, seconds=SOON)
    assert worker.runs == []
    assert (other.runs[0]["attempt"], other.runs[0]["messages"][0]["text"]) == (2, "hello")


async def test_an_item_that_comes_again_after_its_run_starts_the_next_one(nodes: Nodes, a: Node) -> None:
    """It could not be forgotten when its run began, and says nothing of the messages since."""
    await create(a, "c", agent="bot")
    worker = Worker("w")
    await a.dispatch.serve(worker, [])
    work: list[Work] = []
    take = nodes.record.take

    async def keep(agent: str, node: str, wait: float) -> Work | None:
        item = await take(agent, node, wait)
        work.extend([item] if item is not None else [])
        return item

    nodes.record.take = keep  # type: ignore[method-assign]
    await say(a)
    await until(lambda: worker.runs)
    await set_status(a, ref_of(worker.runs[0]), "finished")
    a.dispatch.draining = True
    await say(a, "next")
    a.dispatch.draining = False
    inside: Any = a.dispatch
    inside._early.clear()
    nodes.record._work._items.clear()
    await inside._start(work[0])
    await until(lambda: len(worker.runs) == 2, seconds=SOON)
    assert worker.runs[1]["messages"][0]["text"] == "next"


async def test_an_offer_that_the_record_did_not_take_is_made_again(nodes: Nodes, a: Node) -> None:
    """Behind the end of a run nobody asks again."""
    worker = Worker("w")
    await create(a, "c", agent="bot")
    ref = await started(a, worker)
    await say(a, "next")
    offer, refusals = nodes.record.offer, [1, 2, 3]

    async def away(agent: str, context: str) -> None:
        if refusals:
            refusals.pop()
            raise Unavailable("away")
        await offer(agent, context)

    nodes.record.offer = away  # type: ignore[method-assign]
    nodes.record._work._items.clear()
    inside: Any = a.dispatch
    inside._early.clear()
    await set_status(a, ref, "finished")
    await until(lambda: len(worker.runs) == 2, seconds=SOON)
    assert not refusals


# runs that move


async def test_a_run_goes_on_where_its_worker_comes_back(nodes: Nodes, a: Node, b: Node) -> None:
    await create(a, "c", agent="bot")
    worker = Worker("w")
    ref = await started(a, worker)
    a.dispatch.gone(worker)
    back = Worker("w2")
    assert await b.dispatch.serve(back, [("c", ref)]) == []
    run = await run_is(a, "running", "b")
    assert (run["id"], run["fence"], run["worker"]) == (ref.id, ref.fence, "w2")
    await notes(nodes, a, [])
    assert await nodes.record.runs_of("b") == ["c"]
    await asyncio.sleep(2 * GRACE)  # the grace must be over without an effect
    assert active_run(await document(b))
    assert (worker.orders, back.orders, back.runs) == ([], [], [])
    assert not isinstance(await set_status(b, ref, "finished"), HubError)
    await until(lambda: b.dispatch.runs == 0)


async def test_who_had_it_before_must_not_go_on(nodes: Nodes, a: Node, b: Node) -> None:
    """Its old connection is still there; the new one came first."""
    await create(a, "c", agent="bot")
    worker, back = Worker("w"), Worker("w2")
    ref = await started(a, worker)
    await b.dispatch.serve(back, [("c", ref)])
    await until(lambda: worker.orders)
    assert worker.orders == [{"context": "c", "run": {"id": ref.id, "fence": ref.fence}, "action": "stop"}]
    assert (a.dispatch.runs, b.dispatch.runs) == (0, 1)
    a.dispatch.gone(worker)
    await asyncio.sleep(2 * GRACE)
    assert active_run(await document(b))
    assert back.orders == []


async def test_the_same_worker_at_another_node_is_not_told_to_stop(nodes: Nodes, a: Node, b: Node) -> None:
    await create(a, "c", agent="bot")
    worker = Worker("w")
    ref = await started(a, worker)
    await b.dispatch.serve(worker, [("c", ref)])
    await until(lambda: a.dispatch.runs == 0)
    await say(a, context="c")  # what it was told would have come before this is done
    assert worker.orders == []


async def test_a_run_that_is_over_or_anothers_does_not_move(nodes: Nodes, a: Node, b: Node) -> None:
    await create(a, "c", agent="bot")
    worker = Worker("w", 2)
    ref = await started(a, worker)
    late = Worker("w2", 0)
    wrong = [("c", RunRef(ref.id, ref.fence + 1)), ("c", RunRef("other", ref.fence)), ("none", ref)]
    lost = await b.dispatch.serve(late, wrong)
    assert [(item["context"], item["run"]) for item in lost] == [
        (context, {"id": run.id, "fence": run.fence}) for context, run in wrong
    ]
    assert (a.dispatch.runs, b.dispatch.runs) == (1, 0)
    await notes(nodes, b, [])
    await set_status(a, ref, "finished")
    assert len(await b.dispatch.serve(late, [("c", ref)])) == 1
    assert worker.orders == []


async def test_a_worker_that_comes_back_too_late_has_lost(nodes: Nodes, a: Node, b: Node) -> None:
    await create(a, "c", agent="bot")
    worker = Worker("w")
    ref = await started(a, worker)
    a.dispatch.gone(worker)
    await run_is(b, "interrupted")
    assert len(await b.dispatch.serve(Worker("w2"), [("c", ref)])) == 1
    await notes(nodes, a, [])


async def test_an_end_that_names_the_node_before_does_not_end_what_moved(nodes: Nodes, a: Node, b: Node) -> None:
    """The grace at the old node is over in the moment in which the run moves: who appends first wins."""
    await create(a, "c", agent="bot")
    worker = Worker("w")
    ref = await started(a, worker)
    a.hearing.drop(a.contexts.live["c"])  # it hears of it no more
    assert await b.dispatch.serve(Worker("w2"), [("c", ref)]) == []
    a.dispatch.gone(worker)
    await asyncio.sleep(2 * GRACE)
    assert active_run(await document(b))
    await until(lambda: (a.contexts.live["c"].replica.state.document["run"]["node"]) == "b")


async def open_run(node: Node, worker: Worker) -> RunRef:
    """A run of a worker's own, always asked for by the same request."""
    body: AnyBody = RunOpen(context="c", key="w/1")
    live = await node.contexts.open("c")
    await node.dispatch.expect("c")
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def done(given: Any) -> None:
        node.dispatch.opened("c", given, worker)
        answer.set_result(given)

    node.contexts.submit(live, node.contexts.stamp(body, BOT, node=node.name), done)
    return RunRef(**(await answer)["run"])


async def test_a_worker_that_goes_while_its_own_run_moves_is_missed(nodes: Nodes, a: Node, b: Node) -> None:
    await create(a, "c", agent="bot")
    first, second = Worker("w1", 0), Worker("w2", 0)
    await open_run(a, first)
    await open_run(b, second)
    b.dispatch.gone(second)
    await run_is(a, "running", "b")
    assert "went away" in (await run_is(a, "interrupted", "b"))["error"]
    assert (a.dispatch.runs, b.dispatch.runs) == (0, 0)


async def test_a_run_of_ones_own_that_is_asked_for_again_elsewhere(nodes: Nodes, a: Node, b: Node) -> None:
    """The answer was lost with the first node's connection: the same request gives the same run, at the other node."""
    await create(a, "c", agent="bot")
    first, second = Worker("w1", 0), Worker("w2", 0)
    ref = await open_run(a, first)
    assert (await run_is(b, "running", "a"))["worker"] == "bot"
    assert await nodes.record.runs_of("a") == ["c"]
    assert await open_run(b, second) == ref
    assert (await run_is(a, "running", "b"))["worker"] == "w2"
    await until(lambda: (a.dispatch.runs, b.dispatch.runs) == (0, 1))
    await notes(nodes, a, [])
    a.dispatch.gone(first)
    await asyncio.sleep(2 * GRACE)
    assert active_run(await document(b))


# controls


async def test_a_stop_reaches_the_worker_wherever_it_is(nodes: Nodes, a: Node, b: Node) -> None:
    await create(a, "c", agent="bot")
    worker = Worker("w")
    ref = await started(a, worker)
    await b.contexts.open("c")
    await ok(b, Control(context="c", action="stop"))
    await until(lambda: worker.orders, seconds=SOON)
    assert worker.orders == [{"context": "c", "run": {"id": ref.id, "fence": ref.fence}, "action": "stop"}]
    assert (await document(b))["run"]["status"] == "stopping"
    await set_status(a, ref, "stopped")
    await run_is(b, "stopped")
    await until(lambda: a.dispatch.runs == 0)
    assert len(worker.orders) == 1


async def test_a_stop_that_is_not_obeyed_elsewhere(nodes: Nodes, a: Node, b: Node) -> None:
    await create(a, "c", agent="bot")
    await started(a, Worker("w"))
    await ok(b, Control(context="c", action="stop"))
    run = await run_is(b, "stopped")
    assert "did not stop in time" in run["error"]


async def test_a_stop_while_the_worker_is_away_from_the_other_node(nodes: Nodes, a: Node, b: Node) -> None:
    await create(a, "c", agent="bot")
    worker = Worker("w")
    await started(a, worker)
    a.dispatch.gone(worker)
    await ok(b, Control(context="c", action="stop"))
    assert "was away" in (await run_is(b, "stopped"))["error"]


async def test_a_stop_that_waits_for_the_worker_moves_with_it(nodes: Nodes, a: Node, b: Node) -> None:
    await create(a, "c", agent="bot")
    worker, back = Worker("w"), Worker("w2")
    ref = await started(a, worker)
    await ok(b, Control(context="c", action="stop"))
    await until(lambda: worker.orders)
    assert await b.dispatch.serve(back, [("c", ref)]) == []
    await until(lambda: back.orders, seconds=SOON)
    assert "did not stop in time" in (await run_is(a, "stopped"))["error"]


async def test_what_others_end_goes_on_nowhere(nodes: Nodes, a: Node, b: Node) -> None:
    bodies: list[AnyBody] = [Control(context="c0", action="reset"), Remove(context="c1")]
    for n, body in enumerate(bodies):
        await create(a, f"c{n}", agent="bot")
        worker = Worker(f"w{n}")
        worker.agent = f"bot{n}"
        await ok(a, Update(context=f"c{n}", agent=f"bot{n}"))
        await a.dispatch.serve(worker, [])
        await say(a, context=f"c{n}")
        await until(lambda: worker.runs)  # noqa: B023 - waited for right here
        await ok(b, body)
        await until(lambda: worker.orders, seconds=SOON)  # noqa: B023
        assert worker.orders[0]["action"] == "stop"
        await until(lambda: a.dispatch.runs == 0)
    await notes(nodes, a, [])


# nodes that are gone


async def test_the_runs_of_a_dead_node_are_interrupted(nodes: Nodes, a: Node, b: Node) -> None:
    await create(a, "c", agent="bot")
    ref = await started(a, Worker("w"))
    assert "c" not in b.contexts.live
    await nodes.kill(a)
    await until(lambda: "c" in b.contexts.live, "what it left behind")
    run = await run_is(b, "interrupted")
    assert "went away" in run["error"]
    assert len(await b.dispatch.serve(Worker("w2", 0), [("c", ref)])) == 1
    assert await nodes.record.runs_of("a") == []
    await ok(b, Control(context="c", action="nudge"))
    back = Worker("w3")
    await b.dispatch.serve(back, [])
    await until(lambda: back.runs)
    assert back.runs[0]["attempt"] == 2


async def test_a_run_outlives_its_node(nodes: Nodes, a: Node, b: Node) -> None:
    await create(a, "c", agent="bot")
    ref = await started(a, Worker("w"))
    await nodes.kill(a)
    back = Worker("w2")
    assert await b.dispatch.serve(back, [("c", ref)]) == []
    await until(lambda: b.presence.alone)
    await asyncio.sleep(2 * GRACE)
    run = active_run(await document(b))
    assert run is not None
    assert (run["id"], run["fence"], run["node"]) == (ref.id, ref.fence, "b")
    assert back.orders == []
    await set_status(b, ref, "finished")
    await notes(nodes, b, [])


async def test_a_stop_of_a_run_whose_node_died_ends_it(nodes: Nodes, a: Node, b: Node) -> None:
    await create(a, "c", agent="bot")
    await started(a, Worker("w"))
    await b.contexts.open("c")
    await nodes.kill(a)
    await ok(b, Control(context="c", action="stop"))
    await run_is(b, "stopped")


async def test_a_run_of_a_node_that_lives_is_left_alone(nodes: Nodes, a: Node, b: Node) -> None:
    """A third node comes, another one dies: neither is about this run."""
    await create(a, "c", agent="bot")
    await started(a, Worker("w"))
    third = await nodes.join("c")
    await third.contexts.open("c")
    await nodes.kill(b)
    await until(lambda: a.presence.others == ["c"] and third.presence.others == ["a"])
    await asyncio.sleep(2 * GRACE)
    run = active_run(await document(third))
    assert run is not None
    assert run["node"] == "a"
    others: Any = third.dispatch._runs
    assert len(others.ends) == 0


@pytest.mark.parametrize("found", ["when it dies", "at a start"])
async def test_hashes_that_a_dead_node_left_behind_are_written_by_one_node(
    nodes: Nodes, a: Node, monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    monkeypatch.setattr(mirroring_module, "STILL", 0.1)
    others = [await nodes.join(name) for name in ("b", "c") if found == "when it dies"]
    inside: Any = a.mirroring
    inside._task.cancel()
    await create(a, "x")
    await nodes.kill(a)
    if not others:
        await nodes.record.leave("a")  # nobody knows of it any more
        others = [await nodes.join("b")]

    async def written() -> bool:
        return await nodes.record.mirrored(["x"]) == [(1, {})]

    await until(written)
    assert [node.name for node in others if "x" in node.contexts.live] == ["b"]


async def test_what_a_dead_node_was_about_to_offer_is_offered(nodes: Nodes, a: Node, b: Node) -> None:
    """It died between the end of a run and the offer of the next message, and the hashes are not behind."""
    await create(a, "c", agent="bot")
    worker = Worker("w")
    ref = await started(a, worker)
    await b.contexts.open("c")
    await say(a, "next")
    a.dispatch.gone(worker)

    async def never(agent: str, context: str) -> None:
        await asyncio.sleep(3600)

    offer, nodes.record.offer = nodes.record.offer, never  # type: ignore[method-assign]
    nodes.record._work._items.clear()
    await set_status(a, ref, "finished")
    await nodes.kill(a)
    nodes.record.offer = offer  # type: ignore[method-assign]
    back = Worker("w2")
    await b.dispatch.serve(back, [])
    await until(lambda: back.runs)
    assert back.runs[0]["messages"][0]["text"] == "next"


async def test_after_a_clean_end_the_worker_has_its_grace(nodes: Nodes, a: Node) -> None:
    await create(a, "c", agent="bot")
    ref = await started(a, Worker("w"))
    await create(a, "d", agent="bot2")
    await a.close()
    assert await nodes.record.runs_of("a") == ["c"]
    await asyncio.sleep(2 * GRACE)  # nobody was there, so this does not count
    b = await nodes.join("b")
    assert active_run(await document(b))
    back = Worker("w2")
    assert await b.dispatch.serve(back, [("c", ref)]) == []
    await asyncio.sleep(2 * GRACE)
    assert active_run(await document(b))


async def test_after_a_clean_end_a_worker_that_does_not_come_is_missed(nodes: Nodes, a: Node) -> None:
    await create(a, "c", agent="bot")
    await started(a, Worker("w"))
    await a.close()
    b = await nodes.join("b")
    await until(lambda: "c" in b.contexts.live, "what was left behind")
    await run_is(b, "interrupted")


async def test_a_node_that_comes_back_under_its_name_finds_its_runs(nodes: Nodes, a: Node) -> None:
    await create(a, "c", agent="bot")
    ref = await started(a, Worker("w"))
    await create(a, "d", agent="bot")
    other = Worker("other")
    other.agent = "bot2"
    await a.close()
    again = await nodes.join("a")
    assert active_run(await document(again))
    assert await again.dispatch.serve(Worker("w2"), [("c", ref)]) == []
    await asyncio.sleep(2 * GRACE)
    assert active_run(await document(again))
    await set_status(again, ref, "finished")
    await notes(nodes, again, [])


async def test_a_node_that_was_taken_for_dead_loses_its_runs_and_goes_on(nodes: Nodes, a: Node, b: Node) -> None:
    await create(a, "c", agent="bot")
    worker = Worker("w")
    await started(a, worker)
    with nodes.no_beats("a"):
        await run_is(b, "interrupted")
        await until(lambda: b.presence.alone)
    await until(lambda: b.presence.others == ["a"])
    await until(lambda: a.dispatch.runs == 0, "that it heard of the end of its run")
    await until(lambda: worker.orders, "its late worker being told")
    await create(a, "d", agent="bot")
    await say(a, context="d")
    await until(lambda: len(worker.runs) == 2)
    await notes(nodes, a, ["d"])


async def test_a_node_that_was_taken_for_dead_keeps_the_run_if_it_is_back_in_time(nodes: Nodes, a: Node) -> None:
    """All the same its notes were forgotten: it makes them again."""
    b = await nodes.join("b", grace=2.0)
    await create(a, "c", agent="bot")
    worker = Worker("w")
    await started(a, worker)
    with nodes.no_beats("a"):
        await until(lambda: b.dispatch.needs("c"), "that its worker is missed")
        await notes(nodes, a, [])
    await notes(nodes, a, ["c"])
    await until(lambda: b.presence.others == ["a"])
    await asyncio.sleep(2.0)
    run = active_run(await document(b))
    assert run is not None
    assert run["node"] == "a"
    assert worker.orders == []
    assert not b.dispatch.needs("c")


async def test_who_does_not_know_who_lives_ends_nothing(nodes: Nodes, a: Node, b: Node) -> None:
    """The grace is over while this node cannot reach the record itself, and the other one is back by then."""
    await create(a, "c", agent="bot")
    await started(a, Worker("w"))
    with nodes.no_beats("a"):
        await until(lambda: b.dispatch.needs("c"), "that its worker is missed")
        nodes._asleep.add("b")
        await until(lambda: not b.presence.sure)
        await asyncio.sleep(GRACE)
    await asyncio.sleep(0.2)
    nodes._asleep.clear()
    await until(lambda: b.presence.others == ["a"])
    await asyncio.sleep(2 * GRACE)
    run = active_run(await document(b))
    assert run is not None
    assert run["node"] == "a"
    assert not b.dispatch.needs("c")


async def test_contexts_of_nodes_that_live_are_not_opened(nodes: Nodes, a: Node, b: Node) -> None:
    await create(b, "here", agent="bot")
    await create(b, "left", agent="bot")
    worker = Worker("w")
    await b.dispatch.serve(worker, [])
    await say(b, context="here")
    await until(lambda: worker.runs)
    await b.mirroring.settle(["here", "left"])
    inside: Any = a.dispatch
    await inside._left_behind.call()
    assert not a.contexts.live
    await nodes.record.let_run("b", "here")  # nobody says that it is looked after
    await inside._left_behind.call()
    assert list(a.contexts.live) == ["here"]


async def test_two_items_of_one_context_start_one_run(nodes: Nodes, a: Node) -> None:
    await create(a, "c", agent="bot")
    await ok(a, Message(context="c", text="hello"))
    await until(lambda: nodes.record._work._items["bot"])
    nodes.record._work._items.clear()
    workers = [Worker(f"w{n}") for n in range(2)]
    for worker in workers:
        await a.dispatch.serve(worker, [])
    inside: Any = a.dispatch
    await asyncio.gather(*(inside._start(Work("bot", f"{n}", "c")) for n in range(2)))
    await until(lambda: sum(len(worker.runs) for worker in workers) == 1)
    assert a.dispatch.runs == 1
    await asyncio.sleep(2 * GRACE)
    assert active_run(await document(a))


async def test_a_context_is_not_offered_with_each_of_its_messages(
    nodes: Nodes, a: Node, b: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offers_module, "AHEAD", 0.05)
    await create(a, "c", agent="bot")
    for n in range(4):
        await say(a, f"{n}")
        await asyncio.sleep(0.06)  # beyond the time for which an offer is good without a message
        await ok(a, Update(context="c", name=f"{n}"))
    assert len(nodes.record._work._items["bot"]) == 1


async def test_runs_of_nodes_that_nobody_knows_are_found_at_the_start(nodes: Nodes, a: Node) -> None:
    """All nodes died, and the notes of their runs are lost."""
    await create(a, "c", agent="bot")
    await started(a, Worker("w"))
    await nodes.kill(a)
    await nodes.record.leave("a")
    b = await nodes.join("b")
    await until(lambda: "c" in b.contexts.live)
    await run_is(b, "interrupted")


async def test_a_context_is_needed_where_its_run_is(nodes: Nodes, a: Node, b: Node) -> None:
    await create(a, "c", agent="bot")
    worker = Worker("w")
    ref = await started(a, worker)
    await run_is(b, "running")
    assert [node.dispatch.needs("c") for node in (a, b)] == [True, False]
    a.dispatch.gone(worker)
    assert a.dispatch.needs("c"), "its worker is missed here"
    await b.dispatch.serve(Worker("w2"), [("c", ref)])
    await until(lambda: [node.dispatch.needs("c") for node in (a, b)] == [False, True])
    await set_status(b, ref, "finished")
    await until(lambda: not b.dispatch.needs("c"))


class Lost(MemoryRecord):
    """Loses half of what is told about notes of runs, or its answer."""

    def __init__(self) -> None:
        super().__init__()
        self.chance = random.Random(4)

    async def hold_run(self, node: str, context: str) -> None:
        await super().hold_run(node, context)
        self._lose()

    async def let_run(self, node: str, context: str) -> None:
        self._lose()
        await super().let_run(node, context)

    def _lose(self) -> None:
        if self.chance.random() < 0.5:
            raise Unavailable("lost")


async def test_notes_of_runs_get_there_in_the_end() -> None:
    async with AsyncExitStack() as stack:
        record = Lost()
        nodes = Nodes(record, stack)
        node = await nodes.join("a")
        worker = Worker("w")
        await create(node, "c", agent="bot")
        ref = await started(node, worker)
        assert await record.runs_of("a") == ["c"]
        for _ in range(5):
            await set_status(node, ref, "finished")
            await say(node)
            count = len(worker.runs)
            await until(lambda: len(worker.runs) > count or worker.runs[-1]["run"]["fence"] > ref.fence)  # noqa: B023
            ref = ref_of(worker.runs[-1])
            assert await record.runs_of("a") == ["c"]
        await set_status(node, ref, "finished")
        await notes(nodes, node, [])
