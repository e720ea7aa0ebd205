"""The times that RECORD.md promises. Tests of what happens then have shorter ones of their own."""

from __future__ import annotations

from hub.node import contexts, dispatch, mirroring, offers, recent
from hub.node.node import Node
from hub.record import following, mirror, names
from hub.record.memory import MemoryRecord


def test_times() -> None:
    assert (mirror.SMALL_SECONDS, mirror.QUIET_SECONDS, mirroring.STILL) == (0.1, 1.0, 2.0)
    assert (contexts.COMPARE, following.ECHO_SECONDS) == (5.0, 2.0)
    assert (recent.SECONDS, contexts.UNSEEN, names.TOMBSTONE_SECONDS) == (30.0, 600.0, 3600)


async def test_a_node_is_dead_after_15_seconds() -> None:
    presence: object = Node(MemoryRecord()).presence
    assert vars(presence)["_dead_after"] == 15.0


def test_an_item_is_dropped_after_longer_than_a_request_may_wait() -> None:
    """Also one that stood for a message that came last of all."""
    assert dispatch.DROP_AFTER > offers.AHEAD + contexts.WAIT
