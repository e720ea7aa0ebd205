"""Which values may enter the hub: one rule for every way in.

JSON values only. Refused, with the path of the place: sets, bytes, dates and other objects, NaN and Infinity, cycles,
keys that are not text, the key ``__proto__`` (parsers in browsers lose it without a word), integers beyond 2**53-1 in
magnitude (a browser could not hold them exactly), nesting deeper than 64. Tuples become lists, subclasses of the plain
types become the plain types, lone surrogates become U+FFFD. Of keys that are the same then, the last one counts, as in
JSON text.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Final

import msgspec

from hub.core.changes import Json
from hub.core.errors import InvalidValue
from hub.core.pointer import join

MAX_INTEGER: Final = 2**53 - 1
MAX_DEPTH: Final = 64
FORBIDDEN_KEY: Final = "__proto__"
_LONGEST_PATH: Final = 1_000

_encode_json = msgspec.json.Encoder().encode


def check(value: object, path: str = "", depth: int = MAX_DEPTH) -> Json:
    """A copy of ``value`` that is plain JSON, at most so deep, and shares nothing with it. Raises InvalidValue with the
    place's path, which begins with ``path``."""
    return _copy(value, path, depth, [], [])


def check_key(key: str, path: str) -> None:
    """Raises InvalidValue if ``key`` cannot be one; ``path`` is the place of the object."""
    if key == FORBIDDEN_KEY:
        raise _refused(f"the key {FORBIDDEN_KEY} is lost in browsers", path, [key])


def clean_text(text: str) -> str:
    """``text`` as a plain str, with lone surrogates replaced by U+FFFD, so that every encoder takes it."""
    if type(text) is not str:
        text = str.__str__(text)  # of an enum, say: its value, whatever its own __str__ gives
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def json_size(value: Json) -> int:
    """Bytes that a checked value takes as UTF-8 JSON."""
    return len(_encode_json(value))


def depth(value: Json) -> int:
    """How many levels a checked value has: 0 for a text or number, 1 for a list or object of such."""
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    return 0


def same(a: Json, b: Json) -> bool:
    """Equality of JSON values: unlike Python's, true is not 1."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(value, b[key]) for key, value in a.items())
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)


def utf16_length(text: str) -> int:
    """Length in UTF-16 code units, the unit of a browser's strings."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _copy(value: object, root: str, depth: int, trail: list[str | int], inside: list[object]) -> Json:
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, int):
        if -MAX_INTEGER <= value <= MAX_INTEGER:
            return int(value)
        raise _refused("an integer beyond 2**53-1; send it as text", root, trail)
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        raise _refused(f"{value} is not a JSON number", root, trail)
    if isinstance(value, (Mapping, list, tuple)):
        return _copy_container(value, root, depth, trail, inside)
    if isinstance(value, (datetime.date, datetime.time)):
        raise _refused("a date; use ISO 8601 text", root, trail)
    raise _refused(f"{_kind(value)}, not a JSON value", root, trail)


def _copy_container(value: object, root: str, depth: int, trail: list[str | int], inside: list[object]) -> Json:
    if len(inside) >= depth:
        again = _first_again([*inside, value])
        if again is not None:
            raise _refused("contains itself", root, trail[:again])
        raise _refused(f"nested deeper than {depth} levels", root, trail)
    inside.append(value)
    copy: Json
    if isinstance(value, Mapping):
        copy = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise _refused(f"a key is {_kind(key)}, not text", root, trail)
            trail.append(key)
            if key == FORBIDDEN_KEY:
                raise _refused(f"the key {FORBIDDEN_KEY} is lost in browsers", root, trail)
            copy[clean_text(key)] = _copy(item, root, depth, trail, inside)
            trail.pop()
    else:
        copy = []
        assert isinstance(value, (list, tuple))
        for index, item in enumerate(value):
            trail.append(index)
            copy.append(_copy(item, root, depth, trail, inside))
            trail.pop()
    inside.pop()
    return copy


def _first_again(values: list[object]) -> int | None:
    """Where the first of them is that was there before."""
    seen: set[int] = set()
    for index, value in enumerate(values):
        if id(value) in seen:
            return index
        seen.add(id(value))
    return None


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1] in 'aeiou' else 'a'} {name}"


def _refused(what: str, root: str, trail: list[str | int]) -> InvalidValue:
    path = root + join(clean_text(token) if isinstance(token, str) else str(token) for token in trail)
    if len(path) > _LONGEST_PATH:
        path = path[:_LONGEST_PATH] + "…"
    return InvalidValue(f"{path or 'the value'}: {what}", path=path)
