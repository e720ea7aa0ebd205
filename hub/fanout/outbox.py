"""What fan-out sees of a connection."""

from __future__ import annotations

from typing import Protocol

from hub.wire.codec import Encoded


class Outbox(Protocol):
    """The way to one connection. It keeps order, is bounded in bytes, and never blocks or raises."""

    def send(self, event: Encoded) -> None:
        """Queue an event. A connection that is too far behind is ended instead, and resumes by its positions."""
