"""Broadcasts to the live contexts of many nodes: each gets one entry, however often it is asked for."""

from __future__ import annotations

import asyncio
import operator
import random
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import pytest

from hub.core.errors import KeyReused, Overloaded, Unavailable, UnknownType
from hub.core.requests import LogAdd, Remove
from hub.node import broadcasts as module
from hub.node import live as live_module
from hub.node import tasks as tasks_module
from hub.node.node import Node
from hub.record.connection import Connection
from hub.record.memory import MemoryRecord
from hub.record.port import Record
from hub.record.redis import RedisRecord
from tests.node.support import create, node_on, ok
from tests.support import until

Nodes = tuple[Node, Node]


def say(text: str = "hello") -> LogAdd:
    return LogAdd(type="info", content=text)


async def contents(node: Node, id: str) -> list[str]:
    """What a context's log says, as the record has it."""
    loaded = await node.record.load(id)
    assert loaded is not None
    return [entry["content"] for entry in loaded.state.log.to_json()["entries"]]


async def said(node: Node, *ids: str) -> list[list[str]]:
    return [await contents(node, id) for id in ids]


async def test_every_live_context_gets_it_once(pair: Nodes) -> None:
    first, second = pair
    for id in ("only-first", "both"):
        await create(first, id)
    for id in ("only-second", "asleep"):
        await create(second, id)
    await second.contexts.open("both")
    second.contexts.forget(second.contexts.live["asleep"])
    assert await first.broadcasts.broadcast("b", say(), None) == 3
    assert await said(first, "only-first", "both", "only-second", "asleep") == [["hello"], ["hello"], ["hello"], []]
    await until(lambda: [node.contexts.live["both"].replica.state.log.length for node in pair] == [1, 1])


async def test_a_retry_adds_nothing_at_any_node(pair: Nodes) -> None:
    first, second = pair
    await create(first, "a")
    await create(second, "b")
    assert await first.broadcasts.broadcast("id", say(), None) == 2
    await create(first, "later")
    for node in (first, second, second):
        assert await node.broadcasts.broadcast("id", say(), None) == 2
        with pytest.raises(KeyReused):
            await node.broadcasts.broadcast("id", say("other words"), None)
        with pytest.raises(KeyReused):
            await node.broadcasts.broadcast("id", say(), ("a",))
    assert await said(first, "a", "b", "later") == [["hello"], ["hello"], []]


async def test_asked_of_both_at_once(pair: Nodes) -> None:
    first, second = pair
    await create(first, "a")
    await create(second, "b")
    counts = await asyncio.gather(*(node.broadcasts.broadcast("id", say(), None) for node in (*pair, *pair)))
    assert counts == [2] * 4
    assert await said(first, "a", "b") == [["hello"], ["hello"]]


async def test_only_those_that_the_patterns_name(pair: Nodes) -> None:
    first, second = pair
    for n, node in enumerate((first, second, first, second)):
        await create(node, f"{'ab'[n % 2]}{n}")
        await create(node, f"other{n}")
    assert await first.broadcasts.broadcast("1", say(), ("a*", "b1")) == 3
    assert await first.broadcasts.broadcast("2", say(), ()) == 0
    assert await said(first, "a0", "b1", "a2", "b3", "other0") == [["hello"], ["hello"], ["hello"], [], []]


async def test_order(pair: Nodes) -> None:
    await create(pair[0], "a")
    await create(pair[1], "b")
    texts = [f"t{n}" for n in range(20)]
    for n, text in enumerate(texts):
        assert await pair[n % 2].broadcasts.broadcast(text, say(text), None) == 2
    assert await said(pair[0], "a", "b") == [texts, texts]


async def test_a_node_that_did_not_hear_reads_on(
    new_record: Callable[[], Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "OTHERS_SECONDS", 0.1)
    async with node_on(new_record()) as first, node_on(new_record()) as second:
        await create(first, "a")
        await create(second, "b")
        told = second.hearing.on_told
        second.hearing.on_told = lambda message: None
        assert await first.broadcasts.broadcast("1", say("one"), None) == 1, (
            "those that did not answer in time count none"
        )
        assert await first.broadcasts.broadcast("2", say("two"), None) == 1
        assert await said(first, "a", "b") == [["one", "two"], []]
        second.hearing.on_told = told
        second.hearing.hearing()
        await until(lambda: second.contexts.live["b"].replica.state.log.length == 2)
        assert await contents(first, "b") == ["one", "two"]
        assert await first.broadcasts.broadcast("1", say("one"), None) == 2


async def test_a_node_that_comes_later_has_nothing_to_add(new_record: Callable[[], Record]) -> None:
    async with node_on(new_record()) as first:
        await create(first, "a")
        await first.broadcasts.broadcast("1", say("one"), None)
        async with node_on(new_record()) as second:
            await create(second, "b")
            assert await second.broadcasts.broadcast("2", say("two"), None) == 2
            assert await said(first, "a", "b") == [["one", "two"], ["two"]]


class Flaky(MemoryRecord):
    """Cannot keep a broadcast as often as told, having kept it or not."""

    fails = 0
    keeps = False

    async def add_broadcast(self, broadcast: dict[str, Any]) -> str:
        if self.fails:
            self.fails -= 1
            if self.keeps:
                await super().add_broadcast(broadcast)
            raise Unavailable("away")
        return await super().add_broadcast(broadcast)


@pytest.mark.parametrize("keeps", [False, True])
async def test_a_record_that_is_away_for_a_moment(monkeypatch: pytest.MonkeyPatch, keeps: bool) -> None:
    monkeypatch.setattr(tasks_module, "RETRY", 0.01)
    record = Flaky()
    record.keeps = keeps
    async with node_on(record) as node:
        await create(node, "a")
        record.fails = 3
        assert await node.broadcasts.broadcast("1", say(), None) == 1
        assert await contents(node, "a") == ["hello"]


async def test_a_record_that_stays_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks_module, "RETRY", 0.01)
    monkeypatch.setattr(module, "WAIT", 0.1)
    record = Flaky()
    async with node_on(record) as node:
        await create(node, "a")
        record.fails = 1_000_000
        with pytest.raises(Unavailable):
            await node.broadcasts.broadcast("1", say(), None)
        record.fails = 0
        assert await contents(node, "a") == []
        assert await node.broadcasts.broadcast("1", say(), None) == 1


async def test_who_could_not_take_it_gets_it_by_a_retry(pair: Nodes) -> None:
    first, second = pair
    for n in range(3):
        await create(first, f"a{n}")
        await create(second, f"b{n}")
    for node, full in ((first, "a1"), (second, "b1")):
        live = node.contexts.live[full]
        live.waiting_bytes += live_module.WAITING_BYTES
        with pytest.raises(Overloaded):
            await first.broadcasts.broadcast(full, say(full), None)
        live.waiting_bytes -= live_module.WAITING_BYTES
        assert await first.broadcasts.broadcast(full, say(full), None) == 6
    assert await said(first, "a0", "a1", "b0", "b1") == [["a1", "b1"]] * 4


async def test_one_that_nobody_can_take(pair: Nodes) -> None:
    await create(pair[1], "b")
    with pytest.raises(UnknownType):
        await pair[0].broadcasts.broadcast("1", LogAdd(type="zoo"), None)
    assert await contents(pair[0], "b") == []


async def test_contexts_that_go_meanwhile(pair: Nodes) -> None:
    for n in range(200):
        await create(pair[n % 2], f"c{n}")
    counted = asyncio.create_task(pair[0].broadcasts.broadcast("1", say(), None))
    for n in range(200):
        await ok(pair[n % 2], Remove(context=f"c{n}"))
    assert 0 <= await counted <= 200


async def test_what_cannot_be_read_is_left_out(pair: Nodes) -> None:
    first, second = pair
    await create(second, "b")
    for broken in ({}, {"id": 1, "op": {}, "ctx": None}, {"id": "x", "op": {"op": "log.add"}, "ctx": ["*"]}):
        await first.record.add_broadcast(broken)
    for odd in ({"kind": "broadcast"}, {"kind": "broadcast.added", "to": first.name, "question": "x", "node": "n"}):
        await first.hearing.tell(odd)
    assert await first.broadcasts.broadcast("1", say(), None) == 1
    assert await contents(first, "b") == ["hello"]


async def test_nothing_is_left_behind(pair: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 10)
    await create(pair[1], "b")
    for n in range(30):
        await pair[0].broadcasts.broadcast(f"{n}", say(), None)
    for node in pair:
        assert len(node.broadcasts._applied) == 10
        assert not node.broadcasts._questions
        tasks = node.broadcasts._background._tasks
        await until(partial(operator.not_, tasks))


async def test_contexts_take_no_task_each() -> None:
    async with node_on(MemoryRecord()) as node:
        await asyncio.gather(*(create(node, f"c{n}") for n in range(2_000)))
        loop = asyncio.get_running_loop()
        made = 0

        def counted(loop: asyncio.AbstractEventLoop, coroutine: Any, **more: Any) -> asyncio.Task[Any]:
            nonlocal made
            made += 1
            return asyncio.Task(coroutine, loop=loop, **more)

        loop.set_task_factory(counted)
        assert await node.broadcasts.broadcast("1", say(), None) == 2_000
        assert made < 200


@pytest.mark.parametrize("seed", range(3))
async def test_broken_connections_cost_and_double_nothing(
    valkey: Connection, valkey_server: str, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(module, "OTHERS_SECONDS", 0.2)
    chance, numbers = random.Random(seed), count()
    async with node_on(RedisRecord(valkey_server)) as first, node_on(RedisRecord(valkey_server)) as second:
        for n in range(9):
            await create((first, second)[n % 2], f"c{n}")
            if n % 3 == 0:
                await (second, first)[n % 2].contexts.open(f"c{n}")

        async def play(steps: int) -> None:
            for _ in range(steps):
                text = str(next(numbers))
                for _ in range(chance.choice((1, 1, 2))):
                    counted = await chance.choice((first, second)).broadcasts.broadcast(text, say(text), None)
                    assert counted <= 9
                if chance.random() < 0.2:
                    await valkey.run("CLIENT", "KILL", "TYPE", "pubsub")

        await asyncio.gather(*(play(10) for _ in range(3)))
        for n in range(9):
            await until(partial(_has_all, first, f"c{n}", 30))


async def _has_all(node: Node, id: str, broadcasts: int) -> bool:
    texts = await contents(node, id)
    assert len(set(texts)) == len(texts)
    return len(texts) == broadcasts
