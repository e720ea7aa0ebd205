"""Data: semantics 8 to 10 (what of 9 and 10 is about viewers is tested with them)."""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from typing import Any

import pytest

from hub import AgentContext, Conflict, InvalidRequest, InvalidValue, NotFound, TooLarge


def test_08_data_and_output_data() -> None:
    ctx = AgentContext()
    ctx.set_data("a", {"n": [1, {"x": True}]})
    ctx.set_output_data("b", [1.5, None])
    assert ctx.get_data("a") == {"n": [1, {"x": True}]}
    assert ctx.get_output_data("b") == [1.5, None]
    assert ctx.get_data("none") is None
    assert ctx.get_data("none", 7) == 7
    assert ctx.get_output_data("none", "d") == "d"
    ctx.update_data({"a": 1}, c=2)
    assert dict(ctx.data) == {"a": 1, "c": 2}
    ctx.delete_data("a")
    ctx.delete_data("a")
    assert dict(ctx.data) == {"c": 2}


@pytest.mark.parametrize("name", ["data", "output_data", "state", "metadata"])
def test_08_live_mappings(name: str) -> None:
    ctx = AgentContext()
    part: MutableMapping[str, Any] = getattr(ctx, name)
    part["a"] = {"x": [1]}
    part["b/~c"] = 2
    got = part["a"]
    got["x"].append(2)
    assert part["a"] == {"x": [1]}
    assert part == {"a": {"x": [1]}, "b/~c": 2}
    assert "a" in part
    assert list(part) == ["a", "b/~c"]
    assert len(part) == 2
    del part["b/~c"]
    with pytest.raises(KeyError):
        del part["b/~c"]
    with pytest.raises(KeyError):
        part["b/~c"]
    assert part.pop("a") == {"x": [1]}
    assert part.setdefault("d", 1) == 1
    before = ctx.version
    part.update({"e": 1}, f=2)
    assert part == {"d": 1, "e": 1, "f": 2}
    assert _changes(before, ctx.version) == 1
    part.clear()
    assert part == {}
    assert _changes(before, ctx.version) == 2


def test_08_assigning_all_of_it_is_a_change() -> None:
    ctx = AgentContext(data={"a": 1, "b": 2}, state={"a": 1})
    ctx.data = {"b": 3}
    ctx.state = {"c": 1}
    ctx.output_data = {"d": 1}
    ctx.metadata = {"e": 1}
    assert ctx.data == {"b": 3}
    document = ctx.document()
    assert (document["state"], document["output"], document["metadata"]) == ({"c": 1}, {"d": 1}, {"e": 1})


def test_08_what_was_given_is_not_shared() -> None:
    given: dict[str, Any] = {"list": [1]}
    ctx = AgentContext(data=given, output_data=given, state=given)
    ctx.set_data("again", given)
    given["list"].append(2)
    assert ctx.data["list"] == ctx.output_data["list"] == ctx.state["list"] == [1]
    assert ctx.data["again"] == {"list": [1]}


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ([{"b": {1, 2}}], "/a/0/b"),
        ({"x": b"bytes"}, "/a/x"),
        (float("nan"), "/a"),
        ({"x": [float("inf")]}, "/a/x/0"),
        ({1: 2}, "/a"),
        (2**53, "/a"),
        (-(2**53), "/a"),
        (object(), "/a"),
    ],
)
@pytest.mark.parametrize("name", ["data", "output_data", "state", "metadata"])
def test_08_values_are_json(name: str, value: Any, path: str) -> None:
    ctx = AgentContext()
    with pytest.raises(InvalidValue) as refused:
        getattr(ctx, name)["a"] = value
    assert refused.value.details["path"] == path
    assert getattr(ctx, name) == {}
    getattr(ctx, name)["a"] = 2**53 - 1


def test_08_keys_are_text() -> None:
    ctx = AgentContext()
    for key in (1, None, ("a",)):
        with pytest.raises(InvalidValue):
            ctx.set_data(key, 1)  # type: ignore[arg-type]
    assert dict(ctx.data) == {}


def test_08_cycles_and_surrogates() -> None:
    ctx = AgentContext()
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(InvalidValue):
        ctx.set_data("a", cycle)
    ctx.set_data("a\ud800", "x\ud800y")
    assert dict(ctx.data) == {"a\ufffd": "x\ufffdy"}


def test_08_a_document_that_grows_too_large_is_refused() -> None:
    ctx = AgentContext()
    with pytest.raises(TooLarge):
        ctx.set_output_data("a", "x" * 1_100_000)
    assert ctx.output_data == {}
    ctx.set_output_data("a", "x")


def test_09_output_has_core_fields_over_the_output_data() -> None:
    ctx = AgentContext(output_data={"id": "mine", "shown": [1]}, name="N")
    output = ctx.output()
    assert output["shown"] == [1]
    assert output["id"] == ctx.id
    assert ctx.output_data["id"] == "mine"
    document = ctx.document()
    shared = set(output) & set(document)
    assert {"id", "name", "type", "no", "created_at", "last_message", "running", "paused", "progress", "log"} <= shared
    assert {name: output[name] for name in shared} == {name: document[name] for name in shared}
    assert json.loads(json.dumps(output)) == output
    output["log"]["length"] = 99
    assert ctx.output()["log"]["length"] == 0


def test_10_every_change_moves_the_position() -> None:
    ctx = AgentContext()
    ctx.message_queue.add("x")
    steps = [
        lambda: ctx.set_output_data("a", 1),
        lambda: setattr(ctx, "name", "new"),
        ctx.pause,
        ctx.resume,
        lambda: ctx.set_data("a", 1),
        lambda: ctx.communicate("hello"),
        ctx.log.reset,
        ctx.message_queue.clear,
    ]
    for step in steps:
        before = ctx.version
        step()
        assert _changes(before, ctx.version) == 1
    before = ctx.version
    ctx.set_data("a", 1)  # nothing new
    assert ctx.version == before


def test_state_operations() -> None:
    ctx = AgentContext(state={"n": {"x": 1, "y": 2}})
    ctx.state.merge({"n": {"x": 9}}, "deep")
    assert ctx.state["n"] == {"x": 9, "y": 2}
    ctx.state.merge({"n": {"x": 9}})
    assert ctx.state["n"] == {"x": 9}
    ctx.state.merge(None, "replace")
    ctx.state.incr("count")
    ctx.state.incr("/deep/count", 2)
    ctx.state.append("list", {"a": 1})
    ctx.state.append("list", 2)
    ctx.state.remove("list", {"a": 1})
    assert ctx.state == {"n": {"x": 9}, "count": 1, "deep": {"count": 2}, "list": [2]}
    ctx.state.delete("/deep/count")
    ctx.state.delete("nothing")
    ctx.state.replace({"k": []})
    assert ctx.state.copy() == {"k": []}
    with pytest.raises(InvalidRequest):
        ctx.state.incr("k")
    with pytest.raises(InvalidRequest):
        ctx.state.merge({}, "other")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest):
        ctx.state.delete("")


def test_state_versions() -> None:
    ctx = AgentContext()
    seen = ctx.state.version
    ctx.log.log("info", "does not touch the state")
    ctx.state.merge({"a": 1}, expected=seen)
    with pytest.raises(Conflict) as stale:
        ctx.state.merge({"a": 2}, expected=seen)
    assert stale.value.details["versions"]["state"] == ctx.state.version
    assert ctx.state["a"] == 1


def test_session_context() -> None:
    ctx = AgentContext()
    assert ctx.session_context.get() == {}
    assert (ctx.session_context.summary, ctx.session_context.plan) == ("", [])
    ctx.session_context.save(goal="g", plan=["one", {"text": "two", "status": "active"}], mine=[1])
    ctx.session_context.save(summary="s", progress=["one"])
    assert ctx.session_context.plan == [{"text": "one", "status": "done"}, {"text": "two", "status": "active"}]
    ctx.session_context.step(1, "done")
    assert [step["status"] for step in ctx.session_context.plan] == ["done", "done"]
    assert (ctx.session_context.goal, ctx.session_context.summary) == ("g", "s")
    assert ctx.session_context.get()["mine"] == [1]
    ctx.session_context.save(goal="")
    assert ctx.session_context.goal == ""
    with pytest.raises(NotFound):
        ctx.session_context.step(2, "done")
    with pytest.raises(InvalidRequest):
        ctx.session_context.step(0, "other")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest):
        ctx.session_context.save(plan=[{"no": "text"}])
    assert ctx.session_context.delete() is True
    assert ctx.session_context.delete() is False


def _changes(before: str, after: str) -> int:
    return int(after.rpartition(":")[2]) - int(before.rpartition(":")[2])
