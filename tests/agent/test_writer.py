"""Writes between a facade and a record that answers later: order, keys, what others write, bounds."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hub import AgentConfig, AgentContext, Conflict, Overloaded, RunLost, RunStopped, UnknownType
from hub.agent.current import set_run
from hub.agent.registry import Registry, use_registry
from hub.core.changes import Change
from hub.core.position import Position
from hub.core.requests import (
    AnyBody,
    Apply,
    Author,
    Control,
    LogAdd,
    LogAppend,
    Role,
    RunEnd,
    RunOpen,
    RunRef,
    StateMerge,
    Update,
)
from tests.agent.record_link import RecordLink


@pytest.fixture
def link(registry: Registry) -> Iterator[RecordLink]:
    link = RecordLink()
    registry.bind(link)
    yield link
    for ctx in registry.all():
        ctx.writer.closed("over")


def linked(link: RecordLink, **fields: Any) -> AgentContext:
    ctx = AgentContext(id="one", **fields)
    link.pump_all("one")
    return ctx


def texts(body: AnyBody) -> list[str]:
    assert isinstance(body, Apply)
    return [op.text for op in body.ops if isinstance(op, LogAppend)]


def test_own_writes_are_seen_at_once_and_confirmed_later(link: RecordLink) -> None:
    ctx = AgentContext(id="one", data={"a": 1})
    entry = ctx.log.log("info", "H")
    ctx.state["x"] = 1
    assert (ctx.data["a"], entry.heading, ctx.state["x"]) == (1, "H", 1)
    assert ctx.writer.unconfirmed == 3
    assert "one" not in link.records
    link.pump_all("one")
    assert ctx.writer.unconfirmed == 0
    assert ctx.version == "hub:3"
    assert ctx.no == 7
    assert entry.timestamp.startswith("2030")
    assert ctx.document() == link.records["one"].state.document


def test_nothing_goes_before_the_creation_is_confirmed(link: RecordLink) -> None:
    AgentContext(id="one").set_data("a", 1)
    facade = link.attached["one"]
    first = facade.outgoing()
    assert [type(request.body).__name__ for request in first] == ["Create"]
    assert facade.outgoing() == []


def test_keys_count_and_are_never_left_out(link: RecordLink) -> None:
    ctx = linked(link)
    with pytest.raises(UnknownType):
        ctx.log.log("other")
    for number in range(100):
        ctx.state["n"] = number
    link.pump_all("one")
    writers, numbers = zip(*(str(request.body.key).split("/") for request in link.sent), strict=True)
    assert set(writers) == {ctx.writer.name}
    assert list(numbers) == [str(n) for n in range(1, 102)]


def test_at_most_64_are_unanswered(link: RecordLink) -> None:
    ctx = linked(link)
    for number in range(150):
        ctx.state["n"] = number
    facade = link.attached["one"]
    first = facade.outgoing()
    assert len(first) == 64
    assert facade.outgoing() == []
    woken = link.wakes
    for request in first[:2]:
        facade.refused(str(request.body.key), Conflict("no"))
    assert link.wakes > woken
    assert len(facade.outgoing()) == 2


def test_the_link_is_woken_once_for_many(link: RecordLink) -> None:
    ctx = linked(link)
    woken = link.wakes
    for number in range(50):
        ctx.state["n"] = number
    assert link.wakes == woken + 1


def test_appends_that_wait_are_joined(link: RecordLink) -> None:
    ctx = linked(link)
    entry = ctx.log.log("agent")
    for number in range(50):
        entry.stream(f"{number} ")
    ctx.log.log("info", "between")
    entry.stream("end")
    sent = len(link.sent)
    link.pump_all("one")
    assert len(link.sent) - sent == 1 + 3 + 1 + 1
    assert entry.content == "".join(f"{number} " for number in range(50)) + "end"
    assert ctx.writer.unconfirmed == 0
    record = link.records["one"].state.log.find(entry.id)
    assert record.content == entry.content


def test_text_that_joins_is_seen_at_once_and_nobody_else_joins_in(link: RecordLink) -> None:
    ctx = linked(link)
    first, second = ctx.log.log("agent"), ctx.log.log("agent")
    link.pump_all("one")
    sent = len(link.sent)
    for number in range(3):
        first.stream(f"{number} ")
        assert first.content == "".join(f"{n} " for n in range(number + 1))
    second.stream("a")
    second.stream("b")
    with ctx.batch():
        second.stream("c")
        second.stream("d")
    second.stream("e")
    set_run("one", RunRef("r", 1))
    try:
        second.stream("f")  # in the name of a run that is not: refused, and alone in that
    finally:
        set_run("one", None)
    second.stream("g")
    second.stream("h")
    assert second.content == "abcdegh"
    link.pump_all("one")
    assert [texts(request.body) for request in link.sent[sent:]] == [
        ["0 1 2 "],
        ["ab"],
        ["c", "d"],
        ["e"],
        ["f"],
        ["gh"],
    ]
    assert [e.content for e in link.records["one"].state.log.entries] == ["0 1 2 ", "abcdegh"]


def test_what_others_write_comes_in_below(link: RecordLink) -> None:
    ctx = linked(link)
    ctx.log.log("info", "mine")
    ctx.state["mine"] = 1
    link.others(Apply(context="one", ops=[LogAdd(type="info", heading="theirs"), StateMerge(value={"theirs": 1})]))
    link.others(Update(context="one", name="theirs"))
    link.deliver("one")
    assert [(entry.no, entry.heading) for entry in ctx.log.entries()] == [(0, "theirs"), (1, "mine")]
    assert ctx.state == {"theirs": 1, "mine": 1}
    assert ctx.name == "theirs"
    link.pump_all("one")
    assert ctx.document() == link.records["one"].state.document


async def test_a_refused_write_takes_what_stood_on_it_along(link: RecordLink) -> None:
    ctx = linked(link, state={"a": 0})
    link.others(Apply(context="one", ops=[StateMerge(value={"a": 5})]))
    ctx.state.merge({"a": 1}, expected=ctx.state.version)
    ctx.state.incr("a")
    assert ctx.state["a"] == 2
    link.pump("one")
    assert ctx.state["a"] == 6
    with pytest.raises(Conflict):
        await ctx.flush()


async def test_what_only_the_record_can_decide_is_sent(link: RecordLink) -> None:
    ctx = linked(link, state={"a": "text"})
    link.others(Apply(context="one", ops=[StateMerge(value={"a": 1})]))
    ctx.state.incr("a")  # here it is a text still
    assert ctx.state["a"] == "text"
    link.pump("one")
    await ctx.flush()
    assert ctx.state["a"] == 2


async def test_flush_waits_for_the_record(link: RecordLink) -> None:
    ctx = linked(link)
    ctx.state["a"] = 1
    flush = asyncio.create_task(ctx.flush())
    await asyncio.sleep(0)
    assert not flush.done()
    ctx.state["b"] = 2  # later than the flush
    link.pump("one")
    await flush
    ctx.state["c"] = 3
    with pytest.raises(TimeoutError):
        await asyncio.to_thread(ctx.wait_flush, 0.01)
    link.pump("one")
    await asyncio.to_thread(ctx.wait_flush, 1)


async def test_a_cancelled_flush_takes_no_error_away(link: RecordLink) -> None:
    ctx = linked(link, state={"a": 0})
    link.others(Apply(context="one", ops=[StateMerge(value={"a": 5})]))
    ctx.state.merge({"a": 1}, expected=ctx.state.version)
    flush = asyncio.create_task(ctx.flush())
    await asyncio.sleep(0)
    flush.cancel()
    with pytest.raises(asyncio.CancelledError):
        await flush
    link.pump("one")
    with pytest.raises(Conflict):
        await ctx.checkpoint()


def test_a_batch_is_one_request(link: RecordLink) -> None:
    ctx = linked(link)
    with ctx.batch():
        ctx.state["a"] = 1
        ctx.log.log("info", "in it")
        assert link.pump("one") == 0
    assert link.pump("one") == 1
    assert ctx.version == "hub:2"


async def test_the_bound_on_an_event_loop(link: RecordLink) -> None:
    ctx = linked(link)
    ctx.writer._backlog._most = 1000
    ctx.log.log("info", content="x" * 700)
    with pytest.raises(Overloaded):
        ctx.log.log("info", content="x" * 700)
    assert len(ctx.log) == 1
    link.pump("one")
    ctx.log.log("info", content="x" * 70_000)  # alone it may be larger


@pytest.mark.parametrize("plain", [False, True])
async def test_a_checkpoint_waits_while_the_hub_is_far_behind(link: RecordLink, plain: bool) -> None:
    ctx = linked(link)
    ctx.writer._backlog._most = 1000
    ctx.log.log("info", content="x" * 300)
    await asyncio.wait_for(ctx.checkpoint(), 5)
    ctx.log.log("info", content="x" * 300)
    waiting = asyncio.ensure_future(asyncio.to_thread(ctx.wait_checkpoint) if plain else ctx.checkpoint())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(waiting), 0.1)
    link.pump("one")
    await asyncio.wait_for(waiting, 5)


def test_the_bound_in_a_thread(link: RecordLink, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = linked(link)
    ctx.writer._backlog._most = 1000
    ctx.log.log("info", content="x" * 700)
    done = threading.Event()

    def write() -> None:
        ctx.log.log("info", content="y" * 700)
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    assert not done.wait(0.05)
    link.pump("one")
    assert done.wait(5)
    thread.join()
    monkeypatch.setattr("hub.agent.backlog.WAIT", 0.05)
    with pytest.raises(Overloaded):
        ctx.log.log("info", content="z" * 700)


def test_a_run_opens_at_the_hub_before_its_task_begins(link: RecordLink) -> None:
    ctx = linked(link)
    begun = threading.Event()

    def work() -> None:
        begun.set()
        ctx.log.log("info", "in the run")

    task = ctx.run_task(work)
    assert ctx.is_running()
    assert not begun.wait(0.05)
    link.pump("one")
    assert task.result_sync(5) is None
    link.pump_all("one")
    record = link.records["one"].state.document
    assert ctx.document() == record
    assert record["run"]["status"] == "finished"
    apply = link.sent[-1].body
    assert isinstance(apply, Apply)
    assert apply.run == RunRef(record["run"]["id"], 1)


def test_a_stop_at_the_hub_reaches_the_task(link: RecordLink) -> None:
    ctx = linked(link)
    task = ctx.run_task(asyncio.sleep, 60)
    link.pump("one")
    link.others(Control(context="one", action="stop"))
    link.deliver("one")
    with pytest.raises(RunStopped):
        task.result_sync(5)
    link.pump_all("one")
    assert link.records["one"].state.document["run"]["status"] == "stopped"


async def test_late_writes_of_an_ended_run_bother_nobody(link: RecordLink) -> None:
    ctx = linked(link)
    reached, go = threading.Event(), threading.Event()

    def work() -> None:
        reached.set()
        go.wait(5)
        ctx.log.log("info", "late")

    task = ctx.run_task(work)
    link.pump("one")
    assert reached.wait(5)
    run = link.records["one"].state.document["run"]
    link.others(RunEnd(context="one", run=RunRef(run["id"], run["fence"]), status="interrupted"))
    go.set()
    await task.result()
    link.pump_all("one")
    assert len(ctx.log) == 0
    await ctx.flush()
    assert ctx.document() == link.records["one"].state.document


async def test_an_agent_that_does_not_name_its_run_is_in_the_one_it_holds(link: RecordLink) -> None:
    ctx = linked(link)
    reached, go = threading.Event(), threading.Event()

    def work() -> None:
        reached.set()
        go.wait(5)

    task = ctx.run_task(work)
    link.pump("one")
    assert reached.wait(5)
    by_hand = threading.Thread(target=lambda: ctx.log.log("info", "by hand"))
    by_hand.start()
    by_hand.join()
    go.set()
    await task.result()
    link.pump_all("one")
    await ctx.flush()
    assert [entry.heading for entry in ctx.log.entries()] == ["by hand"]


def test_run_lost_is_an_error_for_who_works_in_the_run(link: RecordLink) -> None:
    ctx = linked(link)
    link.others(RunOpen(context="one"))
    link.deliver("one")
    ctx.writer.apply([LogAdd(type="info")], 10, run=RunRef("another", 9))
    link.pump("one")
    set_run("one", RunRef("another", 9))
    with pytest.raises(RunLost):
        ctx.writer.raise_failures()
    active = link.records["one"].state.document["run"]
    ctx.writer.apply([LogAdd(type="info")], 10, run=RunRef(active["id"], active["fence"]))
    link.pump("one")
    assert len(ctx.log) == 1
    set_run("one", None)


def test_removed_elsewhere(link: RecordLink, registry: Registry) -> None:
    ctx = linked(link)
    ctx.state["a"] = 1
    link.attached["one"].closed("removed")
    assert registry.get("one") is None
    assert ctx.closed == "removed"
    with pytest.raises(Exception, match="removed"):
        ctx.wait_flush(1)


def test_a_change_that_does_not_fit_loads_anew(link: RecordLink) -> None:
    ctx = linked(link)
    ctx.state["pending"] = 1
    attaches = link.attaches
    link.attached["one"].followed(
        Change(Position("hub", 2), [{"kind": "log.append", "id": "unknown", "at": 0, "text": "x"}])
    )
    assert ctx.state["pending"] == 1
    assert link.attaches == attaches + 1
    link.pump("one")
    assert ctx.document() == link.records["one"].state.document


def test_many_waiting_writes_cost_little_each(link: RecordLink) -> None:
    """8 threads with 1,000 entries each, while others write: what comes by is not paid for with every waiting write."""
    ctx = linked(link)

    def write(thread: int) -> None:
        for number in range(1000):
            ctx.log.log("info", str(thread), str(number))

    threads = [threading.Thread(target=write, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    begun = time.process_time()
    while link.pump("one"):
        link.others(Apply(context="one", ops=[LogAdd(type="info", heading="others")]))
    link.deliver("one")
    spent = time.process_time() - begun
    assert spent < 20, f"{spent:.1f} s"
    entries = ctx.log.entries()
    for number in range(8):
        assert [e.content for e in entries if e.heading == str(number)] == [str(n) for n in range(1000)]
    assert ctx.log.id == link.records["one"].state.log.id
    assert [e.id for e in entries] == [e.id for e in link.records["one"].state.log.entries]


STEPS = """log stream tokens update state incr data output name reset batch others_log others_state others_name others_reset
    pump pump_only deliver_one deliver lose_and_answer lose_and_load read progress plan conflict"""
STEP = st.sampled_from(STEPS.split())


@settings(max_examples=150)
@given(st.lists(st.tuples(STEP, st.integers(0, 3)), min_size=10, max_size=80), st.booleans())
def test_a_facade_and_the_record_end_as_one(steps: list[tuple[str, int]], same_name: bool) -> None:
    link = RecordLink(Author("local" if same_name else "other", Role.OPERATOR))
    before = use_registry(Registry(link))
    try:
        ctx = AgentContext(AgentConfig(), id="one", state={"n": 0}, created_at="2026-01-01T00:00:00Z")
        items = [ctx.log.log("info", "first")]
        link.pump_all("one")
        for step, n in steps:
            _take(step, n, ctx, items, link)
        link.answer()
        link.pump_all("one")
        link.deliver("one")
        record = link.records["one"].state
        with ctx.writer.lock:
            state = ctx.writer.read()
            assert state.document == record.document
            assert state.log.to_json() == record.log.to_json()
            assert state.data == record.data
            assert state.position == record.position
            assert state.size == record.size
            assert ctx.writer.view.pending == []
        assert ctx.writer.unconfirmed == 0
    finally:
        use_registry(before)


def _take(step: str, n: int, ctx: AgentContext, items: list[Any], link: RecordLink) -> None:
    item = items[n % len(items)]
    match step:
        case "log":
            items.append(ctx.log.log("info", str(n), "c"))
        case "stream":
            item.stream(f"piece {n} \N{GRINNING FACE}")
        case "tokens":
            for number in range(1 + 8 * n):
                item.stream(f"{number} ")
        case "update":
            item.update(heading=f"H{n}", a=n)
        case "state":
            ctx.state[f"k{n}"] = [n]
        case "incr":
            ctx.state.incr("n", n)
        case "data":
            ctx.data[f"k{n}"] = n
        case "output":
            ctx.output_data["same"] = n
        case "name":
            ctx.name = f"name {n}"
        case "progress":
            ctx.set_progress(f"p{n}", entry=items[-1])
        case "plan":
            ctx.session_context.save(plan=[str(n)])
        case "conflict":
            ctx.state.merge({"c": n}, expected=ctx.state.version)
        case "reset":
            ctx.log.reset()
        case "batch":
            with ctx.batch():
                items.append(ctx.log.log("tool", "batched"))
                ctx.state.incr("n")
        case "read":
            assert ctx.document()["log"]["length"] == len(ctx.log)
        case "others_log":
            link.others(Apply(context="one", ops=[LogAdd(type="info", heading="o")]))
        case "others_state":
            link.others(Apply(context="one", ops=[StateMerge(value={f"k{n}": "o", "n": n})]))
        case "others_name":
            link.others(Update(context="one", name=f"o{n}"))
        case "others_reset":
            link.others(Control(context="one", action="reset"))
        case "pump":
            link.pump("one")
        case "pump_only":
            link.pump("one", deliver=False)
        case "deliver_one":
            link.answer()
            link.deliver("one", 1)
        case "deliver":
            link.answer()
            link.deliver("one")
        case "lose_and_answer":
            link.pump("one", lose=True)
            link.others(Update(context="one", name="between"))
            link.answer()
            link.deliver("one")
        case "lose_and_load":
            link.pump("one", lose=True)
            link.answer()
            link.load("one")
