"""Registry: semantics 1 to 6."""

from __future__ import annotations

import asyncio
import contextvars
import re
import threading
import time
from datetime import UTC, datetime

import pytest

import hub
from hub import (
    AgentConfig,
    AgentContext,
    AgentContextType,
    DeferredTask,
    Exists,
    InvalidRequest,
    InvalidValue,
    Log,
    NotificationManager,
    Removed,
    TooLarge,
    UnknownType,
    UserMessage,
)
from hub.agent import current
from hub.agent.registry import Registry
from tests.agent.record_link import RecordLink


def test_01_constructor_takes_everything() -> None:
    ctx = AgentContext(
        config=AgentConfig(),
        id="a.b:c@d-1",
        name="Name",
        type=AgentContextType.TASK,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        last_message="2026-01-02T00:00:00+01:00",
        data={"private": [1]},
        output_data={"shown": {"a": 1}},
        log=Log(),
        paused=True,
        set_current=True,
        user_id="anna",
    )
    document = ctx.document()
    assert (ctx.id, ctx.name, ctx.type, ctx.user_id, ctx.paused) == ("a.b:c@d-1", "Name", "task", "anna", True)
    assert document["created_at"] == "2026-01-01T00:00:00.000Z"
    assert document["last_message"] == "2026-01-01T23:00:00.000Z"
    assert ctx.get_data("private") == [1]
    assert ctx.get_output_data("shown") == {"a": 1}
    assert AgentContext.current() is ctx
    assert AgentContext.get(ctx.id) is ctx


def test_01_exports() -> None:
    for cls in (AgentContext, AgentConfig, UserMessage, Log, DeferredTask, NotificationManager):
        assert getattr(hub, cls.__name__) is cls
    assert hub.AgentContextType is AgentContextType
    assert set(hub.__all__) <= set(dir(hub))


def test_01_half_built_ones_are_never_seen() -> None:
    stop = threading.Event()
    wrong: list[str] = []

    def look() -> None:
        while not stop.is_set():
            for ctx in AgentContext.all():
                if ctx.get_data("ready") is not True or ctx.log.context is not ctx or ctx.task is not None:
                    wrong.append(ctx.id)

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(200):
        AgentContext(data={"ready": True})
    stop.set()
    thread.join()
    assert not wrong


def test_01_nothing_of_a_refused_one_is_left() -> None:
    with pytest.raises(InvalidValue) as refused:
        AgentContext(id="x", data={"a": [{"b": {1}}]})
    assert refused.value.details["path"] == "/a/0/b"
    with pytest.raises(TooLarge):
        AgentContext(id="x", output_data={"a": "x" * 1_100_000})
    with pytest.raises(TooLarge):
        AgentContext(id="x", name="x" * 201)
    with pytest.raises(InvalidRequest):
        AgentContext(id="x", user_id="")
    assert AgentContext.all() == []
    assert AgentContext(id="x").id == "x"


def test_02_generated_ids() -> None:
    ids = {AgentContext.generate_id() for _ in range(500)}
    assert len(ids) == 500
    assert all(re.fullmatch(r"[A-Za-z0-9]{8}", id) for id in ids)
    assert re.fullmatch(r"[A-Za-z0-9]{8}", AgentContext(id="").id)


@pytest.mark.parametrize("id", ["a b", "x" * 129, "ä", "a/b", "a\n", "../x", 7])
def test_02_other_ids_are_refused(id: str) -> None:
    with pytest.raises(InvalidRequest):
        AgentContext(id=id)
    assert AgentContext.all() == []


def test_02_claiming_and_registering_are_one_step() -> None:
    made: list[AgentContext] = []
    refused: list[Exists] = []
    start = threading.Barrier(8)

    def make() -> None:
        start.wait()
        try:
            made.append(AgentContext(id="one"))
        except Exists as error:
            refused.append(error)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert len(refused) == 7
    assert AgentContext.all() == made


def test_03_a_second_one_with_the_same_id() -> None:
    old = AgentContext(id="one")
    with pytest.raises(Exists):
        AgentContext(id="one")
    assert AgentContext.get("one") is old
    new = AgentContext(id="one", replace=True)
    assert AgentContext.all() == [new]
    assert old.closed == "replaced"
    with pytest.raises(Removed):
        old.set_data("a", 1)


def test_03_replacing_ends_the_old_ones_task() -> None:
    old = AgentContext(id="one")
    task = old.run_task(asyncio.sleep, 60)
    AgentContext(id="one", replace=True)
    with pytest.raises(hub.RunStopped):
        task.result_sync(5)


async def test_03_an_id_that_the_record_has(registry: Registry) -> None:
    link = RecordLink()
    registry.bind(link)
    AgentContext(id="one", data={"first": True})
    link.pump_all("one")
    registry.drop(registry.all()[0])
    second = AgentContext(id="one")
    second.set_data("a", 1)
    link.pump("one")
    assert second.closed == "exists"
    with pytest.raises(Exists):
        await second.flush()
    with pytest.raises(Exists):
        second.set_data("b", 1)
    assert AgentContext.get("one") is None
    assert link.records["one"].state.data == {"first": True}


def test_04_all_first_and_no(registry: Registry) -> None:
    assert AgentContext.first() is None
    b = AgentContext(id="b", created_at="2026-01-02T00:00:00Z")
    a = AgentContext(id="a", created_at="2026-01-02T00:00:00Z")
    restored = AgentContext(id="z", created_at="2026-01-01T00:00:00Z")
    assert AgentContext.all() == [restored, a, b]
    assert AgentContext.first() is restored
    assert [b.no, a.no, restored.no] == [1, 2, 3]
    registry.saw_no(41)
    assert AgentContext().no == 42
    AgentContext.remove("z")
    assert AgentContext.first() is a


def test_04_remove() -> None:
    ctx = AgentContext()
    task = ctx.run_task(asyncio.sleep, 60)
    assert AgentContext.remove(ctx.id) is ctx
    assert AgentContext.get(ctx.id) is None
    assert AgentContext.remove(ctx.id) is None
    assert ctx.closed == "removed"
    with pytest.raises(hub.RunStopped):
        task.result_sync(5)
    with pytest.raises(Removed):
        ctx.log.log("info", "late")
    assert AgentContext(id=ctx.id).id == ctx.id


def test_04_use() -> None:
    ctx = AgentContext()
    assert AgentContext.use(ctx.id) is ctx
    assert AgentContext.current() is ctx
    assert AgentContext.use("unknown") is None
    assert AgentContext.current() is None
    AgentContext.set_current(ctx.id)
    assert AgentContext.current() is ctx
    assert AgentContext.use(None) is None
    assert AgentContext.current() is None


def test_04_contexts_is_a_read_only_view() -> None:
    ctx = AgentContext(id="one")
    view = AgentContext._contexts
    assert dict(view) == {"one": ctx}
    assert "two" not in view
    assert len(view) == 1
    with pytest.raises(TypeError):
        view["two"] = ctx  # type: ignore[index]


class _Stub:
    def __init__(self, number: int) -> None:
        self.id = f"c{number:06}"
        self.writer = self
        self.created_at = "2026-01-01T00:00:00.000Z"


def test_04_get_and_first_do_not_grow_with_the_number(registry: Registry) -> None:
    def price(count: int) -> float:
        big = Registry()
        for number in range(count):
            big.add(_Stub(number))  # type: ignore[arg-type]
        best = float("inf")
        for _ in range(5):
            begun = time.perf_counter()
            for _ in range(1000):
                big.first()
                big.get("c000050")
            best = min(best, time.perf_counter() - begun)
        return best

    assert price(100_000) < 5 * price(100)


async def test_05_current_is_per_task() -> None:
    parent, *children = [AgentContext(id=id) for id in ("p", "a", "b")]
    AgentContext.use("p")
    both = asyncio.Barrier(2)
    seen: dict[str, list[str | None]] = {}

    async def child(ctx: AgentContext) -> None:
        seen[ctx.id] = [current.current_id()]
        AgentContext.use(ctx.id)
        await both.wait()
        seen[ctx.id].append(current.current_id())

    await asyncio.gather(*(child(ctx) for ctx in children))
    assert seen == {"a": ["p", "a"], "b": ["p", "b"]}
    assert AgentContext.current() is parent


def test_05_threads() -> None:
    ctx = AgentContext()
    AgentContext.use(ctx.id)
    seen: list[str | None] = []
    by_hand = threading.Thread(target=lambda: seen.append(current.current_id()))
    by_hand.start()
    by_hand.join()
    copied = threading.Thread(target=contextvars.copy_context().run, args=(lambda: seen.append(current.current_id()),))
    copied.start()
    copied.join()
    assert seen == [None, ctx.id]
    other = AgentContext()
    assert other.run_task(lambda: current.current_id()).result_sync(5) == other.id
    assert AgentContext.current() is ctx


def test_05_context_data() -> None:
    current.set_context_data("key", [1])
    current.set_context_data("agent_context_id", "x")
    assert current.get_context_data("key") == [1]
    assert current.get_context_data("other", "default") == "default"
    assert current.get_context_data() == {"key": [1], "agent_context_id": "x"}
    assert current.current_id() == "x"
    current.delete_context_data("key")
    current.delete_context_data("key")
    assert current.get_context_data() == {"agent_context_id": "x"}
    current.clear_context_data()
    assert current.get_context_data() == {}


def test_05_tasks_inherit_copies() -> None:
    current.set_context_data("given", 1)
    ctx = AgentContext()

    def work() -> object:
        current.set_context_data("given", 2)
        return current.get_context_data("given")

    assert ctx.run_task(work).result_sync(5) == 2
    assert current.get_context_data("given") == 1


def test_06_types() -> None:
    assert [type.value for type in AgentContextType] == ["user", "task", "background"]
    assert AgentContext(type="background").type is AgentContextType.BACKGROUND
    with pytest.raises(UnknownType):
        AgentContext(type="other")
