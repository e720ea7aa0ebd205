"""Which nodes live, the runs that their workers have, and what is told to all of them.

A function without a docstring does what the method of the port does that calls it (port.py).
"""

from __future__ import annotations

from typing import Any, Final

from hub.record import names
from hub.record.connection import Connection, pairs
from hub.record.packing import Malformed, pack, unpack_mapping
from hub.record.port import Beat
from hub.record.scripts import BEAT

KEPT_BROADCASTS: Final = 1000
KEPT_SECONDS: Final = 600
"""How many broadcasts are kept, and how long: who was away for longer than that does without."""
_PAGE: Final = 100


async def beat(connection: Connection, node: str, info: dict[str, Any]) -> dict[str, Beat]:
    now, flat = await connection.script(BEAT, [names.NODES], [node, pack(info)])
    beats: dict[str, Beat] = {}
    for name, raw in pairs(flat).items():
        at, _, packed = raw.partition(b" ")
        try:
            beats[name.decode()] = Beat(max(int(now) - int(at), 0) / 1000, unpack_mapping(packed))
        except (Malformed, ValueError):
            continue  # what somebody else wrote is no node
    return beats


async def leave(connection: Connection, node: str) -> None:
    await connection.many([("HDEL", names.NODES, node), ("DEL", names.node(node, "runs"))])


async def hold_run(connection: Connection, node: str, context: str) -> None:
    await connection.run("SADD", names.node(node, "runs"), context)


async def let_run(connection: Connection, node: str, context: str) -> None:
    await connection.run("SREM", names.node(node, "runs"), context)


async def runs_of(connection: Connection, node: str) -> list[str]:
    members = await connection.run("SMEMBERS", names.node(node, "runs"))
    return [context.decode(errors="replace") for context in members]


async def add_broadcast(connection: Connection, broadcast: dict[str, Any]) -> str:
    key = names.BROADCASTS
    added = await connection.run("XADD", key, "MAXLEN", "~", KEPT_BROADCASTS, "*", "broadcast", pack(broadcast))
    place: str = added.decode()
    await connection.run("XTRIM", key, "MINID", max(int(place.partition("-")[0]) - KEPT_SECONDS * 1000, 0))
    return place


async def broadcasts(connection: Connection, after: str | None) -> tuple[list[dict[str, Any]], str]:
    if after is None:
        newest = await connection.run("XREVRANGE", names.BROADCASTS, "+", "-", "COUNT", 1)
        return [], newest[0][0].decode() if newest else "0-0"
    found: list[dict[str, Any]] = []
    while page := await connection.run("XRANGE", names.BROADCASTS, f"({after}", "+", "COUNT", _PAGE):
        for place, flat in page:
            after = place.decode()
            try:
                found.append(unpack_mapping(pairs(flat)[b"broadcast"]))
            except (Malformed, KeyError, ValueError):
                continue  # one that somebody else wrote must not hide the others
    return found, after
