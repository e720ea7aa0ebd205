"""Session context: summary, goal, plan and progress of a session; one snapshot, no history."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from hub.core.changes import Json
from hub.core.draft import Draft
from hub.core.errors import InvalidRequest
from hub.core.pointer import own, shown
from hub.core.requests import SessionContextDelete, SessionContextSave
from hub.core.values import same

STATUSES: Final = ("pending", "active", "done")
"""What a step of the plan can be."""
_EMPTY: Final = {"summary": "", "goal": "", "plan": [], "progress": []}
_NOT_SAVED: Final = frozenset({"session_id", "user_id", "created_at", "updated_at"})
"""Fields that a reader gets and a writer cannot set: two belong to the document, two are kept here."""


def save(draft: Draft, op: SessionContextSave) -> None:
    """Replace the fields that are named, keep the others; mark the steps that progress names. Raises InvalidRequest."""
    old: dict[str, Any] = draft.document["session_context"]
    new = {name: _field(name, value) for name, value in op.value.items() if name not in _NOT_SAVED}
    if "plan" in new or "progress" in new:
        plan = _marked(new, old)
        if "plan" in new or not same(plan, old.get("plan", [])):
            new["plan"] = plan
    if not new:
        return
    now = draft.request.now
    if not old:
        draft.replace({**own(_EMPTY), **new, "created_at": now, "updated_at": now}, "session_context")
        return
    changed = {name: value for name, value in new.items() if name not in old or not same(old[name], value)}
    for name, value in changed.items():
        draft.set(value, "session_context", name)
    if changed:
        draft.set(max(now, old.get("updated_at", now)), "session_context", "updated_at")  # clocks differ; time goes on


def delete(draft: Draft, op: SessionContextDelete) -> None:
    """Forget it all."""
    if draft.document["session_context"]:
        draft.replace({}, "session_context")


def _marked(new: dict[str, Any], old: dict[str, Any]) -> list[dict[str, Any]]:
    """The plan after a save, its steps without status made pending or done.

    A text that progress has just got marks the first step of that text that is not done. What progress had before marked
    its step then: that step is done again if it comes back as a plain text, else it keeps the status that it was given.
    """
    before = old.get("progress", [])
    told = Counter(new.get("progress", before))
    news = told - Counter(before)
    plan: list[dict[str, Any]] = own(new.get("plan", old.get("plan", [])))
    for step in plan:
        text = step["text"]
        if "status" not in step and told[text] > 0:
            step["status"] = "done"
            told[text] -= 1
            news[text] -= 1
    for step in plan:
        text = step["text"]
        if step.get("status") != "done" and news[text] > 0:
            step["status"] = "done"
            news[text] -= 1
        step.setdefault("status", "pending")
    return plan


def _field(name: str, value: Json) -> Json:
    if name in ("summary", "goal"):
        if not isinstance(value, str):
            raise InvalidRequest(f"session context: {name} is a text")
    elif name == "progress":
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise InvalidRequest("session context: progress is a list of texts")
    elif name == "plan":
        if not isinstance(value, list):
            raise InvalidRequest("session context: plan is a list of steps")
        return [_step(step) for step in value]
    return value


def _step(step: Json) -> dict[str, Any]:
    if isinstance(step, str):
        return {"text": step}
    if not isinstance(step, dict) or not isinstance(step.get("text"), str):
        raise InvalidRequest("session context: a step is a text, or an object with a text")
    if "status" in step and step["status"] not in STATUSES:
        raise InvalidRequest(
            f"session context: {shown(str(step['status']))} is no status; they are {', '.join(STATUSES)}"
        )
    return step
