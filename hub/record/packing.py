"""Values as the record keeps them: msgpack of ``[1, value]``, where 1 is the format's version.

Nothing is ever unpickled. Bytes that are not such a value raise Malformed, whatever they are: what stands in Redis may
have been written by anybody who can reach it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgpack
import msgspec

from hub.core.changes import Change, Json, Part, RecordEntry
from hub.core.errors import Internal, InvalidValue
from hub.core.position import Position

FORMAT: Final = 1
_HEAD: Final = b"\x92\x01"  # an array of two, the first of which is FORMAT

_MOST_DIGITS: Final = 15  # of an integer that every reader holds exactly

_encode = msgspec.msgpack.Encoder().encode


class Malformed(Internal):
    """Bytes in the record that the hub did not write, or that were damaged since."""


def pack(value: Json) -> bytes:
    """Raises InvalidValue for what msgpack cannot hold."""
    try:
        return _HEAD + _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidValue(f"the value cannot be kept in the record: {error}", path="") from error


def of_packed(raw: bytes) -> bytes:
    """What ``pack`` gives for a value that is packed as plain msgpack already."""
    return _HEAD + raw


def unpack(raw: bytes) -> Json:
    """The value that was packed. Raises Malformed."""
    if raw[:2] != _HEAD:
        raise Malformed(f"not a packed value of format {FORMAT}: {raw[:16]!r}")
    try:
        # Binary data and extension types are not JSON; lengths that lie are refused before anything is allocated.
        return msgpack.unpackb(raw[2:], raw=False, strict_map_key=True, max_bin_len=0, max_ext_len=0)
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise Malformed(f"a packed value is damaged: {error}") from error


def unpack_mapping(raw: bytes) -> dict[str, Any]:
    """A mapping that was packed. Raises Malformed."""
    value = unpack(raw)
    if not isinstance(value, dict):
        raise Malformed(f"not a mapping: {raw[:16]!r}")
    return value


def whole_number(text: str, what: str) -> int:
    """A number that the hub wrote as digits, such as a seq; ``what`` the error calls it. Raises Malformed."""
    if not (text.isascii() and text.isdigit()) or len(text) > _MOST_DIGITS:
        raise Malformed(f"{what} is {text[:40]!r}")
    return int(text)


def pack_changes(changes: Sequence[Change]) -> bytes:
    """The parts of an entry's changes. Their positions follow from the entry's stream id."""
    return pack([change.parts for change in changes])


def unpack_entry(id: str, before: str, epoch: str, last: int, raw: bytes) -> RecordEntry:
    """An entry whose last change has the seq ``last``. Raises Malformed."""
    value = unpack(raw)
    if not isinstance(value, list) or not value or len(value) > last or not all(map(_is_parts, value)):
        raise Malformed(f"entry {id!r}: not a list of changes")
    parts: list[list[Part]] = value
    first = last - len(parts) + 1
    return RecordEntry(id, before, [Change(Position(epoch, first + n), item) for n, item in enumerate(parts)])


def _is_parts(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(part, dict) and isinstance(part.get("kind"), str) for part in value
    )
