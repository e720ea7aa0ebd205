"""The three patch operations (RFC 6902) that changes use: done in place, taken back exactly, and weighed.

Whoever takes operations back does so last one first: then every holder is again the object that it was.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from hub.core.changes import Json, PatchOp
from hub.core.pointer import find, index_of, own
from hub.core.values import json_size

_ABSENT = object()


class Patched(NamedTuple):
    """What an operation did: ``undo`` takes it back, ``grown`` is by how many bytes of JSON the document is larger."""

    undo: Callable[[], object]
    grown: int


def apply_op(document: dict[str, Any], op: PatchOp, tokens: list[str]) -> Patched:
    """Apply one operation at ``tokens``, a place below the root. Raises LookupError, with nothing changed, if it does not
    fit."""
    kind = op["op"]
    if kind not in ("add", "replace", "remove"):
        raise LookupError(f"unknown operation {kind!r}")
    token = tokens[-1]
    holder = document if len(tokens) == 1 else find(document, tokens[:-1])
    if isinstance(holder, dict):
        return _in_object(holder, token, kind, op)
    if isinstance(holder, list):
        return _in_array(holder, token, kind, op)
    raise LookupError(f"{op['path']}: there is nothing that holds members")


def _in_object(holder: dict[str, Json], token: str, kind: str, op: PatchOp) -> Patched:
    old = holder.get(token, _ABSENT)
    if old is _ABSENT and kind != "add":
        raise LookupError(f"{op['path']}: there is nothing to {kind}")
    if kind == "remove":
        del holder[token]
        grown = -_member_size(token, old, len(holder))
    elif old is _ABSENT:
        value = op["value"]
        grown = _member_size(token, value, len(holder))
        holder[token] = own(value)
        return Patched(partial(holder.__delitem__, token), grown)
    else:
        value = op["value"]
        grown = json_size(value) - json_size(old)
        holder[token] = own(value)
    return Patched(partial(holder.__setitem__, token, old), grown)


def _in_array(holder: list[Json], token: str, kind: str, op: PatchOp) -> Patched:
    if kind == "add":
        index = len(holder) if token in ("-", str(len(holder))) else index_of(holder, token)
        value = op["value"]
        grown = json_size(value) + bool(holder)
        holder.insert(index, own(value))
        return Patched(partial(holder.pop, index), grown)
    index = index_of(holder, token)
    old = holder[index]
    if kind == "remove":
        del holder[index]
        return Patched(partial(holder.insert, index, old), -json_size(old) - bool(holder))
    value = op["value"]
    grown = json_size(value) - json_size(old)
    holder[index] = own(value)
    return Patched(partial(holder.__setitem__, index, old), grown)


def _member_size(key: str, value: Json, others: int) -> int:
    """Bytes of a member in an object with so many others: key, colon, value, and a comma if it is not alone."""
    return json_size(key) + 1 + json_size(value) + (1 if others else 0)
