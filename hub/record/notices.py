"""Notices and who has read them.

Each notice is kept with a random mark of its text; a reader's mark names it. A notice that is put anew gets another one
and so is unread again, for everybody, at the cost of nothing.

A function without a docstring does what the method of the port does that calls it (port.py).
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from hub.core.errors import InvalidRequest
from hub.core.times import seconds
from hub.record import names
from hub.record.connection import Connection, pairs
from hub.record.packing import Malformed, pack, unpack

_MANY_MARKS: Final = 512


class _Notice(msgspec.Struct):
    """What each notice has, and of which types: who reads notices relies on it. ``posted``: key and digest of the request."""

    id: str
    type: str
    title: str
    message: str
    detail: str
    priority: int
    display_time: float
    group: str
    source: str
    context: str | None
    audience: str | None
    created_at: str
    starts_at: str | None
    expires_at: str | None
    posted: tuple[str, str]


async def notices(connection: Connection) -> dict[str, dict[str, Any]]:
    return {id: notice for id, (_, notice) in (await _all(connection)).items()}


async def notice(connection: Connection, id: str) -> dict[str, Any] | None:
    raw = await connection.run("HGET", names.NOTICES, id)
    try:
        return None if raw is None else _parse(id, raw)[1]
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
    marks: dict[str, str] = {}
    for id, raw in zip(ids, raws, strict=True):
        with contextlib.suppress(Malformed):
            if raw is not None:
                marks[id] = _parse(id, raw)[0]
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
    for raw_id, raw in pairs(await connection.run("HGETALL", names.NOTICES)).items():
        try:
            id = raw_id.decode()
            found[id] = _parse(id, raw)
        except (Malformed, UnicodeDecodeError):
            continue  # one that somebody else wrote must not hide the others
    return found


def _parse(id: str, raw: bytes) -> tuple[str, dict[str, Any]]:
    """The mark and the notice that are kept under an id. Raises Malformed."""
    match unpack(raw):
        case [str(mark), dict(notice)]:
            try:
                checked = msgspec.convert(notice, _Notice)
                for moment in (checked.created_at, checked.starts_at, checked.expires_at):
                    if moment is not None:
                        seconds(moment)
            except (msgspec.ValidationError, InvalidRequest) as error:
                raise Malformed(f"not a notice: {error}") from error
            if checked.id == id:
                return mark, notice
    raise Malformed("not a notice")
