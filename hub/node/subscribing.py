"""Subscribing to a context: recovered from the ring or the record's stream, else a snapshot that says why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from hub.core.changes import RecordEntry
from hub.core.errors import Unavailable
from hub.core.position import Position
from hub.fanout.outbox import Outbox, room_for_more
from hub.fanout.room import Viewer
from hub.node.contexts import Contexts
from hub.node.live import LiveContext
from hub.node.replaying import Replay
from hub.node.turns import Turns
from hub.record.port import Record
from hub.wire.messages import Subscribe

Subscribed = tuple[dict[str, Any], Callable[[], Coroutine[Any, Any, None]]]
"""The reply, and what sends what was missed: to be called right after the reply, before anything newer is sent."""

_SMALL: Final = 16_384
"""Bytes of a document up to which a reply waits for no turn."""
READS: Final = 8
"""Pieces that are read from the record at a time: of a crowd each would wait for all others', and all be held at once."""
READ_SECONDS: Final = 3.0
"""How long one may wait for its read; then a snapshot takes its place. Less than a request waits for."""


class Subscribing:
    """Lets clients in, for all contexts of a node."""

    def __init__(self, record: Record, contexts: Contexts) -> None:
        self._record = record
        self._contexts = contexts
        self._turns = Turns()
        self._reading = asyncio.Semaphore(READS)

    async def _read(self, context: str, after: Position, limit: int) -> list[RecordEntry]:
        """Entries of the record. Raises TimeoutError if too many wait for theirs."""
        async with asyncio.timeout(READ_SECONDS):
            await self._reading.acquire()
        try:
            return (await self._record.read(context, after, limit))[0]
        finally:
            self._reading.release()

    async def _catch_up(self, live: LiveContext, at: Position) -> None:
        """Read what the record has of a context and this node has not, because a client stands at a position that it does not
        know."""
        try:
            async with asyncio.timeout(READ_SECONDS):
                await asyncio.shield(self._contexts.doubt(live))
                now = live.replica.position
                if at.epoch == now.epoch and at.seq > now.seq:
                    await self._contexts.renew(live)
        except TimeoutError:
            raise Unavailable("this node is behind the record, which cannot be reached; try again") from None

    async def subscribe(
        self, live: LiveContext, outbox: Outbox, viewer: Viewer, body: Subscribe, current: Callable[[], bool]
    ) -> Subscribed | None:
        """Join the room, and give the reply of ``subscribe``. Raises Unavailable.

        ``current``: whether the context is still the one that is live. If not, nobody joins, and the answer is None.
        """
        reason = None
        if body.from_ is not None and not live.replica.position.includes(body.from_.position):
            await self._catch_up(live, body.from_.position)  # another node told it so
            if not current():
                return None
        if body.from_ is not None:
            replay = Replay(self._read, self._turns, live, outbox, viewer, body.from_.position)
            reason = await replay.prepare()
            if not current():
                return None
            lacks = not viewer.patch and live.audience.may_lack_snapshot(outbox)
            if reason is None and replay.nothing_missed and lacks:
                await self._wait_for_turn(live, outbox, viewer)
                if not current():
                    return None
            if reason is None:
                epoch, seq = body.from_.position
                reply = {"epoch": epoch, "seq": seq, "recovered": True}
                if not replay.nothing_missed:
                    live.audience.enter(replay)
                    return reply, replay.run
                if lacks:
                    reply |= self._counted(live.audience.get_reply(outbox.variant, private=False))
                live.audience.join(outbox, viewer)
                return reply, nothing
        await self._wait_for_turn(live, outbox, viewer)
        if not current():
            return None
        live.audience.join(outbox, viewer)
        return self._counted(live.audience.full_reply(outbox.variant, viewer, body.tail, reason)), nothing

    async def _wait_for_turn(self, live: LiveContext, outbox: Outbox, viewer: Viewer) -> None:
        """Wait until a document may be sent: others have their turn before a large one, and the connection room for it."""
        if live.replica.state.size > _SMALL or (viewer.private and live.replica.state.data):
            await self._turns.turn()
        await room_for_more(outbox)

    def _counted(self, reply: dict[str, Any]) -> dict[str, Any]:
        """A reply with a document, which counts for the next turn."""
        self._turns.done(sum(len(memoryview(reply[name])) for name in ("document", "data") if name in reply))
        return reply


async def nothing() -> None:
    """There is nothing to send after the reply."""
