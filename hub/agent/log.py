"""A context's log as authors write and read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from hub.agent.alone import AloneLink
from hub.agent.ids import check_entry_id
from hub.agent.secret import SECRETS, Tail
from hub.agent.writer import Writer
from hub.core.changes import Entry
from hub.core.errors import HubError, InvalidRequest, InvalidValue, NotFound, UnknownType
from hub.core.limits import DEFAULT_LIMITS
from hub.core.log import LogEntry
from hub.core.log_operations import cut_kvps
from hub.core.pointer import own
from hub.core.requests import (
    AnyOperation,
    Create,
    EntryType,
    LogAdd,
    LogAppend,
    LogReset,
    LogUpdate,
    ProgressSet,
    RunRef,
)
from hub.core.values import check, clean_text, json_size

if TYPE_CHECKING:
    from hub.agent.context import AgentContext

T = TypeVar("T")
Progress = Literal["persistent", "temporary", "none"]

_TYPES: Final = frozenset(EntryType)
LONGEST: Final = 100_000
"""Characters of a text that travel in one request; what is longer goes in pieces."""
_PROGRESS: Final = ("persistent", "temporary", "none")


class Log:
    """The log of one context. Without a context it keeps entries by itself, for the context that it is given to."""

    def __init__(self) -> None:
        self._context: AgentContext | None = None
        self._own: Writer | None = None
        self._tails: dict[str, Tail] = {}
        self._count = 0

    def __len__(self) -> int:
        with self._writer.lock:
            return len(self._writer.read().log.entries)

    @property
    def context(self) -> AgentContext | None:
        """The context whose log this is."""
        return self._context

    @property
    def id(self) -> str:
        """Of this log; another one after a reset."""
        with self._writer.lock:
            return self._writer.read().log.id

    @property
    def progress(self) -> dict[str, Any]:
        """``{"text", "entry": an entry's id or None, "active"}``."""
        with self._writer.lock:
            return dict(self._writer.read().document["progress"])

    # writing

    def log(
        self,
        type: str,
        heading: str = "",
        content: str = "",
        kvps: Mapping[str, Any] | None = None,
        update_progress: Progress = "persistent",
        id: str | None = None,
        **pairs: Any,
    ) -> LogItem:
        """Add an entry. ``kvps`` and further keywords are its pairs; its heading becomes the progress text, bound to the
        entry (persistent), only until something else says more (temporary), or not (none).

        Raises UnknownType, InvalidValue, Exists for an ``id`` that the log has.
        """
        if update_progress not in _PROGRESS:
            raise InvalidRequest(f"update_progress is one of {', '.join(_PROGRESS)}")
        add = self.addition(type, heading, content, kvps, id, pairs, mask_content=False)
        add.kvps = cut_kvps(add.kvps, self._writer.view.limits) if add.kvps else add.kvps
        weight = 200 + len(add.heading) + len(add.content) + (json_size(add.kvps) if add.kvps else 0)
        writer = self._writer
        with writer.lock:
            self._count += 1
            entry_id = add.id = add.id or f"{writer.name}.{self._count}"
            content = self._whole(entry_id, add.content)
            add.content = content[:LONGEST]
            operations: list[AnyOperation] = [add]
            if add.heading and update_progress != "none":
                active = bool(writer.view.state.document["running"])
                bound = entry_id if update_progress == "persistent" else None
                operations.append(ProgressSet(text=add.heading, active=active, entry=bound))
            try:
                writer.apply(operations, min(weight, 2 * LONGEST))
                self._append(entry_id, content[LONGEST:])
            except HubError:
                self._tails.pop(entry_id, None)
                raise
            return LogItem(self, entry_id, writer.view.state.log.get(entry_id))

    @staticmethod
    def addition(
        type: str,
        heading: str,
        content: str,
        kvps: Mapping[str, Any] | None,
        id: str | None,
        pairs: Mapping[str, Any],
        *,
        mask_content: bool = True,
    ) -> LogAdd:
        """The operation that adds an entry, checked and masked. Raises UnknownType, InvalidValue, InvalidRequest."""
        content = _text(content, "content")
        return LogAdd(
            type=_type(type),
            heading=_short(heading, "heading"),
            content=SECRETS.mask(content) if mask_content else content,
            kvps=_pairs(kvps, pairs),
            id=None if id is None else check_entry_id(id),
        )

    def reset(self) -> None:
        """Empty the log, and give it a new id. Its entries take no more changes."""
        with self._writer.lock:
            self._tails.clear()
            self._writer.apply([LogReset()], 100)

    def set_progress(self, text: str, active: bool = True, entry: LogItem | str | None = None) -> None:
        """Say what is going on. ``entry``: the one that it belongs to."""
        text = _short(text, "text")
        id = entry.id if isinstance(entry, LogItem) else entry
        self._writer.apply([ProgressSet(text=text, active=bool(active), entry=id)], 100 + len(text))

    # reading

    def entries(self, start: int = 0, limit: int | None = None) -> list[LogItem]:
        """Up to ``limit`` entries from number ``start`` on, oldest first; a negative ``start`` counts from the end."""
        with self._writer.lock:
            entries = self._writer.read().log.entries
            first = start if start >= 0 else max(0, len(entries) + start)
            page = entries[first : None if limit is None else first + max(0, limit)]
            return [LogItem(self, entry.id, entry) for entry in page]

    def get(self, id: str) -> LogItem | None:
        """The entry with an id, or None."""
        entry = self.peek(id)
        return None if entry is None else LogItem(self, id, entry)

    def expected(self, add: LogAdd) -> LogItem:
        """An entry that is there, or on its way."""
        assert add.id is not None
        entry = self.peek(add.id)
        if entry is None:
            no, now = len(self), self._writer.link.now()
            entry = LogEntry(
                {
                    "no": no,
                    "id": add.id,
                    "type": add.type,
                    "heading": add.heading,
                    "content": add.content,
                    "kvps": add.kvps,
                    "timestamp": now,
                }
            )
        return LogItem(self, add.id, entry)

    def peek(self, id: str) -> LogEntry | None:
        """The core's entry with an id, for this package."""
        with self._writer.lock:
            return self._writer.read().log.get(id)

    # inside

    @property
    def _writer(self) -> Writer:
        if self._context is not None:
            return self._context.writer
        if self._own is None:
            link = AloneLink()
            self._own = Writer("log", link, DEFAULT_LIMITS)
            self._own.submit(Create(context="log"))
        return self._own

    def attach(self, context: AgentContext) -> list[AnyOperation]:
        """Become the log of a context. Returns what writes the entries that it has. Raises InvalidRequest."""
        if self._context is not None:
            raise InvalidRequest("this log belongs to a context already")
        entries = [] if self._own is None else [entry.to_json() for entry in self._own.read().log.entries]
        self._context, self._own = context, None
        self._count += len(entries)
        return [
            LogAdd(type=e["type"], heading=e["heading"], content=e["content"], kvps=e["kvps"], id=e["id"])
            for e in entries
        ]

    def release(self, run: RunRef | None = None) -> None:
        """Let go of what is held back of streamed texts, in the name of a run."""
        with self._writer.lock:
            for id in list(self._tails):
                self._release(id, run)

    def drop_tails(self) -> None:
        """Forget what is held back: its log is to be emptied."""
        with self._writer.lock:
            self._tails.clear()

    def _release(self, id: str, run: RunRef | None = None) -> None:
        tail = self._tails.pop(id, None)
        if tail is not None and tail.holds:
            self._writer.apply([LogAppend(id=id, text=tail.rest())], 100, run=run)

    def _whole(self, id: str, text: str) -> str:
        self._tails.pop(id, None)
        if not SECRETS or not text:
            return text
        tail = Tail(SECRETS)
        text = tail.whole(text)
        if tail.remembers:
            self._tails[id] = tail
        return text

    def _stream(self, id: str, text: str) -> None:
        with self._writer.lock:
            if SECRETS or id in self._tails:
                tail = self._tails.pop(id, None) or Tail(SECRETS)
                text = tail.piece(text)
                if tail.remembers:
                    self._tails[id] = tail
            self._append(id, text)

    def _append(self, id: str, text: str) -> None:
        for begin in range(0, len(text), LONGEST):
            piece = text[begin : begin + LONGEST]
            self._writer.apply([LogAppend(id=id, text=piece)], 100 + len(piece))

    def _update(self, id: str, op: LogUpdate, weight: int) -> None:
        with self._writer.lock:
            operations: list[AnyOperation] = [op]
            content = ""
            if op.content is not None:
                content = self._whole(id, op.content)
                op.content = content[:LONGEST]
            else:
                self._release(id)
            progress = self._writer.view.state.document["progress"]
            if op.heading and progress["entry"] == id:
                operations.append(ProgressSet(text=op.heading, active=progress["active"], entry=id))
            self._writer.apply(operations, min(weight, 2 * LONGEST))
            self._append(id, content[LONGEST:])


class LogItem:
    """An entry of a log. Attributes show it as it is now, or as it was last if its log was reset."""

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
        """Replace what is named; ``kvps`` and further keywords are merged into the entry's pairs.

        Raises UnknownType, InvalidValue, NotFound once the log was reset (at the next flush if only the hub knows).
        """
        checked = cut_kvps(_pairs(kvps, pairs), self._log._writer.view.limits)
        op = LogUpdate(
            id=self.id,
            type=None if type is None else _type(type),
            heading=None if heading is None else _short(heading, "heading"),
            content=None if content is None else _text(content, "content"),
            kvps=checked or None,
        )
        weight = 200 + len(op.heading or "") + len(op.content or "") + (json_size(checked) if checked else 0)
        self._log._update(self.id, op, weight)

    def stream(self, content: str = "") -> None:
        """Add text at the end; its price is the text added."""
        if content:
            self._log._stream(self.id, _text(content, "content"))

    def _get(self, what: Callable[[LogEntry], T]) -> T:
        writer = self._log._writer
        with writer.lock:
            entry = writer.read().log.get(self.id) or self._last
            if entry is None:
                raise NotFound(f"the log has no entry {self.id!r}; it was reset, or the entry was refused")
            self._last = entry
            return what(entry)

    def __repr__(self) -> str:
        return f"<LogItem {self.id!r}>"


def _text(text: str, name: str) -> str:
    if not isinstance(text, str):
        raise InvalidValue(f"/{name}: a {type(text).__name__}, not text", path=f"/{name}")
    return clean_text(text)


def _short(text: str, name: str) -> str:
    """A text of which only the beginning counts: masked first, so that cutting leaves no half of a secret."""
    return SECRETS.mask(_text(text, name))[:LONGEST]


def _type(type: str) -> str:
    if type not in _TYPES:
        raise UnknownType(f"{str(type)[:60]!r} is not a type of log entry; the types are {', '.join(EntryType)}")
    return str(type)


def _pairs(kvps: Mapping[str, Any] | None, pairs: Mapping[str, Any]) -> dict[str, Any]:
    if not kvps and not pairs:
        return {}
    if kvps is not None and not isinstance(kvps, Mapping):
        raise InvalidValue(f"/kvps: a {type(kvps).__name__}, not a mapping", path="/kvps")
    checked: dict[str, Any] = SECRETS.mask_value(check({**(kvps or {}), **pairs}, "/kvps"))
    return checked
