"""Session state, output, private data, metadata: see also the semantics of session state."""

from __future__ import annotations

from typing import Any

import pytest

from hub.core.errors import Conflict, HubError, InvalidRequest, NotFound, TooLarge
from hub.core.limits import Limits
from hub.core.operations import (
    AnyOperation,
    DataDelete,
    DataSet,
    LogAdd,
    LogAppend,
    MetadataSet,
    OutputDelete,
    OutputSet,
    StateAppend,
    StateDelete,
    StateIncr,
    StateMerge,
    StateRemove,
)
from hub.core.requests import Apply, Expected
from hub.core.values import MAX_INTEGER
from tests.core.making import ask, created, do, whole


def after(before: dict[str, Any], *ops: AnyOperation) -> Any:
    state = created(state=before)
    do(state, *ops)
    return state.document["state"]


def test_merging() -> None:
    stored = {"n": {"x": 1, "y": 2}, "k": [1]}
    assert after(stored, StateMerge({"n": {"x": 9}})) == {"n": {"x": 9}, "k": [1]}
    assert after(stored, StateMerge({"n": {"x": 9}}, "deep")) == {"n": {"x": 9, "y": 2}, "k": [1]}
    assert after(stored, StateMerge({"n": {"x": {"z": 1}}, "k": [2]}, "deep")) == {
        "n": {"x": {"z": 1}, "y": 2},
        "k": [2],
    }
    assert after(stored, StateMerge({"k": 1}, "replace")) == {"k": 1}
    assert after(stored, StateMerge({})) == after(stored, StateMerge({}, "deep")) == stored
    assert after(stored, StateMerge({}, "replace")) == {}


def test_merging_writes_only_what_differs() -> None:
    state = created(state={"a": {"b": 1, "c": 2}})
    parts = do(state, StateMerge({"a": {"b": 1, "c": 3}}, "deep")).parts
    assert parts == [
        {
            "kind": "patch",
            "ops": [
                {"op": "add", "path": "/state/a/c", "value": 3},
                {"op": "replace", "path": "/versions/state", "value": "e1:2"},
            ],
        }
    ]
    assert do(state, StateMerge({"a": {"b": 1, "c": 3.0}})).parts == []
    assert do(state, StateMerge({"a": {"b": True, "c": 3}})).parts != []


def test_callers_values_are_not_the_states() -> None:
    value = {"a": {"b": [1]}}
    state = created(state=value)
    do(state, StateAppend("/a/b", 2), StateMerge({"c": value}))
    assert value == {"a": {"b": [1]}}
    value["a"]["b"].append(9)
    assert state.document["state"] == {"a": {"b": [1, 2]}, "c": {"a": {"b": [1]}}}


def test_counting() -> None:
    assert after({}, StateIncr("/a/b/c"), StateIncr("/a/b/c", 4)) == {"a": {"b": {"c": 5}}}
    assert after({"n": 1}, StateIncr("/n", -3)) == {"n": -2}
    assert after({"n": 1}, StateIncr("/n", 0.5)) == {"n": 1.5}
    assert after({"l": [1, 2]}, StateIncr("/l/1")) == {"l": [1, 3]}
    assert after({}, StateIncr("/n", 0)) == {"n": 0}
    assert after({"": {"/": 1}}, StateIncr("//~1")) == {"": {"/": 2}}
    assert after({"n": MAX_INTEGER - 1}, StateIncr("/n")) == {"n": MAX_INTEGER}


def test_lists() -> None:
    assert after({}, StateAppend("/a/l", 1), StateAppend("/a/l", [2])) == {"a": {"l": [1, [2]]}}
    assert after({"l": [1, True, {"a": 1}]}, StateRemove("/l", True)) == {"l": [1, {"a": 1}]}
    assert after({"l": [2, 1, 1]}, StateRemove("/l", 1.0)) == {"l": [2, 1]}
    assert after({"l": [1]}, StateRemove("/l", 9), StateRemove("/none", 9)) == {"l": [1]}
    assert after({"l": [[1], [2]]}, StateAppend("/l/1", 3)) == {"l": [[1], [2, 3]]}


def test_deleting() -> None:
    assert after({"a": {"b": 1, "c": 2}, "l": [1, 2, 3]}, StateDelete("/a/b"), StateDelete("/l/1")) == {
        "a": {"c": 2},
        "l": [1, 3],
    }
    assert after({"a": 1}, StateDelete("/none"), StateDelete("/a/b"), StateDelete("/none/deep")) == {"a": 1}


@pytest.mark.parametrize(
    ("op", "error"),
    [
        (StateIncr("/text"), InvalidRequest),
        (StateIncr("/true"), InvalidRequest),
        (StateIncr("/null"), InvalidRequest),
        (StateIncr("/l"), InvalidRequest),
        (StateIncr("/big"), InvalidRequest),
        (StateIncr("/n", float("inf")), InvalidRequest),
        (StateIncr("/n", float("nan")), InvalidRequest),
        (StateIncr("/n", 1e300), InvalidRequest),
        (StateIncr("/text/x"), NotFound),
        (StateIncr("/n/x/y"), NotFound),
        (StateIncr("/l/9"), NotFound),
        (StateIncr("/l/9/x"), NotFound),
        (StateIncr("/l/-"), NotFound),
        (StateAppend("/n", 1), InvalidRequest),
        (StateRemove("/n", 1), InvalidRequest),
        (StateIncr(""), InvalidRequest),
        (StateDelete(""), InvalidRequest),
        (StateAppend("", 1), InvalidRequest),
        (StateIncr("n"), InvalidRequest),
        (StateDelete("/~"), InvalidRequest),
        (StateIncr("/x" * 65), InvalidRequest),
        (StateAppend("/x" * 64, 1), InvalidRequest),
    ],
)
def test_what_is_refused(op: AnyOperation, error: type[HubError]) -> None:
    state = created(state={"text": "x", "true": True, "null": None, "l": [1], "n": 1, "big": MAX_INTEGER})
    before = whole(state)
    with pytest.raises(error):
        do(state, StateMerge({"new": 1}), op)
    assert whole(state) == before


def test_a_version_moves_with_its_part_only() -> None:
    state = created()
    assert state.document["versions"] == {"state": "e1:1", "output": "e1:1", "session_context": "e1:1"}
    do(state, LogAdd("info", id="e"))
    do(state, LogAppend("e", "a long text streams by"))
    worked = do(state, StateMerge({"a": 1}), OutputSet("k", 1), StateIncr("/a"))
    assert worked.result["versions"] == {"state": "e1:4", "output": "e1:4"}
    assert state.document["versions"] == {"state": "e1:4", "output": "e1:4", "session_context": "e1:1"}


def test_the_answer_has_the_versions_of_what_was_named_even_if_nothing_changed() -> None:
    state = created(state={"a": 1})
    do(state, LogAdd("info"))
    assert do(state, StateMerge({"a": 1})).result == {"epoch": "e1", "seq": 2, "versions": {"state": "e1:1"}}
    assert do(state, LogAdd("info"), OutputDelete("x"), nonce="2").result["versions"] == {"output": "e1:1"}


def test_expected_versions() -> None:
    state = created()
    do(state, StateMerge({"a": 1}))

    def write(**expected: str) -> Any:
        return ask(
            state, Apply(context="c", ops=[StateMerge({"a": 2}), OutputSet("o", 1)], expected=Expected(**expected))
        )

    with pytest.raises(Conflict) as refused:
        write(state="e1:1", output="e1:1")
    assert refused.value.details == {"versions": {"state": "e1:2", "output": "e1:1", "session_context": "e1:1"}}
    assert "state" in refused.value.message
    for wrong in ("e2:2", "", "2", "e1:02"):
        with pytest.raises(Conflict):
            write(state=wrong)
    assert write(state="e1:2", output="e1:1").result["versions"] == {"state": "e1:3", "output": "e1:3"}


def test_output_metadata_and_data() -> None:
    state = created()
    do(state, OutputSet("a/b", [1]), MetadataSet("m", {"x": 1}), DataSet("d", {"p": 1}), DataSet("n", None))
    assert state.document["output"] == {"a/b": [1]}
    assert state.document["metadata"] == {"m": {"x": 1}}
    assert state.data == {"d": {"p": 1}, "n": None}
    assert "d" not in str(state.document["versions"])
    assert (
        do(state, OutputSet("a/b", [1]), MetadataSet("m", {"x": 1}), DataSet("d", {"p": 1}), DataSet("n", None)).parts
        == []
    )
    do(
        state,
        OutputDelete("a/b"),
        MetadataSet("m"),
        DataDelete("d"),
        DataDelete("none"),
        OutputDelete("none"),
        MetadataSet("none"),
    )
    assert (state.document["output"], state.document["metadata"], state.data) == ({}, {}, {"n": None})


def test_the_document_has_a_bound() -> None:
    limits = Limits(document=2_000)
    state = created()
    before = whole(state)
    with pytest.raises(TooLarge) as refused:
        do(state, StateMerge({"a": "x" * 2_000}), limits=limits)
    assert refused.value.details["limit"] == 2_000
    assert whole(state) == before
    do(state, StateMerge({"a": "x" * 3_000}))
    do(state, StateMerge({"a": "x" * 2_500}), limits=limits)  # over its limit it may still shrink
    do(
        state, LogAdd("info", content="y" * 5_000), DataSet("d", "z" * 5_000), limits=limits
    )  # these are not the document's
    with pytest.raises(TooLarge):
        do(state, StateMerge({"b": 1}), limits=limits)


def test_the_default_bound_is_a_mebibyte() -> None:
    state = created()
    room = 1_048_576 - state.size - len('"a":""')
    with pytest.raises(TooLarge):
        do(state, StateMerge({"a": "x" * (room + 1)}))
    do(state, StateMerge({"a": "x" * room}))
    assert state.size == 1_048_576


def test_many_operations() -> None:
    with pytest.raises(TooLarge):
        do(created(), *[StateIncr("/n")] * 10_001)
    assert after({}, *[StateIncr("/n")] * 10_000) == {"n": 10_000}
