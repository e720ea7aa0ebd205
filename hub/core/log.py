"""A context's log: entries in order, text that grows at the price of the text added."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from hub.core.changes import Entry, Json, LogAppend, LogUpdate, Undo
from hub.core.values import json_size, utf16_length


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

    def append(self, part: LogAppend) -> Undo:
        """Add text at the end. Raises LookupError if the text does not begin where the content ends."""
        text, length, units = part["text"], self.length, self.units
        if part["at"] != units:
            raise LookupError(f"text at {part['at']}, the entry ends at {units}")
        self.units = units + utf16_length(text)
        self.length = length + len(text)
        self._pieces.append(text)
        return partial(self._cut_back, length, units)

    def _cut_back(self, length: int, units: int) -> None:
        if len(self._pieces) > 1 and self.length - len(self._pieces[-1]) == length:
            self._pieces.pop()
        else:
            self._pieces = [self.content[:length]]
        self.length, self.units = length, units

    def update(self, part: LogUpdate) -> Undo:
        """Replace what the part names, merge its pairs. Raises TypeError if it has a wrong value; nothing is changed then."""
        kvps = self.kvps
        if "gone" in part:
            gone = frozenset(part["gone"])
            kvps = {key: value for key, value in kvps.items() if key not in gone}
        if "kvps" in part:
            kvps = kvps | part["kvps"]
        before = (self.type, self.heading, self.kvps, self.cut)
        text = (self._pieces, self.length, self.units) if "content" in part else None
        if text:
            content = part["content"]
            units = utf16_length(content)
            self._pieces, self.length, self.units = [content], len(content), units
        self.type = part.get("type", self.type)
        self.heading = part.get("heading", self.heading)
        self.cut = part.get("cut", self.cut)
        self.kvps = kvps
        return partial(self._restore, before, text)

    def _restore(self, before: tuple[str, str, dict[str, Json], int], text: tuple[list[str], int, int] | None) -> None:
        self.type, self.heading, self.kvps, self.cut = before
        if text:  # otherwise the pieces are not the update's: reading may have joined them since
            self._pieces, self.length, self.units = text


class LogState:
    """The entries of one log. Another id means another log: the old one was reset.

    A reader may hold the newest entries only: ``first`` is the number of the oldest one held, 0 if all are here.
    """

    __slots__ = ("_by_id", "entries", "first", "id")

    def __init__(self, id: str, entries: Iterable[Entry] = (), first: int | None = None) -> None:
        """Without ``first``, the first entry tells it."""
        self.id = id
        self.entries = [LogEntry(entry) for entry in entries]
        self.first = first if first is not None else self.entries[0].no if self.entries else 0
        self._by_id = {entry.id: entry for entry in self.entries}

    @property
    def length(self) -> int:
        """How many entries the log has, held here or not. It is also the next entry's number."""
        return self.first + len(self.entries)

    def get(self, id: str) -> LogEntry | None:
        """The entry of that id, if it is held."""
        return self._by_id.get(id)

    def find(self, id: str) -> LogEntry:
        """The entry of that id. Raises LookupError if it is not held."""
        return self._by_id[id]

    def find_if_held(self, id: str) -> LogEntry | None:
        """The entry of that id; None if it may be one that is not held. Raises LookupError if there is none."""
        return self._by_id.get(id) if self.first else self._by_id[id]

    def add(self, entry: Entry) -> Undo:
        """Add an entry at the end. Raises LookupError if it is not the next one of this log."""
        if entry["no"] != self.first + len(self.entries) or entry["id"] in self._by_id:
            raise LookupError(f"entry {entry['no']} {entry['id']!r} is not the next one")
        added = LogEntry(entry)
        self._by_id[added.id] = added
        self.entries.append(added)
        return self._drop_last

    def _drop_last(self) -> None:
        del self._by_id[self.entries.pop().id]

    def tail(self, count: int, most_bytes: int, before: int | None = None) -> list[Entry]:
        """The newest entries held (before number ``before``), oldest first.

        At most ``count`` whole ones and ``most_bytes`` of JSON, but one at least if there is any and ``count`` allows it.
        """
        picked: list[Entry] = []
        end = len(self.entries) if before is None else min(max(before - self.first, 0), len(self.entries))
        for index in range(end - 1, max(end - count, 0) - 1, -1):
            entry = self.entries[index].to_json()
            most_bytes -= json_size(entry)
            if most_bytes < 0 and picked:
                break
            picked.append(entry)
        picked.reverse()
        return picked

    def to_json(self) -> dict[str, Json]:
        """``{id, entries}``, as snapshots have it."""
        return {"id": self.id, "entries": [entry.to_json() for entry in self.entries]}
