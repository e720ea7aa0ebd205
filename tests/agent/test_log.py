"""Log: semantics 11 to 15 and 17."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hub import AgentConfig, AgentContext, Exists, InvalidRequest, InvalidValue, Log, NotFound, UnknownType
from hub.agent.registry import Registry
from hub.core.limits import Limits
from hub.core.requests import Control, EntryType
from tests.agent.record_link import RecordLink


def test_11_log() -> None:
    ctx = AgentContext()
    assert ctx.log.context is ctx
    entry = ctx.log.log("tool", "Heading", "Content", {"a": 1}, id="mine", b=[2])
    assert entry.output() == {
        "no": 0,
        "id": "mine",
        "type": "tool",
        "heading": "Heading",
        "content": "Content",
        "kvps": {"a": 1, "b": [2]},
        "timestamp": entry.timestamp,
    }
    assert (entry.no, entry.type, entry.cut) == (0, "tool", 0)
    assert ctx.log.log(type="info").no == 1
    assert len(ctx.log) == ctx.document()["log"]["length"] == 2


def test_11_types() -> None:
    ctx = AgentContext()
    names = "agent browser code_exe subagent error hint info progress response tool mcp input user util warning"
    assert set(names.split()) == set(EntryType)
    for name in names.split():
        assert ctx.log.log(name).type == name
    for wrong in ("other", "", None, 1):
        with pytest.raises(UnknownType):
            ctx.log.log(wrong)  # type: ignore[arg-type]
    with pytest.raises(UnknownType):
        ctx.log.entries(0, 1)[0].update(type="other")
    assert len(ctx.log) == len(EntryType)


def test_11_wrong_values() -> None:
    ctx = AgentContext()
    with pytest.raises(InvalidValue) as refused:
        ctx.log.log("info", kvps={"a": [{1}]})
    assert refused.value.details["path"] == "/kvps/a/0"
    with pytest.raises(InvalidValue):
        ctx.log.log("info", content=b"bytes")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest):
        ctx.log.log("info", id="no spaces")
    with pytest.raises(InvalidRequest):
        ctx.log.log("info", update_progress="other")  # type: ignore[arg-type]
    ctx.log.log("info", id="twice")
    with pytest.raises(Exists):
        ctx.log.log("info", id="twice")
    assert len(ctx.log) == 1


def test_11_a_log_that_is_given() -> None:
    log = Log()
    before = log.log("info", "Before", "one")
    before.stream(" two")
    ctx = AgentContext(log=log)
    assert ctx.log is log
    assert log.context is ctx
    after = log.log("info", "After")
    before.stream(" three")
    assert [(entry.heading, entry.content) for entry in ctx.log.entries()] == [
        ("Before", "one two three"),
        ("After", ""),
    ]
    assert [before.no, after.no] == [0, 1]
    with pytest.raises(InvalidRequest):
        AgentContext(log=log)


def test_12_update_and_stream() -> None:
    ctx = AgentContext()
    entry = ctx.log.log("agent", "H", "C", {"a": 1, "b": 2})
    entry.update(heading="H2")
    entry.update(content="C2", b=3, c={"x": 1})
    assert entry.kvps == {"a": 1, "b": 3, "c": {"x": 1}}
    entry.update(kvps={"a": 9, "c": {"x": 1}}, type="response", b=4)
    for piece in (" one", "", " two \N{GRINNING FACE}", " three"):
        entry.stream(content=piece)
    assert entry.output() == {
        "no": 0,
        "id": entry.id,
        "type": "response",
        "heading": "H2",
        "content": "C2 one two \N{GRINNING FACE} three",
        "kvps": {"a": 9, "c": {"x": 1}, "b": 4},
        "timestamp": entry.timestamp,
    }
    entry.kvps["c"]["x"] = 2
    assert entry.kvps["c"] == {"x": 1}
    entry.update(kvps={})
    assert entry.kvps == {}


def test_12_entries_of_a_log_that_was_reset_take_no_more() -> None:
    ctx = AgentContext()
    entry = ctx.log.log("info", "old", "text")
    ctx.log.reset()
    changes: list[Callable[[], None]] = [
        lambda: entry.update(heading="new"),
        lambda: entry.stream("more"),
        lambda: entry.update(a=1),
    ]
    for change in changes:
        with pytest.raises(NotFound):
            change()
    assert len(ctx.log) == 0
    assert entry.heading == "old"


async def test_12_a_write_that_is_refused_later_leaves_the_view(registry: Registry) -> None:
    link = RecordLink()
    registry.bind(link)
    ctx = AgentContext(id="one")
    entry = ctx.log.log("info", "first")
    link.pump_all("one")
    link.others(_reset("one"))
    entry.update(heading="changed")  # not known here yet
    later = ctx.log.log("info", "second")
    assert entry.heading == "changed"
    link.pump("one")
    assert [item.heading for item in ctx.log.entries()] == ["second"]
    with pytest.raises(NotFound):
        await ctx.flush()
    await ctx.flush()
    later.update(heading="third")
    link.pump("one")
    await ctx.flush()
    assert link.records["one"].state.log.to_json() == {"id": ctx.log.id, "entries": [later.output()]}


def test_12_batch_stands_or_falls_together() -> None:
    ctx = AgentContext()
    before = int(ctx.version.rpartition(":")[2])
    with ctx.batch():
        ctx.state["n"] = 1
        ctx.state.incr("n")
        entry = ctx.log.log("info", "in a batch")
        entry.stream("text")
        ctx.set_output_data("n", ctx.state["n"])
        assert ctx.output_data["n"] == 2
        assert entry.content == "text"
    assert int(ctx.version.rpartition(":")[2]) == before + 1
    assert (ctx.state["n"], ctx.output_data["n"], entry.content, len(ctx.log)) == (2, 2, "text", 1)


def test_12_a_batch_that_fails_leaves_nothing() -> None:
    ctx = AgentContext(state={"n": 2})
    before = ctx.version

    def fails(how: Callable[[], object]) -> None:
        with ctx.batch():
            ctx.state["n"] = 7
            ctx.log.log("info", "gone")
            how()

    with pytest.raises(ZeroDivisionError):
        fails(lambda: 1 // 0)
    with pytest.raises(InvalidRequest):
        fails(ctx.pause)  # no write of data
    with pytest.raises(NotFound):
        fails(lambda: ctx.set_progress("x", entry="unknown"))
    assert (ctx.version, len(ctx.log)) == (before, 0)
    assert (ctx.state["n"], ctx.paused) == (2, False)


def test_12_batches_nest_and_are_a_tasks_own() -> None:
    ctx = AgentContext(state={"c": 0})
    before = int(ctx.version.rpartition(":")[2])
    with ctx.batch():
        ctx.state["a"] = 1
        with ctx.batch():
            ctx.state["b"] = 2
        ctx.run_task(lambda: ctx.state.incr("c")).result_sync(5)  # others go on meanwhile
        assert int(ctx.version.rpartition(":")[2]) == before + 3
        assert AgentContext.get(ctx.id) is ctx
    assert ctx.state == {"a": 1, "b": 2, "c": 1}
    assert int(ctx.version.rpartition(":")[2]) == before + 4


def test_13_entries_are_paged() -> None:
    ctx = AgentContext()
    for number in range(10):
        ctx.log.log("info", str(number))
    assert [entry.heading for entry in ctx.log.entries(2, 3)] == ["2", "3", "4"]
    assert [entry.no for entry in ctx.log.entries(8, 5)] == [8, 9]
    assert [entry.no for entry in ctx.log.entries(-2)] == [8, 9]
    assert ctx.log.entries(10) == []
    assert len(ctx.log.entries()) == 10
    found = ctx.log.get(ctx.log.entries(3, 1)[0].id)
    assert found is not None
    assert found.no == 3
    assert ctx.log.get("none") is None


def test_13_reset() -> None:
    ctx = AgentContext()
    ctx.log.log("info", "x")
    old = ctx.log.id
    ctx.log.reset()
    assert ctx.log.id != old
    assert ctx.document()["log"] == {"id": ctx.log.id, "length": 0}
    assert ctx.log.log("info").no == 0


def test_14_progress() -> None:
    ctx = AgentContext()
    assert ctx.progress == {"text": "", "entry": None, "active": False}
    one = ctx.log.log("progress", "One")
    assert ctx.progress == {"text": "One", "entry": one.id, "active": False}
    ctx.log.log("info", "Two", update_progress="none")
    ctx.log.log("info")
    assert ctx.progress["text"] == "One"
    ctx.log.log("info", "Three", update_progress="temporary")
    assert ctx.progress == {"text": "Three", "entry": None, "active": False}
    four = ctx.log.log("info", "Four")
    four.update(heading="Four and a half")
    one.update(heading="One again")
    assert ctx.progress["text"] == "Four and a half"
    ctx.set_progress("Working", entry=one)
    assert ctx.progress == {"text": "Working", "entry": one.id, "active": True}
    ctx.set_progress("Done", active=False)
    assert ctx.progress == ctx.document()["progress"] == {"text": "Done", "entry": None, "active": False}

    def work() -> Any:
        ctx.log.log("info", "In a run")
        return ctx.progress

    assert ctx.run_task(work).result_sync(5)["active"] is True
    assert ctx.progress["active"] is False


def test_15_limits_and_what_was_cut() -> None:
    ctx = AgentContext()
    entry = ctx.log.log("info", "h" * 200, "c" * 250_003, {"k" * 100: "v" * 6000}, w={"n": ["x" * 6000]})
    assert len(entry.heading) == 120
    assert entry.heading.endswith(" characters")
    assert (len(entry.content), entry.cut) == (250_000, 3)
    entry.stream("more")
    assert (len(entry.content), entry.cut) == (250_000, 7)
    (key, value), (_, nested) = entry.kvps.items()
    assert (len(key), len(value), len(nested["n"][0])) == (60, 5000, 5000)
    assert len(ctx.progress["text"]) == 120
    ctx.set_progress("p" * 500)
    assert len(ctx.progress["text"]) == 120
    entry.update(heading="x" * 500, kvps={"y" * 99: "z" * 9999})
    assert len(entry.heading) == 120
    assert max(map(len, entry.kvps)) == 60


def test_15_limits_are_settings() -> None:
    limits = Limits(heading=20, content=10, key=5, value=4, progress=15)
    ctx = AgentContext(AgentConfig(limits=limits))
    entry = ctx.log.log("info", "h" * 50, "c" * 11, abcdefgh="12345")
    assert (len(entry.heading), entry.content, entry.cut) == (20, "c" * 10, 1)
    assert {key: len(value) for key, value in entry.kvps.items()} == {"abcde": 4}


def test_17_log_to_all() -> None:
    contexts = [AgentContext(id=type, type=type) for type in ("background", "task", "user")]
    entries = AgentContext.log_to_all("warning", "Maintenance", "soon", {"a": 1}, b=2)
    assert [entry.log.context for entry in entries] == contexts
    assert len({entry.id for entry in entries}) == 1
    assert all(entry.kvps == {"a": 1, "b": 2} and entry.content == "soon" for entry in entries)
    assert [len(ctx.log) for ctx in contexts] == [1, 1, 1]
    AgentContext.log_to_all("warning", "Maintenance", id=entries[0].id)
    assert [len(ctx.log) for ctx in contexts] == [1, 1, 1]
    with pytest.raises(UnknownType):
        AgentContext.log_to_all("other")


def test_17_log_to_all_through_a_hub(registry: Registry) -> None:
    link = RecordLink()
    registry.bind(link)
    ctx = AgentContext()
    entries = AgentContext.log_to_all("info", "H")
    assert [(id, op.type, op.heading) for id, op in link.broadcasts] == [(entries[0].id, "info", "H")]
    assert entries[0].log is ctx.log


def _reset(id: str) -> Any:
    return Control(context=id, action="reset")
