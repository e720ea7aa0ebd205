"""A context's log as authors write and read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from hub.agent.alone import AloneLink
from hub.agent.checks import checked_entry_id, checked_entry_type, checked_text
from hub.agent.log_item import LONGEST, LogItem, checked_pairs, short_text
from hub.agent.secret import SECRETS, Tail
from hub.agent.writer import Writer
from hub.core.errors import HubError, InvalidRequest
from hub.core.limits import DEFAULT_LIMITS
from hub.core.log import LogEntry
from hub.core.log_operations import cut_kvps
from hub.core.requests import (
    AnyOperation,
    Create,
    LogAdd,
    LogReset,
    LogUpdate,
    ProgressSet,
    RunRef,
)
from hub.core.values import json_size

if TYPE_CHECKING:
    from hub.agent.context import AgentContext

Progress = Literal["persistent", "temporary", "none"]

_PROGRESS: Final = ("persistent", "temporary", "none")


class Log:
    """The log of one context. Without a context it keeps entries by itself, for the context that it is given to."""

    def __init__(self) -> None:
        self._context: AgentContext | None = None
        self._own: Writer | None = None
        self._tails: dict[str, Tail] = {}
        self._count = 0

    def __len__(self) -> int:
        """How many entries are kept."""
        with self.writer.lock:
            return len(self.writer.read().log.entries)

    @property
    def context(self) -> AgentContext | None:
        """The context whose log this is."""
        return self._context

    @property
    def id(self) -> str:
        """Of this log; another one after a reset."""
        with self.writer.lock:
            return self.writer.read().log.id

    @property
    def progress(self) -> dict[str, Any]:
        """``{"text", "entry": an entry's id or None, "active"}``."""
        with self.writer.lock:
            return dict(self.writer.read().document["progress"])

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
        add.kvps = cut_kvps(add.kvps, self.writer.view.limits) if add.kvps else add.kvps
        weight = 200 + len(add.heading) + len(add.content) + (json_size(add.kvps) if add.kvps else 0)
        writer = self.writer
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
        content = checked_text(content, "content")
        return LogAdd(
            type=checked_entry_type(type),
            heading=short_text(heading, "heading"),
            content=SECRETS.mask(content) if mask_content else content,
            kvps=checked_pairs(kvps, pairs),
            id=None if id is None else checked_entry_id(id),
        )

    def reset(self) -> None:
        """Empty the log, and give it a new id. Its entries take no more changes."""
        with self.writer.lock:
            self._tails.clear()
            self.writer.apply([LogReset()], 100)

    def set_progress(self, text: str, active: bool = True, entry: LogItem | str | None = None) -> None:
        """Say what is going on. ``entry``: the one that it belongs to."""
        text = short_text(text, "text")
        id = entry.id if isinstance(entry, LogItem) else entry
        self.writer.apply([ProgressSet(text=text, active=bool(active), entry=id)], 100 + len(text))

    # reading

    def entries(self, start: int = 0, limit: int | None = None) -> list[LogItem]:
        """Up to ``limit`` entries from number ``start`` on, oldest first; a negative ``start`` counts from the end. Those that
        are too old to be kept are not among them."""
        with self.writer.lock:
            log = self.writer.read().log
            entries = log.entries
            first = max(0, start - log.first if start >= 0 else len(entries) + start)
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
            no, now = self.writer.read().log.length, self.writer.link.now()
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
        with self.writer.lock:
            return self.writer.read().log.get(id)

    # inside

    @property
    def writer(self) -> Writer:
        """The way to the record: the context's, or one of the log's own."""
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
        """Let go of what is held back of streamed texts, in the name of a run: nothing follows."""
        if not self._tails or self.writer.closed_by is not None:
            return
        with self.writer.lock:
            for id, tail in list(self._tails.items()):
                del self._tails[id]
                if text := tail.rest():
                    self.writer.append(id, text, run=run)

    def show(self) -> None:
        """Let go of what is held back, but for what could well be a secret's beginning: nothing follows for a while."""
        if not self._tails:
            return
        with self.writer.lock:
            for id, tail in self._tails.items():
                if text := tail.pause():
                    self.writer.append(id, text)

    def drop_tails(self) -> None:
        """Forget what is held back: its log is to be emptied."""
        with self.writer.lock:
            self._tails.clear()

    def _whole(self, id: str, text: str) -> str:
        self._tails.pop(id, None)
        if not SECRETS or not text:
            return text
        tail = Tail(SECRETS)
        text = tail.whole(text)
        if tail.remembers:
            self._tails[id] = tail
        return text

    def stream(self, id: str, text: str) -> None:
        """For entries: add text to one."""
        with self.writer.lock:
            if SECRETS or id in self._tails:
                tail = self._tails.pop(id, None) or Tail(SECRETS)
                text = tail.piece(text)
                if tail.remembers:
                    self._tails[id] = tail
            self._append(id, text)

    def _append(self, id: str, text: str) -> None:
        for begin in range(0, len(text), LONGEST):
            self.writer.append(id, text[begin : begin + LONGEST])

    def change(self, id: str, op: LogUpdate, weight: int) -> None:
        """For entries: change one."""
        with self.writer.lock:
            operations: list[AnyOperation] = [op]
            content = ""
            if op.content is not None:
                content = self._whole(id, op.content)
                op.content = content[:LONGEST]
            progress = self.writer.view.state.document["progress"]
            if op.heading and progress["entry"] == id:
                operations.append(ProgressSet(text=op.heading, active=progress["active"], entry=id))
            self.writer.apply(operations, min(weight, 2 * LONGEST))
            self._append(id, content[LONGEST:])
