"""A context's log: entries in order, text that grows at the price of the text added.

Most entries are never touched again, so an entry is kept packed, as the bytes that a mirror keeps of it too. What is
written to is opened, and stays open while it is among the last few that were.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Final, cast, overload

import msgspec

from hub.core.changes import Entry, Json, LogAppend, LogUpdate, Undo
from hub.core.values import json_size, utf16_length

_pack: Final = msgspec.msgpack.Encoder().encode
_unpack: Final = msgspec.msgpack.Decoder().decode

_MEMBERS: Final = frozenset({"no", "id", "type", "heading", "content", "kvps", "timestamp"})
_CANNOT_PACK: Final = (TypeError, ValueError, OverflowError, RecursionError)
"""What packing raises for a text with half a surrogate pair, say."""

MOST_OPEN: Final = 4
"""Small entries of a log that are open at a time."""
SMALL: Final = 4_096
"""Bytes up to which an open entry is packed again. A larger one stays open: packing and opening it in turns would cost
what it takes, whatever is written to it."""


Before = tuple[str, str, dict[str, Json], int, tuple[list[str], int, int] | None]
"""What an update replaces of an entry; its text only if there is another one."""


class LogEntry:
    """One entry. ``content`` is kept in pieces and joined when it is read: appending never copies what is there.

    ``length`` is the content's length in characters, ``units`` in UTF-16 code units.
    """

    __slots__ = ("_pieces", "cut", "heading", "id", "kvps", "length", "no", "timestamp", "type", "units")

    def __init__(self, entry: Entry) -> None:
        content = entry["content"]
        self.no = entry["no"]
        self.id = entry["id"]
        self.type = entry["type"]
        self.heading = entry["heading"]
        self.kvps: dict[str, Json] = dict(entry["kvps"])
        self.timestamp = entry["timestamp"]
        self.cut = entry.get("cut", 0)
        self._pieces = [content]
        self.length = len(content)
        self.units = utf16_length(content)

    @property
    def content(self) -> str:
        """The whole text."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def to_json(self) -> Entry:
        """The entry as it goes over the wire. What is nested in its pairs is the entry's own: not to be changed."""
        entry: Entry = {
            "no": self.no,
            "id": self.id,
            "type": self.type,
            "heading": self.heading,
            "content": self.content,
            "kvps": dict(self.kvps),
            "timestamp": self.timestamp,
        }
        if self.cut:
            entry["cut"] = self.cut
        return entry

    def append(self, part: LogAppend) -> None:
        """Add text at the end. Raises LookupError if the text does not begin where the content ends."""
        text, units = part["text"], self.units
        if part["at"] != units:
            raise LookupError(f"text at {part['at']}, the entry ends at {units}")
        self.units = units + (len(text) if text.isascii() else utf16_length(text))
        self.length += len(text)
        self._pieces.append(text)

    def cut_back(self, length: int, units: int) -> None:
        """Take text from the end: so many characters and code units stay."""
        if len(self._pieces) > 1 and self.length - len(self._pieces[-1]) == length:
            self._pieces.pop()
        else:
            self._pieces = [self.content[:length]]
        self.length, self.units = length, units

    def update(self, part: LogUpdate) -> Before:
        """Replace what the part names, merge its pairs. Returns what ``restore`` takes. Raises TypeError if it has a wrong
        value; nothing is changed then."""
        kvps = self.kvps
        if "gone" in part:
            gone = frozenset(part["gone"])
            kvps = {key: value for key, value in kvps.items() if key not in gone}
        if "kvps" in part:
            kvps = kvps | part["kvps"]
        text = (self._pieces, self.length, self.units) if "content" in part else None
        before: Before = (self.type, self.heading, self.kvps, self.cut, text)
        if text:
            content = part["content"]
            units = utf16_length(content)
            self._pieces, self.length, self.units = [content], len(content), units
        self.type = part.get("type", self.type)
        self.heading = part.get("heading", self.heading)
        self.cut = part.get("cut", self.cut)
        self.kvps = kvps
        return before

    def restore(self, before: Before) -> None:
        """Be as before an update."""
        self.type, self.heading, self.kvps, self.cut, text = before
        if text:  # otherwise the pieces are not the update's: reading may have joined them since
            self._pieces, self.length, self.units = text


class LogState:
    """The entries of one log. Another id means another log: the old one was reset.

    ``begin`` is the number of the oldest entry that is kept anywhere: those before it were trimmed. A reader may hold the
    newest entries only: ``first`` is the number of the oldest one held.
    An entry that is given out is for reading, and is as it was then: later writes may not show in it.
    """

    __slots__ = ("_held", "_nos", "_open", "begin", "first", "id")

    def __init__(self, id: str, entries: Iterable[Entry] = (), first: int | None = None, begin: int = 0) -> None:
        """Without ``first``, the first entry tells it."""
        self.id = id
        self._held: list[bytes | LogEntry] = []
        self._nos: dict[str, int] = {}  # of those held, by id
        self._open: tuple[int, ...] = ()  # numbers of entries that may be packed again, oldest first
        self.begin = begin
        self.first = begin if first is None else first
        for entry in entries:
            if first is None:
                first = self.first = entry["no"]
            self._nos[entry["id"]] = self.length
            self._held.append(_packed(entry))

    @property
    def length(self) -> int:
        """How many entries the log ever had, held here or not. It is also the next entry's number."""
        return self.first + len(self._held)

    @property
    def whole(self) -> bool:
        """Whether all entries that are kept anywhere are held here."""
        return self.first == self.begin

    @property
    def entries(self) -> Entries:
        """Those held, in order."""
        return Entries(self._held)

    def __contains__(self, id: str) -> bool:
        """Whether the entry of that id is held."""
        return id in self._nos

    def get(self, id: str) -> LogEntry | None:
        """The entry of that id, if it is held."""
        no = self._nos.get(id)
        return None if no is None else _opened(self._held[no - self.first])

    def find(self, id: str) -> LogEntry:
        """The entry of that id. Raises LookupError if it is not held."""
        return _opened(self._held[self._nos[id] - self.first])

    def find_if_held(self, id: str) -> LogEntry | None:
        """The entry of that id; None if it may be one that is not held. Raises LookupError if there is none."""
        no = self._no_if_held(id)
        return None if no is None else _opened(self._held[no - self.first])

    def no_of(self, id: str) -> int | None:
        """The number of the entry of that id, if it is held."""
        return self._nos.get(id)

    def ids(self, before: int) -> list[str]:
        """The ids of those held with a smaller number, oldest first."""
        return list(islice(self._nos, max(before - self.first, 0)))

    def packed(self, id: str) -> bytes | None:
        """The entry as msgpack, if it is held and all of it can be packed."""
        no = self._nos.get(id)
        if no is None:
            return None
        held = self._held[no - self.first]
        if isinstance(held, bytes):
            return held
        try:
            return _pack(held.to_json())
        except _CANNOT_PACK:
            return None

    def add(self, entry: Entry) -> Undo:
        """Add an entry at the end. Raises LookupError if it is not the next one of this log."""
        no, id = self.first + len(self._held), entry["id"]
        if entry["no"] != no or id in self._nos:
            raise LookupError(f"entry {entry['no']} {id!r} is not the next one")
        packed = _packed(entry)
        self._nos[id] = no
        self._held.append(packed)
        return self._drop_last

    def _drop_last(self) -> None:
        self._held.pop()
        _, no = self._nos.popitem()
        if no in self._open:
            self._open = tuple(other for other in self._open if other != no)

    def trim(self, before: int) -> Undo:
        """Keep no entry with a smaller number any more. Raises LookupError if the log does not begin before that number, or
        ends before it."""
        if type(before) is not int or not self.begin < before <= self.length:
            raise LookupError(f"a log from {self.begin} to {self.length} cannot begin at {before!r}")
        first, begin, opened = self.first, self.begin, self._open
        gone = {id: self._nos.pop(id) for id in self.ids(before)}
        held = self._held[: len(gone)]
        del self._held[: len(gone)]
        self._open = tuple(no for no in opened if no >= before)
        self.begin, self.first = before, max(before, first)
        return partial(self._untrim, first, begin, gone, held, opened)

    def _untrim(
        self, first: int, begin: int, gone: dict[str, int], held: list[bytes | LogEntry], opened: tuple[int, ...]
    ) -> None:
        self._open = tuple(no for no in opened if no < self.begin) + self._open
        self.first, self.begin = first, begin
        self._nos = gone | self._nos
        self._held[:0] = held

    def append(self, part: LogAppend) -> Undo | None:
        """Add text to an entry; None if it may be one that is not held. Raises LookupError if there is none, or if the
        text does not begin where the content ends."""
        no = self._no_if_held(part["id"])
        if no is None:
            return None
        entry = self._open_entry(no)
        length, units = entry.length, entry.units
        entry.append(part)
        return partial(self._cut_back, no, entry, length, units)

    def _cut_back(self, no: int, entry: LogEntry, length: int, units: int) -> None:
        self._put_back(no, entry)
        entry.cut_back(length, units)

    def update(self, part: LogUpdate) -> Undo | None:
        """Change what the part names; None if the entry may be one that is not held. Raises LookupError if there is none,
        TypeError if the part has a wrong value."""
        no = self._no_if_held(part["id"])
        if no is None:
            return None
        entry = self._open_entry(no)
        return partial(self._restore, no, entry, entry.update(part))

    def _restore(self, no: int, entry: LogEntry, before: Before) -> None:
        self._put_back(no, entry)
        entry.restore(before)

    def restamp(self, id: str, timestamp: str) -> None:
        """Give an entry another time. Raises LookupError if it is not held."""
        self._open_entry(self._nos[id]).timestamp = timestamp

    def _no_if_held(self, id: str) -> int | None:
        """The number of the entry of that id; None if it may be one that is not held. Raises LookupError if there is none."""
        no = self._nos.get(id)
        if no is None and self.whole:
            raise LookupError(id)
        return no

    def _open_entry(self, no: int) -> LogEntry:
        held = self._held[no - self.first]
        if isinstance(held, LogEntry):
            return held
        entry = _opened(held)
        self._put(no, entry)
        return entry

    def _put_back(self, no: int, entry: LogEntry) -> None:
        """Have an entry open that a write was made to. If it was packed since, it is still as it was then: what was
        written to another copy meanwhile was taken back before, but for its time."""
        held = self._held[no - self.first]
        if held is not entry:
            entry.timestamp = _opened(held).timestamp
            self._put(no, entry)

    def _put(self, no: int, entry: LogEntry) -> None:
        self._held[no - self.first] = entry
        if no not in self._open:
            self._open += (no,)
        while len(self._open) > MOST_OPEN:
            at, self._open = self._open[0] - self.first, self._open[1:]
            oldest = self._held[at]
            if isinstance(oldest, LogEntry) and oldest.length <= SMALL:
                packed = _packed(oldest.to_json())
                if isinstance(packed, bytes) and len(packed) <= SMALL:
                    self._held[at] = packed

    def tail(self, count: int, most_bytes: int, before: int | None = None) -> list[Entry]:
        """The newest entries held (before number ``before``), oldest first.

        At most ``count`` whole ones and ``most_bytes`` of JSON, but one at least if there is any and ``count`` allows it.
        """
        picked: list[Entry] = []
        end = len(self._held) if before is None else min(max(before - self.first, 0), len(self._held))
        for index in range(end - 1, max(end - count, 0) - 1, -1):
            entry = _json(self._held[index])
            most_bytes -= json_size(entry)
            if most_bytes < 0 and picked:
                break
            picked.append(entry)
        picked.reverse()
        return picked

    def to_json(self) -> dict[str, Json]:
        """``{id, entries}``, as snapshots have it."""
        return {"id": self.id, "entries": [_json(held) for held in self._held]}


class Entries(Sequence[LogEntry]):
    """Entries of a log for reading, each made when it is asked for."""

    __slots__ = ("_held",)

    def __init__(self, held: list[bytes | LogEntry]) -> None:
        self._held = held

    def __len__(self) -> int:
        return len(self._held)

    @overload
    def __getitem__(self, index: int) -> LogEntry: ...

    @overload
    def __getitem__(self, index: slice) -> list[LogEntry]: ...

    def __getitem__(self, index: int | slice) -> LogEntry | list[LogEntry]:
        held = self._held[index]
        return [_opened(one) for one in held] if isinstance(held, list) else _opened(held)


def _packed(entry: Entry) -> bytes | LogEntry:
    """An entry as it is held. Raises LookupError, TypeError or AttributeError if it is none."""
    content = entry["content"]
    if entry.keys() != _MEMBERS or type(content) is not str or type(entry["kvps"]) is not dict:
        entry = LogEntry(entry).to_json()  # checked, and without what is none of an entry's members
    try:
        return _pack(entry)
    except _CANNOT_PACK:
        return LogEntry(entry)


def _opened(held: bytes | LogEntry) -> LogEntry:
    return LogEntry(_unpack(held)) if isinstance(held, bytes) else held


def _json(held: bytes | LogEntry) -> Entry:
    return cast(Entry, _unpack(held)) if isinstance(held, bytes) else held.to_json()
