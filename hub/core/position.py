"""Where a reader stands in a context's stream of changes."""

from __future__ import annotations

from typing import NamedTuple

from hub.core.errors import InvalidRequest


class Position(NamedTuple):
    """Epoch and seq, always together: a seq means nothing without its epoch.

    ``seq`` counts 1, 2, 3 ... without gaps; 0 is before the first change. ``epoch`` is a random text that is made with
    the context and changes only when its record lost something.
    """

    epoch: str
    seq: int

    def __str__(self) -> str:
        return f"{self.epoch}:{self.seq}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """Read a version such as ``"Kx81:42"``. Raises InvalidRequest for any other text."""
        epoch, colon, seq = text.rpartition(":")
        if not colon or not epoch or not (seq.isascii() and seq.isdigit()) or len(seq) > 15:
            raise InvalidRequest(f"{text[:80]!r} is not a version: versions look like 'epoch:seq'")
        return cls(epoch, int(seq))

    def includes(self, other: Position) -> bool:
        """Whether a reader that stands here has the change at ``other``; False if that is of another epoch."""
        return self.epoch == other.epoch and other.seq <= self.seq

    def after(self, count: int = 1) -> Position:
        """The position ``count`` changes later in the same epoch."""
        return tuple.__new__(Position, (self[0], self[1] + count))  # twice as fast as Position(...), on the hot path
