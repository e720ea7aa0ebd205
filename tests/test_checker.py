"""The checker itself: what is right passes, and a gap, a repetition, a step back or an untold new epoch does not."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hub.core.changes import Change
from hub.core.position import Position
from hub.core.state import ContextState
from hub.fanout.ring import Ring
from tests.checker import Broken, Checker

TOPIC = "context:c"
Event = tuple[str, dict[str, Any]]


def entry(no: int) -> dict[str, Any]:
    return {"no": no, "id": f"e{no}", "type": "info", "heading": "", "content": "", "kvps": {}, "timestamp": "t"}


PARTS: list[list[dict[str, Any]]] = [
    [{"kind": "log.add", "entry": entry(0)}],
    [{"kind": "patch", "ops": [{"op": "add", "path": "/n", "value": 1}]}],
    [{"kind": "log.append", "id": "e0", "at": 0, "text": "some"}],
    [{"kind": "data", "key": "k", "value": 1}],
    [{"kind": "log.append", "id": "e0", "at": 4, "text": "é😀"}],
    [{"kind": "log.add", "entry": entry(1)}, {"kind": "patch", "ops": [{"op": "replace", "path": "/n", "value": 2}]}],
    [{"kind": "log.append", "id": "e0", "at": 7, "text": "!"}],
]


class Story:
    """A context and everything that a subscriber is told of it, which a test can spoil before it is shown."""

    def __init__(self, deliver: str) -> None:
        self.deliver = deliver
        self.state = ContextState(Position("e", 0))
        self.state.document = {"log": {"id": "l", "length": 0}}
        self.state.log.id = "l"
        self.ring = Ring(TOPIC, Position("e", 0))
        self.checker = Checker("c", deliver)
        self.events: list[Event] = []
        self.checker.connected()

    def whole(self, **more: Any) -> dict[str, Any]:
        state = self.state.snapshot()
        log = {"log_id": state["log"]["id"], "entries": state["log"]["entries"]}
        found = {"epoch": state["epoch"], "seq": state["seq"], "document": state["document"], "data": state["data"]}
        return copy.deepcopy({**found, **log, **more})

    def subscribe(self, **more: Any) -> None:
        self.checker.request(resume=bool(more))
        self.checker.reply(self.whole(ok=True, recovered=False) | more)

    def write(self, parts: list[dict[str, Any]]) -> None:
        change = Change(self.state.position.after(), copy.deepcopy(parts))  # type: ignore[arg-type]
        sent = self.ring.push(change)
        self.state.apply(copy.deepcopy(change))
        if self.deliver == "patch":
            self.tell(("change", sent.private.payload))
            return
        if sent.in_log:
            self.tell(("log", sent.log().payload))
        if not sent.only_appends:
            document = {"topic": TOPIC, **self.state.position._asdict(), "document": self.state.document}
            self.tell(("snapshot", document))

    def tell(self, event: Event) -> None:
        self.events.append(copy.deepcopy(event))

    def show(self) -> None:
        """Show everything that was told, then compare."""
        for name, event in self.events:
            self.checker.event(name, event)
        self.events = []
        self.checker.compare(self.whole())

    def write_all(self) -> None:
        for parts in PARTS:
            self.write(parts)


@pytest.fixture(params=["patch", "snapshot"])
def story(request: pytest.FixtureRequest) -> Story:
    story = Story(request.param)
    story.subscribe()
    return story


def test_what_is_right_passes(story: Story) -> None:
    story.write_all()
    story.show()
    assert story.checker.taken >= len(PARTS)
    story.checker.connected()
    story.subscribe(recovered=True)
    story.write([{"kind": "log.append", "id": "e1", "at": 0, "text": "on"}])
    story.show()
    assert (story.checker.recovered, story.checker.restarted) == (1, 0)


def test_a_resync_passes(story: Story) -> None:
    story.write_all()
    story.events = story.events[:2]
    story.tell(("snapshot", story.whole(topic=TOPIC, recovered=False, reason="lagged")))
    story.write([{"kind": "log.append", "id": "e1", "at": 0, "text": "on"}])
    story.show()
    assert story.checker.restarted == 1


def test_another_epoch_that_is_told_passes(story: Story) -> None:
    story.write_all()
    story.show()
    story.state.position = Position("f", 1)
    story.checker.connected()
    story.subscribe(reason="epoch_changed")
    story.show()


def test_every_event_that_is_missing_is_noticed(story: Story) -> None:
    story.write_all()
    told = story.events
    for n, (name, _) in enumerate(told):
        story = Story(story.deliver)
        story.subscribe()
        story.write_all()
        story.events = copy.deepcopy(told[:n] + told[n + 1 :])
        if name == "snapshot" and any(name == "snapshot" for name, _ in told[n + 1 :]):
            story.show()  # a newer one takes its place
            continue
        with pytest.raises(Broken):
            story.show()


def test_every_event_that_comes_twice_or_late_is_noticed(story: Story) -> None:
    story.write_all()
    told = story.events
    for n in range(len(told)):
        for later in range(n + 1, len(told) + 1):
            story = Story(story.deliver)
            story.subscribe()
            story.write_all()
            story.events = copy.deepcopy([*told[:later], told[n], *told[later:]])
            if told[n][0] == "snapshot" and later == n + 1:
                story.show()  # the same state once more is no step back
                continue
            with pytest.raises(Broken):
                story.show()


def spoil(**more: Any) -> Callable[[Story], None]:
    def tell(story: Story) -> None:
        name, event = story.events[-1]
        story.events[-1] = name, event | more

    return tell


def subscribe(**more: Any) -> Callable[[Story], None]:
    def again(story: Story) -> None:
        for name, event in story.events:
            story.checker.event(name, event)
        story.events = []
        story.checker.connected()
        story.subscribe(**more)

    return again


WRONG: dict[str, Callable[[Story], object]] = {
    "another epoch without being told": spoil(epoch="f"),
    "recovered in another epoch": subscribe(epoch="f", recovered=True),
    "recovered, but not where it stands": subscribe(seq=3, recovered=True),
    "recovered, but ahead": subscribe(seq=99, recovered=True),
    "all anew without a reason": subscribe(recovered=False, reason=None),
    "all anew, but from before": subscribe(recovered=False, reason="too_far_behind", seq=5),
    "a resync from before": lambda story: story.tell(
        ("snapshot", story.whole(topic=TOPIC, seq=2, recovered=False, reason="lagged"))
    ),
    "a resync without a reason": lambda story: story.tell(("snapshot", story.whole(topic=TOPIC, recovered=False))),
    "a log of another length": lambda story: story.tell(
        ("snapshot", story.whole(topic=TOPIC, recovered=False, reason="lagged", entries=[], log_id="m"))
    ),
    "an event of the other mode": lambda story: story.tell(
        ({"patch": "log", "snapshot": "change"}[story.deliver], {"topic": TOPIC, "epoch": "e", "seq": 8, "parts": []})
    ),
    "an event after it left": lambda story: story.checker.left(),
    "another document in the end": lambda story: story.state.document.update(n=7),
    "another text in the end": lambda story: story.state.apply_part(
        {"kind": "log.append", "id": "e0", "at": 8, "text": "?"}
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_noticed(story: Story, wrong: str) -> None:
    story.write_all()

    def go_wrong() -> None:
        WRONG[wrong](story)
        story.show()

    with pytest.raises(Broken):
        go_wrong()


@pytest.mark.parametrize("move", [-1, 100])
def test_a_log_event_that_follows_another_one_is_noticed(move: int) -> None:
    """Not from before the one that it saw, and not from beyond where it stands."""
    for n in range(2, 5):
        story = Story("snapshot")
        story.subscribe()
        story.write_all()
        logs = [event for name, event in story.events if name == "log"]
        logs[n - 1]["after"] += move
        with pytest.raises(Broken):
            story.show()


VECTORS = sorted((Path(__file__).parent / "vectors").glob("*.json"))


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_the_vectors(path: Path) -> None:
    """The same cases that all replicas run: here a repetition is a fault, since the hub must not send any."""
    for case in json.loads(path.read_text()):
        checker, snapshot = Checker("c"), case["snapshot"]
        if not (snapshot["document"] or {}).get("log"):
            continue  # a context before its creation, which nobody can subscribe to
        checker.connected()
        checker.request()
        log = {"log_id": snapshot["log"]["id"], "entries": snapshot["log"]["entries"]}
        checker.reply({"ok": True, "recovered": False, "data": {}, **snapshot, **log})
        at, twice = snapshot["seq"], False
        expected = case["expect"]
        try:
            for change in case["changes"]:
                twice = twice or change["seq"] <= at
                at = max(at, change["seq"])
                checker.event("change", {"topic": TOPIC, **change})
        except Broken:
            assert expected.get("resync") or twice, case["name"]
            continue
        assert not expected.get("resync"), case["name"]
        assert checker.state.document == expected["document"], case["name"]
        assert checker.state.log.to_json() == expected["log"], case["name"]
        assert checker.state.data == expected["data"], case["name"]
