"""What the hub asks of one connection: events that wait for their acknowledgement."""

from __future__ import annotations

import asyncio
from typing import Any

from hub.core.errors import Unavailable


class Asks:
    """Acknowledgements to come, by id. Most connections are never asked anything, so there is no container before that."""

    __slots__ = ("_count", "_waiting")

    def __init__(self) -> None:
        self._count = 0
        self._waiting: dict[int, asyncio.Future[Any]] | None = None

    def __len__(self) -> int:
        return len(self._waiting or ())

    def ask(self) -> tuple[int, asyncio.Future[Any]]:
        """The id of an event, and its acknowledgement to come. The answer raises Unavailable if the connection ends before."""
        self._count += 1
        id, answer = self._count, asyncio.get_running_loop().create_future()
        if self._waiting is None:
            self._waiting = {}
        self._waiting[id] = answer
        return id, answer

    def acknowledged(self, id: Any, data: Any) -> None:
        """An acknowledgement came in; nobody may wait for it."""
        answer = self._waiting.get(id) if self._waiting and isinstance(id, int) else None
        if answer is not None and not answer.done():
            answer.set_result(data[0] if isinstance(data, list) and data else None)

    def forget(self, id: int) -> None:
        """Nobody waits for it any more."""
        if self._waiting is not None:
            self._waiting.pop(id, None)
            if not self._waiting:
                self._waiting = None

    def gone(self) -> None:
        """No acknowledgement comes any more."""
        for answer in (self._waiting or {}).values():
            if not answer.done():
                answer.set_exception(Unavailable("the worker went away"))
