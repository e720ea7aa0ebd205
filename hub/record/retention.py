"""When contexts were used last, and which were not for long.

The index of uses is there only while somebody asks for it to be: what was noted long ago must not count as all there was.
A function without a docstring does what the method of the port does that calls it (port.py).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Final

from hub.core.errors import Internal
from hub.core.position import Position
from hub.record import names
from hub.record.connection import Connection
from hub.record.lane import Command
from hub.record.scripts import TAKE_UNUSED

_BATCH: Final = 1000
"""Contexts that are noted by one command."""
_PAGE: Final = 500
_PAUSE: Final = 0.05
"""Contexts that are looked at when uses begin to be noted, and seconds until the next ones."""


async def note_uses(connection: Connection, on: bool) -> None:
    if not on:
        await connection.run("UNLINK", names.USED)
        return
    now, cursor = await connection.now_ms(), b"0"
    while True:
        cursor, flat = await connection.run("ZSCAN", names.CONTEXTS, cursor, "COUNT", _PAGE)
        if flat:
            await connection.run("ZADD", names.USED, "NX", *_scored(flat[::2], now))
        if cursor == b"0":
            return
        await asyncio.sleep(_PAUSE)  # nobody waits for it, and others wait for the connections


async def used(connection: Connection, contexts: Sequence[str | bytes]) -> None:
    if not contexts:
        return
    now = await connection.now_ms()
    for first in range(0, len(contexts), _BATCH):
        await connection.run("ZADD", names.USED, *_scored(contexts[first : first + _BATCH], now))


async def unused(connection: Connection, seconds: float, limit: int) -> list[tuple[str, Position, str]]:
    before = await connection.now_ms() - int(seconds * 1000)
    while True:
        ids = await connection.run("ZRANGE", names.USED, "-inf", f"({before}", "BYSCORE", "LIMIT", 0, limit)
        if not ids:
            return []
        # Where they end is read first: who uses one after that appends at another end, or is noted before it is taken.
        commands: list[Command] = [
            ("HMGET", names.main(id.decode(errors="replace")), "epoch", "last", "tip", "closed", "running")
            for id in ids
        ]
        ends: dict[bytes, tuple[str, Position, str]] = {}
        running: list[bytes] = []
        for id, answer in zip(ids, await connection.many(commands, apart=True), strict=True):
            if isinstance(answer, Internal):
                continue  # what is no context is taken out, and found by nobody
            epoch, last, tip, closed, runs = answer
            if runs == b"true":
                running.append(id)
            elif closed is None:
                with contextlib.suppress(TypeError, ValueError, AttributeError):  # nor is one without an end
                    ends[id] = id.decode(), Position(epoch.decode(), int(last)), tip.decode()
        await used(connection, running)
        taken = await connection.script(TAKE_UNUSED, [names.USED], [before, *ids])
        found = [ends[id] for id in taken if id in ends]
        if found:
            return found


def _scored(contexts: Sequence[Any], now: int) -> list[Any]:
    return [item for context in contexts for item in (now, context)]
