"""The fields of a context's hashes: what each holds, and which of them a part of a change touches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from hub.core.changes import Change, Json, Part, PatchOp
from hub.core.keys import field_of, split_key
from hub.core.state import ContextState
from hub.record.packing import of_packed, pack
from hub.record.plain import PLAIN

MAIN: Final = "main"
GONE: Final = object()
"""Stands for the value of a field that is not there."""


class Place(NamedTuple):
    """A field of one of a context's hashes."""

    hash: str
    field: str

    def __str__(self) -> str:
        return f"{self.hash}/{self.field}"

    @classmethod
    def parse(cls, text: str) -> Place:
        """The place that ``str()`` made a text of."""
        hash, _, field = text.partition("/")
        return cls(hash, field)


class Touch(NamedTuple):
    """What one operation of a patch touches. No place: all of the hash, and for the main hash all of the context."""

    hash: str
    place: Place | None
    whole: bool
    """The field is set anew or deleted; otherwise something inside it changed."""


@lru_cache(4096)  # the same few paths come again and again
def touch_of(path: str) -> Touch:
    """What a patch operation at ``path`` touches."""
    if not path:
        return Touch(MAIN, None, True)
    tokens = path[1:].split("/", 2)
    if "~" in path:
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in tokens]
    if tokens[0] in ("state", "output"):
        place = Place(tokens[0], tokens[1]) if len(tokens) > 1 else None
        return Touch(tokens[0], place, len(tokens) < 3)
    return Touch(MAIN, Place(MAIN, tokens[0]), len(tokens) < 2)


def key_place(key: str) -> Place:
    """Where a request's key is kept."""
    name, n = split_key(key)
    return Place("keys", field_of(key)) if n is None else _writer_place(name)


@lru_cache(1024)
def _writer_place(name: str) -> Place:
    return Place("keys", field_of(f"{name}/0"))


@lru_cache(1024)  # a text that streams is of one entry again and again
def entry_place(id: str) -> Place:
    """Where an entry of the log is kept."""
    return Place("log", id)


def fields_of(state: ContextState, hash: str) -> Iterable[tuple[str, Json]]:
    """All that a hash has to hold, field by field."""
    match hash:
        case "main":
            members = state.document.items()
            return [item for item in members if item[0] not in PLAIN and item[0] not in ("state", "output")]
        case "data":
            return state.data.items()
        case "log":
            return ((entry.id, entry.to_json()) for entry in state.log.entries)
        case "keys":
            return ((field, state.keys.dump(field)) for field in state.keys.fields())
        case _:
            fields: dict[str, Json] = state.document[hash]
            return fields.items()


def value_of(state: ContextState, place: Place) -> Json:
    """What a field has to hold, GONE if there is none (any more)."""
    hash, field = place
    match hash:
        case "main":
            return state.document.get(field, GONE)
        case "data":
            return state.data.get(field, GONE)
        case "log":
            entry = state.log.get(field)
            return GONE if entry is None else entry.to_json()
        case "keys":
            value = state.keys.dump(field)
            return GONE if value is None else value
        case _:
            return state.document[hash].get(field, GONE)


def is_there(state: ContextState, place: Place) -> bool:
    """Whether a field has to hold anything."""
    return place.field in state.log if place.hash == "log" else value_of(state, place) is not GONE


def packed_of(state: ContextState, place: Place) -> bytes | None:
    """What a field has to hold, packed; None if there is none (any more). An entry of the log is packed already."""
    if place.hash == "log" and (packed := state.log.packed(place.field)) is not None:
        return of_packed(packed)
    value = value_of(state, place)
    return None if value is GONE else pack(value)


class FieldFilter:
    """Picks from changes what concerns fields that the hashes hold at an earlier position."""

    def __init__(self, held: Mapping[str, int]) -> None:
        self._held = {Place.parse(text): seq for text, seq in held.items()}

    def of(self, change: Change) -> Iterator[Part]:
        """The parts of a change that some field lacks."""
        seq = change.position.seq
        for part in change.parts:
            if part["kind"] == "patch":
                ops = [op for op in part["ops"] if self._lacks_op(op, seq)]
                if ops:
                    yield {"kind": "patch", "ops": ops}
            elif part["kind"] in ("log.update", "log.append"):
                if self._lacks(Place("log", part["id"]), seq):
                    yield part
            elif part["kind"] == "key":
                if self._lacks(key_place(part["key"]), seq):
                    yield part

    def _lacks(self, place: Place, seq: int) -> bool:
        return self._held.get(place, seq) < seq

    def _lacks_op(self, op: PatchOp, seq: int) -> bool:
        place = touch_of(op["path"]).place
        return place is not None and self._lacks(place, seq)
