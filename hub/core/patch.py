"""The three patch operations (RFC 6902) that changes use: done in place, taken back exactly, and weighed.

Whoever takes operations back does so last one first: then every holder is again the object that it was.
"""

from __future__ import annotations

from functools import partial

from hub.core.changes import Json, PatchOp, Undo
from hub.core.pointer import index_of, own
from hub.core.values import json_size

Patched = tuple[Undo, int]
"""What takes an operation back, and by how many bytes of JSON the document is larger."""

_ABSENT = object()


def apply_op(document: dict[str, Json], op: PatchOp, tokens: list[str]) -> Patched:
    """Apply one operation at ``tokens``, a place below the root. Raises LookupError, and then nothing has happened."""
    kind = op["op"]
    if kind not in ("add", "replace", "remove"):
        raise LookupError(f"unknown operation {kind!r}")
    holder: Json = document
    for token in tokens[:-1]:
        holder = holder[token] if isinstance(holder, dict) else holder[index_of(holder, token)]
    if isinstance(holder, dict):
        return _in_object(holder, tokens[-1], kind, op)
    if isinstance(holder, list):
        return _in_array(holder, tokens[-1], kind, op)
    raise LookupError(f"{op['path']}: there is nothing that holds members")


def _in_object(holder: dict[str, Json], token: str, kind: str, op: PatchOp) -> Patched:
    old = holder.get(token, _ABSENT)
    if old is _ABSENT:
        if kind != "add":
            raise LookupError(f"{op['path']}: there is nothing to {kind}")
        value = op["value"]
        grown = _member_size(token, value, len(holder))
        holder[token] = own(value)
        return partial(holder.__delitem__, token), grown
    if kind == "remove":
        del holder[token]
        grown = -_member_size(token, old, len(holder))
    else:
        value = op["value"]
        grown = json_size(value) - json_size(old)
        holder[token] = own(value)
    return partial(holder.__setitem__, token, old), grown


def _in_array(holder: list[Json], token: str, kind: str, op: PatchOp) -> Patched:
    if kind == "add":
        index = len(holder) if token in ("-", str(len(holder))) else index_of(holder, token)
        value = op["value"]
        grown = json_size(value) + (1 if holder else 0)
        holder.insert(index, own(value))
        return partial(holder.pop, index), grown
    index = index_of(holder, token)
    old = holder[index]
    if kind == "remove":
        del holder[index]
        return partial(holder.insert, index, old), -json_size(old) - (1 if holder else 0)
    value = op["value"]
    grown = json_size(value) - json_size(old)
    holder[index] = own(value)
    return partial(holder.__setitem__, index, old), grown


def _member_size(key: str, value: Json, others: int) -> int:
    """Bytes of a member in an object with so many others: key, colon, value, and a comma if it is not alone."""
    return json_size(key) + 1 + json_size(value) + (1 if others else 0)
