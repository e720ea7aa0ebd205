"""Long work on the event loop, cut in pieces that take turns with everything else."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

PIECE_BYTES: Final = 65_536
"""What is encoded and written in one go."""
PIECES: Final = 4
"""Pieces in one iteration of the loop."""


class Turns:
    """Who has long work takes a turn for each piece of it: a few pieces an iteration of the event loop go to all of them
    together, first come first served, and what else there is to do comes between."""

    def __init__(self) -> None:
        self._left: float = PIECES
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._renewing = False

    async def turn(self) -> None:
        """Wait until a piece may be done."""
        if self._left <= 0 or self._waiting:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            self._take(0)  # else nobody would end the wait: what was done before may cost more than one iteration gives
            await turn
        else:
            self._take(1)

    def done(self, size: int) -> None:
        """The piece had so many bytes: a larger one is paid for by waiting longer."""
        if size > PIECE_BYTES:
            self._take(size / PIECE_BYTES - 1)

    def _take(self, pieces: float) -> None:
        self._left -= pieces
        if not self._renewing:
            self._renewing = True
            asyncio.get_running_loop().call_soon(self._renew)

    def _renew(self) -> None:
        """Another iteration has begun."""
        self._renewing = False
        self._left = min(self._left, 0) + PIECES
        while self._waiting and self._left > 0:
            turn = self._waiting.popleft()
            if not turn.done():  # otherwise its task was cancelled
                turn.set_result(None)
                self._take(1)
        if self._waiting:
            self._take(0)
