"""Which requests a context has applied, so that a retry gets the first outcome and changes nothing.

A key ``writer/n`` belongs to a writer that counts: of the last 256 writers the outcomes of the last 64 n are kept. Any
other key is kept among the last 256 of its sort. Most outcomes are never asked for again: they are kept as text, which
takes little, and which a mirror keeps as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any, Final

import msgspec

from hub.core.changes import Json, Key, Undo
from hub.core.errors import KeyExpired, KeyReused

_pack: Final = msgspec.msgpack.Encoder().encode
_unpack: Final = msgspec.msgpack.Decoder(tuple[str, dict[str, Any]]).decode
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode

WRITERS: Final = 256
"""Writers that are remembered, and keys of the other sort."""
OUTCOMES: Final = 64
"""Outcomes that are remembered of a writer."""
MAX_KEY: Final = 200
"""Characters of a key."""

Outcome = bytes
"""Digest of the payload and the result that was answered, packed."""

_RECENT: Final = 16
"""Outcomes that are kept one by one, until there are so many: joining them each time would cost more than the change."""
_LINES: Final = re.compile(r"(?:\n[0-9]{1,15} [^\W_]+ (?:[0-9]{1,15}|\{[^\n]*\}))+")


class _Writer:
    """Outcomes of one writer; ``last`` is the seq of the writer's newest change.

    Each is a line ``"\\n<n> <digest> <result>"``; the result is a seq if it is nothing but a position in ``epoch``, else
    JSON. ``lines`` has them by rising n, then come those of ``recent``. Some are older than the last 64: they count no
    more, and go when the recent ones join the others.
    """

    __slots__ = ("epoch", "highest", "last", "lines", "recent")

    def __init__(self, epoch: str) -> None:
        self.epoch = epoch
        self.highest = -1
        self.last = 0
        self.lines = ""
        self.recent: list[str] | None = None

    def find(self, n: int) -> tuple[str, dict[str, Json]] | None:
        """Digest and result."""
        for number, digest, result in self.all():
            if number == n:
                return digest, result
        return None

    def all(self) -> Iterator[tuple[int, str, dict[str, Json]]]:
        """Every n with its digest and result."""
        for line in self.text().split("\n")[1:]:
            n, digest, result = line.split(" ", 2)
            yield int(n), digest, _decode(result) if result[0] == "{" else {"epoch": self.epoch, "seq": int(result)}

    def put(self, n: int, seq: int, digest: str, result: dict[str, Json]) -> Undo:
        """Keep an outcome. Raises ValueError, TypeError or AttributeError for a wrong one."""
        if not digest.isalnum():
            raise ValueError(f"{digest!r} is no digest")
        at = result.get("seq")
        if len(result) == 2 and type(at) is int and 0 <= at < 10**15 and result.get("epoch") == self.epoch:
            line = f"\n{n} {digest} {at}"
        else:
            line = f"\n{n} {digest} {_encode(result).decode()}"
        lines, recent, highest, last = self.lines, self.recent, self.highest, self.last
        if seq > last:  # a field that was loaded may be ahead of the change
            self.last = seq
        if n > highest:
            self.highest = n
            if n - highest >= OUTCOMES or not lines:  # the others, if there are any, count no more
                self.lines, self.recent = line, None
                return partial(self._restore, lines, recent, highest, last)
            if recent is not None and len(recent) < _RECENT:
                recent.append(line)
                return partial(self._drop_recent, highest, last)
            if recent is None:
                self.recent = [line]
            else:
                self.lines, self.recent = self.text() + line, None
        elif n > highest - OUTCOMES:
            kept = {_number(line): line for line in _split(self.text())} | {n: line}
            self.lines, self.recent = "".join(kept[n] for n in sorted(kept)), None
        return partial(self._restore, lines, recent, highest, last)

    def _drop_recent(self, highest: int, last: int) -> None:
        assert self.recent
        self.recent.pop()
        self.highest, self.last = highest, last

    def _restore(self, lines: str, recent: list[str] | None, highest: int, last: int) -> None:
        self.lines, self.recent, self.highest, self.last = lines, recent, highest, last

    def text(self) -> str:
        """The lines of the last 64 n."""
        lines = self.lines + "".join(self.recent) if self.recent else self.lines
        oldest = self.highest - OUTCOMES
        at = max(lines.find(f"\n{oldest + 1} "), 0)  # it is there if the writer writes to nothing else
        while at >= 0 and _number(lines, at) <= oldest:
            at = lines.find("\n", at + 1)
        return lines[at:] if at >= 0 else ""


def _number(lines: str, at: int = 0) -> int:
    """The n of the line that begins there."""
    return int(lines[at + 1 : lines.index(" ", at)])


def _split(lines: str) -> list[str]:
    return [f"\n{line}" for line in lines.split("\n")[1:]]


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
            outcome = _unpack(self._others[key][1]) if key in self._others else None
        else:
            writer = self._writers.get(name)
            if writer is None or n > writer.highest:
                return None
            if n <= writer.highest - OUTCOMES:
                raise KeyExpired(f"{key!r} is older than the last {OUTCOMES} requests of its writer; use a new key")
            outcome = writer.find(n)
        if outcome is None:
            return None
        first, result = outcome
        if first != digest:
            raise KeyReused(f"{key!r} was used for another request; use a new key")
        return result

    def apply(self, part: Key, seq: int) -> Undo:
        """Remember an outcome. Returns what takes it back."""
        name, n = split_key(part["key"])
        if n is None:
            return self._add_other(name, seq, _pack((part["digest"], part["result"])))
        writer = self._writers.get(name)
        if writer is None:
            return self._add_writer(name, n, seq, part)
        return writer.put(n, seq, part["digest"], part["result"])

    def _add_writer(self, name: str, n: int, seq: int, part: Key) -> Undo:
        epoch = part["result"].get("epoch")
        writer = _Writer(epoch if isinstance(epoch, str) else "")
        writer.put(n, seq, part["digest"], part["result"])
        writer.last = seq
        evicted: tuple[str, _Writer] | None = None
        if len(self._writers) >= WRITERS:  # the one that has been silent for longest goes
            oldest = min(self._writers, key=lambda name: self._writers[name].last)
            evicted = oldest, self._writers.pop(oldest)
        self._writers[name] = writer
        return partial(self._forget_writer, name, evicted)

    def _forget_writer(self, name: str, evicted: tuple[str, _Writer] | None) -> None:
        del self._writers[name]
        if evicted:
            self._writers[evicted[0]] = evicted[1]

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

    @property
    def full(self) -> bool:
        """Whether the next key of some sort pushes out another's."""
        return len(self._writers) >= WRITERS or len(self._others) >= WRITERS

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
        return writer and [writer.last, writer.epoch, writer.text()]

    def first(self) -> str | None:
        """The key of the first change, if it is remembered."""
        for key, (seq, _) in self._others.items():
            if seq == 1:
                return key
        for name, writer in self._writers.items():
            for n, _, result in writer.all():
                if result.get("seq") == 1:
                    return f"{name}/{n}"
        return None

    def parts(self) -> Iterator[Key]:
        """The parts that make the table anew."""
        for name, writer in self._writers.items():
            for n, digest, result in writer.all():
                yield {"kind": "key", "key": f"{name}/{n}", "digest": digest, "result": result}
        for key, (_, outcome) in self._others.items():
            digest, result = _unpack(outcome)
            yield {"kind": "key", "key": key, "digest": digest, "result": result}

    def load(self, field: str, value: Json) -> None:
        """Take back what ``dump`` gave. Raises LookupError, TypeError or ValueError for anything else."""
        kind, _, name = field.partition("/")
        if kind == "k":
            seq, digest, result = value
            outcome = _pack((digest, result))
            _unpack(outcome)  # or raise
            if not isinstance(seq, int):
                raise TypeError("not the outcome of a request")
            self._others[name] = (seq, outcome)
            self._in_order = False
            return
        if len(value) == 2:  # from before lines: a list of n, digest and result
            last, outcomes = value
            writer = _Writer("")
            for n, digest, result in outcomes:
                writer.put(n, last, digest, result)
            if not writer.lines:
                raise ValueError("a writer without outcomes")
            self._writers[name] = writer
            return
        last, epoch, lines = value
        if not isinstance(last, int) or not isinstance(epoch, str) or not _LINES.fullmatch(lines):
            raise ValueError("not the outcomes of a writer")
        writer = _Writer(epoch)
        writer.last, writer.lines = last, lines
        split = _split(lines)
        for line in split:
            if line[-1] == "}":
                _decode(line.split(" ", 2)[2])  # or raise
        numbers = [_number(line) for line in split]
        if sorted(set(numbers)) != numbers:
            raise ValueError("the outcomes of a writer are not in order")
        writer.highest = numbers[-1]
        self._writers[name] = writer


def field_of(key: str) -> str:
    """The field that a key's outcome is kept in by a mirror: its writer's, or the key's own."""
    name, n = split_key(key)
    return f"k/{key}" if n is None else f"w/{name}"


@lru_cache(4096)  # a key is looked up, kept and mirrored, and so many may be under way
def split_key(key: str) -> tuple[str, int | None]:
    """``("writer", n)`` of a key of the form ``writer/n``; n is None for any other text."""
    name, _, number = key.rpartition("/")
    if name and number.isdigit() and number.isascii() and len(number) <= 15 and (number[0] != "0" or number == "0"):
        return name, int(number)
    return key, None
