"""Long work in short pieces.

Everything here that walks over many rows is a generator: it stops (`yield`) after each piece of at most a few ten
milliseconds and returns its result at the end. Whoever drives it decides what happens between two pieces: an agent
looks whether it shall pause or stop, a test just goes on.
"""

from collections.abc import Generator, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

Steps = Generator[None, None, T]
"""Work in pieces that ends in a `T`."""

PIECE = 20_000
"""Cells that are looked at between two stops."""


def drain(steps: Generator[Any, None, T]) -> T:
    """Do all of the work at once and give its result, whatever it yields between."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def spans(length: int, piece: int = PIECE) -> Iterator[tuple[int, int]]:
    """`(start, stop)` pairs that cut `range(length)` into pieces, none of them longer than `piece`."""
    for start in range(0, length, piece):
        yield start, min(start + piece, length)
