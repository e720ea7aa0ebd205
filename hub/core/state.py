"""A context's state, and how parts of changes change it and are taken back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from hub.core.changes import (
    Change,
    Closed,
    Data,
    Json,
    Key,
    LogAdd,
    LogAppend,
    LogResetPart,
    LogTrim,
    LogUpdate,
    Part,
    Patch,
    PatchOp,
    Undo,
)
from hub.core.errors import InvalidRequest
from hub.core.keys import KeyTable
from hub.core.log import LogState
from hub.core.patch import apply_op
from hub.core.pointer import own, split
from hub.core.position import Position
from hub.core.values import json_size

_MISFITS: Final = (LookupError, TypeError, ValueError, AttributeError, InvalidRequest, RecursionError, OverflowError)
"""What a part raises that is not what it should be."""


class DoesNotFit(Exception):
    """A change or part that does not fit the state: its reader must load the context again."""


class ContextState:
    """Document, log, private data and keys at one position. Only parts change it; they are taken back last one first."""

    __slots__ = ("closed", "data", "document", "keys", "log", "position", "size")

    def __init__(self, position: Position) -> None:
        self.position = position
        self.document: dict[str, Any] = {}
        self.log = LogState("")
        self.data: dict[str, Json] = {}
        self.keys = KeyTable()
        self.closed: str | None = None
        """Why the context ended; None while it lives."""
        self.size = 2
        """Bytes of the document as JSON, exactly."""

    @property
    def exists(self) -> bool:
        """False before the creation and after the removal."""
        return bool(self.document) and self.closed is None

    @classmethod
    def from_snapshot(cls, snapshot: dict[str, Any]) -> ContextState:
        """The state that ``snapshot()`` was taken of, but for its keys.

        The snapshot's document becomes the state's own. Its log may hold the newest entries only.
        """
        state = cls(Position(snapshot["epoch"], snapshot["seq"]))
        state.document = snapshot["document"] or {}
        id, entries = snapshot["log"]["id"], snapshot["log"]["entries"]
        length, begin = state._log_bounds(len(entries))
        state.log = LogState(id, entries, length - len(entries), begin)
        state.data = dict(snapshot.get("data") or {})
        state.size = json_size(state.document)
        return state

    def snapshot(self) -> dict[str, Any]:
        """``{epoch, seq, document, log: {id, entries}, data}``.

        The document and the data are the state's own: encode them or copy them before the next change.
        """
        return {
            "epoch": self.position.epoch,
            "seq": self.position.seq,
            "document": self.document,
            "log": self.log.to_json(),
            "data": self.data,
        }

    def apply(self, change: Change) -> Undo:
        """Apply the next change, whole or not at all. Returns what takes it back. Raises DoesNotFit."""
        before = self.position
        if change.position != before.after():
            raise DoesNotFit(f"change {change.position} does not follow {before}")
        if self.closed is not None:
            raise DoesNotFit(f"change {change.position} comes after the context's end")
        undo: list[Undo] = []
        self.position = change.position
        try:
            for part in change.parts:
                undo.append(self.apply_part(part))
        except BaseException:
            self.take_back(undo, before)
            raise
        return partial(self.take_back, undo, before)

    def take_back(self, undo: list[Undo], position: Position) -> None:
        """Run what takes back, last first, and stand at ``position`` again."""
        for step in reversed(undo):
            step()
        self.position = position

    def apply_part(self, part: Part) -> Undo:
        """Apply one part; the position is the caller's business. Raises DoesNotFit with nothing changed."""
        try:
            return _APPLY[part["kind"]](self, part)
        except _MISFITS as error:
            raise DoesNotFit(f"{_kind_of(part)}: {error}") from error

    def apply_op(self, op: PatchOp, tokens: list[str]) -> Undo:
        """Apply one operation of a patch; ``tokens`` are those of its path. Raises DoesNotFit with nothing changed."""
        try:
            return self._apply_op(op, tokens)
        except _MISFITS as error:
            raise DoesNotFit(f"patch: {error}") from error

    def _patch(self, part: Patch) -> Undo:
        undo: list[Undo] = []
        try:
            for op in part["ops"]:
                undo.append(self._apply_op(op, split(op["path"])))
        except BaseException:
            self.take_back(undo, self.position)
            raise
        return undo[0] if len(undo) == 1 else partial(self.take_back, undo, self.position)

    def _apply_op(self, op: PatchOp, tokens: list[str]) -> Undo:
        if not tokens:
            return self._replace_root(op)
        undo, grown = apply_op(self.document, op, tokens)
        self.size += grown
        if tokens[0] == "log":
            return self._follow_log(undo, grown)
        return partial(self._undo_op, undo, grown) if grown else undo

    def _undo_op(self, undo: Undo, grown: int) -> None:
        undo()
        self.size -= grown

    def _replace_root(self, op: PatchOp) -> Undo:
        document = op["value"]
        if op["op"] not in ("add", "replace") or not isinstance(document, dict):
            raise LookupError("the root is replaced by an object, and by nothing else")
        before, size = self.document, self.size
        self.document, self.size = own(document), json_size(document)
        return self._follow_log(partial(self._set_document, before, size), 0)

    def _set_document(self, document: dict[str, Any], size: int) -> None:
        self.document, self.size = document, size

    def _follow_log(self, undo: Undo, grown: int) -> Undo:
        """The document's log may be another one after an operation: then no entry of it is held."""
        before = self.log
        try:
            id, bounds = self.document["log"]["id"], self._log_bounds(0)
            if id != before.id or not before.entries:
                self.log = LogState(id, (), *bounds)
            elif bounds != (before.length, before.begin):
                raise LookupError(f"the log ends at {before.length} and begins at {before.begin}, not {bounds}")
        except BaseException:
            self._undo_op(undo, grown)
            raise
        return partial(self._undo_follow, undo, grown, before)

    def _undo_follow(self, undo: Undo, grown: int, log: LogState) -> None:
        self._undo_op(undo, grown)
        self.log = log

    def _log_bounds(self, default: int) -> tuple[int, int]:
        """Where the document says that the log ends and begins; ``default`` if it does not say the end."""
        told = self.document.get("log", {})
        length, begin = told.get("length", default), told.get("first", 0)
        if not isinstance(length, int) or not isinstance(begin, int) or not 0 <= begin <= length:
            raise ValueError(f"a log cannot begin at {begin!r} and end at {length!r}")
        return length, begin

    def _log_add(self, part: LogAdd) -> Undo:
        told = self.document["log"]
        length = self.log.length
        undo = self.log.add(part["entry"])
        told["length"] = length + 1
        grown = len(str(length + 1)) - len(str(length)) if length % 10 == 9 else 0
        self.size += grown
        return partial(self._undo_log_add, undo, told, grown)

    def _undo_log_add(self, undo: Undo, told: dict[str, Json], grown: int) -> None:
        undo()
        told["length"] = self.log.length
        self.size -= grown

    def _log_update(self, part: LogUpdate) -> Undo:
        return self.log.update(part) or _nothing

    def _log_append(self, part: LogAppend) -> Undo:
        return self.log.append(part) or _nothing

    def _log_reset(self, part: LogResetPart) -> Undo:
        before, told, size = self.log, self.document["log"], self.size
        log = {"id": part["log_id"], "length": 0}
        grown = json_size(log) - json_size(told)
        self.log = LogState(part["log_id"])
        self.document["log"] = log
        self.size = size + grown
        return partial(self._undo_log_reset, before, told, size)

    def _undo_log_reset(self, log: LogState, told: dict[str, Json], size: int) -> None:
        self.log, self.document["log"], self.size = log, told, size

    def _log_trim(self, part: LogTrim) -> Undo:
        told, size = self.document["log"], self.size
        undo = self.log.trim(part["before"])
        log = {**told, "first": part["before"]}
        self.document["log"] = log
        self.size = size + json_size(log) - json_size(told)
        return partial(self._undo_log_trim, undo, told, size)

    def _undo_log_trim(self, undo: Undo, told: dict[str, Json], size: int) -> None:
        undo()
        self.document["log"], self.size = told, size

    def _data(self, part: Data) -> Undo:
        key, data = part["key"], self.data
        undo: Undo = partial(data.__setitem__, key, data[key]) if key in data else partial(data.pop, key, None)
        if "value" in part:
            data[key] = part["value"]
        else:
            data.pop(key, None)
        return undo

    def _key(self, part: Key) -> Undo:
        return self.keys.apply(part, self.position.seq)

    def _closed(self, part: Closed) -> Undo:
        before, self.closed = self.closed, part["reason"]
        return partial(setattr, self, "closed", before)


_APPLY: Final[dict[str, Callable[[ContextState, Any], Undo]]] = {
    "patch": ContextState._patch,
    "log.add": ContextState._log_add,
    "log.update": ContextState._log_update,
    "log.append": ContextState._log_append,
    "log.reset": ContextState._log_reset,
    "log.trim": ContextState._log_trim,
    "data": ContextState._data,
    "key": ContextState._key,
    "closed": ContextState._closed,
}


def _nothing() -> None:
    """The part was about an entry that this reader does not hold."""


def _kind_of(part: object) -> str:
    kind = part.get("kind") if isinstance(part, dict) else None
    return repr(kind)[:60]
