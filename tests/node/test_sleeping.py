"""Contexts that nothing uses leave memory, and come back as they were."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from typing import Any

from hub.agent.registry import Registry
from hub.core.errors import HubError, Unavailable
from hub.core.requests import Apply, LogAdd, LogAppend, Remove
from hub.core.state import ContextState
from hub.fanout.room import Viewer
from hub.node.inprocess import NodeLink
from hub.node.node import Node
from hub.record.memory import MemoryRecord
from hub.record.mirror import KEEP_ASLEEP
from hub.record.port import MirrorWrite
from tests.core.making import whole
from tests.node.support import ANN, KeptOutbox, ask, create, incr, node_on, ok, push
from tests.registries import own_registry
from tests.support import until

SOON: dict[str, Any] = {"idle": 0.05, "recent_bytes": 0}
"""Settings with which contexts fall asleep as soon as nothing uses them."""
VIEWER = Viewer(patch=True, private=True, sees=lambda user: True)


class SlowMirror(MemoryRecord):
    """Its hashes are written when the test says so, or not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.go.set()
        self.waiting = 0
        self.away = False

    async def mirror(self, writes: Sequence[MirrorWrite]) -> list[bool]:
        self.waiting += 1
        await self.go.wait()
        self.waiting -= 1
        if self.away:
            raise Unavailable("away")
        return await super().mirror(writes)


def asleep(node: Node, *ids: str) -> bool:
    return not {*ids} & {*node.contexts.live}


async def test_nothing_of_a_sleeping_context_stays_and_its_hashes_are_whole() -> None:
    record = MemoryRecord()
    async with node_on(record, keep_entries=1_000, **SOON) as node:
        for n in range(100):
            await create(node, f"c{n}", state={"l": []})
        for n in range(200):
            await ok(node, push(n, "c7"))
        big = Apply(context="c8", ops=[LogAdd(type="info", content="x" * 30_000, id="e")])
        await ok(node, big)
        await ok(node, Apply(context="c8", ops=[LogAppend(id="e", text="y")]))
        await until(lambda: not node.contexts.live)
        assert not node.mirroring._states
        assert not node.trimming._writes
        assert node.contexts._budget.bytes == 0
        for id in ("c7", "c8"):
            end = await record.end(id)
            assert end is not None
            assert await record.mirrored([id]) == [(end[0].seq, {})]
            assert len(record._contexts[id]._entries) <= KEEP_ASLEEP


async def test_what_leaves_memory_is_free_at_once() -> None:
    """The collector of cycles comes by seldom: nothing may wait for it."""

    def states() -> int:
        return sum(isinstance(thing, ContextState) and thing.document != {} for thing in gc.get_objects())

    async with node_on(MemoryRecord(), **SOON) as node:
        gc.collect()
        gc.disable()
        try:
            before = states()
            for n in range(50):
                await create(node, f"c{n}")
                outbox = KeptOutbox()
                node.contexts.live[f"c{n}"].audience.join(outbox, VIEWER)
                await ok(node, incr(f"c{n}"))
                node.contexts.live[f"c{n}"].audience.leave(outbox)
                if n % 2:
                    await ok(node, Remove(context=f"c{n}"))
            await until(lambda: not node.contexts.live)
            assert states() == before
        finally:
            gc.enable()


async def test_waking_is_exact() -> None:
    record = MemoryRecord()
    async with node_on(record, **SOON) as node:
        await create(node, state={"l": []}, data={"a": 1}, user_id="ann")
        for round in range(5):
            for n in range(30):
                await ok(node, push(n, key=f"w/{round * 30 + n}"))
                await ok(node, Apply(context="c", ops=[LogAdd(type="info", heading=f"{round} {n}")]))
            live = node.contexts.live["c"]
            before, tip = whole(live.replica.state), live.tip
            await until(lambda: asleep(node, "c"))
            again = await node.contexts.open("c")
            assert again is not live
            assert (whole(again.replica.state), again.tip) == (before, tip)
            answer = await ok(node, push(29, key=f"w/{round * 30 + 29}"))
            assert answer["duplicate"], "its keys come back too"


async def test_a_subscriber_keeps_it_awake() -> None:
    async with node_on(MemoryRecord(), **SOON) as node:
        await create(node)
        await create(node, "other")
        live, outbox = node.contexts.live["c"], KeptOutbox()
        live.audience.join(outbox, VIEWER)
        await until(lambda: asleep(node, "other"))
        await create(node, "another")
        await until(lambda: asleep(node, "another"))
        assert not asleep(node, "c")
        live.audience.leave(outbox)
        await until(lambda: asleep(node, "c"))


async def test_agent_code_in_the_hub_keeps_it_awake() -> None:
    async with node_on(MemoryRecord(), **SOON) as node:
        with own_registry() as registry:
            await _held_by_a_facade(node, registry)


async def _held_by_a_facade(node: Node, registry: Registry) -> None:
    from hub import AgentContext

    registry.bind(NodeLink(node))
    context = AgentContext(id="c")
    context.state["n"] = 1
    await context.flush()
    await create(node, "other")
    await until(lambda: asleep(node, "other"))
    assert not asleep(node, "c")
    context.close()
    await until(lambda: asleep(node, "c"))


async def test_what_was_changed_not_long_ago_stays() -> None:
    """The record may lose it; then this node appends it again."""
    async with node_on(MemoryRecord(), idle=0.05) as node:
        await create(node)
        await ok(node, incr(key="w/1"))
        await create(node, "other")
        await until(lambda: asyncio.get_running_loop().time() - node.contexts.live["c"].touched > 0.3)
        assert not asleep(node, "c")
        node.recent.expire(asyncio.get_running_loop().time() + 60)
        await until(lambda: asleep(node, "c", "other"))


async def test_one_that_is_used_while_its_hashes_are_written_stays() -> None:
    record = SlowMirror()
    async with node_on(record, **SOON) as node:
        await create(node)
        live, viewer = node.contexts.live["c"], KeptOutbox()
        live.audience.join(viewer, VIEWER)
        await until(lambda: not node.mirroring.behind("c"))
        record.go.clear()
        live.audience.leave(viewer)
        await until(lambda: record.waiting, "the write before its sleep")
        assert (await node.contexts.open("c")) is live
        live.audience.join(viewer, VIEWER)
        record.go.set()
        await ok(node, incr())
        await until(lambda: not node.mirroring.behind("c"))
        assert node.contexts.live["c"] is live
        assert viewer.of("change")
        live.audience.leave(viewer)
        await until(lambda: asleep(node, "c"))


async def test_while_the_record_is_away_nothing_falls_asleep() -> None:
    record = SlowMirror()
    async with node_on(record, **SOON) as node:
        record.away = True
        await create(node)
        live = node.contexts.live["c"]
        await until(lambda: asyncio.get_running_loop().time() - live.touched > 0.5)
        assert not asleep(node, "c")
        record.away = False
        await until(lambda: asleep(node, "c"))
        end = await record.end("c")
        assert end is not None
        assert await record.mirrored(["c"]) == [(end[0].seq, {})]


async def test_requests_find_it_wherever_it_is_on_its_way_to_sleep() -> None:
    """Writers with pauses of all lengths around the one after which it sleeps: each write is there once."""
    async with node_on(MemoryRecord(), **SOON) as node:
        await create(node)
        woken = 0

        async def write(writer: int) -> None:
            nonlocal woken
            for n in range(12):
                woken += asleep(node, "c")
                answer = await ask(node, incr(key=f"w{writer}/{n}"), ANN)
                assert not isinstance(answer, HubError)
                await asyncio.sleep(0.04 + n % 6 * 0.02 + writer * 0.001)

        await asyncio.gather(*map(write, range(4)))
        assert woken, "it slept meanwhile"
        live = await node.contexts.open("c")
        assert live.replica.state.document["state"] == {"n": 48}


async def test_one_that_is_removed_while_it_sleeps_is_gone() -> None:
    record = MemoryRecord()
    async with node_on(record, **SOON) as first, node_on(record, **SOON) as second:
        await create(first)
        await until(lambda: asleep(first, "c"))
        await ok(second, Remove(context="c"))
        assert isinstance(await ask(first, incr()), HubError)
        assert asleep(first, "c")
