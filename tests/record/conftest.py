"""Records of every kind: in memory, in the embedded server's Valkey, in Debian's Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from hub.record.connection import Connection
from hub.record.memory import MemoryRecord
from hub.record.port import Record
from hub.record.redis import RedisRecord
from tests.record.servers import empty, running
from tests.support import find_redis

KINDS = ["valkey", pytest.param("redis", marks=pytest.mark.redis)]


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    with running(find_redis()) as url:
        yield url


@pytest.fixture(params=KINDS)
async def server(request: pytest.FixtureRequest) -> str:
    """The URL of an empty server."""
    url: str = request.getfixturevalue(f"{request.param}_server")
    await empty(url)
    return url


@pytest.fixture
async def redis_record(server: str) -> AsyncIterator[RedisRecord]:
    record = RedisRecord(server)
    await record.start()
    yield record
    await record.close()


@pytest.fixture
async def connection(server: str) -> AsyncIterator[Connection]:
    """To look behind a record's back."""
    connection = Connection(server)
    yield connection
    await connection.close()


@pytest.fixture(params=["memory", *KINDS])
async def record(request: pytest.FixtureRequest) -> AsyncIterator[Record]:
    """An empty record; the contract is tested on each kind."""
    if request.param == "memory":
        yield MemoryRecord(upload_bytes=2_000_000)
        return
    url: str = request.getfixturevalue(f"{request.param}_server")
    connection = Connection(url)
    await connection.run("FLUSHALL")
    await connection.close()
    record = RedisRecord(url, upload_bytes=2_000_000)
    await record.start()
    yield record
    await record.close()
