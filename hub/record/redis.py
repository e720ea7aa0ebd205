"""The record in Redis or Valkey. Each subject has a module of its own; this puts them together behind the port."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from hub.core.changes import RecordEntry
from hub.core.errors import StartError, Unavailable
from hub.core.position import Position
from hub.record import appending, hashes, loading, names, nodes, notices, retention, rows, uploads, work
from hub.record.connection import Connection
from hub.record.following import RedisFollowing
from hub.record.port import Append, Appended, Beat, Follower, Loaded, MirrorWrite, Upload, Work
from hub.record.scripts import NEW_EPOCH, NEXT_NO
from hub.record.server_check import Progress, check_server


class RedisRecord:
    """A Record at a Redis URL (``redis://``, ``rediss://``, ``unix://``). Its methods do what the port says (port.py)."""

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 5.0,
        upload_bytes: int = uploads.TOTAL_BYTES,
        progress: Progress | None = None,
    ) -> None:
        """``timeout`` in seconds is how long an answer may take; ``upload_bytes`` what all uploads together may have;
        ``progress`` is told while the server loads its data. Raises StartError for a URL that is none."""
        self._connection = Connection(url, timeout=timeout)
        self._upload_bytes = upload_bytes
        self._progress = progress
        self._durability = "unknown"

    @property
    def durability(self) -> str:
        """``aof always``, ``aof everysec``, ``aof no``, ``snapshots``, ``none`` or ``unknown``."""
        return self._durability

    async def start(self) -> None:
        try:
            self._durability = await check_server(self._connection, self._progress)
        except StartError:
            await self._connection.close()
            raise
        except Unavailable as error:
            await self._connection.close()
            raise StartError(str(error)) from error

    async def close(self) -> None:
        await self._connection.close()

    async def ping(self) -> float:
        began = time.monotonic()
        await self._connection.run("PING")
        return time.monotonic() - began

    # contexts

    async def append(self, appends: Sequence[Append]) -> list[Appended]:
        return await appending.append(self._connection, appends)

    async def read(self, context: str, after: Position, limit: int = 256) -> tuple[list[RecordEntry], bool]:
        return await loading.read(self._connection, context, after, limit)

    async def end(self, context: str) -> tuple[Position, str] | None:
        return await loading.end(self._connection, context)

    async def farewell(self, context: str) -> RecordEntry | None:
        return await loading.farewell(self._connection, context)

    async def load(self, context: str) -> Loaded | None:
        return await loading.load(self._connection, context)

    async def mirror(self, writes: Sequence[MirrorWrite]) -> list[bool]:
        return await hashes.mirror(self._connection, writes)

    async def mirrored(self, contexts: Sequence[str]) -> list[tuple[int, dict[str, int]] | None]:
        return await loading.mirrored(self._connection, contexts)

    async def differ(self, ends: Sequence[tuple[str, Position, str]]) -> list[str]:
        return await loading.differ(self._connection, ends)

    async def new_epoch(self, context: str, before: str, after: str) -> None:
        await self._connection.script(NEW_EPOCH, [names.main(context)], [self._connection.channel(""), before, after])

    async def next_no(self, at_least: int = 1) -> int:
        return int(await self._connection.script(NEXT_NO, [names.NO], [at_least]))

    async def rows(
        self, *, user_id: str | None = None, before: str | None = None, limit: int = 100
    ) -> tuple[list[dict[str, Any]], str | None]:
        return await rows.rows(self._connection, user_id, before, limit)

    async def unmirrored(self) -> list[str]:
        return await rows.unmirrored(self._connection)

    # retention

    async def note_uses(self, on: bool) -> None:
        await retention.note_uses(self._connection, on)

    async def used(self, contexts: Sequence[str]) -> None:
        await retention.used(self._connection, contexts)

    async def unused(self, seconds: float, limit: int = 64) -> list[tuple[str, Position, str]]:
        return await retention.unused(self._connection, seconds, limit)

    # work

    async def offer(self, agent: str, context: str) -> None:
        await work.offer(self._connection, agent, context)

    async def take(self, agent: str, node: str, wait: float) -> Work | None:
        return await work.take(self._connection, agent, node, wait)

    async def done(self, item: Work) -> None:
        await work.done(self._connection, item)

    # nodes

    def follow(self, node: str, follower: Follower, *, own: str | None = None) -> RedisFollowing:
        return RedisFollowing(self._connection, node, follower, own)

    async def beat(self, node: str, info: dict[str, Any]) -> dict[str, Beat]:
        return await nodes.beat(self._connection, node, info)

    async def leave(self, node: str) -> None:
        await nodes.leave(self._connection, node)

    async def hold_run(self, node: str, context: str) -> None:
        await nodes.hold_run(self._connection, node, context)

    async def let_run(self, node: str, context: str) -> None:
        await nodes.let_run(self._connection, node, context)

    async def runs_of(self, node: str) -> list[str]:
        return await nodes.runs_of(self._connection, node)

    async def add_broadcast(self, broadcast: dict[str, Any]) -> str:
        return await nodes.add_broadcast(self._connection, broadcast)

    async def broadcasts(self, after: str | None) -> tuple[list[dict[str, Any]], str]:
        return await nodes.broadcasts(self._connection, after)

    # notices

    async def notices(self) -> dict[str, dict[str, Any]]:
        return await notices.notices(self._connection)

    async def notice(self, id: str) -> dict[str, Any] | None:
        return await notices.notice(self._connection, id)

    async def put_notice(self, notice: dict[str, Any]) -> None:
        await notices.put(self._connection, notice)

    async def drop_notices(self, ids: Sequence[str]) -> None:
        await notices.drop(self._connection, ids)

    async def read_marks(self, user: str) -> set[str]:
        return await notices.read_marks(self._connection, user)

    async def mark_read(self, user: str, ids: Sequence[str]) -> None:
        await notices.mark_read(self._connection, user, ids)

    # uploads

    async def put_upload(self, upload: Upload, chunks: AsyncIterator[bytes]) -> Upload:
        return await uploads.put(self._connection, upload, chunks, time.time_ns() // 1_000_000, self._upload_bytes)

    async def get_upload(self, id: str) -> Upload | None:
        return await uploads.get(self._connection, id)

    def read_upload(self, id: str) -> AsyncIterator[bytes]:
        return uploads.read(self._connection, id)
