"""The plain-text fields of a context's main hash: what a row of the contexts list shows.

They are worked out from the changes themselves and written together with them, so they are never behind, and nobody has
to think of them. Text stands as it is, numbers in decimal, ``true`` and ``false``; what is null has no field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from hub.core.changes import Change, Json
from hub.core.contexts import ROW_FIELDS
from hub.record.packing import whole_number

PLAIN: Final = frozenset(ROW_FIELDS)
_PATHS: Final = {f"/{name}": name for name in ROW_FIELDS}
_BOOLEANS: Final = frozenset({"running", "paused"})
_NULL: Final = frozenset({"user_id", "agent"})


class Touched(NamedTuple):
    """What changes do to the plain fields, and why they closed the context if they did."""

    fields: dict[str, str | None]
    closed: str | None


def touched(changes: Sequence[Change]) -> Touched:
    """The last value of each plain field that the changes set; None takes the field away."""
    fields: dict[str, str | None] = {}
    closed: str | None = None
    for change in changes:
        for part in change.parts:
            if part["kind"] == "patch":
                for op in part["ops"]:
                    path = op["path"]
                    if path in _PATHS:
                        fields[_PATHS[path]] = _to_text(op.get("value"))
                    elif not path:
                        fields |= {name: _to_text(op["value"].get(name)) for name in ROW_FIELDS}
            elif part["kind"] == "closed":
                closed = part["reason"]
    return Touched(fields, closed)


def values(fields: Mapping[str, str]) -> dict[str, Json]:
    """The plain fields of a main hash as the document has them. Raises Malformed."""
    return {name: _from_text(name, fields.get(name)) for name in ROW_FIELDS}


def ms_of(text: str | None) -> int:
    """A time in milliseconds since 1970 (the score of a context in an index is that of its creation); 0 if it is none."""
    try:
        return round(datetime.fromisoformat(text or "").timestamp() * 1000)
    except ValueError:
        return 0


def _to_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _from_text(name: str, text: str | None) -> Json:
    if name in _BOOLEANS:
        return text == "true"
    if name == "no":
        return whole_number(text or "", "the number of a context")
    return text if text is not None or name in _NULL else ""
