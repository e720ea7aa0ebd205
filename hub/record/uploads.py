"""Files that people gave to the hub for a while, in chunks with an expiry.

A function without a docstring does what the method of the port does that calls it (port.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from typing import Final

from hub.core.errors import HubError, InvalidRequest, NotFound, TooLarge
from hub.record import names
from hub.record.connection import Connection
from hub.record.packing import Malformed, pack, unpack
from hub.record.plain import ms_of
from hub.record.port import Upload
from hub.record.scripts import RESERVE

CHUNK: Final = 262_144
TOTAL_BYTES: Final = 1_073_741_824
"""What all uploads together may have, unless set otherwise."""
_BROKEN_SECONDS: Final = 600
"""What a hub that was killed in the middle left behind goes after this long."""


async def put(
    connection: Connection, upload: Upload, chunks: AsyncIterator[bytes], now_ms: int, total: int = TOTAL_BYTES
) -> Upload:
    """Keep a file; ``now_ms`` by the clock of who set the expiry. Raises TooLarge when all uploads together would exceed
    ``total``."""
    left = check_expiry(upload, now_ms) - now_ms
    now_ms = await connection.now_ms()  # the server lets it expire, by its own clock
    expires = now_ms + left
    key, parts = names.upload(upload.id), names.upload_chunks(upload.id)
    size = count = 0
    try:
        async for chunk in in_chunks(chunks, CHUNK):
            size += len(chunk)
            broken = min(expires, now_ms + _BROKEN_SECONDS * 1000)
            if not await connection.script(RESERVE, [names.UPLOADS], [now_ms, upload.id, broken, size, total]):
                raise no_room(total)
            await connection.many(
                [("HSET", parts, count, chunk), ("EXPIRE", parts, _BROKEN_SECONDS), ("EXPIRE", key, _BROKEN_SECONDS)]
            )
            count += 1
        kept = replace(upload, size=size)
        if not await connection.script(RESERVE, [names.UPLOADS], [now_ms, upload.id, expires, size, total]):
            raise no_room(total)
        await connection.many(
            [("PEXPIREAT", parts, expires), ("SET", key, pack(asdict(kept)), "PXAT", expires)], atomic=True
        )
    except BaseException:
        with contextlib.suppress(HubError):  # what cannot be taken away now expires
            await connection.many([("UNLINK", parts, key), ("HDEL", names.UPLOADS, upload.id)])
        raise
    return kept


async def get(connection: Connection, id: str) -> Upload | None:
    raw = await connection.run("GET", names.upload(id))
    if raw is None:
        return None
    try:
        return Upload(**unpack(raw))
    except TypeError as error:
        raise Malformed(f"upload {id!r} is damaged: {error}") from error


async def read(connection: Connection, id: str) -> AsyncIterator[bytes]:
    """The file's bytes in order. Raises NotFound, also when it expires before it was read whole."""
    upload = await get(connection, id)
    if upload is None:
        raise NotFound(f"no upload {id!r}; it may have expired")
    left, number = upload.size, 0
    while left > 0:
        chunk: bytes | None = await connection.run("HGET", names.upload_chunks(id), number)
        if not chunk:
            raise NotFound(f"upload {id!r} expired")
        left -= len(chunk)
        number += 1
        yield chunk


def check_expiry(upload: Upload, now_ms: float) -> int:
    """When an upload expires, in ms since 1970. Raises InvalidRequest if that is not to come."""
    expires = ms_of(upload.expires_at)
    if expires <= now_ms:
        raise InvalidRequest(f"an upload that expires at {upload.expires_at!r}, which is not to come")
    return expires


def no_room(total: int) -> TooLarge:
    """The error when all uploads together would have more than ``total`` bytes."""
    return TooLarge(f"all uploads together may have {total:,} bytes, and they have nearly; old ones expire")


async def in_chunks(pieces: AsyncIterator[bytes], size: int) -> AsyncIterator[bytes]:
    """The same bytes in pieces of ``size``; the last one may be shorter."""
    buffer = bytearray()
    async for piece in pieces:
        buffer += piece
        while len(buffer) >= size:
            yield bytes(buffer[:size])
            del buffer[:size]
    if buffer:
        yield bytes(buffer)
