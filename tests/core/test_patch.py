from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.core.changes import PatchOp
from hub.core.patch import apply_op
from hub.core.pointer import own, split
from hub.core.values import json_size
from tests.core.random_requests import NAMES, VALUES

DOCUMENT: dict[str, Any] = {"o": {"k": 1, "": [1, 2]}, "l": [0, [1], {"m": 2}], "s": "text", "e": {}, "el": []}
_TOKEN = st.sampled_from(["o", "k", "", "l", "0", "1", "2", "m", "s", "e", "el", "-", "new"]) | NAMES
TOKENS = st.lists(_TOKEN, min_size=1, max_size=3)


def patched(op: PatchOp) -> dict[str, Any]:
    document = own(DOCUMENT)
    assert isinstance(document, dict)
    apply_op(document, op, split(op["path"]))
    return document


@given(st.lists(st.tuples(st.sampled_from(["add", "replace", "remove", "move"]), TOKENS, VALUES), max_size=8))
def test_each_operation_is_done_or_not_weighed_and_taken_back(ops: list[tuple[Any, list[str], Any]]) -> None:
    document = own(DOCUMENT)
    stack = []
    for kind, tokens, value in ops:
        before, given_value = own(document), own(value)
        try:
            undo, grown = apply_op(document, {"op": kind, "path": "", "value": value}, tokens)
        except LookupError:
            assert document == before
            continue
        assert json_size(document) == json_size(before) + grown
        assert value == given_value
        stack.append((before, undo))
    for before, undo in reversed(stack):
        undo()
        assert document == before
    assert json_size(document) == json_size(DOCUMENT)


def test_values_are_copied_in() -> None:
    value = {"x": [1]}
    document: dict[str, Any] = {}
    apply_op(document, {"op": "add", "path": "/a", "value": value}, ["a"])
    apply_op(document, {"op": "add", "path": "/a/x/-", "value": 2}, ["a", "x", "-"])
    assert value == {"x": [1]}
    assert document == {"a": {"x": [1, 2]}}


def test_arrays() -> None:
    assert patched({"op": "add", "path": "/l/0", "value": "first"})["l"][:2] == ["first", 0]
    assert patched({"op": "add", "path": "/l/3", "value": "last"})["l"][3] == "last"
    assert patched({"op": "add", "path": "/l/-", "value": "last"})["l"][3] == "last"
    assert patched({"op": "remove", "path": "/l/1"})["l"] == [0, {"m": 2}]
    assert patched({"op": "replace", "path": "/l/2/m", "value": 3})["l"][2] == {"m": 3}


@pytest.mark.parametrize(
    "op",
    [
        {"op": "replace", "path": "/new", "value": 1},
        {"op": "remove", "path": "/new"},
        {"op": "add", "path": "/new/deep", "value": 1},
        {"op": "add", "path": "/s/0", "value": 1},
        {"op": "add", "path": "/l/4", "value": 1},
        {"op": "replace", "path": "/l/3", "value": 1},
        {"op": "replace", "path": "/l/-", "value": 1},
        {"op": "remove", "path": "/l/-"},
        {"op": "move", "path": "/l/0", "from": "/o"},
        {"op": "copy", "path": "/o/k", "value": 1},
        {"op": "test", "path": "/l/0", "value": 0},
        {"op": "add", "path": "/o/k"},
        {"op": "add", "path": "/l/0"},
    ],
)
def test_what_does_not_fit(op: Any) -> None:
    document = own(DOCUMENT)
    with pytest.raises(LookupError):
        apply_op(document, op, split(op["path"]))
    assert document == DOCUMENT


def test_values_are_copied_into_arrays_too() -> None:
    for kind in ("add", "replace"):
        value = [1]
        document: dict[str, Any] = {"l": [0]}
        op: Any = {"op": kind, "path": "/l/0", "value": value}
        apply_op(document, op, ["l", "0"])
        apply_op(document, {"op": "add", "path": "/l/0/-", "value": 2}, ["l", "0", "-"])
        assert value == [1]
        assert document["l"][0] == [1, 2]
