"""The viewers of one context: who gets changes, who gets snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from hub.fanout.outbox import Outbox
from hub.fanout.ring import Sent
from hub.wire.codec import Encoded, Variant


class Viewer(NamedTuple):
    """How a member wants the context. ``private``: it may see private data; ``sees``: whether it may see the context at all,
    by the user that it belongs to."""

    patch: bool
    private: bool
    sees: Callable[[str | None], bool]


class Told(NamedTuple):
    """What is told to a room: a change, a snapshot for snapshot mode, or both."""

    sent: Sent | None = None
    snapshot: Encoded | None = None


_Group = tuple[bool, bool, Variant]
"""Members of one group (patch mode, private, variant) are sent the same bytes."""


class Room:
    """Members of a context's topic.

    What is told at a time (what one append brought) is joined and written once to each member, in a loop over them: no task,
    no encoding and no waiting per member. Nothing is merged or left out, but for members that are behind: they get
    ``resync`` when they have caught up.
    """

    def __init__(self, resync: Callable[[Viewer], Encoded | None]) -> None:
        self.members: dict[Outbox, Viewer] = {}
        self._groups: dict[_Group, dict[Outbox, None]] = {}
        self.snapshot_variants: frozenset[Variant] = frozenset()
        """The variants that members in snapshot mode speak."""
        self.behind: set[Outbox] = set()
        """Members that get ``resync`` when they have caught up, and nothing before."""
        self._resync = resync

    def join(self, outbox: Outbox, viewer: Viewer) -> None:
        """Let a member in. It is told nothing of what happened before."""
        self.enter(outbox, viewer)
        key = _group_of(outbox, viewer)
        if key not in self._groups:
            self._groups[key] = {}
            self._groups_changed()
        self._groups[key][outbox] = None

    def enter(self, outbox: Outbox, viewer: Viewer) -> None:
        """Let a member in that is told nothing before it joins."""
        self.leave(outbox)
        self.members[outbox] = viewer

    def leave(self, outbox: Outbox) -> None:
        """Harmless for who is no member."""
        viewer = self.members.pop(outbox, None)
        if viewer is not None:
            self.behind.discard(outbox)
            self._leave_group(outbox, viewer)

    def _leave_group(self, outbox: Outbox, viewer: Viewer) -> None:
        key = _group_of(outbox, viewer)
        group = self._groups.get(key, {})
        group.pop(outbox, None)
        if not group and self._groups.pop(key, None) is not None:
            self._groups_changed()

    def _groups_changed(self) -> None:
        self.snapshot_variants = frozenset([variant for patch, _, variant in self._groups if not patch])

    def clear(self) -> None:
        """Let everybody go."""
        self.members.clear()
        self._groups.clear()
        self._groups_changed()
        self.behind.clear()

    def end(self) -> None:
        """Let everybody go, for good: who made the room is referred to no more."""
        self.clear()
        self._resync = _nothing

    def tell(self, told: Sequence[Told]) -> None:
        """Send what was told, joined, to each member."""
        late: list[Outbox] = []
        for (patch, private, variant), group in self._groups.items():
            if patch:
                events = [sent.private if private else sent.public for sent, _ in told if sent is not None]
            else:
                events = list(_for_snapshot_mode(told))
            if not events:
                continue
            frames = events[0].frame(variant) if len(events) == 1 else b"".join([e.frame(variant) for e in events])
            late += [outbox for outbox in group if not outbox.stream(frames, events)]
        for outbox in late:
            self._falls_behind(outbox)

    def _falls_behind(self, outbox: Outbox) -> None:
        self.behind.add(outbox)
        self._leave_group(outbox, self.members[outbox])
        outbox.when_caught_up(lambda: self._caught_up(outbox))

    def _caught_up(self, outbox: Outbox) -> None:
        if outbox not in self.behind:
            return
        self.behind.discard(outbox)
        viewer = self.members[outbox]
        event = self._resync(viewer)
        if event is not None:
            outbox.send(event)
        self.join(outbox, viewer)


def _nothing(viewer: Viewer) -> None:
    """The room has ended."""


def _group_of(outbox: Outbox, viewer: Viewer) -> _Group:
    return viewer.patch, viewer.patch and viewer.private, outbox.variant


def _for_snapshot_mode(told: Iterable[Told]) -> Iterable[Encoded]:
    """The log parts of a change come before its snapshot."""
    for sent, snapshot in told:
        if sent is not None and sent.in_log:
            yield sent.log()
        if snapshot is not None:
            yield snapshot
