"""Topics that are sets of rows: the contexts list and the notices. A row goes to those who may see it, and to nobody else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hub.core.position import Position
from hub.core.requests import Role
from hub.fanout.outbox import Outbox
from hub.node.rights import Identity
from hub.wire.codec import Encoded

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

    def join(self, outbox: Outbox, identity: Identity) -> None:
        key = audience_key(identity)
        self._rooms.setdefault(key, set()).add(outbox)
        self._identities[key] = identity
        if identity.ctx:
            self._patterned.add(key)

    def leave(self, outbox: Outbox, identity: Identity) -> None:
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
        payload = {"topic": self.topic, "id": id, "version": str(version), "row": row}
        event = Encoded("row", payload)
        candidates = {(True, None, ()), (False, user_id, ())} | self._patterned
        for key in candidates:
            room = self._rooms.get(key)
            if room and sees(self._identities[key]):
                for outbox in room:
                    outbox.send(event)

    def send_everybody(self, id: str, version: Position, row: dict[str, Any] | None) -> None:
        """Send a row to every reader."""
        event = Encoded("row", {"topic": self.topic, "id": id, "version": str(version), "row": row})
        for room in self._rooms.values():
            for outbox in room:
                outbox.send(event)


def audience_key(identity: Identity) -> AudienceKey:
    """Identities with the same key see the same rows."""
    if identity.role is Role.OPERATOR:
        return True, None, ()
    return False, identity.sub if identity.role is Role.USER else None, identity.ctx
