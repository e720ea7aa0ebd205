"""A link to a record that lives in the test: it answers when the test says so, and others write to it as well."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from hub.agent.link import Linked
from hub.core.changes import Change, Part
from hub.core.errors import HubError, NotFound
from hub.core.limits import DEFAULT_LIMITS
from hub.core.position import Position
from hub.core.replica import Replica
from hub.core.requests import AnyBody, Author, LogAdd, Request, Role
from hub.core.state import ContextState

OTHERS = Author("somebody", Role.OPERATOR)


class RecordLink:
    """``Link`` whose hub is one Replica a context. Nothing moves before ``pump``. The hub's clock differs from the writers'."""

    decides = False
    names_broadcasts = True

    def __init__(self, author: Author | None = None) -> None:
        self.author = author or Author("worker", Role.AGENT)
        self.records: dict[str, Replica] = {}
        self.attached: dict[str, Linked] = {}
        self.sent: list[Request] = []
        self.wakes = 0
        self.attaches = 0
        self.broadcasts: list[tuple[str, LogAdd]] = []
        self.notices: list[dict[str, Any]] = []
        self._events: dict[str, deque[Change]] = {}
        self._unanswered: list[tuple[str, Request]] = []
        self._second = 0

    def now(self) -> str:
        return "2026-01-01T00:00:00.000Z"

    def hub_now(self) -> str:
        self._second += 1
        return f"2030-01-01T00:{self._second // 60 % 60:02}:{self._second % 60:02}.000Z"

    def attach(self, context: Linked, *, create: bool, replace: bool) -> None:
        self.attaches += 1
        self.attached[context.id] = context
        if not create:
            self.load(context.id)

    def load(self, id: str) -> None:
        """Give the facade the state anew."""
        record = self.records.get(id)
        if record is None:
            self.attached[id].closed("not_found")
            return
        self._events[id] = deque()
        self.attached[id].loaded(ContextState.from_snapshot(_copy(record.state.snapshot())).snapshot())

    def detach(self, context: Linked) -> None:
        self.attached.pop(context.id, None)

    def wake(self, context: Linked) -> None:
        self.wakes += 1

    def broadcast(self, id: str, op: LogAdd, before: Sequence[Future[None]] = ()) -> None:
        self.broadcasts.append((id, op))

    def post_notice(self, notice: dict[str, Any]) -> None:
        self.notices.append(notice)

    def clear_notice(self, id: str) -> None:
        self.notices.append({"cleared": id})

    # what the test does

    def others(self, body: AnyBody) -> None:
        """Somebody else writes."""
        self._write(body.context, Request(body, OTHERS, self.hub_now(), nonce=str(self._second)))

    def pump(self, id: str, *, deliver: bool = True, lose: bool = False) -> int:
        """Take what the facade sends, answer it (or lose the answers), then deliver the changes. Returns how many requests
        went."""
        requests = self.attached[id].outgoing()
        self.sent += requests
        self._unanswered += [(id, request) for request in requests]
        for request in requests if lose else ():
            with suppress(HubError):
                self._work_out(id, request)
        if not lose:
            self.answer()
            if deliver:
                self.deliver(id)
        return len(requests)

    def answer(self) -> None:
        """Send again what has no answer, and answer it."""
        unanswered, self._unanswered = self._unanswered, []
        for id, request in unanswered:
            facade, key = self.attached[id], str(request.body.key)
            try:
                result = self._work_out(id, request)
            except HubError as error:
                facade.refused(key, error)
            else:
                facade.answered(key, Position(result["epoch"], result["seq"]), result)

    def _work_out(self, id: str, request: Request) -> dict[str, Any]:
        return self._write(id, Request(request.body, self.author, self.hub_now(), no=7))

    def pump_all(self, id: str) -> None:
        while self.pump(id):
            pass

    def deliver(self, id: str, most: int | None = None) -> None:
        """Hand over changes that the facade has not seen."""
        events = self._events.setdefault(id, deque())
        while events and most != 0:
            self.attached[id].followed(events.popleft())
            most = None if most is None else most - 1

    def _write(self, id: str, request: Request) -> dict[str, Any]:
        record = self.records.get(id)
        if record is None:
            record = self.records[id] = Replica(ContextState(Position("hub", 0)), DEFAULT_LIMITS, keyed=True)
        if not record.state.exists and record.state.position.seq:
            raise NotFound("removed")
        pending = record.write(request)
        for change in record.confirm():
            parts: list[Part] = [part for part in change.parts if part["kind"] != "key"]
            self._events.setdefault(id, deque()).append(Change(change.position, _copy(parts)))
        return pending.worked.result


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value
