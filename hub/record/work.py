"""Work: contexts that wait for an agent, on one stream an agent with a consumer group of all nodes.

The queue only wakes: what a context itself says counts. So an item that comes twice, or too late, does no harm.

A function without a docstring does what the method of the port does that calls it (port.py).
"""

from __future__ import annotations

import time
from typing import Any, Final

from hub.core.errors import Internal
from hub.record import names
from hub.record.connection import Connection
from hub.record.port import AGAIN_SECONDS, Work

_LOOK_SECONDS: Final = 1.0
"""While it waits for new items a node looks this often for ones that nobody acknowledged."""


async def offer(connection: Connection, agent: str, context: str) -> None:
    await connection.run("XADD", names.agent(agent), "*", "context", context)


async def take(connection: Connection, agent: str, node: str, wait: float) -> Work | None:
    key = names.agent(agent)
    until = time.monotonic() + wait
    while True:
        try:
            answer = await _claim(connection, key, node)
            if answer is None:
                left = max(until - time.monotonic(), 0.0)
                answer = await _read(connection, key, node, min(left, _LOOK_SECONDS))
        except Internal as error:
            if "NOGROUP" not in error.message:
                raise
            await _make_group(connection, key)
            continue
        if answer is not None:
            fields = dict(zip(answer[1][::2], answer[1][1::2], strict=False))
            item = answer[0].decode()
            age = max(await connection.now_ms() - int(item.partition("-")[0]), 0) / 1000
            return Work(agent, item, fields.get(b"context", b"").decode(errors="replace"), age)
        if time.monotonic() >= until:
            return None


async def done(connection: Connection, work: Work) -> None:
    key = names.agent(work.agent)
    await connection.many([("XACK", key, names.GROUP, work.item), ("XDEL", key, work.item)])


async def _claim(connection: Connection, key: str, node: str) -> Any | None:
    """The oldest item that was taken and not acknowledged for too long."""
    cursor, again_ms = b"0-0", round(AGAIN_SECONDS * 1000)
    while True:
        cursor, items, *_ = await connection.run("XAUTOCLAIM", key, names.GROUP, node, again_ms, cursor, "COUNT", 1)
        if items or cursor == b"0-0":
            return items[0] if items else None


async def _read(connection: Connection, key: str, node: str, wait: float) -> Any | None:
    block = ("BLOCK", max(round(wait * 1000), 1)) if wait > 0 else ()
    answer = await connection.wait(
        "XREADGROUP", "GROUP", names.GROUP, node, "COUNT", 1, *block, "STREAMS", key, ">", seconds=wait
    )
    return answer[0][1][0] if answer else None


async def _make_group(connection: Connection, key: str) -> None:
    try:
        await connection.run("XGROUP", "CREATE", key, names.GROUP, "0", "MKSTREAM")
    except Internal as error:
        if "BUSYGROUP" not in error.message:  # another node was first
            raise
