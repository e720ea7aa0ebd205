"""The short way in for what comes all the time: from the bytes of an ``apply`` straight to the typed request.

It takes only what needs no second look. For anything else it gives None, and the request is read, checked and refused
place by place.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct, inspect

from hub.core.errors import InvalidValue
from hub.core.operations import AnyOperation, Operation
from hub.core.requests import Apply
from hub.core.values import MAX_DEPTH, MAX_INTEGER, check

ENVELOPE: Final = 3
"""Levels of an ``apply`` around the values of its operations: object, list, object."""


class _Applies(Struct, forbid_unknown_fields=True):
    batches: list[Apply]


_apply: Final = msgspec.msgpack.Decoder(Apply).decode
_applies: Final = msgspec.msgpack.Decoder(_Applies).decode


def read_apply(raw: msgspec.Raw) -> Apply | None:
    """The ``apply`` of a packed payload, if nothing is wrong with it."""
    try:
        body = _apply(raw)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return body if _is_plain(body) else None


def read_applies(raw: msgspec.Raw) -> list[Apply] | None:
    """The batches of a packed ``apply.many``, if nothing is wrong with any of them."""
    try:
        bodies = _applies(raw).batches
    except (msgspec.MsgspecError, RecursionError):
        return None
    return bodies if all(map(_is_plain, bodies)) else None


def _is_plain(body: Apply) -> bool:
    """Whether the values that have no schema are as ``check`` would leave them."""
    if body.run is not None and not -MAX_INTEGER <= body.run.fence <= MAX_INTEGER:
        return False
    for op in body.ops:
        for name in _FREE[type(op)]:
            if (value := getattr(op, name)) or isinstance(value, bytes):  # what is empty is plain, but for these
                try:
                    check(value, depth=MAX_DEPTH)
                except InvalidValue:
                    return False
    return True


_CLOSED: Final = (inspect.StrType, inspect.BoolType, inspect.NoneType, inspect.LiteralType, inspect.EnumType)


def _is_closed(kind: inspect.Type) -> bool:
    """Whether a schema says all of a member: text that was decoded is well-formed already."""
    if isinstance(kind, inspect.UnionType):
        return all(map(_is_closed, kind.types))
    return isinstance(kind, _CLOSED)


def _free_members(cls: type[Operation]) -> tuple[str, ...]:
    info: Any = inspect.type_info(cls)
    return tuple(field.name for field in info.fields if not _is_closed(field.type))


_FREE: Final[dict[type, tuple[str, ...]]] = {cls: _free_members(cls) for cls in AnyOperation.__args__}
"""Of each operation the members that may be any value, or a number."""
