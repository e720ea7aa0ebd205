"""One context's traffic over a connection that comes and goes: in which order things go out, and when what comes in counts.

No sockets here. The rules:

- Requests go out in their order, those that may have been lost first, with the keys that they had.
- The context hears answers before the changes that they answer. So changes are held back while a request may have been
  applied without its answer being here, except for those up to the last answered position.
- A gap, or anything else that does not fit, means subscribing anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from hub.agent.link import Linked
from hub.core.changes import Change
from hub.core.errors import HubError, error_from_wire
from hub.core.position import Position
from hub.core.requests import Apply, Create, Request

GROUP: Final = 64
"""Requests that go out together."""


class Channel:
    """The state of one context's traffic."""

    def __init__(self, context: Linked, *, create: bool, replace: bool = False) -> None:
        self.context = context
        self.creating = create
        """Whether the hub has not said yet that the context is made."""
        self.replace = replace
        """Whether a context of that id is to be removed before this one is made."""
        self.leaving = False
        """Whether it is served no more once everything is sent."""
        self.resting = False
        """Whether a retry is due later."""
        self.subscribing = False
        self.subscribed = False
        self.over = False
        self.position: Position | None = None
        """Where the context stands: the last change or state that it was given."""
        self._in_flight: list[Request] = []
        self._queue: deque[Request] = deque()
        self._doubtful: set[str | None] = set()  # keys that went out and have no answer
        self._answered: Position | None = None
        self._held: deque[Change] = deque()
        self._state: dict[str, Any] | None = None

    @property
    def done(self) -> bool:
        """Whether nothing is left to do for a context that is leaving."""
        return self.over or (self.leaving and not self._in_flight and not self._queue and not self.resting)

    # the connection

    def down(self) -> None:
        """The connection is gone: what was under way may have arrived or not."""
        self._queue.extendleft(reversed(self._in_flight))
        self._in_flight = []
        self.subscribing = self.subscribed = False
        self._held.clear()
        self._state = None

    # out

    def next(self) -> list[Request]:
        """What to send now: several applies in a row, or one other request. Empty while something is under way."""
        if self._in_flight or self.resting or self.over:
            return []
        if self._state is None:
            self._queue.extend(self.context.outgoing())
        group: list[Request] = []
        while self._queue and len(group) < GROUP:
            request = self._queue[0]
            if self._state is not None and request.body.key not in self._doubtful:
                break  # a state waits for the answers to what went out before
            if group and not (isinstance(request.body, Apply) and isinstance(group[0].body, Apply)):
                break
            group.append(self._queue.popleft())
        self._in_flight = group
        self._doubtful.update(request.body.key for request in group)
        return list(group)

    def give_back(self, requests: Sequence[Request]) -> None:
        """Requests that are not sent now after all, the last ones of ``next``."""
        self._in_flight = self._in_flight[: len(self._in_flight) - len(requests)]
        self._queue.extendleft(reversed(requests))

    def replied(self, requests: Sequence[Request], replies: Sequence[dict[str, Any]]) -> bool:
        """The answers to what ``next`` gave. Returns whether some are to be tried again, later."""
        again: list[Request] = []
        for request, reply in zip(requests, replies, strict=True):
            key = str(request.body.key)
            if reply.get("ok"):
                self._doubtful.discard(request.body.key)
                position = Position(reply["epoch"], reply["seq"])
                self._answered = position
                if isinstance(request.body, Create):
                    self.creating = False
                    self.position = Position(position.epoch, 0)
                self.context.answered(key, position, reply)
                continue
            error = error_from_wire(reply.get("error") or {})
            if error.retryable:
                again.append(request)
                continue
            self._doubtful.discard(request.body.key)
            self.refuse(request, error)
        self._in_flight = []
        self._queue.extendleft(reversed(again))
        self._release()
        return bool(again)

    def refuse(self, request: Request, error: HubError) -> None:
        """A request will not be applied."""
        self.context.refused(str(request.body.key), error)
        if isinstance(request.body, Create):
            self.over = True

    # in

    @property
    def wants_subscription(self) -> bool:
        """Whether it is time to subscribe."""
        return not (self.creating or self.subscribing or self.subscribed or self.leaving or self.over)

    def subscription(self) -> dict[str, Any]:
        """The request that subscribes, from where the context stands."""
        self.subscribing = True
        request: dict[str, Any] = {"topic": f"context:{self.context.id}", "deliver": "patch", "tail": 1000}
        if self.position is not None:
            request["from"] = {"epoch": self.position.epoch, "seq": self.position.seq}
        return request

    def recovered(self) -> None:
        """The hub sends what was missed: go on."""
        self.subscribing, self.subscribed = False, True
        self._release()

    def state(self, snapshot: dict[str, Any]) -> None:
        """The hub gave the state instead."""
        self.subscribing, self.subscribed = False, True
        self._state = snapshot
        self._release()

    def start_over(self) -> None:
        """Something does not fit: subscribe anew, for the state."""
        self.position = None
        self._state = None
        self._held.clear()
        self.subscribed = False

    def change(self, change: Change) -> None:
        """A change came by."""
        self._held.append(change)
        self._release()

    def closed(self, reason: str) -> None:
        """The context ended at the hub."""
        if not self.over:
            self.over = True
            self.context.closed(reason)

    def _release(self) -> None:
        """Give the context what it may hear now."""
        if self.subscribing or not self.subscribed or self.over:
            return
        if self._state is not None:
            if self._doubtful:
                return
            snapshot, self._state = self._state, None
            self.position = Position(snapshot["epoch"], snapshot["seq"])
            self.context.loaded(snapshot)
        while self._held and self.position is not None:
            change = self._held[0]
            if self._doubtful and not self._is_answered(change.position):
                return
            self._held.popleft()
            if self.position.includes(change.position):
                continue
            if change.position != self.position.after():
                self.start_over()
                return
            self.position = change.position
            self.context.followed(change)
            for part in change.parts:
                if part["kind"] == "closed":
                    self.closed(part["reason"])
                    return

    def _is_answered(self, position: Position) -> bool:
        return self._answered is not None and self._answered.includes(position)
