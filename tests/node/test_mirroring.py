"""The task that keeps the hashes in step with the live contexts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

import pytest

from hub.core.errors import HubError, Unavailable
from hub.core.requests import Apply, Author, Create, Role, StateIncr
from hub.node import mirroring as mirroring_module
from hub.node.node import Node
from hub.record.connection import Connection
from hub.record.memory import MemoryRecord
from hub.record.port import MirrorWrite, Record
from hub.record.redis import RedisRecord
from tests.node.support import node_on
from tests.support import until

AUTHOR = Author("somebody", Role.OPERATOR)
CONTEXTS = 500


class CountingRecord(MemoryRecord):
    """Knows how its hashes were written, and can be away for them."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: list[int] = []
        self.away = 0

    async def mirror(self, writes: Sequence[MirrorWrite]) -> list[bool]:
        if self.away:
            self.away -= 1
            raise Unavailable("away")
        self.groups.append(len(writes))
        return await super().mirror(writes)


async def incr(node: Node, id: str) -> None:
    answer = await node.contexts.request(node.contexts.stamp(Apply(context=id, ops=[StateIncr(path="/n")]), AUTHOR))
    assert not isinstance(answer, HubError)


async def mirrored(record: Record, id: str, seq: int) -> bool:
    [there] = await record.mirrored([id])
    return there is not None and there[0] == seq


async def test_many_contexts_are_written_together_and_the_end_writes_only_what_is_behind() -> None:
    record = CountingRecord()
    node = Node(record)
    await node.start()
    ids = [f"c{n}" for n in range(CONTEXTS)]
    for id in ids:
        await node.contexts.request(node.contexts.stamp(Create(context=id), AUTHOR))
    for id in ids:
        await until(partial(mirrored, record, id, 1))
    record.groups.clear()
    for id in ids:
        await incr(node, id)
    for id in ids:
        await until(partial(mirrored, record, id, 2))
    assert sum(record.groups) == CONTEXTS
    assert max(record.groups) > 8, "contexts that change together are written together"
    record.groups.clear()
    await incr(node, "c7")
    await node.close()
    assert record.groups == [1]


async def test_a_record_that_was_away_gets_everything_when_it_is_back() -> None:
    record = CountingRecord()
    node = Node(record)
    await node.start()
    await node.contexts.request(node.contexts.stamp(Create(context="c"), AUTHOR))
    await until(lambda: mirrored(record, "c", 1))
    record.away = 3
    await incr(node, "c")
    await incr(node, "c")
    await until(lambda: mirrored(record, "c", 3))
    await node.close()


class Writes:
    """How often each of two nodes, which follow one context, wrote its hashes."""

    def __init__(self, *nodes: Node) -> None:
        self.of = [0 for _ in nodes]
        for index, node in enumerate(nodes):
            record: Any = node.record
            record.mirror = partial(self._mirror, index, record.mirror)

    async def _mirror(self, index: int, mirror: Any, writes: Sequence[MirrorWrite]) -> list[bool]:
        self.of[index] += 1
        return await mirror(writes)  # type: ignore[no-any-return]


@pytest.fixture
async def two(valkey: Connection, valkey_server: str) -> AsyncIterator[tuple[Node, Node]]:
    """Nodes that have the context "c" live, and its hashes written."""
    async with node_on(RedisRecord(valkey_server)) as first, node_on(RedisRecord(valkey_server)) as second:
        await first.contexts.request(first.contexts.stamp(Create(context="c"), AUTHOR))
        await until(lambda: mirrored(first.record, "c", 1))
        await second.contexts.open("c")
        await until(lambda: not second.lag)
        yield first, second


async def hears(node: Node, seq: int) -> None:
    await until(lambda: node.contexts.live["c"].replica.position.seq == seq)


async def test_the_node_that_appended_writes(two: tuple[Node, Node]) -> None:
    first, second = two
    writes = Writes(first, second)
    for seq in range(2, 6):
        await incr(first, "c")
        await hears(second, seq)
        await until(lambda seq=seq: mirrored(first.record, "c", seq))  # type: ignore[misc]
    assert writes.of[1] == 0
    await incr(second, "c")
    await until(lambda: mirrored(first.record, "c", 6))
    assert writes.of[1] == 1


async def test_another_node_writes_what_stands_still(two: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that appended does not come to it."""
    first, second = two
    still = 0.3
    monkeypatch.setattr(mirroring_module, "STILL", still)
    writes = Writes(second)
    stuck: Any = first.mirroring
    stuck._task.cancel()
    began = asyncio.get_running_loop().time()
    await incr(first, "c")
    await hears(second, 2)
    await until(lambda: mirrored(second.record, "c", 2))
    assert asyncio.get_running_loop().time() - began >= still - mirroring_module.AHEAD
    assert writes.of == [1]
