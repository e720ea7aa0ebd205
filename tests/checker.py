"""The proof of what a subscriber got: nothing missing, nothing twice, no step back, and at the end the confirmed state."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from hub.core.changes import Change
from hub.core.position import Position
from hub.core.state import ContextState, DoesNotFit

REASONS = frozenset(
    {
        "epoch_changed",
        "position_ahead",
        "too_far_behind",
        "lagged",
    }
)


class Broken(AssertionError):
    """A subscriber was not sent what the protocol promises."""


class Checker:
    """One subscriber of one context through all its connections, in either mode.

    It is shown everything in the order in which it came: ``connected``, ``request`` and ``reply`` of each subscribe, every
    ``event``. It takes the protocol at its word and raises Broken where that does not hold.
    """

    def __init__(self, context: str, deliver: str = "patch") -> None:
        self.topic = f"context:{context}"
        self.deliver = deliver
        self.state = ContextState(Position("", 0))
        """What the subscriber knows. In snapshot mode private data is as old as the last reply."""
        self.recovered = 0
        """Replies that went on where the subscriber stood."""
        self.restarted = 0
        """Times that it was told to begin anew although it stood somewhere."""
        self.taken = 0
        """Events that moved it on."""
        self.shown: set[str] = set()
        """Ids of all log entries that it was ever shown."""
        self._past: deque[str] = deque(maxlen=20)  # what came last, to be told when something is wrong
        self._subscribed = False
        self._asked: Position | None = None
        self._waiting = False
        self._log_at = 0  # the seq of the last log event, if there was one since everything began anew
        self._shown: Position | None = None  # of the last snapshot

    @property
    def position(self) -> Position:
        return self.state.position

    def _check(self, fits: object, what: str) -> None:
        if not fits:
            past = ", ".join(self._past)
            raise Broken(f"{self.topic}, {self.deliver} mode, at {self.position}: {what}; what came before: {past}")

    # what it does

    def connected(self) -> None:
        """It has a new connection, without subscriptions."""
        self._past.append("a new connection")
        self._subscribed = self._waiting = False

    def request(self, *, resume: bool = True, tail: int = 1000) -> dict[str, Any]:
        """It asks to be subscribed: the request. Until the reply it pays no heed to the topic's events."""
        self._waiting = True
        self._asked = self.position if resume and self.position.epoch else None
        payload: dict[str, Any] = {"topic": self.topic, "deliver": self.deliver, "tail": tail}
        if self._asked is not None:
            payload["from"] = {"epoch": self._asked.epoch, "seq": self._asked.seq}
        self._past.append(f"subscribe from {self._asked}")
        return payload

    def left(self) -> None:
        """Its unsubscribe was answered."""
        self._past.append("unsubscribed")
        self._subscribed = False

    # what it gets

    def reply(self, reply: dict[str, Any]) -> None:
        """The reply to ``request``."""
        self._past.append(
            "reply " + " ".join(f"{reply[name]}" for name in ("seq", "recovered", "reason") if name in reply)
        )
        self._check(self._waiting, "a reply that nobody waits for")
        self._waiting, asked = False, self._asked
        if not reply["ok"]:
            return
        self._subscribed = True
        at = Position(reply["epoch"], reply["seq"])
        if reply["recovered"]:
            self._check(asked is not None, "recovered, though it began anew")
            self._check(at == asked == self.position, f"recovered, but at {at}")
            self.recovered += 1
            if "document" in reply:  # its snapshot may not have come
                self._snapshot(at, reply)
        else:
            self._begin(reply)
            if asked is None:
                self._check("reason" not in reply, "a reason for who began anew")
            else:
                self._told_anew(reply)

    def event(self, name: str, event: dict[str, Any]) -> None:
        """An event of the topic; others are passed over."""
        if name not in ("change", "snapshot", "log") or event["topic"] != self.topic:
            return
        self._past.append(f"{name} {event['seq']}")
        if not self._subscribed:
            self._check(False, f"{name} {event['epoch']}:{event['seq']} without a subscription")
        if self._waiting:  # by the old subscription; the reply is about it, or it is sent again
            return
        if event.get("recovered") is False:
            self._begin(event)
            self._told_anew(event)
            self.taken += 1
            return
        at = Position(event["epoch"], event["seq"])
        self._check(at.epoch == self.position.epoch, f"{name} {at} of another epoch, without being told")
        self._check(self.state.closed is None, f"{name} {at} after the end")
        wanted = {"patch": ("change",), "snapshot": ("log", "snapshot")}[self.deliver]
        self._check(name in wanted, f"{name} {at} is not for this mode")
        {"change": self._change, "log": self._log, "snapshot": self._snapshot}[name](at, event)
        self.taken += 1

    def _told_anew(self, whole: dict[str, Any]) -> None:
        reason = whole.get("reason")
        self._check(reason in REASONS, f"all anew for the reason {reason!r}")
        self.restarted += 1

    def _begin(self, whole: dict[str, Any]) -> None:
        """Everything anew."""
        at, before = Position(whole["epoch"], whole["seq"]), self.position
        self._check(at.epoch != before.epoch or at.seq >= before.seq, f"a step back to {at}")
        log = {"id": whole["log_id"], "entries": whole["entries"]}
        data = whole.get("data", {})
        self.state = ContextState.from_snapshot(
            {**at._asdict(), "document": whole["document"], "log": log, "data": data}
        )
        self.state.closed = whole.get("closed")
        self.shown.update(entry["id"] for entry in whole["entries"])
        self._log_at = 0
        self._shown = None
        self._check_log(whole["document"])

    def _change(self, at: Position, event: dict[str, Any]) -> None:
        self._check(at.seq > self.position.seq, f"change {at} a second time")
        self._check(at == self.position.after(), f"a gap: change {at}")
        self._apply(Change(at, event["parts"]))

    def _apply(self, change: Change) -> None:
        self._see(change.parts)
        try:
            self.state.apply(change)
        except DoesNotFit as error:
            raise Broken(f"{self.topic}: change {change.position} does not fit: {error}") from error

    def _see(self, parts: Sequence[Any]) -> None:
        self.shown.update(part["entry"]["id"] for part in parts if part["kind"] == "log.add")

    def _log(self, at: Position, event: dict[str, Any]) -> None:
        self._check(at.seq > self.position.seq, f"log {at} a second time, or a step back")
        self._check(event["after"] <= self.position.seq, f"a gap: log {at} follows {event['after']}")
        self._check(event["after"] >= self._log_at, f"log {at} follows {event['after']}, and one was at {self._log_at}")
        self._check(event["parts"], f"log {at} without parts")
        self.state.position = at
        self._see(event["parts"])
        try:
            for part in event["parts"]:
                self.state.apply_part(part)
        except DoesNotFit as error:
            raise Broken(f"{self.topic}: log {at} does not fit: {error}") from error
        self._log_at = at.seq

    def _snapshot(self, at: Position, event: dict[str, Any]) -> None:
        self._check(at.seq >= self.position.seq, f"a step back: snapshot {at}")
        if at == self._shown:
            self._check(event["document"] == self.state.document, f"snapshot {at} again, and it is another one")
        self.state.closed = event.get("closed")
        self.state.position = self._shown = at
        if self.state.closed is None:
            self._check_log(event["document"])
            self.state.document = event["document"]

    def _check_log(self, document: dict[str, Any]) -> None:
        """The log of a document is the one that the subscriber has by now."""
        log = {"id": self.state.log.id, "length": self.state.log.length}
        if self.state.log.begin:
            log["first"] = self.state.log.begin
        self._check(document["log"] == log, f"a gap: the document's log is {document['log']}, shown were {log}")

    # the end

    def compare(self, truth: dict[str, Any]) -> None:
        """What it has is the confirmed state: ``truth`` is the reply of somebody who subscribed anew. Of the log the newest
        entries are compared that both have."""
        at = Position(truth["epoch"], truth["seq"])
        self._check(self._subscribed and not self._waiting, "it is not subscribed")
        self._check(self.position == at, f"it did not come to the end, {at}")
        mine, theirs = self.state.document, truth["document"]
        other = [name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name)]
        self._check(not other, f"the document is another one: {[(n, mine.get(n), theirs.get(n)) for n in other]}")
        self._check_log(truth["document"])
        held: list[Any] = self.state.log.to_json()["entries"]
        whole: list[Any] = truth["entries"]
        both = min(len(held), len(whole))
        self._check(held[len(held) - both :] == whole[len(whole) - both :], "the log is another one")
        if self.deliver == "patch" and "data" in truth:
            self._check(self.state.data == truth["data"], "the private data are others")
