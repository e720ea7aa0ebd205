"""Which requests a context has applied, so that a retry gets the first outcome and changes nothing.

A key ``writer/n`` belongs to a writer that counts: of the last 256 writers the outcomes of the last 64 n are kept. Any
other key is kept among the last 256 of its sort.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import msgspec

from hub.core.changes import Json, Key, Undo
from hub.core.errors import KeyExpired, KeyReused

_pack: Final = msgspec.msgpack.Encoder().encode
_unpack: Final = msgspec.msgpack.Decoder(tuple[str, dict[str, Any]]).decode

WRITERS: Final = 256
"""Writers that are remembered, and keys of the other sort."""
OUTCOMES: Final = 64
"""Outcomes that are remembered of a writer."""
MAX_KEY: Final = 200
"""Characters of a key."""

Outcome = bytes
"""Digest of the payload and the result that was answered, packed: most are never asked for again."""


class _Writer:
    """``outcomes`` by n, all of them within 64 of ``highest``; ``last`` is the seq of the writer's newest change."""

    __slots__ = ("highest", "last", "outcomes")

    def __init__(self) -> None:
        self.highest = 0
        self.last = 0
        self.outcomes: dict[int, Outcome] = {}


class KeyTable:
    """The outcomes that a context remembers. Each one it takes can be taken back, last one first."""

    __slots__ = ("_in_order", "_others", "_writers")

    def __init__(self) -> None:
        self._writers: dict[str, _Writer] = {}
        self._others: dict[str, tuple[int, Outcome]] = {}  # with the seq of the change, oldest first
        self._in_order = True  # whether ``_others`` really is

    def find(self, key: str, digest: str) -> dict[str, Json] | None:
        """The first outcome of a key, or None if it was never applied. Raises KeyReused, KeyExpired."""
        name, n = split_key(key)
        if n is None:
            outcome = self._others[key][1] if key in self._others else None
        else:
            writer = self._writers.get(name)
            outcome = writer.outcomes.get(n) if writer else None
            if writer and outcome is None and n <= writer.highest - OUTCOMES:
                raise KeyExpired(f"{key!r} is older than the last {OUTCOMES} requests of its writer; use a new key")
        if outcome is None:
            return None
        first, result = _unpack(outcome)
        if first != digest:
            raise KeyReused(f"{key!r} was used for another request; use a new key")
        return result

    def apply(self, part: Key, seq: int) -> Undo:
        """Remember an outcome. Returns what takes it back."""
        outcome = _pack((part["digest"], part["result"]))
        name, n = split_key(part["key"])
        if n is None:
            return self._add_other(name, seq, outcome)
        writer = self._writers.get(name)
        if writer is None:
            return self._add_writer(name, n, seq, outcome)
        outcomes, highest, last = writer.outcomes, writer.highest, writer.last
        before = outcomes.get(n)
        gone: list[tuple[int, Outcome]] = []
        if n > highest:
            for old in range(highest - OUTCOMES + 1, min(n - OUTCOMES, highest) + 1):
                if kept := outcomes.pop(old, None):
                    gone.append((old, kept))
            writer.highest = n
        if n > highest - OUTCOMES:
            outcomes[n] = outcome
        if seq > last:  # a field that was loaded may be ahead of the change
            writer.last = seq
        return partial(self._forget, writer, n, before, gone, highest, last)

    def _add_writer(self, name: str, n: int, seq: int, outcome: Outcome) -> Undo:
        evicted: tuple[str, _Writer] | None = None
        if len(self._writers) >= WRITERS:  # the one that has been silent for longest goes
            oldest = min(self._writers, key=lambda name: self._writers[name].last)
            evicted = oldest, self._writers.pop(oldest)
        writer = self._writers[name] = _Writer()
        writer.highest, writer.last = n, seq
        writer.outcomes[n] = outcome
        return partial(self._forget_writer, name, evicted)

    def _forget_writer(self, name: str, evicted: tuple[str, _Writer] | None) -> None:
        del self._writers[name]
        if evicted:
            self._writers[evicted[0]] = evicted[1]

    def _forget(
        self, writer: _Writer, n: int, before: Outcome | None, gone: list[tuple[int, Outcome]], highest: int, last: int
    ) -> None:
        if before is None:
            writer.outcomes.pop(n, None)
        else:
            writer.outcomes[n] = before
        writer.outcomes.update(gone)
        writer.highest, writer.last = highest, last

    def _add_other(self, key: str, seq: int, outcome: Outcome) -> Undo:
        before = self._others.pop(key, None)
        gone: tuple[str, tuple[int, Outcome]] | None = None
        if len(self._others) >= WRITERS:
            if not self._in_order:
                self._others = dict(sorted(self._others.items(), key=lambda item: item[1][0]))
                self._in_order = True
            oldest = next(iter(self._others))
            gone = oldest, self._others.pop(oldest)
        self._others[key] = (seq, outcome)
        return partial(self._forget_other, key, before, gone)

    def _forget_other(
        self, key: str, before: tuple[int, Outcome] | None, gone: tuple[str, tuple[int, Outcome]] | None
    ) -> None:
        del self._others[key]
        if before:
            self._others[key] = before
            self._in_order = False
        if gone:
            self._others = {gone[0]: gone[1], **self._others}

    def fields(self) -> list[str]:
        """The fields that a mirror of this table has."""
        return [f"w/{name}" for name in self._writers] + [f"k/{key}" for key in self._others]

    def dump(self, field: str) -> Json:
        """What a mirror keeps in a field; None if the field is gone."""
        kind, _, name = field.partition("/")
        if kind == "k":
            if name not in self._others:
                return None
            seq, outcome = self._others[name]
            return [seq, *_unpack(outcome)]
        writer = self._writers.get(name)
        return writer and [
            writer.last,
            [[n, *_unpack(outcome)] for n, outcome in sorted(writer.outcomes.items())],
        ]

    def load(self, field: str, value: Json) -> None:
        """Take back what ``dump`` gave. Raises LookupError, TypeError or ValueError for anything else."""
        kind, _, name = field.partition("/")
        if kind == "k":
            seq, digest, result = value
            self._others[name] = (seq, _pack((digest, result)))
            self._in_order = False
            return
        last, outcomes = value
        writer = _Writer()
        writer.last = last
        writer.outcomes = {n: _pack((digest, result)) for n, digest, result in outcomes}
        writer.highest = max(writer.outcomes)
        self._writers[name] = writer


def field_of(key: str) -> str:
    """The field that a key's outcome is kept in by a mirror: its writer's, or the key's own."""
    name, n = split_key(key)
    return f"k/{key}" if n is None else f"w/{name}"


def split_key(key: str) -> tuple[str, int | None]:
    """``("writer", n)`` of a key of the form ``writer/n``; n is None for any other text."""
    name, _, number = key.rpartition("/")
    if name and number.isdigit() and number.isascii() and len(number) <= 15 and (number[0] != "0" or number == "0"):
        return name, int(number)
    return key, None
