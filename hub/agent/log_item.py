"""An entry of a log as authors change and read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hub.agent.checks import checked_entry_type, checked_text
from hub.agent.secret import SECRETS
from hub.core.changes import Entry
from hub.core.errors import InvalidValue, NotFound
from hub.core.log import LogEntry
from hub.core.log_operations import cut_kvps
from hub.core.pointer import own
from hub.core.requests import LogUpdate
from hub.core.values import check, json_size

if TYPE_CHECKING:
    from hub.agent.log import Log

T = TypeVar("T")
LONGEST: Final = 100_000
"""Characters of a text that travel in one request; what is longer goes in pieces."""


class LogItem:
    """An entry of a log. Attributes show it as it is now, or as it was last if its log was reset or keeps it no more."""

    __slots__ = ("_last", "_log", "id")

    def __init__(self, log: Log, id: str, last: LogEntry | None = None) -> None:
        self.id = id
        self._log = log
        self._last = last

    @property
    def log(self) -> Log:
        """The log that the entry is in."""
        return self._log

    @property
    def no(self) -> int:
        """0, 1, 2 ... in its log."""
        return self._get(lambda entry: entry.no)

    @property
    def type(self) -> str:
        """One of the types of entries."""
        return self._get(lambda entry: entry.type)

    @property
    def heading(self) -> str:
        """Its title."""
        return self._get(lambda entry: entry.heading)

    @property
    def content(self) -> str:
        """Its text so far. The end of a streamed text may be held back while it could begin a secret."""
        return self._get(lambda entry: entry.content)

    @property
    def kvps(self) -> dict[str, Any]:
        """Its pairs, a copy."""
        return self._get(lambda entry: dict(own(entry.kvps)))

    @property
    def timestamp(self) -> str:
        """When it was added, ISO 8601 UTC."""
        return self._get(lambda entry: entry.timestamp)

    @property
    def cut(self) -> int:
        """Characters of the text that were left out because it was too long."""
        return self._get(lambda entry: entry.cut)

    def output(self) -> Entry:
        """All of it as JSON."""
        return self._get(LogEntry.to_json)

    def update(
        self,
        type: str | None = None,
        heading: str | None = None,
        content: str | None = None,
        kvps: Mapping[str, Any] | None = None,
        **pairs: Any,
    ) -> None:
        """Replace what is named, ``kvps`` too; further keywords are merged into the entry's pairs.

        Raises UnknownType, InvalidValue, NotFound once the log keeps it no more (at the next flush if only the hub knows).
        """
        checked = cut_kvps(checked_pairs(kvps, pairs), self._log.writer.view.limits)
        op = LogUpdate(
            id=self.id,
            type=None if type is None else checked_entry_type(type),
            heading=None if heading is None else short_text(heading, "heading"),
            content=None if content is None else checked_text(content, "content"),
            kvps=checked if checked or kvps is not None else None,
            replace_kvps=kvps is not None,
        )
        weight = 200 + len(op.heading or "") + len(op.content or "") + (json_size(checked) if checked else 0)
        self._log.change(self.id, op, weight)

    def stream(self, content: str = "") -> None:
        """Add text at the end; its price is the text added."""
        if content:
            self._log.stream(self.id, checked_text(content, "content"))

    def _get(self, what: Callable[[LogEntry], T]) -> T:
        writer = self._log.writer
        with writer.lock:
            entry = writer.read().log.get(self.id) or self._last
            if entry is None:
                raise NotFound(f"the log has no entry {self.id!r}: it was reset or trimmed, or the entry was refused")
            self._last = entry
            return what(entry)

    def __repr__(self) -> str:
        return f"<LogItem {self.id!r}>"


def short_text(text: str, name: str) -> str:
    """A text of which only the beginning counts: masked first, so that cutting leaves no half of a secret."""
    return SECRETS.mask(checked_text(text, name))[:LONGEST]


def checked_pairs(kvps: Mapping[str, Any] | None, pairs: Mapping[str, Any]) -> dict[str, Any]:
    """An entry's pairs, checked and masked. Raises InvalidValue."""
    if not kvps and not pairs:
        return {}
    if kvps is not None and not isinstance(kvps, Mapping):
        raise InvalidValue(f"/kvps: a {type(kvps).__name__}, not a mapping", path="/kvps")
    checked: dict[str, Any] = SECRETS.mask_value(check({**(kvps or {}), **pairs}, "/kvps"))
    return checked
