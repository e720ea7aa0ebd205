"""Records for many nodes: one in memory that all share, or one Valkey with a connection for each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from hub.node.node import Node
from hub.record.connection import Connection
from hub.record.memory import MemoryRecord
from hub.record.port import Record
from hub.record.redis import RedisRecord
from tests.node.support import node_on
from tests.record.servers import empty


@pytest.fixture
async def valkey(valkey_server: str) -> AsyncIterator[Connection]:
    """A connection to a Valkey that is empty."""
    await empty(valkey_server)
    connection = Connection(valkey_server)
    yield connection
    await connection.close()


@pytest.fixture(params=["memory", "valkey"])
async def new_record(request: pytest.FixtureRequest) -> Callable[[], Record]:
    """Gives each node its record; all of them have the same contexts."""
    if request.param == "memory":
        record = MemoryRecord()
        return lambda: record
    url: str = request.getfixturevalue("valkey_server")
    await empty(url)
    return lambda: RedisRecord(url)


@pytest.fixture
async def pair(new_record: Callable[[], Record]) -> AsyncIterator[tuple[Node, Node]]:
    """Two nodes that serve."""
    async with node_on(new_record()) as first, node_on(new_record()) as second:
        yield first, second
