"""Subscribing to a context: recovered from the ring or the record's stream, else a snapshot that says why."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from hub.fanout.outbox import Outbox, room_for_more
from hub.fanout.room import Viewer
from hub.node.live import LiveContext
from hub.node.replaying import Replay
from hub.node.turns import Turns
from hub.record.port import Record
from hub.wire.messages import Subscribe

Subscribed = tuple[dict[str, Any], Callable[[], Coroutine[Any, Any, None]]]
"""The reply, and what sends what was missed: to be called right after the reply, before anything newer is sent."""

_SMALL: Final = 16_384
"""Bytes of a document up to which a reply waits for no turn."""


class Subscribing:
    """Lets clients in, for all contexts of a node."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._turns = Turns()

    async def subscribe(
        self, live: LiveContext, outbox: Outbox, viewer: Viewer, body: Subscribe, current: Callable[[], bool]
    ) -> Subscribed | None:
        """Join the room, and give the reply of ``subscribe``.

        ``current``: whether the context is still the one that is live. If not, nobody joins, and the answer is None.
        """
        reason = None
        if body.from_ is not None:
            replay = Replay(self._record, self._turns, live, outbox, viewer, body.from_.position)
            reason = await replay.prepare()
            if not current():
                return None
            if reason is None:
                epoch, seq = body.from_.position
                reply = {"epoch": epoch, "seq": seq, "recovered": True}
                if replay.nothing_missed:
                    live.audience.join(outbox, viewer)
                    return reply, nothing
                live.audience.enter(replay)
                return reply, replay.run
        size = live.replica.state.size
        if size > _SMALL:
            await self._turns.turn()
            if not current():
                return None
            self._turns.done(size)
        await room_for_more(outbox)
        if not current():
            return None
        live.audience.join(outbox, viewer)
        return live.audience.full_reply(outbox.variant, viewer, body.tail, reason), nothing


async def nothing() -> None:
    """There is nothing to send after the reply."""
