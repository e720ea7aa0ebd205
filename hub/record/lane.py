"""One connection to Redis on which commands follow each other without waiting for answers.

For commands that come all the time: a pool checks a connection out and in for each, which costs more than the command.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import redis.exceptions as errors
from hiredis import pack_command

Command = Sequence[Any]


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
        self._closed = False

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        """The answer of each command; an error of a single one stands in its place.

        Raises redis-py's errors of a broken connection, and TypeError, before anything is sent, for what is neither text,
        bytes nor a number. Who is cancelled meanwhile gives the connection up.
        """
        if not commands:
            return []
        packed = [pack_command(tuple(command)) for command in commands]
        connection = self._connection
        if connection is None:
            connection = await self._connect()
        asked = _Asked(len(commands))
        self._asked.append(asked)
        try:
            # A connection writes before it first waits, so what is sent stays in the order of ``_asked``.
            await connection.send_packed_command(packed, check_health=False)
            return await asked.done
        except asyncio.CancelledError:  # too late, or who asked ends: its answers would hold up the others'
            await self._drop(connection, "an answer took too long")
            raise
        except Exception as error:
            await self._drop(connection, str(error))
            raise

    async def close(self) -> None:
        """Close the connection, for good; what is under way fails."""
        self._closed = True
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reader
        await self._drop(self._connection, "it is being closed")

    async def _drop(self, connection: Any, why: str) -> None:
        """Give a connection up: answers on it cannot be told apart any more, or do not come."""
        if connection is None or connection is not self._connection:
            return
        self._connection = None
        asked, self._asked = self._asked, deque()
        for one in asked:
            if not one.done.done():
                one.done.set_exception(errors.ConnectionError(f"the connection was given up: {why}"))
                one.done.exception()  # who asked may be gone
        await connection.disconnect(nowait=True)

    async def _connect(self) -> Any:
        async with self._connecting:
            if self._connection is None:
                connection = self._make()
                try:
                    await connection.connect()
                    if self._closed:
                        raise errors.ConnectionError("the connection was closed")
                except BaseException:
                    await connection.disconnect(nowait=True)
                    raise
                self._connection = connection
                self._reader = asyncio.create_task(self._read(connection), name="redis answers")
            return self._connection

    async def _read(self, connection: Any) -> None:
        """Take answers until the connection breaks."""
        while True:
            try:
                answer = await connection.read_response(disconnect_on_error=False)
            except errors.ResponseError as error:
                answer = error
            except Exception as error:  # whatever it is, what comes after it cannot be told apart
                await self._drop(connection, str(error))
                return
            if self._connection is not connection:
                return
            if not self._asked:
                await self._drop(connection, "an answer came that nobody asked for")
                return
            asked = self._asked[0]
            asked.answers.append(answer)
            if len(asked.answers) == asked.count:
                self._asked.popleft()
                if not asked.done.done():
                    asked.done.set_result(asked.answers)
