"""What of a log is ready to be printed below what stands there already. Knows nothing of terminals or time."""

from __future__ import annotations

from typing import Literal, NamedTuple

from hub.core.changes import Change, Entry
from hub.core.log import LogEntry, LogState


class Piece(NamedTuple):
    """Something to print. ``whole``: an entry not shown before; ``more``: text that came at the end of a shown one;
    ``again``: a shown one that was changed otherwise."""

    kind: Literal["whole", "more", "again"]
    entry: Entry
    text: str = ""


class LogPrinter:
    """Gives entries out in their order, each once it is settled: another one follows, or nothing works on it any more.

    What happens to an entry after that comes as ``more`` or ``again``, so that nothing is lost on a paper that only grows.
    """

    def __init__(self) -> None:
        self._log = LogState("")
        self._shown: dict[str, tuple[int, int]] = {}  # entry id -> number, characters shown
        self._next = 0
        self._touched: dict[str, bool] = {}  # entry id -> changed otherwise than by appended text

    @property
    def open_entry(self) -> LogEntry | None:
        """The newest entry, while it is not settled."""
        entries = self._log.entries
        return entries[-1] if entries and entries[-1].no >= self._next else None

    def begin(self, log: LogState) -> bool:
        """A snapshot's log. False if it is another log than before, or tells another history: then it is shown anew."""
        same = log.id == self._log.id
        if same:
            for entry in log.entries:
                shown = self._shown.get(entry.id)
                if (shown and shown[0] != entry.no) or (shown is None and entry.no < self._next):
                    same = False
                    break
                if shown:
                    self._touched.setdefault(entry.id, False)
        fresh = same or not self._log.id
        if not same:
            self._shown, self._touched, self._next = {}, {}, log.first
        self._log = log
        self._next = max(self._next, log.first)
        return fresh

    def follow(self, log: LogState, change: Change) -> None:
        """A change that ``log``, the state's log, holds already."""
        for part in change.parts:
            match part["kind"]:
                case "log.reset":
                    self._shown, self._touched, self._next = {}, {}, 0
                case "log.trim":
                    self._next = max(self._next, part["before"])
                    for id in part["ids"]:
                        self._shown.pop(id, None)
                case "log.update":
                    self._touched[part["id"]] = True
                case "log.append":
                    self._touched.setdefault(part["id"], False)
                case _:
                    pass
        if log is not self._log and log.id != self._log.id:
            self._shown, self._touched, self._next = {}, {}, log.first
        self._log = log

    def take(self, *, settled: bool) -> list[Piece]:
        """What can be printed now. ``settled``: the newest entry will not grow soon, so it can be printed too."""
        pieces: list[Piece] = []
        newest = self._log.length - 1
        for id, changed in list(self._touched.items()):
            shown, entry = self._shown.get(id), self._log.get(id)
            if shown is None or entry is None:
                del self._touched[id]  # not shown yet: it will be, as it is then
            elif settled or shown[0] < newest:
                del self._touched[id]
                content = entry.content
                self._shown[id] = (entry.no, len(content))
                if changed:
                    pieces.append(Piece("again", entry.to_json()))
                elif len(content) > shown[1]:
                    pieces.append(Piece("more", entry.to_json(), content[shown[1] :]))
        last = newest if settled else newest - 1
        while self._next <= last:
            entry = self._log.entries[self._next - self._log.first]
            self._shown[entry.id] = (entry.no, entry.length)
            pieces.append(Piece("whole", entry.to_json()))
            self._next += 1
        return pieces
