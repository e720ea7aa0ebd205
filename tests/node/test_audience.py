"""Who hears of a context's end or of its other history, and what is read of it in the middle of that."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from hub.core.requests import Apply, StateIncr
from hub.fanout.room import Viewer
from hub.record.memory import MemoryRecord
from hub.record.port import Append, Appended
from tests.node.support import KeptOutbox, create, incr, node_on, ok
from tests.node.test_replaying import Narrow, Subscriber
from tests.support import until


class Held(MemoryRecord):
    """A record that is slow to take a context that it lost."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def append(self, appends: Sequence[Append]) -> list[Appended]:
        if self._lost and appends[0].position.seq == 0:
            self.asked.set()
            await self.go.wait()
        return await super().append(appends)

    _lost = False

    def lose_everything(self) -> None:
        self._contexts.clear()
        self._lost = True


async def test_reading_while_it_is_written_anew() -> None:
    """Writes are pending, the record takes its time: who subscribes meanwhile sees what is confirmed, and nothing is undone
    or done twice."""
    record = Held()
    async with node_on(record) as node:
        await create(node)
        await ok(node, incr())
        record.lose_everything()
        writes = [asyncio.create_task(ok(node, Apply(context="c", ops=[StateIncr(path="/n")]))) for _ in range(3)]
        await record.asked.wait()
        subscriber = Subscriber(node)
        for _ in range(2):
            await (await subscriber.subscribe(resume=False))
            assert subscriber.checker.state.document["state"] == {"n": 1}
        record.go.set()
        await asyncio.gather(*writes)
        await subscriber.at_the_end()
        assert subscriber.checker.state.document["state"] == {"n": 4}
        assert subscriber.checker.restarted == 1


@pytest.mark.parametrize("deliver", ["patch", "snapshot"])
async def test_who_is_behind_hears_of_the_end(deliver: str) -> None:
    """The context is replaced by another one of its id: whoever did not take its changes is told the state and the end."""
    async with node_on(MemoryRecord()) as node:
        await create(node)
        subscriber = Subscriber(node, deliver, Narrow(room=100))
        await (await subscriber.subscribe(resume=False))
        for _ in range(5):
            await ok(node, incr())
        audience = node.contexts.live["c"].audience
        await until(lambda: audience.room.behind)
        node.contexts.begin("c", replace=True)
        subscriber.read()
        assert subscriber.checker.state.document.get("state", {"n": 5}) == {"n": 5}
        assert subscriber.checker.state.closed == "replaced"
        assert audience.empty


async def test_contexts_that_go_take_their_replay_rings_along() -> None:
    async with node_on(MemoryRecord()) as node:
        for id in ("a", "b"):
            await create(node, id)
            await ok(node, incr(id))
        budget = node.contexts.live["a"].audience.ring._budget
        assert budget is not None
        assert budget.bytes > 0
        for live in list(node.contexts):
            node.contexts.forget(live)
        assert budget.bytes == 0


async def test_a_small_budget_for_all_rings() -> None:
    """Contexts that were not used lately give way; who comes back to them is sent what it missed from the record."""
    async with node_on(MemoryRecord(), ring_bytes=20_000) as node:
        outbox, viewer = KeptOutbox(), Viewer(patch=True, private=True, sees=lambda user: True)
        await create(node)
        subscriber = Subscriber(node)
        await (await subscriber.subscribe(resume=False))
        node.contexts.live["c"].audience.leave(subscriber.outbox)
        for _ in range(20):
            await ok(node, incr())
        for n in range(20):
            await create(node, f"other{n}")
            node.contexts.live[f"other{n}"].audience.join(outbox, viewer)
            for _ in range(20):
                await ok(node, incr(f"other{n}"))
        rings = [live.audience.ring for live in node.contexts]
        assert sum(ring.bytes for ring in rings) <= 20_000
        assert node.contexts.live["c"].audience.ring.kept == 0
        assert node.contexts.live["other19"].audience.ring.kept == 21
        subscriber.checker.connected()
        await (await subscriber.subscribe())
        await subscriber.at_the_end()
        assert (subscriber.checker.recovered, subscriber.checker.restarted) == (1, 0)
        assert len(outbox.of("change")) == 20 * 20
