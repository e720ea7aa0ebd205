"""Uploads, on every kind of record."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from hub.core.errors import InvalidRequest, NotFound, TooLarge
from hub.record.connection import Connection
from hub.record.port import Record, Upload
from hub.record.redis import RedisRecord
from tests.record.writer import pieces
from tests.support import until_done


def upload(id: str, seconds: float = 86_400) -> Upload:
    expires = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Upload(id, "größe.csv", "text/csv", 0, "ann", expires)


async def content(record: Record, id: str) -> bytes:
    return b"".join([chunk async for chunk in record.read_upload(id)])


async def test_a_file_comes_back_as_it_went(record: Record) -> None:
    data = bytes(range(256)) * 3_000
    kept = await record.put_upload(upload("u1"), pieces(data[:1], data[1:300_000], b"", data[300_000:]))
    assert kept.size == len(data)
    assert await record.get_upload("u1") == kept
    assert await content(record, "u1") == data


async def test_an_empty_file(record: Record) -> None:
    assert (await record.put_upload(upload("u1"), pieces())).size == 0
    assert await content(record, "u1") == b""


async def test_unknown_and_expired_ones(record: Record) -> None:
    assert await record.get_upload("none") is None
    with pytest.raises(NotFound):
        await content(record, "none")
    with pytest.raises(InvalidRequest):
        await record.put_upload(upload("u1", -1), pieces(b"x"))
    await record.put_upload(upload("u2", 0.3), pieces(b"x"))

    async def expired() -> None:
        if await record.get_upload("u2") is not None:
            raise TimeoutError

    await until_done(expired, TimeoutError)
    with pytest.raises(NotFound):
        await content(record, "u2")


async def test_all_uploads_together_have_a_bound(record: Record) -> None:
    await record.put_upload(upload("u1"), pieces(b"x" * 1_500_000))
    with pytest.raises(TooLarge):
        await record.put_upload(upload("u2"), pieces(b"x" * 600_000))
    assert await record.get_upload("u2") is None
    await record.put_upload(upload("u3"), pieces(b"x" * 400_000))
    assert await content(record, "u1") == b"x" * 1_500_000


async def test_nothing_stays_of_a_broken_one(record: Record) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"x" * 700_000
        raise ConnectionResetError("the client went")

    with pytest.raises(ConnectionResetError):
        await record.put_upload(upload("u1"), broken())
    assert await record.get_upload("u1") is None
    await record.put_upload(upload("u2"), pieces(b"x" * 1_900_000))


async def test_every_key_of_an_upload_expires(redis_record: RedisRecord, connection: Connection) -> None:
    await redis_record.put_upload(upload("u1"), pieces(b"x" * 600_000))
    keys = sorted(await connection.run("KEYS", "hub:upload:*"))
    assert keys == [b"hub:upload:{u1}", b"hub:upload:{u1}:chunks"]
    for key in keys:
        assert 86_000 < await connection.run("TTL", key) <= 86_400


async def test_an_upload_lasts_as_long_as_asked_whatever_the_nodes_clock_says(
    redis_record: RedisRecord, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of a node that is an hour behind: its moment of expiry is over by the server's clock."""
    behind = time.time_ns() - 3_600_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: behind)
    await redis_record.put_upload(upload("u1", 60 - 3600), pieces(b"x"))
    assert await content(redis_record, "u1") == b"x"
    assert 50 < await connection.run("TTL", "hub:upload:{u1}") <= 60
    assert 50 < await connection.run("TTL", "hub:upload:{u1}:chunks") <= 60
