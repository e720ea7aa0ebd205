"""Streams of several topics that go to each connection in one piece."""

from __future__ import annotations

from typing import Final, Protocol


class Holder(Protocol):
    """A connection that what was held can be written to."""

    def write(self, frames: bytes) -> None:
        """Write frames now."""


class Together:
    """A block in which nothing is awaited. Who follows many contexts that change in it gets one write for all: each is a
    system call here, and one more where it is read."""

    def __init__(self) -> None:
        self.held: dict[Holder, list[bytes]] | None = None
        """What waits for the block's end, by connection; None outside of it."""

    def __enter__(self) -> None:
        assert self.held is None
        self.held = {}

    def __exit__(self, *_: object) -> None:
        held, self.held = self.held, None
        for holder, frames in (held or {}).items():
            holder.write(b"".join(frames) if len(frames) > 1 else frames[0])


TOGETHER: Final = Together()
"""Of this thread's event loop, which all connections are on."""
