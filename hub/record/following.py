"""One node's subscription to what happens in the record, on a connection of its own that one task owns.

The connection mends itself: it is made anew, everything is subscribed again, and the follower learns that it was deaf in
between. A connection that is silent is not known to be alive, so every two seconds the node tells itself something, and
must hear that.

What comes on a channel may be from anybody who can reach the server: it is checked, and what cannot be read is counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import redis.exceptions as errors
from hiredis import pack_command

from hub.core.errors import Unavailable
from hub.core.position import Position
from hub.record import names, plain
from hub.record.connection import Connection, pairs
from hub.record.lane import Command
from hub.record.packing import Malformed, pack, unpack, unpack_entry, unpack_mapping, whole_number
from hub.record.port import Follower, RowTold

_log = logging.getLogger(__name__)

ECHO_SECONDS: Final = 2.0
"""A node tells itself something this often, and must hear it within that time."""
_LATE_SECONDS: Final = 0.1
"""What has come already while the event loop was held up is read within this."""
_FIRST_WAIT: Final = 0.05
_LONGEST_WAIT: Final = 1.0
_TURN_SECONDS: Final = 0.005
"""After this long of reading what has come everybody else has a turn."""
_SUBSCRIBED_AT_ONCE: Final = 512


class RedisFollowing:
    """A Following at a Redis. Its methods do what the port says (port.py)."""

    def __init__(self, connection: Connection, node: str, follower: Follower, own: str | None) -> None:
        self._record = connection
        self._follower = follower
        self._own = own
        self._echo_channel = names.node(node, "echo")
        self._handlers: dict[bytes, Callable[[bytes], None]] = {
            connection.channel(name).encode(): read
            for name, read in (
                (names.NODES, self._told),
                (names.ROWS, self._row),
                (names.NOTICES, self._notice),
                (self._echo_channel, self._heard_echo),
            )
        }
        self._followed: dict[str, None] = {}
        self._untold: dict[str, bool] = {}  # what the server must still be told: whether a context is followed
        self._to_tell = asyncio.Event()
        self._missing: set[str] = set()  # channels and contexts whose confirmation makes the node hear again
        self._hearing = asyncio.Event()
        self._echo = secrets.token_bytes(8)
        self._heard = asyncio.Event()
        self._deaf_told = False
        self._task: asyncio.Task[None] | None = None
        self._trouble = "no answer"
        self._ignored = 0

    @property
    def is_deaf(self) -> bool:
        return not self._hearing.is_set()

    @property
    def ignored(self) -> int:
        return self._ignored

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="record following")
        try:
            async with asyncio.timeout(self._record.timeout):
                await self._hearing.wait()
        except TimeoutError:
            await self.close()
            raise Unavailable(f"the record at {self._record.address} cannot be followed: {self._trouble}") from None

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._missing.clear()
        self._hearing.clear()

    def add(self, contexts: Sequence[str]) -> None:
        self._followed.update(dict.fromkeys(contexts))
        self._untold.update(dict.fromkeys(contexts, True))
        self._to_tell.set()

    def drop(self, context: str) -> None:
        if context in self._followed:
            del self._followed[context]
            self._untold[context] = False
            self._to_tell.set()
            asyncio.get_running_loop().call_soon(self._dropped, context)

    async def tell(self, message: dict[str, Any]) -> None:
        await self._record.publish(names.NODES, pack(message))

    # the connection

    async def _run(self) -> None:
        """Hear, through all breaks of the connection."""
        wait = _FIRST_WAIT
        while True:
            try:
                await self._hear()
            except Exception as error:  # whatever it is, a new connection may be without it
                self._trouble = f"{type(error).__name__}: {error}"
            if self._hearing.is_set():
                wait = _FIRST_WAIT
                self._hearing.clear()
                self._deaf_told = True
                _log.warning("not hearing what happens in the record: %s", self._trouble)
                self._call(self._follower.deaf)
            await asyncio.sleep(wait * random.uniform(0.5, 1))
            wait = min(wait * 2, _LONGEST_WAIT)

    async def _hear(self) -> None:
        """Hear until the connection breaks; raises what broke it."""
        connection = await self._record.open()
        try:
            self._untold = dict.fromkeys(self._followed, True)
            self._missing = {channel.decode() for channel in self._handlers} | self._followed.keys()
            self._to_tell.set()
            jobs = [
                asyncio.create_task(job)
                for job in (self._read(connection), self._subscribe(connection), self._listen())
            ]
            try:
                done, _ = await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for job in jobs:
                    job.cancel()
                await asyncio.gather(*jobs, return_exceptions=True)
            for job in done:
                job.result()
        finally:
            await connection.disconnect(nowait=True)

    async def _subscribe(self, connection: Any) -> None:
        """Tell the server what is followed, many at once."""
        await _send(connection, ("SUBSCRIBE", *self._handlers))
        while True:
            await self._to_tell.wait()
            self._to_tell.clear()
            untold, self._untold = self._untold, {}
            for command, follow in (("SUNSUBSCRIBE", False), ("SSUBSCRIBE", True)):
                channels = [
                    self._record.channel(names.part(context, "live"))
                    for context, wanted in untold.items()
                    if wanted is follow
                ]
                for start in range(0, len(channels), _SUBSCRIBED_AT_ONCE):
                    some = channels[start : start + _SUBSCRIBED_AT_ONCE]
                    await _send(connection, (command, *some))

    async def _listen(self) -> None:
        """Raises ConnectionError when this node does not hear itself."""
        while True:
            await asyncio.sleep(ECHO_SECONDS)
            self._heard.clear()
            self._echo = secrets.token_bytes(8)
            try:
                async with asyncio.timeout(ECHO_SECONDS):
                    await self._record.publish(self._echo_channel, self._echo)
                    await self._heard.wait()
            except TimeoutError:
                await asyncio.sleep(_LATE_SECONDS)
                if not self._heard.is_set():
                    raise errors.ConnectionError("this node does not hear itself") from None

    async def _read(self, connection: Any) -> None:
        """Take what comes until the connection breaks."""
        turn = time.monotonic()
        while True:
            frame = await connection.read_response(disconnect_on_error=False)
            self._take(frame)
            if time.monotonic() - turn > _TURN_SECONDS:
                await asyncio.sleep(0)
                turn = time.monotonic()

    # what comes

    def _take(self, frame: Any) -> None:
        match frame:
            case [b"smessage", bytes(channel), bytes(message)]:
                self._checked(self._live, channel, message)
            case [b"message", bytes(channel), bytes(message)] if channel in self._handlers:
                self._checked(self._handlers[channel], message)
            case [b"subscribe", bytes(channel), _]:
                self._confirmed(channel.decode())
            case [b"ssubscribe", bytes(channel), _]:
                context = names.context_of_live(channel.decode())
                if context in self._followed:
                    self._call(self._follower.followed, context)
                    self._confirmed(context)

    def _dropped(self, context: str) -> None:
        """Nobody waits for its confirmation any more."""
        if context not in self._followed:
            self._confirmed(context)

    def _confirmed(self, name: str) -> None:
        if name in self._missing:
            self._missing.discard(name)
            if not self._missing:
                self._hearing.set()
                if self._deaf_told:
                    self._deaf_told = False
                    self._call(self._follower.hearing)

    def _checked(self, read: Callable[..., None], *given: bytes) -> None:
        try:
            read(*given)
        except (Malformed, ValueError):
            self._ignored += 1

    def _call(self, tell: Callable[..., None], *given: Any) -> None:
        """Whatever a follower does wrong must not end the task: what it missed it finds out by comparing ends."""
        try:
            tell(*given)
        except Exception:
            _log.exception("a follower of the record failed")

    def _live(self, channel: bytes, message: bytes) -> None:
        context = names.context_of_live(channel.decode())
        if context not in self._followed:
            return  # dropped a moment ago
        head, _, packed = message.partition(b"\n")
        version, epoch, seq, id, before = head.decode().split(" ")
        if version != "1":
            raise Malformed(f"a message of version {version[:20]!r}")
        if self._own is not None and id.startswith(self._own):
            return
        last = whole_number(seq, "a seq")
        entry = unpack_entry(id, before, epoch, last, packed) if packed else None
        self._call(self._follower.appended, context, epoch, last, entry)

    def _row(self, message: bytes) -> None:
        match unpack(message):
            case [str(id), str(epoch), str(last), str(type), str() | False as owner, str() | False as before, row]:
                version = Position(epoch, whole_number(last, "a seq"))
                told = RowTold(id, version, _row_of(row), type, owner or None, before or None)
                self._call(self._follower.row, told)
            case _:
                raise Malformed("not a row")

    def _notice(self, message: bytes) -> None:
        self._call(self._follower.notice, message.decode())

    def _told(self, message: bytes) -> None:
        self._call(self._follower.told, unpack_mapping(message))

    def _heard_echo(self, message: bytes) -> None:
        if message != self._echo:
            raise Malformed("not what this node said")
        self._heard.set()


async def _send(connection: Any, command: Command) -> None:
    await connection.send_packed_command(pack_command(tuple(command)), check_health=False)


def _row_of(row: Any) -> dict[str, Any] | None:
    if row is False:
        return None
    if not isinstance(row, list) or len(row) % 2 or not all(isinstance(text, str) for text in row):
        raise Malformed("not a row")
    return plain.values(pairs(row))
