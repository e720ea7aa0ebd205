"""One connection to Redis on which commands follow each other without waiting for answers.

For commands that come all the time: a pool checks a connection out and in for each, which costs more than the command.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import redis.exceptions as errors
from hiredis import pack_command

Command = Sequence[Any]

_BROKEN: Final = (errors.ConnectionError, errors.TimeoutError, errors.InvalidResponse, OSError, EOFError)


class _Asked:
    """Commands that were sent together, and their answers so far."""

    __slots__ = ("answers", "count", "done")

    def __init__(self, count: int) -> None:
        self.count = count
        self.answers: list[Any] = []
        self.done: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()


class Lane:
    """Sends in the order of the calls; connects when it has to. What was under way when the connection broke fails, and may
    have happened."""

    def __init__(self, make: Callable[[], Any]) -> None:
        """``make`` makes one of redis-py's asyncio connections, without a socket timeout."""
        self._make = make
        self._connection: Any = None
        self._connecting = asyncio.Lock()
        self._asked: deque[_Asked] = deque()
        self._reader: asyncio.Task[None] | None = None

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        """The answer of each command; an error of a single one stands in its place. Raises redis-py's errors of a broken
        connection."""
        if self._connection is None:
            await self._connect()
        asked = _Asked(len(commands))
        self._asked.append(asked)
        packed = [pack_command(tuple(command)) for command in commands]
        # A connection writes before it first waits, so what is sent stays in the order of ``_asked``.
        await self._connection.send_packed_command(packed, check_health=False)
        return await asked.done

    async def close(self) -> None:
        """Close the connection; what is under way fails."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reader
        await self.drop(errors.ConnectionError("the connection is being closed"))

    async def drop(self, error: Exception) -> None:
        """Give the connection up: answers on it cannot be told apart any more, or do not come."""
        connection, self._connection = self._connection, None
        asked, self._asked = self._asked, deque()
        for one in asked:
            if not one.done.done():
                one.done.set_exception(error)
                one.done.exception()  # who asked may be gone
        if connection is not None:
            await connection.disconnect(nowait=True)

    async def _connect(self) -> None:
        async with self._connecting:
            if self._connection is None:
                connection = self._make()
                await connection.connect()
                self._connection = connection
                self._reader = asyncio.create_task(self._read(connection), name="redis answers")

    async def _read(self, connection: Any) -> None:
        """Take answers until the connection breaks."""
        while True:
            try:
                answer = await connection.read_response(disconnect_on_error=False)
            except errors.ResponseError as error:
                answer = error
            except _BROKEN as error:
                if self._connection is connection:
                    await self.drop(error)
                return
            if self._connection is not connection:
                return
            asked = self._asked[0]
            asked.answers.append(answer)
            if len(asked.answers) == asked.count:
                self._asked.popleft()
                if not asked.done.done():
                    asked.done.set_result(asked.answers)
