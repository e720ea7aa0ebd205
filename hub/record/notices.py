"""Notices and who has read them.

Each notice is kept with a random mark of its text; a reader's mark names it. A notice that is put anew gets another one
and so is unread again, for everybody, at the cost of nothing.

A function without a docstring does what the method of the port does that calls it (port.py).
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, Final

from hub.core.errors import InvalidRequest
from hub.record import names
from hub.record.connection import Connection, pairs
from hub.record.packing import Malformed, pack, unpack

_MANY_MARKS: Final = 512


async def notices(connection: Connection) -> dict[str, dict[str, Any]]:
    return {id: notice for id, (_, notice) in (await _all(connection)).items()}


async def notice(connection: Connection, id: str) -> dict[str, Any] | None:
    raw = await connection.run("HGET", names.NOTICES, id)
    try:
        return None if raw is None else _parse(raw)[1]
    except Malformed:
        return None  # as if it were not there, as in the list


async def put(connection: Connection, notice: dict[str, Any]) -> None:
    id, raw = id_of(notice), pack([secrets.token_hex(8), notice])
    await connection.many(
        [("HSET", names.NOTICES, id, raw), ("PUBLISH", connection.channel(names.NOTICES), id)], atomic=True
    )


def id_of(notice: dict[str, Any]) -> str:
    """A notice's id. Raises InvalidRequest if it has none."""
    id = notice.get("id")
    if not isinstance(id, str) or not id:
        raise InvalidRequest("a notice has an id")
    return id


async def drop(connection: Connection, ids: Sequence[str]) -> None:
    if ids:
        told = [("PUBLISH", connection.channel(names.NOTICES), id) for id in ids]
        await connection.many([("HDEL", names.NOTICES, *ids), *told], atomic=True)


async def read_marks(connection: Connection, user: str) -> set[str]:
    marks = pairs(await connection.run("HGETALL", names.user_notices(user)))
    found = await _all(connection) if marks else {}
    return {id for id, (mark, _) in found.items() if marks.get(id.encode()) == mark.encode()}


async def mark_read(connection: Connection, user: str, ids: Sequence[str]) -> None:
    if not ids:
        return
    raws = await connection.run("HMGET", names.NOTICES, *ids)
    marks = {id: _parse(raw)[0] for id, raw in zip(ids, raws, strict=True) if raw is not None}
    if not marks:
        return
    key = names.user_notices(user)
    _, count = await connection.many([("HSET", key, *(text for item in marks.items() for text in item)), ("HLEN", key)])
    if count > _MANY_MARKS:  # most of them are for notices that are gone
        there = set(await connection.run("HKEYS", names.NOTICES))
        old = [id for id in await connection.run("HKEYS", key) if id not in there]
        if old:
            await connection.run("HDEL", key, *old)


async def _all(connection: Connection) -> dict[str, tuple[str, dict[str, Any]]]:
    found = {}
    for id, raw in pairs(await connection.run("HGETALL", names.NOTICES)).items():
        try:
            found[id.decode()] = _parse(raw)
        except (Malformed, UnicodeDecodeError):
            continue  # one that somebody else wrote must not hide the others
    return found


def _parse(raw: bytes) -> tuple[str, dict[str, Any]]:
    value = unpack(raw)
    match value:
        case [str(mark), dict(notice)]:
            return mark, notice
    raise Malformed("not a notice")
