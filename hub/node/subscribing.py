"""Subscribing to a context: recovered from the ring or the record's stream, else a snapshot that says why."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hub.core.errors import Conflict, NotFound, Unavailable
from hub.core.position import Position
from hub.fanout.outbox import Outbox
from hub.fanout.ring import Ring, Sent
from hub.fanout.room import Viewer
from hub.node.live import LiveContext
from hub.record.port import Record
from hub.wire.messages import Subscribe

MOST_REPLAYED = 2_048
"""Changes that are read from the stream for one client; who missed more gets a snapshot."""


Subscribed = tuple[dict[str, Any], Callable[[], None]]
"""The reply, and what sends what was missed: to be called right after the reply, before anything newer is sent."""


async def subscribe_context(
    record: Record, live: LiveContext, outbox: Outbox, viewer: Viewer, body: Subscribe, current: Callable[[], bool]
) -> Subscribed | None:
    """Join the room, and give the reply of ``subscribe``.

    ``current``: whether the context is still the one that is live. If not, nobody joins, and the answer is None.
    """
    audience = live.audience
    if body.from_ is None:
        audience.join(outbox, viewer)
        return audience.full_reply(viewer, body.tail, None), nothing
    position = body.from_.position
    missed, reason = await _missed(record, live, viewer, position)
    if not current():
        return None
    audience.join(outbox, viewer)
    if missed is None:
        return audience.full_reply(viewer, body.tail, reason), nothing
    reply = {"epoch": position.epoch, "seq": position.seq, "recovered": True}
    return reply, partial(audience.replay, outbox, viewer, missed)


def nothing() -> None:
    """There is nothing to send after the reply."""


async def _missed(
    record: Record, live: LiveContext, viewer: Viewer, position: Position
) -> tuple[list[Sent] | None, str | None]:
    now = live.replica.position
    if position.epoch != now.epoch:
        return None, "epoch_changed"
    if position.seq > now.seq:
        return None, "position_ahead"
    recent = live.audience.ring.since(position)
    if recent is not None:
        return recent, None
    if not viewer.patch or now.seq - position.seq > MOST_REPLAYED:
        return None, "too_far_behind"
    older = Ring(live.audience.topic, position)
    missed: list[Sent] = []
    reached = position
    while (recent := live.audience.ring.since(reached)) is None:
        try:
            entries, _ = await record.read(live.id, reached)
        except (Conflict, NotFound, Unavailable):
            return None, "too_far_behind"
        changes = [change for entry in entries for change in entry.changes if change.position.seq > reached.seq]
        if not changes or live.replica.position.epoch != position.epoch:
            return None, "too_far_behind"
        missed += [older.push(change) for change in changes if change.position.seq <= live.replica.position.seq]
        reached = missed[-1].position if missed else reached
        if changes[-1].position.seq > reached.seq:
            return None, "too_far_behind"
    return missed + recent, None
