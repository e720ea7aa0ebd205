"""Session context: the summary, goal, plan and progress of a session, kept as one snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

from hub.agent.writer import Writer
from hub.core.errors import InvalidRequest, NotFound
from hub.core.pointer import own
from hub.core.requests import Expected, SessionContextDelete, SessionContextSave
from hub.core.session_context import STATUSES
from hub.core.values import check, json_size


class SessionContext:
    """What a session is about. Steps of the plan are ``{"text", "status": "pending" | "active" | "done"}``."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def save(
        self,
        *,
        summary: str | None = None,
        goal: str | None = None,
        plan: Sequence[str | dict[str, Any]] | None = None,
        progress: Sequence[str] | None = None,
        expected: str | None = None,
        **custom: Any,
    ) -> None:
        """Replace the fields that are named; None keeps one, "" or [] empties it. Progress that says a step's text marks
        the step done. ``expected``: a version; another one there is a Conflict. Raises InvalidRequest."""
        named = {"summary": summary, "goal": goal, "plan": plan, "progress": progress}
        value: dict[str, Any] = check({**custom, **{name: item for name, item in named.items() if item is not None}})
        wanted = None if expected is None else Expected(session_context=expected)
        self._writer.apply([SessionContextSave(value=value)], json_size(value) + 100, expected=wanted)

    def step(self, index: int, status: Literal["pending", "active", "done"]) -> None:
        """Say how far a step of the plan is. ``index`` counts from 0. Raises NotFound if the plan has no such step."""
        if status not in STATUSES:
            raise InvalidRequest(f"{str(status)[:40]!r} is not a status of a step: {', '.join(STATUSES)}")
        with self._writer.lock:
            plan = self.plan
            if not 0 <= index < len(plan):
                raise NotFound(f"the plan has no step {index!r}; it has {len(plan)}")
            plan[index]["status"] = status
            self.save(plan=plan)

    def delete(self) -> bool:
        """Delete all of it. Returns whether there was any."""
        with self._writer.lock:
            there = bool(self._fields())
            if there:
                self._writer.apply([SessionContextDelete()], 100)
        return there

    def get(self) -> dict[str, Any]:
        """All fields, as a dict of one's own; empty if nothing was saved."""
        with self._writer.lock:
            return cast(dict[str, Any], own(self._fields()))

    @property
    def summary(self) -> str:
        """What is worked on."""
        return str(self._field("summary", ""))

    @property
    def goal(self) -> str:
        """What is to be reached."""
        return str(self._field("goal", ""))

    @property
    def plan(self) -> list[dict[str, Any]]:
        """The steps."""
        return cast(list[dict[str, Any]], self._field("plan", []))

    @property
    def progress(self) -> list[str]:
        """What was reached."""
        return cast(list[str], self._field("progress", []))

    @property
    def version(self) -> str:
        """The position of the last change, ``epoch:seq``; accepted as ``expected``."""
        with self._writer.lock:
            return str(self._writer.read().document.get("versions", {}).get("session_context", ""))

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = self._writer.read().document.get("session_context", {})
        return fields

    def _field(self, name: str, default: Any) -> Any:
        with self._writer.lock:
            return own(self._fields().get(name, default))
