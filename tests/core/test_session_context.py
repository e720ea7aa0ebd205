"""Summary, goal, plan and progress: one snapshot of them, no history."""

from __future__ import annotations

from typing import Any

import pytest

from hub.core.errors import Conflict, InvalidRequest
from hub.core.operations import SessionContextDelete, SessionContextSave, StateMerge
from hub.core.requests import Apply, Expected
from hub.core.state import ContextState
from tests.core.making import LATER, T, ask, created, do, whole


def save(state: ContextState, now: str = T, **value: Any) -> Any:
    do(state, SessionContextSave(value), now=now)
    return state.document["session_context"]


def plan_of(state: ContextState) -> list[tuple[str, str]]:
    return [(step["text"], step["status"]) for step in state.document["session_context"]["plan"]]


def test_it_is_empty_until_something_is_saved() -> None:
    state = created()
    assert state.document["session_context"] == {}
    assert save(state, summary="s") == {
        "summary": "s",
        "goal": "",
        "plan": [],
        "progress": [],
        "created_at": T,
        "updated_at": T,
    }


def test_an_update_replaces_what_it_names_and_keeps_the_rest() -> None:
    state = created()
    save(state, summary="s", goal="g", plan=["a"], progress=["x"], mood={"is": "fine"})
    assert save(state, LATER, summary="t") == {
        "summary": "t",
        "goal": "g",
        "plan": [{"text": "a", "status": "pending"}],
        "progress": ["x"],
        "mood": {"is": "fine"},
        "created_at": T,
        "updated_at": LATER,
    }
    cleared = save(state, LATER, goal="", plan=[], progress=[])
    assert (cleared["goal"], cleared["plan"], cleared["progress"], cleared["summary"]) == ("", [], [], "t")
    assert cleared["mood"] == {"is": "fine"}


def test_only_what_differs_is_written_and_the_version_moves_then() -> None:
    state = created()
    save(state, summary="s", plan=["a"])
    assert state.document["versions"]["session_context"] == "e1:2"
    assert do(state, SessionContextSave({"summary": "s", "plan": ["a"]}), now=LATER).parts == []
    assert do(state, SessionContextSave({})).parts == []
    [part] = do(state, SessionContextSave({"summary": "t", "plan": ["a"]}), now=LATER).parts
    assert [op["path"] for op in part["ops"]] == [  # type: ignore[typeddict-item]
        "/session_context/summary",
        "/session_context/updated_at",
        "/versions/session_context",
    ]


def test_times_and_ids_are_not_the_writers_to_set() -> None:
    state = created()
    save(state, summary="s")
    assert (
        do(state, SessionContextSave({"created_at": "x", "updated_at": "x", "session_id": "x", "user_id": "x"})).parts
        == []
    )
    assert save(state, LATER, goal="g", created_at=LATER)["created_at"] == T


def test_time_goes_on_though_clocks_differ() -> None:
    state = created()
    save(state, LATER, summary="s")
    assert save(state, T, summary="t")["updated_at"] == LATER


def test_steps() -> None:
    state = created()
    save(
        state, plan=["a", {"text": "b"}, {"text": "c", "status": "active", "note": 1}, {"text": "d", "status": "done"}]
    )
    assert plan_of(state) == [("a", "pending"), ("b", "pending"), ("c", "active"), ("d", "done")]
    assert state.document["session_context"]["plan"][2]["note"] == 1


def test_progress_marks_the_step_that_it_names() -> None:
    state = created()
    save(state, plan=["a", "b", {"text": "c", "status": "active"}])
    save(state, progress=["b", "something else"])
    assert plan_of(state) == [("a", "pending"), ("b", "done"), ("c", "active")]
    save(state, progress=["b", "something else", "c"])
    assert plan_of(state) == [("a", "pending"), ("b", "done"), ("c", "done")]


def test_a_step_is_marked_once() -> None:
    state = created()
    save(state, plan=["a", "a", "a"], progress=["a"])
    assert plan_of(state) == [("a", "done"), ("a", "pending"), ("a", "pending")]
    save(state, progress=["a"])
    assert [status for _, status in plan_of(state)] == ["done", "pending", "pending"]
    save(state, progress=["a", "a"])
    assert [status for _, status in plan_of(state)] == ["done", "done", "pending"]


def test_a_step_that_was_set_back_stays_so_until_progress_names_it_again() -> None:
    state = created()
    save(state, plan=["a", "b"], progress=["a"])
    save(state, plan=[{"text": "a", "status": "active"}, {"text": "b", "status": "pending"}])
    assert plan_of(state) == [("a", "active"), ("b", "pending")]
    save(state, progress=["a", "b"])
    assert plan_of(state) == [("a", "active"), ("b", "done")]
    save(state, progress=["a", "b", "a"])
    assert plan_of(state) == [("a", "done"), ("b", "done")]


def test_a_plan_of_texts_takes_its_marks_from_progress() -> None:
    state = created()
    save(state, plan=["a", "b"], progress=["a"])
    save(state, plan=["b", "a", "c"], progress=["a"])
    assert plan_of(state) == [("b", "pending"), ("a", "done"), ("c", "pending")]
    save(state, plan=["a", "d"])
    assert plan_of(state) == [("a", "done"), ("d", "pending")]


def test_the_values_given_stay_as_they_are() -> None:
    state = created()
    step = {"text": "a"}
    save(state, plan=[step], progress=["a"])
    assert step == {"text": "a"}


def test_a_long_plan_takes_time_in_proportion() -> None:
    texts = [f"step {number}" for number in range(20_000)]
    state = created()
    save(state, plan=texts, progress=texts)
    assert {status for _, status in plan_of(state)} == {"done"}


@pytest.mark.parametrize(
    "value",
    [
        {"summary": 1},
        {"goal": None},
        {"plan": "a"},
        {"plan": [1]},
        {"plan": [{"status": "done"}]},
        {"plan": [{"text": "a", "status": "finished"}]},
        {"plan": [{"text": "a", "status": ["done"]}]},
        {"plan": {}},
        {"progress": "a"},
        {"progress": [{"text": "a"}]},
    ],
)
def test_what_is_refused(value: dict[str, Any]) -> None:
    state = created()
    save(state, goal="g")
    before = whole(state)
    with pytest.raises(InvalidRequest):
        do(state, StateMerge({"a": 1}), SessionContextSave({"summary": "new", **value}))
    assert whole(state) == before


def test_deleting() -> None:
    state = created()
    save(state, goal="g")
    do(state, SessionContextDelete())
    assert state.document["session_context"] == {}
    assert do(state, SessionContextDelete()).parts == []
    assert save(state, LATER, goal="h")["created_at"] == LATER


def test_the_later_of_two_writers_is_refused() -> None:
    state = created()
    save(state, goal="g")
    version = state.document["versions"]["session_context"]

    def write(goal: str) -> None:
        ask(
            state,
            Apply(context="c", ops=[SessionContextSave({"goal": goal})], expected=Expected(session_context=version)),
        )

    write("mine")
    with pytest.raises(Conflict):
        write("theirs")
    assert state.document["session_context"]["goal"] == "mine"
