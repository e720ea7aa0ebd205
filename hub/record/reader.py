"""Read contexts from another process, exactly, without a hub: only Redis has to be there.

    reader = hub.MirrorReader("redis://127.0.0.1:6379/0")     # or "unix:///...", or a hub's data folder
    snapshot = await reader.get("aB3d9XqZ")
    rows = await reader.contexts()
    await reader.close()

A program without an event loop: ``MirrorReader.read(url, "aB3d9XqZ")``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Self

from hub.record import loading, rows
from hub.record.connection import Connection
from hub.record.embedded import socket_url


class MirrorReader:
    """Reads what a hub keeps in Redis. It writes nothing there."""

    def __init__(self, url: str | Path, *, timeout: float = 5.0) -> None:
        """Prepare to read; nothing connects yet.

        ``url`` is a Redis URL, or the data folder of a hub with an embedded server. ``timeout`` in seconds is how long
        an answer may take. Raises StartError for what is neither.
        """
        text = str(url)
        self._connection = Connection(text if "://" in text else socket_url(Path(text)), timeout=timeout, connections=4)

    async def get(self, context: str) -> dict[str, Any] | None:
        """A context as it is at some moment of the call, or None if there is none with that id.

        ``{"epoch", "seq", "document", "log": {"id", "entries"}, "data"}``; the caller's own. Raises Unavailable.
        """
        loaded = await loading.load(self._connection, context)
        return None if loaded is None else loaded.state.snapshot()

    async def contexts(self, *, user_id: str | None = None) -> list[dict[str, Any]]:
        """The rows of all contexts, or of one user's, newest first. Raises Unavailable."""
        return [row async for row in self.rows(user_id=user_id)]

    async def rows(self, *, user_id: str | None = None) -> AsyncGenerator[dict[str, Any], None]:
        """The same, one after the other: who needs the newest only need not read the others. Raises Unavailable."""
        cursor: str | None = None
        while True:
            page, cursor = await rows.rows(self._connection, user_id, cursor, 1000, clean=False)
            for row in page:
                yield row
            if cursor is None:
                return

    async def close(self) -> None:
        """Close the connections."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @staticmethod
    def read(url: str | Path, context: str) -> dict[str, Any] | None:
        """What ``get`` gives, for programs without an event loop. Connects anew each time."""

        async def once() -> dict[str, Any] | None:
            async with MirrorReader(url) as reader:
                return await reader.get(context)

        return asyncio.run(once())
