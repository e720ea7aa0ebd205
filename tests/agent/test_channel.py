"""Order over a connection that loses things: answers before changes, resends with the same keys, gaps."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hub import AgentContext
from hub.agent.channel import Channel
from hub.agent.registry import Registry, use_registry
from hub.core.changes import Change, Part
from hub.core.errors import HubError, Unavailable
from hub.core.limits import DEFAULT_LIMITS
from hub.core.pointer import own
from hub.core.position import Position
from hub.core.replica import Replica
from hub.core.requests import Apply, Author, Create, LogAdd, Request, Role, StateIncr, Update
from hub.core.state import ContextState
from tests.agent.record_link import RecordLink


class Told:
    """A context that writes down what it is told."""

    def __init__(self, *bodies: Any) -> None:
        self.id = "one"
        self.heard: list[tuple[Any, ...]] = []
        self.waiting = [self._request(number, body) for number, body in enumerate(bodies, 1)]

    def _request(self, number: int, body: Any) -> Request:
        body.key = f"w/{number}"
        return Request(body, Author("a", Role.AGENT), "2026-01-01T00:00:00.000Z")

    def outgoing(self) -> list[Request]:
        waiting, self.waiting = self.waiting, []
        return waiting

    def answered(self, key: str, position: Position, result: dict[str, Any]) -> None:
        self.heard.append(("answered", key, position.seq))

    def refused(self, key: str, error: HubError) -> None:
        self.heard.append(("refused", key, error.code))

    def followed(self, change: Change) -> None:
        self.heard.append(("followed", change.position.seq))

    def loaded(self, snapshot: dict[str, Any], tip_keys: Sequence[str] = ()) -> None:
        self.heard.append(("loaded", snapshot["seq"]))

    def closed(self, reason: str) -> None:
        self.heard.append(("closed", reason))


def apply() -> Apply:
    return Apply(context="one", ops=[])


def ok(seq: int) -> dict[str, Any]:
    return {"ok": True, "epoch": "e", "seq": seq}


def change(seq: int, parts: list[Part] | None = None) -> Change:
    return Change(Position("e", seq), parts or [])


def subscribed(told: Told, seq: int = 5) -> Channel:
    channel = Channel(told, create=False)
    assert channel.wants_subscription
    assert channel.subscription() == {"topic": "context:one", "deliver": "patch", "tail": 1000}
    channel.state({"epoch": "e", "seq": seq})
    assert told.heard.pop() == ("loaded", seq)
    return channel


def test_answers_come_before_the_changes_that_they_answer() -> None:
    told = Told(apply(), apply())
    channel = subscribed(told)
    sent = channel.next()
    assert len(sent) == 2
    assert channel.next() == []
    channel.change(change(6))
    channel.change(change(7))
    assert told.heard == []
    channel.replied(sent, [ok(6), ok(8)])
    assert told.heard == [("answered", "w/1", 6), ("answered", "w/2", 8), ("followed", 6), ("followed", 7)]
    channel.change(change(8))
    assert told.heard[-1] == ("followed", 8)


def test_what_is_answered_need_not_wait_for_what_is_under_way() -> None:
    told = Told(apply())
    channel = subscribed(told)
    channel.replied(channel.next(), [ok(6)])
    told.waiting = [told._request(2, apply())]
    channel.next()
    channel.change(change(6))
    channel.change(change(7))
    assert told.heard == [("answered", "w/1", 6), ("followed", 6)]


def test_a_request_that_is_no_apply_goes_alone() -> None:
    told = Told(apply(), apply(), Update(context="one", name="x"), apply())
    channel = subscribed(told)
    for keys in (["w/1", "w/2"], ["w/3"], ["w/4"], []):
        sent = channel.next()
        assert [request.body.key for request in sent] == keys
        channel.replied(sent, [ok(6)] * len(sent))


def test_after_a_lost_connection_the_same_requests_go_again_first() -> None:
    told = Told(apply(), apply())
    channel = subscribed(told)
    sent = channel.next()
    channel.change(change(6))
    channel.down()
    told.waiting = [told._request(3, apply())]
    assert channel.wants_subscription
    assert channel.subscription()["from"] == {"epoch": "e", "seq": 5}
    again = channel.next()
    assert [request.body.key for request in again] == ["w/1", "w/2", "w/3"]
    assert again[0] is sent[0]
    channel.recovered()
    channel.change(change(6))
    assert told.heard == []
    channel.replied(again, [ok(6), ok(7), ok(8)])
    assert told.heard[-1] == ("followed", 6)


def test_a_state_waits_for_the_answers_to_what_may_be_in_it() -> None:
    told = Told(apply(), apply())
    channel = subscribed(told)
    channel.next()
    channel.down()
    channel.subscription()
    channel.state({"epoch": "e", "seq": 7})
    told.waiting = [told._request(3, apply())]
    again = channel.next()
    assert [request.body.key for request in again] == ["w/1", "w/2"]
    channel.replied(again, [ok(6), ok(7)])
    assert told.heard == [("answered", "w/1", 6), ("answered", "w/2", 7), ("loaded", 7)]
    assert [request.body.key for request in channel.next()] == ["w/3"]


def test_what_the_hub_cannot_do_just_now_is_tried_again() -> None:
    told = Told(apply(), apply())
    channel = subscribed(told)
    busy = {"ok": False, "error": Unavailable("away").to_wire()}
    assert channel.replied(channel.next(), [busy, busy])
    assert told.heard == []
    channel.change(change(6))
    assert told.heard == []  # it may be one of those
    again = channel.next()
    assert [request.body.key for request in again] == ["w/1", "w/2"]
    assert not channel.replied(again, [ok(6), {"ok": False, "error": {"code": "conflict", "message": ""}}])
    assert told.heard == [("answered", "w/1", 6), ("refused", "w/2", "conflict"), ("followed", 6)]


def test_a_gap_means_subscribing_anew() -> None:
    told = Told()
    channel = subscribed(told)
    channel.change(change(5))  # a duplicate
    channel.change(change(7))
    assert told.heard == []
    assert channel.wants_subscription
    assert "from" not in channel.subscription()


def test_a_creation_is_answered_before_anything_else() -> None:
    told = Told(Create(context="one"))
    channel = Channel(told, create=True)
    assert not channel.wants_subscription
    channel.replied(channel.next(), [ok(1)])
    assert channel.subscription()["from"] == {"epoch": "e", "seq": 0}
    channel.recovered()
    channel.change(change(1))
    assert told.heard == [("answered", "w/1", 1), ("followed", 1)]


def test_a_refused_creation_is_the_end() -> None:
    told = Told(Create(context="one"))
    channel = Channel(told, create=True)
    channel.replied(channel.next(), [{"ok": False, "error": {"code": "exists", "message": ""}}])
    assert channel.done
    assert not channel.wants_subscription


def test_closed_by_a_change() -> None:
    told = Told()
    channel = subscribed(told)
    channel.change(change(6, [{"kind": "closed", "reason": "removed"}]))
    assert told.heard == [("followed", 6), ("closed", "removed")]
    assert channel.done


STEP = st.sampled_from(
    [
        "write",
        "write",
        "write",
        "others",
        "send",
        "arrive",
        "reply",
        "event",
        "event",
        "subscribe",
        "drop",
        "lag",
        "read",
    ]
)


class Network:
    """A hub with one subscriber: what is under way can be lost at any step."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.record = Replica(ContextState(Position("hub", 0)), DEFAULT_LIMITS, keyed=True)
        self.changes: list[Change] = []
        self.applied: list[str] = []
        self._out: deque[list[Request]] = deque()
        self._replies: deque[tuple[list[Request], list[dict[str, Any]]]] = deque()
        self._events: deque[Change] = deque()
        self._joined = False
        self._second = 0

    def write(self, request: Request) -> dict[str, Any]:
        self._second += 1
        stamped = Request(request.body, request.author, f"2030-01-01T00:00:00.{self._second:03}Z", str(self._second))
        known = len(self.changes)
        try:
            result = self.record.write(stamped).worked.result
        except HubError as error:
            return {"ok": False, "error": error.to_wire()}
        for made in self.record.confirm():
            parts: list[Part] = [part for part in made.parts if part["kind"] != "key"]
            self.changes.append(Change(made.position, own(parts)))
            if self._joined:
                self._events.append(self.changes[-1])
        if len(self.changes) > known and request.body.key is not None:
            self.applied.append(request.body.key)
        return {"ok": True, **result}

    def step(self, step: str, n: int) -> None:
        match step:
            case "others":
                body = Apply(context="one", ops=[LogAdd(type="info", heading="o"), StateIncr(path="/n")])
                self.write(Request(body, Author("o", Role.OPERATOR), ""))
            case "send":
                if group := self.channel.next():
                    self._out.append(group)
            case "arrive":
                if self._out:
                    group = self._out.popleft()
                    self._replies.append((group, [self.write(request) for request in group]))
            case "reply":
                if self._replies:
                    self.channel.replied(*self._replies.popleft())
            case "event":
                if self._events:
                    self.channel.change(self._events.popleft())
            case "subscribe":
                self._subscribe(n)
            case "drop":
                if n and self._out:  # it arrives, only the answer is lost
                    for request in self._out[0]:
                        self.write(request)
                self._out.clear()
                self._replies.clear()
                self._events.clear()
                self._joined = False
                self.channel.down()
            case "lag":
                if self._joined:
                    self._events.clear()
                    self._joined = False
                    self.channel.start_over()

    def _subscribe(self, n: int) -> None:
        if not self.channel.wants_subscription or not self.changes:
            return
        asked = self.channel.subscription().get("from")
        self._joined = True
        if asked is None or n == 2:
            self._events.clear()
            self.channel.state(own(self.record.state.snapshot()))
        else:
            self._events = deque(self.changes[asked["seq"] :])
            self.channel.recovered()


@settings(max_examples=200)
@given(st.lists(st.tuples(STEP, st.integers(0, 2)), min_size=10, max_size=120))
def test_whatever_is_lost_both_sides_end_as_one(steps: list[tuple[str, int]]) -> None:
    link = RecordLink(Author("worker", Role.AGENT))
    before = use_registry(Registry(link))
    try:
        ctx = AgentContext(id="one", state={"n": 0}, created_at="2026-01-01T00:00:00Z")
        network = Network(Channel(link.attached["one"], create=True))
        entry = ctx.log.log("agent", "first")
        written = 0
        for step, n in steps:
            if step == "write":
                written += 1
                if n == 0:
                    ctx.state.incr("n")
                elif n == 1:
                    ctx.log.log("info", str(written))
                else:
                    entry.stream(f"{written} ")
            elif step == "read":
                assert ctx.document()["log"]["length"] == len(ctx.log)
            else:
                network.step(step, n)
        for _ in range(200):
            for step in ("subscribe", "send", "arrive", "reply", "event"):
                network.step(step, 1)
        assert ctx.writer.unconfirmed == 0
        ctx.writer.raise_failures()
        record = network.record.state
        with ctx.writer.lock:
            state = ctx.writer.read()
            assert state.document == record.document
            assert state.log.to_json() == record.log.to_json()
            assert state.position == record.position
        assert network.applied == sorted(set(network.applied), key=lambda key: int(key.rpartition("/")[2]))
    finally:
        use_registry(before)
