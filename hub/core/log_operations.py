"""Operations on the log and on progress. Texts beyond their limit are cut here, whatever way they came in.

A reader that holds the newest entries only shows nothing of a write to an older one; who holds the whole log works it out.
"""

from __future__ import annotations

from typing import Any, Final

from hub.core.changes import Entry, Json
from hub.core.changes import LogUpdate as LogUpdatePart
from hub.core.draft import Draft
from hub.core.enums import EntryType
from hub.core.errors import Exists, NotFound, UnknownType
from hub.core.limits import Limits, cut, cut_content
from hub.core.log import LogEntry
from hub.core.requests import LogAdd, LogAppend, LogReset, LogUpdate, ProgressSet, Trim
from hub.core.values import same

_TYPES: Final = frozenset(EntryType)


def check_entry_type(type: str) -> None:
    """Raises UnknownType if there is no such type of entry."""
    if type not in _TYPES:
        raise UnknownType(f"{str(type)[:60]!r} is not a type of log entry; the types are {', '.join(EntryType)}")


def log_add(draft: Draft, op: LogAdd) -> None:
    """Add an entry. Raises UnknownType, Exists."""
    check_entry_type(op.type)
    id = op.id or draft.request.make_id(draft.index)
    log = draft.state.log
    if id in log:
        raise Exists(f"the log has an entry {id!r} already")
    content, over = cut_content(op.content, draft.limits)
    entry: Entry = {
        "no": log.length,
        "id": id,
        "type": op.type,
        "heading": cut(op.heading, draft.limits.heading),
        "content": content,
        "kvps": cut_kvps(op.kvps, draft.limits),
        "timestamp": draft.request.now,
    }
    if over:
        entry["cut"] = over
    draft.add({"kind": "log.add", "entry": entry})


def log_update(draft: Draft, op: LogUpdate) -> None:
    """Replace what is named of an entry and differs. Raises UnknownType, NotFound."""
    if op.type is not None:
        check_entry_type(op.type)
    entry = _find(draft, op.id)
    if entry is None:
        return
    part: LogUpdatePart = {"kind": "log.update", "id": op.id}
    if op.type is not None and op.type != entry.type:
        part["type"] = op.type
    if op.heading is not None and (heading := cut(op.heading, draft.limits.heading)) != entry.heading:
        part["heading"] = heading
    if op.content is not None:
        content, over = cut_content(op.content, draft.limits)
        if content != entry.content:
            part["content"] = content
        if over != entry.cut:
            part["cut"] = over
    if op.kvps is not None:
        kvps = cut_kvps(op.kvps, draft.limits)
        changed = {k: v for k, v in kvps.items() if k not in entry.kvps or not same(entry.kvps[k], v)}
        if changed:
            part["kvps"] = changed
        gone = sorted(entry.kvps.keys() - kvps.keys()) if op.replace_kvps else []
        if gone:
            part["gone"] = gone
    if len(part) > 2:
        draft.add(part)


def log_append(draft: Draft, op: LogAppend) -> None:
    """Append text; what is over the limit only counts. Raises NotFound."""
    entry = _find(draft, op.id)
    if entry is None:
        return
    text = op.text
    over = entry.length + len(text) - draft.limits.content
    if over > 0:
        text = text[: max(0, len(text) - over)]
    if text:
        draft.add({"kind": "log.append", "id": op.id, "at": entry.units, "text": text})
    if len(text) < len(op.text):
        draft.add({"kind": "log.update", "id": op.id, "cut": entry.cut + len(op.text) - len(text)})


def log_reset(draft: Draft, op: LogReset) -> None:
    """Begin another log."""
    draft.add({"kind": "log.reset", "log_id": draft.request.make_id(f"log{draft.index}")})
    if draft.document["progress"]["entry"] is not None:
        draft.replace(None, "progress", "entry")


def trim(draft: Draft, body: Trim) -> dict[str, Any]:
    """Keep the oldest entries no more; nothing happens if they went already, with their log or without it."""
    log, before = draft.state.log, min(body.before, draft.state.log.length)
    if log.id != body.log or before <= log.begin:
        return {}
    with draft.free():
        draft.add({"kind": "log.trim", "before": before, "ids": log.ids(before)})
        entry = draft.document["progress"]["entry"]
        if entry is not None and entry not in log:
            draft.replace(None, "progress", "entry")
    return {}


def progress_set(draft: Draft, op: ProgressSet) -> None:
    """Say what goes on. Raises NotFound if there is no such entry."""
    log = draft.state.log
    if op.entry is not None and op.entry not in log and log.whole:
        raise _not_there(op.entry)
    progress = {"text": cut(op.text, draft.limits.progress), "entry": op.entry, "active": op.active}
    if progress != draft.document["progress"]:
        draft.replace(progress, "progress")


def cut_kvps(kvps: dict[str, Json], limits: Limits) -> dict[str, Json]:
    """Pairs within the limits: keys, and texts however deep."""
    return {cut(key, limits.key): _cut_value(value, limits) for key, value in kvps.items()}


def _cut_value(value: Json, limits: Limits) -> Json:
    if isinstance(value, str):
        return cut(value, limits.value)
    if isinstance(value, dict):
        return cut_kvps(value, limits)
    if isinstance(value, list):
        return [_cut_value(item, limits) for item in value]
    return value


def _find(draft: Draft, id: str) -> LogEntry | None:
    """The entry; None if it may be among those that are not held here."""
    try:
        return draft.state.log.find_if_held(id)
    except LookupError:
        raise _not_there(id) from None


def _not_there(id: str) -> NotFound:
    return NotFound(f"the log has no entry {id!r}; it may have been reset, or the entry is too old to be kept")
