"""The viewers of one context: who gets changes, who gets snapshots."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hub.fanout.outbox import Outbox
from hub.fanout.ring import Sent
from hub.wire.codec import Encoded


class Viewer(NamedTuple):
    """How a member wants the context. ``private``: it may see private data; ``sees``: whether it may see the context at all,
    by the user that it belongs to."""

    patch: bool
    private: bool
    sees: Callable[[str | None], bool]


class Room:
    """Members of a context's topic. Sending is a loop over them: no task, no encoding and no waiting per member."""

    def __init__(self) -> None:
        self.members: dict[Outbox, Viewer] = {}

    @property
    def wants_snapshots(self) -> bool:
        return any(not viewer.patch for viewer in self.members.values())

    def send_change(self, sent: Sent, snapshot: Encoded | None) -> None:
        """A change to patch mode; its log parts, then the snapshot (if there is one now) to snapshot mode."""
        for outbox, viewer in self.members.items():
            if viewer.patch:
                outbox.send(sent.private if viewer.private else sent.public)
                continue
            if sent.log is not None:
                outbox.send(sent.log)
            if snapshot is not None:
                outbox.send(snapshot)

    def send_snapshot(self, snapshot: Encoded, *, patch: bool = False) -> None:
        """A snapshot to snapshot mode, and with ``patch`` to patch mode as well."""
        for outbox, viewer in self.members.items():
            if patch or not viewer.patch:
                outbox.send(snapshot)
