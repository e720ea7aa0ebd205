"""The viewers of a context: what is told at a time is written once, in order; who is behind gets it whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hub.core.changes import Change, Part
from hub.core.position import Position
from hub.fanout.ring import Ring, Sent
from hub.fanout.room import Room, Told, Viewer
from hub.wire.codec import Encoded, Variant
from tests.node.support import KeptOutbox

PATCH = Viewer(patch=True, private=False, sees=lambda user: True)
AGENT = Viewer(patch=True, private=True, sees=lambda user: True)
SIMPLE = Viewer(patch=False, private=False, sees=lambda user: True)


class Context:
    """A room with the ring that feeds it."""

    def __init__(self) -> None:
        self.resynced: list[Viewer] = []
        self.room = Room(self._resync)
        self.ring = Ring("t", Position("e", 0))
        self.seq = 0

    def _resync(self, viewer: Viewer) -> Encoded:
        self.resynced.append(viewer)
        return Encoded("snapshot", {"seq": self.seq, "recovered": False})

    def join(self, viewer: Viewer) -> KeptOutbox:
        outbox = KeptOutbox()
        self.room.join(outbox, viewer)
        return outbox

    def change(self, *parts: Part, snapshot: bool = True) -> Sent:
        self.seq += 1
        sent = self.ring.push(Change(Position("e", self.seq), list(parts)))
        event = Encoded("snapshot", {"seq": self.seq}) if snapshot else None
        self.room.tell([Told(sent, event)])
        return sent


DATA: Part = {"kind": "data", "key": "k", "value": "secret"}
ADD: Part = {"kind": "log.reset", "log_id": "l"}


def seen(outbox: KeptOutbox) -> list[tuple[str, int]]:
    return [(name, payload["seq"]) for name, payload in outbox.events]


@pytest.fixture
def context() -> Context:
    return Context()


async def test_each_is_told_in_its_mode(context: Context) -> None:
    patches, simple = context.join(PATCH), context.join(SIMPLE)
    context.change(ADD)
    context.change(DATA, snapshot=False)
    assert seen(patches) == [("change", 1), ("change", 2)]
    assert seen(simple) == [("log", 1), ("snapshot", 1)]


async def test_private_parts(context: Context) -> None:
    user, agent = context.join(PATCH), context.join(AGENT)
    context.change(DATA, ADD)
    assert [part["kind"] for part in agent.events[0][1]["parts"]] == ["data", "log.reset"]
    assert [part["kind"] for part in user.events[0][1]["parts"]] == ["log.reset"]
    assert "secret" not in json.dumps(user.events)


async def test_joining_and_leaving_in_the_middle(context: Context) -> None:
    early = context.join(PATCH)
    context.change(ADD)
    late = context.join(PATCH)
    context.room.leave(early)
    context.room.leave(early)
    context.change(ADD)
    assert seen(early) == [("change", 1)]
    assert seen(late) == [("change", 2)]
    again = context.join(SIMPLE)
    context.room.join(again, PATCH)
    context.change(ADD)
    assert seen(again) == [("change", 3)], "in one mode at a time"
    assert context.room.snapshot_variants == set()


async def test_who_is_behind_gets_it_whole_later(context: Context) -> None:
    slow, healthy = context.join(AGENT), context.join(PATCH)
    context.change(ADD)
    slow.behind = True
    for _ in range(3):
        context.change(ADD)
        assert seen(slow) == [("change", 1)]
    assert seen(healthy) == [("change", n) for n in range(1, 5)]
    assert context.room.behind == {slow}
    slow.catch_up()
    assert context.resynced == [AGENT]
    assert seen(slow) == [("change", 1), ("snapshot", 4)]
    context.change(ADD)
    assert seen(slow)[-1] == ("change", 5)


async def test_leaving_while_behind(context: Context) -> None:
    slow = context.join(PATCH)
    slow.behind = True
    context.change(ADD)
    context.room.leave(slow)
    slow.catch_up()
    assert context.resynced == []
    assert not context.room.members
    assert not context.room._groups
    context.room.join(slow, PATCH)
    slow.behind = True
    context.change(ADD)
    context.room.clear()
    slow.catch_up()
    assert slow.events == []


async def test_nothing_is_encoded_for_nobody(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(self: Encoded, variant: Variant) -> Any:
        raise AssertionError("encoded for nobody")

    monkeypatch.setattr(Encoded, "get", never)
    context.change(ADD)
    outbox = context.join(PATCH)
    context.room.leave(outbox)
    context.change(ADD)
