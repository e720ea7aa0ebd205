"""The contexts list: rows in pages, newest first, and what a hub that starts has to look after."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Sequence
from typing import Any, Final

from hub.core.contexts import ROW_FIELDS
from hub.core.errors import Internal, InvalidRequest
from hub.core.position import Position
from hub.record import names, plain
from hub.record.connection import Connection
from hub.record.lane import Command
from hub.record.packing import Malformed, whole_number
from hub.record.scripts import UNMIRRORED

_log = logging.getLogger(__name__)

_FIELDS: Final = ("epoch", "last", "closed", *ROW_FIELDS)
_BATCH: Final = 500
_FORGOTTEN_MS: Final = 2 * names.TOMBSTONE_SECONDS * 1000
"""An index entry whose context is missing may be a creation on its way; after this long it is none."""


async def rows(
    connection: Connection, user_id: str | None, before: str | None, limit: int, *, clean: bool = True
) -> tuple[list[dict[str, Any]], str | None]:
    """A page of the list, without what cannot be read; ``clean`` takes entries of removed contexts out of the index."""
    index = names.CONTEXTS if user_id is None else names.user_contexts(user_id)
    found: list[dict[str, Any]] = []
    gone: list[str] = []
    missing: list[tuple[str, int]] = []
    damaged: list[tuple[str, Internal]] = []
    cursor = before
    while len(found) < limit:
        page = await _page(connection, index, cursor, min(limit - len(found), _BATCH))
        if not page:
            cursor = None
            break
        cursor = cursor_at(*page[-1])
        commands: list[Command] = [("HMGET", names.main(context), *_FIELDS) for context, _ in page]
        for (context, score), answer in zip(page, await connection.many(commands, apart=True), strict=True):
            try:
                fields = _fields(answer)
                if "closed" in fields:
                    gone.append(context)
                elif "epoch" not in fields:
                    missing.append((context, score))
                elif user_id is None or fields.get("user_id") == user_id:  # else on its way from or to another user
                    found.append(_row(context, fields))
            except Internal as error:
                damaged.append((context, error))
    if damaged:
        context, why = damaged[0]
        _log.error("%d left out of the contexts list that cannot be read, %r first: %s", len(damaged), context, why)
    if missing and clean:
        forgotten = await connection.now_ms() - _FORGOTTEN_MS
        gone += [context for context, score in missing if score < forgotten]
    if gone and clean:
        await connection.run("ZREM", index, *gone)
    return found, cursor


def cursor_at(context: str, score: int) -> str:
    """What names the end of a page: its last context, and when that was made, in ms since 1970."""
    return f"{score}:{context}"


def parse_cursor(cursor: str) -> tuple[int, str]:
    """Score and context of ``cursor_at``, in the order in which they compare. Raises InvalidRequest."""
    score, _, last = cursor.partition(":")
    try:
        return int(score), last
    except ValueError as error:
        raise InvalidRequest(f"{cursor[:80]!r} is not a cursor of the contexts list") from error


async def unmirrored(connection: Connection) -> list[str]:
    """Contexts whose hashes are behind their stream, or whose run is active."""
    found: list[str] = []
    cursor: str | None = None
    while page := await _page(connection, names.CONTEXTS, cursor, _BATCH):
        cursor = cursor_at(*page[-1])
        places = await connection.script(UNMIRRORED, [names.main(context) for context, _ in page], [])
        found += [page[place - 1][0] for place in places]
    return found


def _fields(answer: Any) -> dict[str, str]:
    """The fields that a context has. Raises Internal: why they cannot be read."""
    if isinstance(answer, Internal):
        raise answer
    return {name: raw.decode(errors="replace") for name, raw in zip(_FIELDS, answer, strict=True) if raw is not None}


def _row(context: str, fields: dict[str, str]) -> dict[str, Any]:
    """The row of a context that is there. Raises Malformed."""
    if fields.get("id") != context:  # who may see it is decided by the row's id
        raise Malformed(f"its id is {fields.get('id', '')[:40]!r}")
    version = Position(fields["epoch"], whole_number(fields.get("last", ""), "a seq"))
    return {**plain.values(fields), "version": str(version)}


async def _page(connection: Connection, index: str, cursor: str | None, limit: int) -> list[tuple[str, int]]:
    """The next ids of an index after a cursor ``score:id``, with their scores: newest first."""
    score, last = parse_cursor(cursor) if cursor is not None else (math.inf, "")
    offset = 0
    while True:
        page = await connection.run("ZREVRANGEBYSCORE", index, score, "-inf", "WITHSCORES", "LIMIT", offset, limit)
        # Ids of the cursor's own time come first, those up to the cursor's were on the page before.
        fresh = [item for item in _scored(page) if item[1] < score or item[0] < last]
        if fresh or len(page) < 2 * limit:
            return fresh
        offset += limit


def _scored(flat: Sequence[bytes]) -> list[tuple[str, int]]:
    """Ids and scores, without what no hub wrote: a score that is no whole number, an id that is no text."""
    found: list[tuple[str, int]] = []
    for raw, at in zip(flat[::2], flat[1::2], strict=True):
        score = float(at)
        with contextlib.suppress(UnicodeDecodeError):
            if score.is_integer():
                found.append((raw.decode(), int(score)))
    return found
