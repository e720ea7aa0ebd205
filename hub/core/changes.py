"""What a change is made of. Parts are the wire's own objects: nothing is translated between core, record and wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple, NotRequired, TypedDict

from hub.core.position import Position

Json = Any
"""A JSON value: None, bool, int up to 2**53-1 in magnitude, finite float, str, list, dict with str keys."""

Undo = Callable[[], object]
"""What takes one thing back that was done to a state; called last one first."""


class PatchOp(TypedDict):
    """One RFC 6902 operation of the three that are used."""

    op: Literal["add", "replace", "remove"]
    path: str
    value: NotRequired[Json]


class Entry(TypedDict):
    """A log entry. ``no`` counts 0, 1, 2 ... in its log; ``cut`` says how many characters of content were left out."""

    no: int
    id: str
    type: str
    heading: str
    content: str
    kvps: dict[str, Json]
    timestamp: str
    cut: NotRequired[int]


class Patch(TypedDict):
    """Operations on the document, in order."""

    kind: Literal["patch"]
    ops: list[PatchOp]


class LogAdd(TypedDict):
    """A new entry at the end of the log; it implies that the document's ``log.length`` is one more."""

    kind: Literal["log.add"]
    entry: Entry


class LogUpdate(TypedDict):
    """What changed of an entry. ``kvps`` has only changed pairs and is merged; ``gone`` names those taken away."""

    kind: Literal["log.update"]
    id: str
    type: NotRequired[str]
    heading: NotRequired[str]
    content: NotRequired[str]
    kvps: NotRequired[dict[str, Json]]
    gone: NotRequired[list[str]]
    cut: NotRequired[int]


class LogAppend(TypedDict):
    """Text at the end of an entry's content. ``at`` is where it begins, in UTF-16 code units."""

    kind: Literal["log.append"]
    id: str
    at: int
    text: str


class LogResetPart(TypedDict):
    """An empty log; it implies that the document's ``log`` is ``{id, length: 0}``."""

    kind: Literal["log.reset"]
    log_id: str


class LogTrim(TypedDict):
    """Entries with a number smaller than ``before`` are not kept any more; it implies that the document's ``log.first`` is
    ``before``. ``ids`` are theirs, oldest first."""

    kind: Literal["log.trim"]
    before: int
    ids: list[str]


class Data(TypedDict):
    """A private value; without ``value`` the key was deleted."""

    kind: Literal["data"]
    key: str
    value: NotRequired[Json]


class Key(TypedDict):
    """A request's key and outcome, so that a retry gets the same answer anywhere."""

    kind: Literal["key"]
    key: str
    digest: str
    result: dict[str, Json]


class Closed(TypedDict):
    """The context's end; no change follows."""

    kind: Literal["closed"]
    reason: str


Part = Patch | LogAdd | LogUpdate | LogAppend | LogResetPart | LogTrim | Data | Key | Closed

LOG_KINDS: Final = frozenset({"log.add", "log.update", "log.append", "log.reset", "log.trim"})
PRIVATE_KINDS: Final = frozenset({"data", "key"})


class Change(NamedTuple):
    """What one request did: all of its parts, or it did not happen."""

    position: Position
    parts: list[Part]


class RecordEntry(NamedTuple):
    """One append as the record keeps it: its id, the id of the entry before it, one or more changes in a row.

    The first entry of a context names ``ROOT`` as the one before it.
    """

    id: str
    before: str
    changes: list[Change]


ROOT: Final = "root"
