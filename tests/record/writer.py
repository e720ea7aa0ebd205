"""A writer that builds entries by hand: it stands where its own state stands, as a node does."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from typing import Any

from hub.core.changes import ROOT, Change, Entry, Part, RecordEntry
from hub.core.position import Position
from hub.core.state import ContextState
from hub.record.port import Append, Appended, Outcome, Record

NOW = "2026-11-29T14:18:00.123Z"
_writers = itertools.count(1)


def document(context: str, epoch: str, **members: Any) -> dict[str, Any]:
    version = f"{epoch}:1"
    return {
        "id": context, "name": "", "type": "user", "no": 1, "created_at": NOW, "last_message": NOW, "user_id": None,
        "metadata": {}, "running": False, "paused": False, "progress": {"text": "", "entry": None, "active": False},
        "state": {}, "output": {}, "session_context": {}, "queue": [], "run": None, "agent": None, "asks": {},
        "log": {"id": "log1", "length": 0},
        "versions": {"state": version, "output": version, "session_context": version},
    } | members  # fmt: skip


def notice(id: str, **members: Any) -> dict[str, Any]:
    """A notice as a node makes them."""
    return {
        "id": id, "type": "info", "title": "", "message": "", "detail": "", "priority": 10, "display_time": 3.0, "group": "",
        "source": "operator", "context": None, "audience": None, "created_at": NOW, "starts_at": None, "expires_at": None,
        "posted": ["key", "digest"],
    } | members  # fmt: skip


def creation(context: str, epoch: str, **members: Any) -> list[Part]:
    return [{"kind": "patch", "ops": [{"op": "replace", "path": "", "value": document(context, epoch, **members)}]}]


def put(path: str, value: Any) -> list[Part]:
    return [{"kind": "patch", "ops": [{"op": "add", "path": path, "value": value}]}]


def log_entry(no: int, id: str, content: str = "", **kvps: Any) -> Entry:
    return {"no": no, "id": id, "type": "info", "heading": "", "content": content, "kvps": kvps, "timestamp": NOW}


def log_add(no: int, id: str, content: str = "", **kvps: Any) -> list[Part]:
    return [{"kind": "log.add", "entry": log_entry(no, id, content, **kvps)}]


class Writer:
    """Stands at ``state``; ``write`` appends there and moves on if that worked."""

    def __init__(self, context: str = "ctx1", epoch: str = "E1") -> None:
        self.context = context
        self.state = ContextState(Position(epoch, 0))
        self.tip = ROOT
        self.last: Append | None = None
        self._name = f"w{next(_writers)}"
        self._numbers = itertools.count(1)

    @property
    def position(self) -> Position:
        return self.state.position

    def append(self, *changes: Sequence[Part], id: str | None = None, **options: Any) -> Append:
        """The next append, not sent yet."""
        positions = (self.position.after(n) for n in itertools.count(1))
        entry = RecordEntry(
            id or f"{self._name}.{next(self._numbers)}",
            self.tip,
            [Change(at, list(parts)) for at, parts in zip(positions, changes, strict=False)],
        )
        self.last = Append(self.context, self.position, entry, **options)
        return self.last

    def take(self, entry: RecordEntry) -> None:
        """Apply an entry that follows."""
        assert entry.before == self.tip
        for change in entry.changes:
            self.state.apply(change)
        self.tip = entry.id

    async def write(self, record: Record, *changes: Sequence[Part], **options: Any) -> Appended:
        append = self.append(*changes, **options)
        (result,) = await record.append([append])
        if result.outcome is Outcome.APPENDED and changes:
            self.take(append.entry)
        return result

    async def create(self, record: Record, *, replace: bool = False, **members: Any) -> Appended:
        return await self.write(record, creation(self.context, self.position.epoch, **members), replace=replace)

    async def catch_up(self, record: Record) -> None:
        more = True
        while more:
            entries, more = await record.read(self.context, self.position)
            for entry in entries:
                self.take(entry)


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def everything(state: ContextState) -> dict[str, Any]:
    """All of a state that two readers must agree on."""
    return {**state.snapshot(), "keys": {field: state.keys.dump(field) for field in sorted(state.keys.fields())}}
