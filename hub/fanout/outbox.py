"""What fan-out sees of a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from hub.wire.codec import Encoded, Variant


class Outbox(Protocol):
    """The way to one connection. It keeps order, is bounded in bytes, and never blocks or raises."""

    @property
    def variant(self) -> Variant:
        """How its packets are encoded."""

    def send(self, event: Encoded) -> None:
        """Send an event that must not be left out. A connection that is too far behind is ended instead."""

    def stream(self, frames: bytes, events: Sequence[Encoded]) -> bool:
        """Send events of a stream; ``frames`` are theirs, joined. False if nothing was sent, because the connection is
        behind: then what it misses is replaced by one snapshot, when it has caught up."""

    @property
    def behind(self) -> bool:
        """Whether more waits for the connection than may be streamed to it."""

    def when_caught_up(self, call: Callable[[], None]) -> None:
        """Call once when what waits for a connection that was behind is gone, or when it has ended."""


async def room_for_more(outbox: Outbox) -> None:
    """Wait until a connection is not behind, or has ended. What is made right after this is not too much for it, however
    many wait for the same."""
    while outbox.behind:
        caught_up = asyncio.Event()
        outbox.when_caught_up(caught_up.set)
        await caught_up.wait()
