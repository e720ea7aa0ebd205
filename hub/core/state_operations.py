"""Operations on session state, output, private data and metadata. A write that changes nothing makes no part."""

from __future__ import annotations

from hub.core.changes import Json
from hub.core.draft import Draft
from hub.core.errors import InvalidRequest, NotFound
from hub.core.pointer import find, index_of, join, shown, split
from hub.core.requests import (
    DataDelete,
    DataSet,
    MetadataSet,
    OutputDelete,
    OutputSet,
    StateAppend,
    StateDelete,
    StateIncr,
    StateMerge,
    StateRemove,
)
from hub.core.values import MAX_DEPTH, MAX_INTEGER, check_key, depth, same

_ABSENT = object()


def state_merge(draft: Draft, op: StateMerge) -> None:
    """Put members into the state, by the mode."""
    if op.mode == "replace":
        for key in sorted(draft.document["state"].keys() - op.value.keys()):  # in one order, whatever happened before
            draft.remove("state", key)
    for key, value in op.value.items():
        _merge(draft, ["state", key], draft.document["state"].get(key, _ABSENT), value, deep=op.mode == "deep")


def _merge(draft: Draft, tokens: list[str], old: Json, value: Json, *, deep: bool) -> None:
    if deep and isinstance(value, dict) and isinstance(old, dict):
        for key, item in value.items():
            _merge(draft, [*tokens, key], old.get(key, _ABSENT), item, deep=True)
    elif old is _ABSENT or not same(old, value):
        draft.set(value, *tokens)


def state_delete(draft: Draft, op: StateDelete) -> None:
    """Take a member or an item away."""
    tokens = _state_path(op.path)
    if _get(draft, tokens) is not _ABSENT:
        draft.remove(*tokens)


def state_incr(draft: Draft, op: StateIncr) -> None:
    """Add to a number. Raises InvalidRequest if there is something else, or the sum is none that JSON can hold."""
    tokens = _state_path(op.path)
    old = _get(draft, tokens)
    number = 0 if old is _ABSENT else old
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise InvalidRequest(f"{shown(op.path)}: incr needs a number there, not {_name(old)}")
    total = number + op.by
    if not -MAX_INTEGER <= total <= MAX_INTEGER:
        raise InvalidRequest(f"{shown(op.path)}: the sum is beyond 2**53-1")
    if old is _ABSENT:
        _put(draft, tokens, total)
    elif op.by:
        draft.replace(total, *tokens)


def state_append(draft: Draft, op: StateAppend) -> None:
    """Append to a list. Raises InvalidRequest if there is something else."""
    tokens = _state_path(op.path, 1 + depth(op.value))
    old = _get(draft, tokens)
    if old is _ABSENT:
        _put(draft, tokens, [op.value])
    elif isinstance(old, list):
        draft.set(op.value, *tokens, "-")
    else:
        raise InvalidRequest(f"{shown(op.path)}: append needs a list there, not {_name(old)}")


def state_remove(draft: Draft, op: StateRemove) -> None:
    """Remove from a list. Raises InvalidRequest if there is something else."""
    tokens = _state_path(op.path)
    old = _get(draft, tokens)
    if old is _ABSENT:
        return
    if not isinstance(old, list):
        raise InvalidRequest(f"{shown(op.path)}: remove needs a list there, not {_name(old)}")
    for index, item in enumerate(old):
        if same(item, op.value):
            draft.remove(*tokens, str(index))
            return


def output_set(draft: Draft, op: OutputSet) -> None:
    """Set a key of the output data."""
    check_key(op.key, "")
    _merge(draft, ["output", op.key], draft.document["output"].get(op.key, _ABSENT), op.value, deep=False)


def output_delete(draft: Draft, op: OutputDelete) -> None:
    """Delete a key of the output data."""
    if op.key in draft.document["output"]:
        draft.remove("output", op.key)


def metadata_set(draft: Draft, op: MetadataSet) -> None:
    """Set a key of the metadata; None deletes it."""
    check_key(op.key, "")
    old = draft.document["metadata"].get(op.key, _ABSENT)
    if op.value is not None:
        _merge(draft, ["metadata", op.key], old, op.value, deep=False)
    elif old is not _ABSENT:
        draft.remove("metadata", op.key)


def data_set(draft: Draft, op: DataSet) -> None:
    """Set a key of the private data."""
    check_key(op.key, "")
    data = draft.state.data
    if op.key not in data or not same(data[op.key], op.value):
        draft.add({"kind": "data", "key": op.key, "value": op.value})


def data_delete(draft: Draft, op: DataDelete) -> None:
    """Delete a key of the private data."""
    if op.key in draft.state.data:
        draft.add({"kind": "data", "key": op.key})


def _state_path(path: str, levels: int = 0) -> list[str]:
    """The tokens of a place in the state that is to hold so many more levels. Raises InvalidRequest."""
    tokens = split(path)
    if not tokens:
        raise InvalidRequest("the path names no member of the state; use state.merge with mode 'replace' for all of it")
    if len(tokens) + levels > MAX_DEPTH:
        raise InvalidRequest(f"{shown(path)}: nested deeper than {MAX_DEPTH} levels")
    return ["state", *tokens]


def _get(draft: Draft, tokens: list[str]) -> Json:
    try:
        return find(draft.document, tokens)
    except LookupError:
        return _ABSENT


def _put(draft: Draft, tokens: list[str], value: Json) -> None:
    """Set a value; objects that are missing on the way to it are made."""
    for level, token in enumerate(tokens):
        check_key(token, join(tokens[1:level]))
    holder: Json = draft.document
    for level, token in enumerate(tokens[:-1]):
        if isinstance(holder, dict) and token not in holder:
            for missing in reversed(tokens[level + 1 :]):
                value = {missing: value}
            draft.set(value, *tokens[: level + 1])
            return
        try:
            holder = find(holder, [token])
        except LookupError:
            raise _no_holder(tokens[1 : level + 2]) from None
    if isinstance(holder, dict):
        draft.set(value, *tokens)
        return
    try:
        index_of(holder, tokens[-1])
    except LookupError:
        raise _no_holder(tokens[1:]) from None
    draft.replace(value, *tokens)


def _no_holder(tokens: list[str]) -> NotFound:
    return NotFound(f"{shown(join(tokens))}: there is no object or list item that could hold the value")


def _name(value: Json) -> str:
    if value is None:
        return "null"
    return {"str": "text", "bool": "true or false", "dict": "an object", "list": "a list"}.get(
        type(value).__name__, "a number"
    )
