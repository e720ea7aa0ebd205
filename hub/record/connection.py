"""Commands to Redis, and its errors as ours.

Answers come as RESP2 gives them (bytes, integers, lists): what a command's answer means stands beside the command.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

import redis.exceptions as errors
from redis.asyncio import BlockingConnectionPool, ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from hub.core.errors import HubError, Internal, Overloaded, StartError, Unavailable
from hub.record import names
from hub.record.lane import Command, Lane
from hub.record.scripts import Script

T = TypeVar("T")

_CONNECT_SECONDS: Final = 2.0


class Connection:
    """A bounded set of connections to one server; each script that is run has one of its own besides.

    Its methods raise Unavailable, Overloaded or Internal, and nothing foreign.
    """

    def __init__(self, url: str, *, timeout: float = 5.0, connections: int = 16, blocking: int = 64) -> None:
        """Prepare; nothing connects yet.

        ``timeout`` is how many seconds an answer may take, or a free connection. ``blocking`` connections besides are
        for commands that wait by themselves. Raises StartError for a URL that is none.
        """
        self.address = address_of(url)
        self.timeout = timeout
        self._plain: Any = _client(url, timeout, connections)
        self._waiting: Any = _client(url, timeout, blocking)
        self._apart = _pool(ConnectionPool, url, timeout)
        self._db: int = self._apart.connection_kwargs.get("db", 0)
        self._lanes: dict[Script | None, Lane] = {}

    @property
    def db(self) -> int:
        """The number of the database."""
        return self._db

    def channel(self, name: str) -> str:
        """A channel as it is called for this database."""
        return names.channel(name, self._db)

    async def close(self) -> None:
        """Close all connections."""
        for lane in self._lanes.values():
            await lane.close()
        await self._plain.aclose()
        await self._waiting.aclose()

    async def run(self, *command: Any, timeout: float | None = None) -> Any:
        """One command's answer. ``timeout`` in seconds where the usual one does not fit."""
        return await self._translated(self._plain.execute_command(*command), timeout or self.timeout)

    async def wait(self, *command: Any, seconds: float) -> Any:
        """The answer of a command that waits up to ``seconds`` inside the server."""
        return await self._translated(self._waiting.execute_command(*command), seconds + self.timeout)

    async def many(
        self, commands: Sequence[Command], *, atomic: bool = False, apart: bool = False, timeout: float | None = None
    ) -> list[Any]:
        """The answers of several commands that are sent together; ``atomic`` in one MULTI.

        ``apart``: what the server refuses of a single command, as Internal, stands in the place of its answer.
        """
        if not commands:
            return []
        pipeline = self._plain.pipeline(transaction=atomic)
        for command in commands:
            pipeline.execute_command(*command)
        answers = await self._translated(pipeline.execute(raise_on_error=False), timeout or self.timeout)
        for place, answer in enumerate(answers):
            if isinstance(answer, errors.RedisError):
                answers[place] = error = translate(answer, self.address)
                if not apart or not isinstance(error, Internal):
                    raise error from answer
        return list(answers)

    async def now_ms(self) -> int:
        """Now in ms since 1970, by the server's clock: that of a node may be wrong, and all nodes have this one."""
        seconds, microseconds = await self.run("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000

    async def publish(self, channel: str, message: bytes) -> None:
        """Send a message to a channel of this database; messages of one caller arrive in the order of the calls."""
        command = ("PUBLISH", self.channel(channel), message)
        (answer,) = await self._translated(self._lane(None).run([command]), self.timeout)
        if isinstance(answer, errors.RedisError):
            raise translate(answer, self.address)

    async def open(self) -> Any:
        """One of redis-py's connections, connected, that nobody else uses; who asked closes it."""
        connection = self._apart.make_connection()
        try:
            await self._translated(connection.connect(), min(self.timeout, _CONNECT_SECONDS))
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection

    async def script(
        self, script: Script, keys: Sequence[Any], args: Sequence[Any], *, timeout: float | None = None
    ) -> Any:
        """A script's answer."""
        return (await self.scripts(script, [(keys, args)], timeout=timeout))[0]

    async def scripts(
        self, script: Script, calls: Sequence[tuple[Sequence[Any], Sequence[Any]]], *, timeout: float | None = None
    ) -> list[Any]:
        """The answers of several calls (keys, args) of a script that are sent together.

        It is loaded when the server does not have it (any more); then all are run again, so a script must be one that
        may come twice.
        """
        lane = self._lane(script)
        commands = [("EVALSHA", script.sha, len(keys), *keys, *args) for keys, args in calls]
        for _ in range(3):  # somebody may flush the scripts between load and run
            answers = await self._translated(lane.run(commands), timeout or self.timeout)
            failed = [answer for answer in answers if isinstance(answer, errors.RedisError)]
            if not failed:
                return answers
            if not any(isinstance(error, errors.NoScriptError) for error in failed):
                raise translate(failed[0], self.address) from failed[0]
            await self.run("SCRIPT", "LOAD", script.text)
        raise Unavailable("the record forgets its scripts as fast as they are loaded")

    def _lane(self, script: Script | None) -> Lane:
        """A script's lane, or that of messages."""
        lane = self._lanes.get(script)
        if lane is None:
            lane = self._lanes[script] = Lane(self._apart.make_connection)
        return lane

    def refusal(self, text: str) -> HubError:
        """Our error for the text of one that a command inside a script met."""
        return translate(errors.ResponseError(text), self.address)

    async def _translated(self, command: Coroutine[Any, Any, T], timeout: float) -> T:
        try:
            async with asyncio.timeout(timeout):
                return await command
        except TimeoutError:
            raise Unavailable(f"the record at {self.address} does not answer") from None
        except (errors.RedisError, OSError, asyncio.IncompleteReadError) as error:
            raise translate(error, self.address) from error


def translate(error: Exception, address: str) -> HubError:
    """Our error for one of redis-py's."""
    code = str(error).partition(" ")[0]
    if isinstance(error, errors.OutOfMemoryError) or code == "OOM":
        return Overloaded(f"the record at {address} has no memory left: {error}")
    if isinstance(error, _UNREACHABLE):
        return Unavailable(f"the record at {address} cannot be reached ({reason_of(error)})")
    if isinstance(error, _NOT_NOW) or code in _AWAY:
        return Unavailable(f"the record at {address} does not serve now: {error}")
    return Internal(f"the record at {address} refused a command: {error}")


_UNREACHABLE: Final = (errors.ConnectionError, errors.TimeoutError, OSError, EOFError)
_NOT_NOW: Final = (errors.ReadOnlyError, errors.ClusterDownError, errors.TryAgainError)
"""redis-py takes the code away from the text of these."""
_AWAY: Final = frozenset(
    {"LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "MISCONF", "BUSY", "READONLY", "UNKILLABLE"}
)


def address_of(url: str) -> str:
    """A URL as people may see it: without user and password. Raises StartError for what is no URL at all."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise StartError(f"the Redis URL is none: {error}; it looks like redis://HOST:PORT/0") from None
    if "://" not in url:
        return url.rpartition("@")[2]
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}{parts.path}"


def reason_of(error: BaseException) -> str:
    """Why a server was not reached: the system's word for it, which redis-py wraps in sentences with the address, or else
    what redis-py says."""
    for cause in causes(error):
        if isinstance(cause, OSError) and cause.errno:
            return (os.strerror(cause.errno) if cause.errno > 0 else str(cause.strerror)).lower()
    return str(error).rstrip(".")


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error, what led to it, what led to that ..."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def pairs(flat: Sequence[Any]) -> dict[Any, Any]:
    """The mapping that a flat answer (field, value, field, value ...) stands for."""
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _client(url: str, timeout: float, connections: int) -> Redis:
    pool = _pool(
        BlockingConnectionPool,
        url,
        timeout,
        max_connections=connections,
        timeout=timeout,
        # A connection that was closed while idle is made anew once; longer outages are the caller's business.
        retry=Retry(NoBackoff(), 1, supported_errors=(errors.ConnectionError,)),
    )
    client = Redis.from_pool(pool)
    client.response_callbacks.clear()
    return client


def _pool(kind: type[ConnectionPool], url: str, connect_seconds: float, **more: Any) -> Any:
    try:
        _check_path(url)
        return kind.from_url(
            url,
            protocol=2,
            socket_connect_timeout=min(connect_seconds, _CONNECT_SECONDS),
            client_name="session-hub",
            # How long an answer takes is bounded here, not there: redis-py's way costs a task for each command, and loses
            # cancellations before Python 3.12.
            socket_timeout=None,
            **more,
        )
    except (ValueError, TypeError) as error:
        why = "" if str(error).startswith("Redis URL must specify") else f": {error}"
        raise StartError(
            f"{address_of(url)!r} is not a Redis URL (redis://HOST:PORT/0, rediss://..., unix:///PATH){why}"
        ) from error


def _check_path(url: str) -> None:
    """Raises ValueError for a path that is no database: redis-py would take the first one, which may be another hub's."""
    parts = urlsplit(url)
    db = unquote(parts.path).removeprefix("/")
    if parts.scheme in ("redis", "rediss") and db and not (db.isascii() and db.isdigit()):
        raise ValueError(f"{db!r} is not the number of a database")
