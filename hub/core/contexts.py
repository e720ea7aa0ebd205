"""Requests about a context as a whole: create, update, remove, control."""

from __future__ import annotations

from typing import Any, Final

from hub.core.draft import Draft
from hub.core.errors import InvalidRequest, TooLarge
from hub.core.requests import Control, Create, Remove, Update
from hub.core.runs import active_run, move, requeue, stop
from hub.core.times import iso, seconds
from hub.core.values import same

ROW_FIELDS = ("id", "name", "type", "no", "user_id", "agent", "created_at", "last_message", "running", "paused")
"""Members of the document that a row of the contexts list shows; it is sent when one of them changes."""


def row_of(document: dict[str, Any]) -> dict[str, Any]:
    """The context's row, without its version."""
    return {name: document[name] for name in ROW_FIELDS}


def create(draft: Draft, body: Create) -> dict[str, Any]:
    """Make the document, and set the private data."""
    _check_name(draft, body.name)
    created_at = _time(body.created_at) or draft.request.now
    version = str(draft.position)
    document = {
        "id": body.context,
        "name": body.name,
        "type": str(body.type),
        "no": draft.request.no,
        "created_at": created_at,
        "last_message": _time(body.last_message) or created_at,
        "user_id": body.user_id,
        "metadata": body.metadata,
        "running": False,
        "paused": body.paused,
        "progress": {"text": "", "entry": None, "active": False},
        "state": body.state,
        "output": body.output,
        "session_context": {},
        "queue": [],
        "run": None,
        "agent": body.agent,
        "when_busy": str(body.when_busy),
        "asks": {},
        "log": {"id": draft.request.make_id("log"), "length": 0},
        "versions": {"state": version, "output": version, "session_context": version},
    }
    draft.create(document)
    for key, value in body.data.items():
        draft.add({"kind": "data", "key": key, "value": value})
    return {"id": body.context}


def update(draft: Draft, body: Update) -> dict[str, Any]:
    """Replace what is named."""
    if body.name is not None:
        _check_name(draft, body.name)
    for name in ("name", "agent", "metadata", "user_id"):
        value = getattr(body, name)
        if value is not None and not same(draft.document[name], value):
            draft.replace(value, name)
    if body.when_busy is not None and draft.document.get("when_busy") != body.when_busy:
        draft.set(str(body.when_busy), "when_busy")
    return {}


def remove(draft: Draft, body: Remove) -> dict[str, Any]:
    """End the context: nothing follows this change."""
    draft.add({"kind": "closed", "reason": "removed"})
    return {}


def control(draft: Draft, body: Control) -> dict[str, Any]:
    """What people ask of a run: it shows in the document, and the worker acts on it."""
    with draft.free():
        _CONTROLS[body.action](draft)
    return {}


def _pause(draft: Draft) -> None:
    _set_paused(draft, True)


def _resume(draft: Draft) -> None:
    _set_paused(draft, False)


def _nudge(draft: Draft) -> None:
    """Go on: resume, or take up again what an ended run left undone."""
    _set_paused(draft, False)
    if draft.document["run"] and active_run(draft.document) is None:
        requeue(draft)


def _reset(draft: Draft) -> None:
    """End the run, empty the log and forget the questions; all else stays."""
    if active_run(draft.document) is not None:
        move(draft, "stopped")
    if draft.document["run"] and draft.document["run"]["messages"]:
        draft.replace([], "run", "messages")
    if draft.document["asks"]:
        draft.replace({}, "asks")
    _set_paused(draft, False)
    draft.add({"kind": "log.reset", "log_id": draft.request.make_id("reset")})
    idle = {"text": "", "entry": None, "active": False}
    if draft.document["progress"] != idle:
        draft.replace(idle, "progress")


_CONTROLS: Final = {"pause": _pause, "resume": _resume, "stop": stop, "nudge": _nudge, "reset": _reset}


def _set_paused(draft: Draft, paused: bool) -> None:
    if draft.document["paused"] is not paused:
        draft.replace(paused, "paused")


def _time(text: str | None) -> str | None:
    """A given time as the hub writes times. Raises InvalidRequest."""
    return iso(seconds(text)) if text else None


def _check_name(draft: Draft, name: str) -> None:
    if len(name) > draft.limits.name:
        raise TooLarge(f"a context's name has at most {draft.limits.name} characters", limit=draft.limits.name)
    if any(ord(character) < 32 for character in name):
        raise InvalidRequest("a context's name has no control characters")
