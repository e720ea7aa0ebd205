"""The task that keeps the hashes in step with the live contexts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from hub.core.errors import HubError, Unavailable
from hub.core.requests import Apply, Author, Create, Role, StateIncr
from hub.node.node import Node
from hub.record.memory import MemoryRecord
from hub.record.port import MirrorWrite
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


async def mirrored(record: MemoryRecord, id: str, seq: int) -> bool:
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
