"""Parts on a state: each fits whole, or not at all."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.core.changes import Change
from hub.core.operations import LogAdd
from hub.core.position import Position
from hub.core.state import ContextState, DoesNotFit
from hub.core.values import json_size
from tests.core.making import T, created, do, furnished, whole
from tests.core.odd import ODD
from tests.core.random_requests import PATHS, VALUES

ENTRY = {"no": 2, "id": "n2", "type": "info", "heading": "", "content": "", "kvps": {}, "timestamp": T}


def change(state: ContextState, *parts: Any) -> Change:
    return Change(state.position.after(), list(parts))


@pytest.mark.parametrize("position", [Position("e1", 1), Position("e1", 9), Position("e2", 6), Position("e1", 0)])
def test_only_the_next_change_fits(position: Position) -> None:
    state = furnished()
    before = whole(state)
    with pytest.raises(DoesNotFit):
        state.apply(Change(position, []))
    assert whole(state) == before


def test_a_change_without_parts_moves_the_position() -> None:
    state = furnished()
    before = state.position
    undo = state.apply(change(state))
    assert state.position == before.after()
    undo()
    assert state.position == before


WRONG: list[Any] = [
    {"kind": "weather"},
    {"kind": None},
    {"kind": ["patch"]},
    {},
    None,
    "patch",
    {"kind": "patch"},
    {"kind": "patch", "ops": None},
    {"kind": "patch", "ops": [None]},
    {"kind": "patch", "ops": [{"op": "add", "path": "/name", "value": "x"}, {"op": "remove", "path": "/none"}]},
    {
        "kind": "patch",
        "ops": [{"op": "add", "path": "/name", "value": "x"}, {"op": "add", "path": "name", "value": "x"}],
    },
    {"kind": "patch", "ops": [{"op": "add", "path": "/a~2", "value": "x"}]},
    {"kind": "patch", "ops": [{"op": "add", "path": 5, "value": "x"}]},
    {"kind": "patch", "ops": [{"op": "remove", "path": ""}]},
    {"kind": "patch", "ops": [{"op": "move", "path": "", "value": {}}]},
    {"kind": "patch", "ops": [{"op": "replace", "path": "", "value": []}]},
    {"kind": "patch", "ops": [{"op": "replace", "path": "", "value": {}}]},
    {"kind": "patch", "ops": [{"op": "replace", "path": "", "value": {"log": {"id": "L", "length": "many"}}}]},
    {"kind": "patch", "ops": [{"op": "remove", "path": "/log"}]},
    {"kind": "patch", "ops": [{"op": "replace", "path": "/log/length", "value": 7}]},
    {
        "kind": "patch",
        "ops": [{"op": "replace", "path": "/name", "value": "x"}, {"op": "replace", "path": "/log", "value": 1}],
    },
    {"kind": "log.add"},
    {"kind": "log.add", "entry": {"no": 2}},
    {"kind": "log.add", "entry": {**ENTRY, "no": 3}},
    {"kind": "log.add", "entry": {**ENTRY, "id": "f0"}},
    {"kind": "log.add", "entry": {**ENTRY, "content": 5}},
    {"kind": "log.add", "entry": {**ENTRY, "id": ["n2"]}},
    {"kind": "log.update", "id": "none", "heading": "h"},
    {"kind": "log.update", "id": "f0", "heading": "h", "kvps": 5},
    {"kind": "log.append", "id": "none", "at": 0, "text": "x"},
    {"kind": "log.append", "id": "f0", "at": 0, "text": "x"},
    {"kind": "log.append", "id": "f0", "at": 4, "text": None},
    {"kind": "log.reset"},
    {"kind": "log.trim"},
    {"kind": "log.trim", "before": 0},
    {"kind": "log.trim", "before": 3},
    {"kind": "log.trim", "before": "1"},
    {"kind": "log.trim", "before": True},
    {"kind": "patch", "ops": [{"op": "add", "path": "/log/first", "value": 1}]},
    {"kind": "patch", "ops": [{"op": "replace", "path": "", "value": {"log": {"id": "L", "length": 1, "first": 2}}}]},
    {"kind": "patch", "ops": [{"op": "replace", "path": "", "value": {"log": {"id": "L", "length": 1, "first": "0"}}}]},
    {"kind": "data"},
    {"kind": "data", "key": []},
    {"kind": "key", "key": "w/1"},
    {"kind": "key", "key": 5, "digest": "d", "result": {}},
    {"kind": "closed"},
]


@pytest.mark.parametrize("part", WRONG, ids=str)
def test_what_does_not_fit_leaves_nothing_half_done(part: Any) -> None:
    state = furnished()
    before = whole(state)
    fits: Any = [
        {"kind": "data", "key": "new", "value": 1},
        {"kind": "log.append", "id": "f1", "at": 3, "text": "x"},
        {
            "kind": "patch",
            "ops": [{"op": "remove", "path": "/queue/0"}, {"op": "add", "path": "/state/z", "value": [1]}],
        },
    ]
    with pytest.raises(DoesNotFit):
        state.apply(change(state, *fits, part))
    assert whole(state) == before


PARTS = st.one_of(
    st.sampled_from(WRONG),
    ODD,
    st.fixed_dictionaries(
        {"kind": st.just("patch")},
        optional={
            "ops": st.lists(
                st.fixed_dictionaries(
                    {
                        "op": st.sampled_from(["add", "replace", "remove", "test"]),
                        "path": PATHS.map("/state".__add__) | ODD,
                    },
                    optional={"value": VALUES},
                ),
                max_size=3,
            )
        },
    ),
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(
                ["log.add", "log.update", "log.append", "log.reset", "log.trim", "data", "key", "closed"]
            )
        },
        optional={
            "before": st.sampled_from([1, 2]) | ODD,
            "id": st.sampled_from(["f0", "f1", "x"]) | ODD,
            "entry": st.just(ENTRY) | ODD,
            "at": st.sampled_from([0, 3, 4]) | ODD,
            "text": ODD,
            "heading": ODD,
            "content": ODD,
            "kvps": ODD,
            "log_id": ODD,
            "key": ODD,
            "value": VALUES,
            "digest": ODD,
            "result": ODD,
            "reason": ODD,
        },
    ),
)


@settings(max_examples=200)
@given(st.lists(PARTS, max_size=4))
def test_any_parts_fit_or_do_not_and_are_taken_back(parts: list[Any]) -> None:
    state = furnished()
    before = whole(state)
    try:
        undo = state.apply(change(state, *parts))
    except DoesNotFit:
        assert whole(state) == before
        return
    undo()
    assert whole(state) == before


def test_the_end_is_the_last_change() -> None:
    state = furnished()
    before = whole(state)
    undo = state.apply(change(state, {"kind": "closed", "reason": "removed"}, {"kind": "data", "key": "k", "value": 1}))
    assert (state.closed, state.exists) == ("removed", False)
    with pytest.raises(DoesNotFit):
        state.apply(change(state))
    undo()
    assert state.exists
    assert whole(state) == before


def test_the_root_is_replaced_and_the_log_with_it() -> None:
    state = furnished()
    before = whole(state)
    document = {**state.document, "name": "anew", "log": {"id": "other", "length": 0}}
    ops = [{"op": "add", "path": "/state/z", "value": 1}, {"op": "replace", "path": "", "value": document}]
    parts = [{"kind": "patch", "ops": ops}, {"kind": "log.add", "entry": {**ENTRY, "no": 0}}]
    undo = state.apply(change(state, *parts))
    assert (state.log.id, state.log.length, state.document["log"]) == ("other", 1, {"id": "other", "length": 1})
    assert state.size == json_size(state.document)
    assert document["log"] == {"id": "other", "length": 0}
    undo()
    assert whole(state) == before


def test_a_context_that_is_written_anew_has_its_whole_log() -> None:
    lost = furnished()
    log: Any = {"id": lost.log.id, "length": 0}
    parts: list[Any] = [
        {
            "kind": "patch",
            "ops": [
                {"op": "replace", "path": "", "value": lost.document},
                {"op": "replace", "path": "/log", "value": log},
            ],
        },
        *({"kind": "log.add", "entry": entry} for entry in lost.log.to_json()["entries"]),
        *({"kind": "data", "key": key, "value": value} for key, value in lost.data.items()),
    ]
    state = ContextState(Position("e2", 0))
    state.apply(Change(Position("e2", 1), parts))
    assert {**state.snapshot(), "epoch": "e1", "seq": lost.position.seq} == lost.snapshot()
    assert log == {"id": lost.log.id, "length": 0}


def test_the_size_is_exact_over_every_length_of_the_log() -> None:
    state = created()
    for number in range(102):
        do(state, LogAdd("info"), nonce=str(number))
        assert state.size == json_size(state.document)


def test_a_snapshot_of_the_newest_entries() -> None:
    state = furnished()
    snapshot = msgspec.json.decode(msgspec.json.encode(state.snapshot()))
    snapshot["log"]["entries"] = snapshot["log"]["entries"][1:]
    reader = ContextState.from_snapshot(snapshot)
    assert (reader.log.first, reader.log.length, reader.size) == (1, 2, state.size)
    assert reader.snapshot()["document"] == state.document


def test_values_of_parts_stay_the_callers() -> None:
    state = created()
    value = {"a": [1]}
    state.apply(change(state, {"kind": "patch", "ops": [{"op": "add", "path": "/state/v", "value": value}]}))
    state.apply(change(state, {"kind": "patch", "ops": [{"op": "add", "path": "/state/v/a/-", "value": 2}]}))
    assert value == {"a": [1]}


def test_deleting_what_is_not_there() -> None:
    state = created()
    before = whole(state)
    undo = state.apply(change(state, {"kind": "data", "key": "none"}))
    assert state.data == {}
    undo()
    assert whole(state) == before


def test_the_size_is_exact_over_a_reset() -> None:
    state = created()
    do(state, *[LogAdd("info")] * 12)
    undo = state.apply(change(state, {"kind": "log.reset", "log_id": "another, longer id"}))
    assert state.size == json_size(state.document)
    undo()
    assert state.size == json_size(state.document)
