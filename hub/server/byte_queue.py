"""A queue of packets that is counted in bytes and taken in pieces: what waits for a connection that polls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

_PIECE_BYTES: Final = 65_536
_PIECE_PACKETS: Final = 16
"""What the engine takes from the queue at a time, so that the rest stays counted. A stock Python client takes no more
packets in the answer to a poll."""
_OVERHEAD: Final = 200
"""Bytes of memory that a packet takes besides its data: many small ones must count for what they are."""


class ByteQueue(asyncio.Queue[Any]):
    """A socket's queue that knows how many bytes wait in it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.size = 0
        self.on_taken: Callable[[], None] = lambda: None
        self._taken = [0, 0]  # packets and bytes of the piece that is being taken

    async def get(self) -> Any:
        self._taken = [0, 0]
        return await super().get()

    def get_nowait(self) -> Any:
        packets, size = self._taken
        if size > _PIECE_BYTES or packets >= _PIECE_PACKETS:
            self._taken = [0, 0]
            raise asyncio.QueueEmpty
        return super().get_nowait()

    def take_all(self) -> list[Any]:
        """What waits."""
        items: list[Any] = []
        while not self.empty():
            items.append(super().get_nowait())
            self.task_done()
        return items

    def _put(self, item: Any) -> None:
        self.size += _size(item)
        super()._put(item)

    def _get(self) -> Any:
        item = super()._get()
        size = _size(item)
        self.size -= size
        self._taken[0] += 1
        self._taken[1] += size
        self.on_taken()
        return item


def _size(item: Any) -> int:
    data = getattr(item, "data", None)
    if isinstance(data, str):
        return _OVERHEAD + (len(data) if data.isascii() else 3 * len(data))
    return _OVERHEAD + (len(data) if isinstance(data, bytes) else 0)
