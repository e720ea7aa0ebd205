"""One context in the memory record: its packed stream, and a state that holds what was trimmed from it."""

from __future__ import annotations

from typing import Final, NamedTuple

from hub.core.changes import ROOT, RecordEntry
from hub.core.errors import HubError
from hub.core.position import Position
from hub.core.state import ContextState
from hub.record.appending import LARGEST_MESSAGE, check_place
from hub.record.packing import pack, pack_changes, unpack, unpack_entry
from hub.record.plain import ms_of, touched
from hub.record.port import Append, Appended, Loaded, Outcome

_FAREWELL: Final = 8
"""Entries that a tombstone keeps, for who follows the context and learns from them how it ended."""
_MOST_ENTRIES: Final = 4_096
_KEPT_ENTRIES: Final = 2_048


class Prepared(NamedTuple):
    """An entry as the memory record takes it."""

    id: str
    before: str
    last: int
    packed: bytes
    fields: dict[str, str | None]
    closed: str | None
    creates: bool


class _Kept(NamedTuple):
    last: int
    id: str
    before: str
    packed: bytes


def prepare(append: Append) -> Prepared | Appended:
    """Encode an append, or say why it cannot be one."""
    entry, seq = append.entry, append.position.seq
    if not entry.changes:
        return Prepared(entry.id, entry.before, seq, b"", {}, None, False)
    try:
        check_place(append)
        packed = pack_changes(entry.changes)
    except HubError as error:
        return Appended(Outcome.FAILED, error=error)
    fields, closed = touched(entry.changes)
    return Prepared(entry.id, entry.before, seq + len(entry.changes), packed, fields, closed, seq == 0)


class MemoryContext:
    """A context's stream, its end, and its plain fields."""

    def __init__(self, epoch: str, born: str = "", since: str = "") -> None:
        self.epoch = epoch
        self.born = born or epoch
        self.since = since
        self.made_by = ""  # once it is removed: the key of its creation
        self.wanted = ""  # who was stale since the last entry, the first of them
        self.last = self.mirrored = 0
        self.tip = ROOT
        self.held: dict[str, int] = {}
        self.fields: dict[str, str] = {}
        self.created_ms = 0
        self.closed: str | None = None
        self.forget_at: float | None = None
        self._base = ContextState(Position(epoch, 0))
        self._entries: list[_Kept] = []

    def add(self, prepared: Prepared, forget_at: float) -> None:
        """Append an entry that fits; ``forget_at`` is when it is forgotten if the entry closes it."""
        self._entries.append(_Kept(prepared.last, prepared.id, prepared.before, prepared.packed))
        self.last, self.tip = prepared.last, prepared.id
        for name, text in prepared.fields.items():
            if text is None:
                self.fields.pop(name, None)
            else:
                self.fields[name] = text
        if "created_at" in prepared.fields:
            self.created_ms = ms_of(prepared.fields["created_at"])
        if prepared.closed is not None:
            self.closed, self.forget_at = prepared.closed, forget_at
            del self._entries[:-_FAREWELL]
            self.fields, self.held = {}, {}
            self._base = ContextState(Position(self.epoch, 0))  # nobody loads it any more
        elif len(self._entries) > _MOST_ENTRIES:
            self.trim(self._entries[-_KEPT_ENTRIES - 1].last)

    def after(self, seq: int, limit: int) -> tuple[list[RecordEntry], bool]:
        """Entries after a seq, and whether there are more; the first ones there are if the stream begins later."""
        start = next((n for n, kept in enumerate(self._entries) if kept.last > seq), len(self._entries))
        found = [self._entry(kept) for kept in self._entries[start : start + limit]]
        if found and (skip := seq + 1 - found[0].changes[0].position.seq) > 0:
            found[0] = found[0]._replace(changes=found[0].changes[skip:])
        return found, start + limit < len(self._entries)

    def load(self) -> Loaded:
        """The state at the end, a copy."""
        state = self._copy_base()
        changes = [change for kept in self._entries for change in self._entry(kept).changes]
        for change in changes:
            state.apply(change)
        behind = tuple(change for change in changes if change.position.seq > self.mirrored)
        return Loaded(state, self.tip, self.born, self.mirrored, dict(self.held), behind, self.since)

    def new_epoch(self, epoch: str) -> None:
        """The same changes, in another epoch."""
        self.epoch = epoch
        self._base.position = self._base.position._replace(epoch=epoch)

    def newest(self) -> RecordEntry | None:
        """The last entry, or None if it is too large for a message."""
        kept = self._entries[-1]
        return self._entry(kept) if len(kept.packed) <= LARGEST_MESSAGE else None

    def trim(self, seq: int) -> None:
        """Move entries up to a seq out of the stream, into the state before it."""
        count = 0
        for kept in self._entries[:-1]:  # the last one stays, it is the end
            if kept.last > seq:
                break
            for change in self._entry(kept).changes:
                self._base.apply(change)
            count += 1
        del self._entries[:count]
        self.mirrored = max(self.mirrored, self._base.position.seq)

    def _entry(self, kept: _Kept) -> RecordEntry:
        return unpack_entry(kept.id, kept.before, self.epoch, kept.last, kept.packed)

    def _copy_base(self) -> ContextState:
        base = self._base
        state = ContextState(base.position)
        if base.position.seq:
            snapshot = unpack(pack(base.snapshot()))
            state = ContextState.from_snapshot(snapshot)
            for field in base.keys.fields():
                state.keys.load(field, unpack(pack(base.keys.dump(field))))
        return state
