"""What a room writes: the same bytes to everybody, whole WebSocket frames, one write an iteration of the event loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from hub.core.changes import Change
from hub.core.position import Position
from hub.fanout.ring import Ring
from hub.fanout.room import Room, Told, Viewer
from hub.wire.codec import Encoded, Variant


class Member:
    """An outbox that keeps the bytes that it was given."""

    variant = Variant.JSON
    behind = False

    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def send(self, event: Encoded) -> None:
        self.writes.append(event.frame(self.variant))

    def stream(self, frames: bytes, events: Sequence[Encoded]) -> bool:
        self.writes.append(frames)
        return True

    def when_caught_up(self, call: Callable[[], None]) -> None: ...


VIEWER = Viewer(patch=True, private=False, sees=lambda user_id: True)


def resync(viewer: Viewer) -> Encoded:
    return Encoded("snapshot", {"recovered": False})


def changes(count: int, first: int = 1, **part: Any) -> list[Told]:
    ring = Ring("context:c", Position("e", first - 1))
    parts: list[Any] = [part or {"kind": "log.append", "id": "n", "at": 0, "text": "x"}]
    return [Told(ring.push(Change(Position("e", first + n), parts))) for n in range(count)]


def decoded(frames: bytes) -> list[Any]:
    """The events in joined JSON frames."""
    found = []
    while frames:
        size, start = frames[1], 2
        if size == 126:
            size, start = int.from_bytes(frames[2:4], "big"), 4
        elif size == 127:
            size, start = int.from_bytes(frames[2:10], "big"), 10
        assert frames[0] == 0x81
        assert frames[start : start + 2] == b"42"
        found.append(msgspec.json.decode(frames[start + 2 : start + size]))
        frames = frames[start + size :]
    return found


async def test_what_is_told_at_a_time_is_one_write_and_nothing_is_merged() -> None:
    room, members = Room(resync), [Member(), Member()]
    for member in members:
        room.join(member, VIEWER)
    room.tell(changes(10))
    for member in members:
        assert len(member.writes) == 1
        assert [event[1]["seq"] for event in decoded(member.writes[0])] == list(range(1, 11))
    assert members[0].writes[0] is members[1].writes[0], "the same bytes"
    room.tell(changes(1, 11))
    assert [len(member.writes) for member in members] == [2, 2]


async def test_large_frames_have_the_right_length() -> None:
    room, member = Room(resync), Member()
    room.join(member, VIEWER)
    for size in (1, 125, 126, 65_535, 65_536, 200_000):
        room.tell(changes(1, 1, kind="log.append", id="n", at=0, text="x" * size))
        [[name, event]] = decoded(member.writes[-1])
        assert (name, len(event["parts"][0]["text"])) == ("change", size)
