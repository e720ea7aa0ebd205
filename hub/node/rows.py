"""Topics that are sets of rows: the contexts list and the notices. A row goes to those who may see it, and to nobody else.

Who does not take them is sent none for a while, and is told to read the set again when it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from hub.core.position import Position
from hub.core.requests import Role
from hub.fanout.outbox import Outbox
from hub.node.rights import Identity
from hub.wire.codec import Encoded, Variant

AudienceKey = tuple[bool, str | None, tuple[str, ...]]


class RowTopic:
    """Readers of a set of rows, grouped by what they may see, so that who may see a row is asked once a group.

    A group is found by the user it belongs to; groups with patterns are asked one by one.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._rooms: dict[AudienceKey, set[Outbox]] = {}
        self._identities: dict[AudienceKey, Identity] = {}
        self._patterned: set[AudienceKey] = set()
        self._behind: dict[Outbox, Identity] = {}  # what they missed is told by one ``hub.lagged``

    def join(self, outbox: Outbox, identity: Identity) -> None:
        """Let a reader in, who reads the set now."""
        self.leave(outbox, identity)
        key = audience_key(identity)
        self._rooms.setdefault(key, set()).add(outbox)
        self._identities[key] = identity
        if identity.ctx:
            self._patterned.add(key)

    def leave(self, outbox: Outbox, identity: Identity) -> None:
        """Harmless for who is no reader."""
        if self._behind.pop(outbox, None) is not None:
            return
        key = audience_key(identity)
        room = self._rooms.get(key)
        if room is None:
            return
        room.discard(outbox)
        if not room:
            del self._rooms[key], self._identities[key]
            self._patterned.discard(key)

    def send(
        self,
        id: str,
        version: Position,
        row: dict[str, Any] | None,
        user_id: str | None,
        sees: Callable[[Identity], bool],
    ) -> None:
        """Send a row (None: it is gone) to the groups for which ``sees`` is true, out of those that could."""
        self._send_to({(True, None, ()), (False, user_id, ())} | self._patterned, id, version, row, sees)

    def send_everybody(
        self,
        id: str,
        version: Position,
        row: dict[str, Any] | None,
        sees: Callable[[Identity], bool] = lambda identity: True,
    ) -> None:
        """Send a row (None: it is gone) to all groups for which ``sees`` is true."""
        self._send_to(list(self._rooms), id, version, row, sees)

    def _send_to(
        self,
        keys: Iterable[AudienceKey],
        id: str,
        version: Position,
        row: dict[str, Any] | None,
        sees: Callable[[Identity], bool],
    ) -> None:
        event = Encoded("row", {"topic": self.topic, "id": id, "version": str(version), "row": row})
        for key in keys:
            room = self._rooms.get(key)
            if room and sees(self._identities[key]):
                self._send(event, key, room)

    def lagged(self) -> None:
        """Rows were missed: tell every reader to read the set again."""
        event = Encoded("hub.lagged", {"topic": self.topic})
        for room in list(self._rooms.values()):
            for outbox in list(room):
                outbox.send(event)

    def _send(self, event: Encoded, key: AudienceKey, room: set[Outbox]) -> None:
        frames: dict[Variant, bytes] = {}
        late: list[Outbox] = []
        for outbox in room:
            variant = outbox.variant
            frame = frames.get(variant)
            if frame is None:
                frame = frames[variant] = event.frame(variant)
            if not outbox.stream(frame, (event,)):
                late.append(outbox)
        if late:
            identity = self._identities[key]
            for outbox in late:
                self.leave(outbox, identity)
                self._behind[outbox] = identity
                outbox.when_caught_up(partial(self._caught_up, outbox))

    def _caught_up(self, outbox: Outbox) -> None:
        """It takes rows again; those that it missed it has to ask for."""
        identity = self._behind.pop(outbox, None)
        if identity is not None:
            self.join(outbox, identity)
            outbox.send(Encoded("hub.lagged", {"topic": self.topic}))


def audience_key(identity: Identity) -> AudienceKey:
    """Identities with the same key see the same rows."""
    if identity.role is Role.OPERATOR:
        return True, None, ()
    return False, identity.sub if identity.role is Role.USER else None, identity.ctx
