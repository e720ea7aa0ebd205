"""What a resumed subscriber missed: in pieces, with the loop free between them, in exact order, and bounded for who does
not read."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from hub.core.changes import RecordEntry
from hub.core.errors import Unavailable
from hub.core.position import Position
from hub.core.requests import AnyOperation, Apply, DataSet, LogAdd, LogAppend, Remove, StateIncr
from hub.fanout.room import Viewer
from hub.node.node import Node
from hub.node.replaying import MOST_REPLAYED
from hub.node.subscribing import READS
from hub.node.turns import PIECE_BYTES, PIECES
from hub.record.memory import MemoryRecord
from hub.wire.codec import Encoded
from hub.wire.messages import From, Subscribe
from tests.checker import Checker
from tests.node.support import KeptOutbox, create, node_on, ok
from tests.node.test_turns import Ticking
from tests.support import until


class Narrow(KeptOutbox):
    """An outbox with room for so many bytes until ``catch_up``. ``pieces`` are the sizes of what was streamed."""

    def __init__(self, room: int = 2**62) -> None:
        self.room = self.left = room
        self.pieces: list[int] = []
        super().__init__()

    @property
    def behind(self) -> bool:
        return self.left <= 0

    @behind.setter
    def behind(self, behind: bool) -> None:
        self.left = 0 if behind else self.room

    def stream(self, frames: bytes, events: Sequence[Encoded]) -> bool:
        if not super().stream(frames, events):
            return False
        self.left -= len(frames)
        self.pieces.append(len(frames))
        return True

    @property
    def waits(self) -> bool:
        """Whether somebody waits for room."""
        return bool(self._waiting)


class Subscriber:
    """One connection's subscription at a node, and the proof of what it gets."""

    def __init__(self, node: Node, deliver: str = "patch", outbox: Narrow | None = None) -> None:
        self.node = node
        self.outbox = outbox or Narrow()
        self.checker = Checker("c", deliver)
        self.viewer = Viewer(patch=deliver == "patch", private=True, sees=lambda user: True)
        self._read = 0
        self.checker.connected()

    async def subscribe(self, *, resume: bool = True) -> asyncio.Task[None]:
        """Subscribe; what is returned is the replay."""
        live = await self.node.contexts.open("c")
        asked = self.checker.request(resume=resume)
        body = Subscribe(topic=asked["topic"], deliver=asked["deliver"], tail=1000)
        if "from" in asked:
            body.from_ = From(**asked["from"])
        found = await self.node.subscribing.subscribe(live, self.outbox, self.viewer, body, lambda: True)
        assert found is not None
        reply, replay = found
        self.read()
        self.checker.reply(msgspec.json.decode(msgspec.json.encode({"ok": True, **reply})))
        return asyncio.create_task(replay())

    def read(self) -> Position:
        while self._read < len(self.outbox.events):
            self._read += 1
            self.checker.event(*self.outbox.events[self._read - 1])
        return self.checker.position

    async def at_the_end(self) -> None:
        """Wait until it has everything, and compare."""
        live = self.node.contexts.live["c"]
        await until(lambda: self.read() == live.replica.position)
        self.checker.compare(truth(self.node))


def truth(node: Node) -> dict[str, Any]:
    viewer = Viewer(patch=True, private=True, sees=lambda user: True)
    reply = node.contexts.live["c"].audience.full_reply(Narrow.variant, viewer, 100_000, None)
    with node.contexts.live["c"].replica.confirmed() as state:
        reply["entries"] = [entry.to_json() for entry in state.log.entries]
        found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(reply))
    return found


async def write(node: Node, count: int, size: int = 100) -> None:
    """Changes of all sorts, together of about ``count * size`` bytes."""
    chance = random.Random(count)
    asked = []
    for n in range(count):
        ops: list[AnyOperation] = [
            LogAdd(type="info", content="x" * size),
            LogAppend(id="e", text=chance.choice("aé😀") * (size // 3)),
            DataSet(key=f"k{n % 5}", value="y" * size),
            StateIncr(path="/n"),
        ]
        asked.append(ok(node, Apply(context="c", ops=[chance.choice(ops)])))
    await asyncio.gather(*asked)


async def begin(node: Node, deliver: str = "patch", outbox: Narrow | None = None) -> Subscriber:
    """A context, and a subscriber that has it whole and is away."""
    await create(node)
    await ok(node, Apply(context="c", ops=[LogAdd(id="e", type="info")]))
    subscriber = Subscriber(node, deliver, outbox)
    await (await subscriber.subscribe(resume=False))
    leave(subscriber)
    return subscriber


def leave(subscriber: Subscriber) -> None:
    subscriber.node.contexts.live["c"].audience.leave(subscriber.outbox)
    subscriber.read()
    subscriber.checker.connected()


@pytest.mark.parametrize("deliver", ["patch", "snapshot"])
@pytest.mark.parametrize(("count", "size"), [(400, 500), (3, 200_000), (1_500, 600)])
async def test_in_pieces_with_others_between(deliver: str, count: int, size: int) -> None:
    """Another one writes all the while: its requests are answered between the pieces."""
    async with node_on(MemoryRecord()) as node:
        subscriber = await begin(node, deliver)
        await write(node, count, size)
        subscriber.outbox.pieces.clear()
        replay = await subscriber.subscribe()
        assert (subscriber.checker.recovered, subscriber.outbox.pieces) == (1, [])
        ticking, answered = Ticking(), 0
        while not replay.done():
            await ok(node, Apply(context="c", ops=[StateIncr(path="/between")]))
            answered += 1
        ticking.stop()
        largest = max(size * 2, 1_000)  # of a character outside of ASCII as JSON
        assert max(subscriber.outbox.pieces) < 2 * PIECE_BYTES + largest
        if deliver == "patch" and count == 1_500:
            assert answered > 1
            assert ticking.count > sum(subscriber.outbox.pieces) / (6 * PIECE_BYTES)
        await write(node, 5)
        await subscriber.at_the_end()
        assert subscriber.checker.restarted == 0


@pytest.mark.parametrize("deliver", ["patch", "snapshot"])
async def test_for_one_that_reads_slowly_nothing_piles_up(deliver: str) -> None:
    async with node_on(MemoryRecord()) as node:
        subscriber = await begin(node, deliver, Narrow(room=50_000))
        await write(node, 400, 600)
        replay = await subscriber.subscribe()
        rounds = 0
        while not replay.done():
            await until(lambda: subscriber.outbox.waits or replay.done())
            assert subscriber.outbox.left > -2 * PIECE_BYTES
            rounds += 1
            if rounds < 4:
                await write(node, 3)
            subscriber.outbox.catch_up()
        assert rounds >= 2
        await write(node, 2)
        await subscriber.at_the_end()
        assert (subscriber.checker.recovered, subscriber.checker.restarted) == (1, 0)


@pytest.mark.parametrize("deliver", ["patch", "snapshot"])
async def test_for_one_that_does_not_read_one_snapshot_takes_the_place(deliver: str) -> None:
    async with node_on(MemoryRecord()) as node:
        subscriber = await begin(node, deliver, Narrow(room=50_000))
        await write(node, 400, 600)
        replay = await subscriber.subscribe()
        await until(lambda: subscriber.outbox.waits)
        sent = len(subscriber.outbox.events)
        for _ in range(8):
            await write(node, MOST_REPLAYED // 4, 60)
        assert len(subscriber.outbox.events) == sent, "nothing is added while it does not read"
        subscriber.outbox.catch_up()
        await replay
        assert len(subscriber.outbox.events) == sent + 1
        await subscriber.at_the_end()
        assert subscriber.checker.restarted == 1
        assert subscriber.outbox.events[-1][1]["reason"] == "lagged"
        await write(node, 2)
        await subscriber.at_the_end()


async def test_leaving_and_coming_again_in_the_middle() -> None:
    async with node_on(MemoryRecord()) as node:
        subscriber = await begin(node, outbox=Narrow(room=50_000))
        audience = node.contexts.live["c"].audience
        await write(node, 700, 1_000)
        replays = []
        for n in range(4):
            replays.append(await subscriber.subscribe())
            await until(lambda: subscriber.outbox.waits)
            if n % 2:
                leave(subscriber)
            if n == 2:
                subscriber.outbox.catch_up()
                await until(lambda: subscriber.outbox.waits)
            await write(node, 3)
        assert subscriber.checker.recovered == 4
        while not all(replay.done() for replay in replays):
            subscriber.outbox.catch_up()
            await asyncio.sleep(0)
        leave(subscriber)
        assert audience.empty
        assert not audience._apart
        subscriber.outbox.room = 2**62
        subscriber.outbox.catch_up()
        await (await subscriber.subscribe())
        await subscriber.at_the_end()


@pytest.mark.parametrize("deliver", ["patch", "snapshot"])
async def test_the_context_ends_in_the_middle(deliver: str) -> None:
    async with node_on(MemoryRecord()) as node:
        subscriber = await begin(node, deliver, Narrow(room=20_000))
        await write(node, 400, 600)
        replay = await subscriber.subscribe()
        await until(lambda: subscriber.outbox.waits)
        await ok(node, Remove(context="c"))
        subscriber.outbox.catch_up()
        await replay
        subscriber.read()
        assert subscriber.checker.state.closed == "removed"


@pytest.mark.parametrize(
    ("last", "owed"),
    [(LogAdd(type="info"), True), (LogAppend(id="e", text="more"), True), (StateIncr(path="/n"), False)],
)
async def test_who_resumes_behind_a_log_event_gets_the_document(last: AnyOperation, owed: bool) -> None:
    """The connection may have ended before the snapshot came, at any node, and entries may have grown since."""
    record = MemoryRecord()
    async with node_on(record) as first, node_on(record) as second:
        await create(first)
        lives = [await node.contexts.open("c") for node in (first, second)]
        viewer = Viewer(patch=False, private=False, sees=lambda user: True)
        await ok(first, Apply(context="c", ops=[LogAdd(type="info", id="e"), StateIncr(path="/n")]))
        await ok(first, Apply(context="c", ops=[last]))
        at = lives[0].replica.position
        await until(lambda: lives[1].replica.position == at)
        for node, live in zip((first, second), lives, strict=True):
            outbox = KeptOutbox()
            body = Subscribe(topic="context:c", from_=From(epoch=at.epoch, seq=at.seq))
            subscribed = await node.subscribing.subscribe(live, outbox, viewer, body, lambda: True)
            assert subscribed is not None
            reply, send_missed = subscribed
            assert (reply["recovered"], reply["seq"]) == (True, at.seq)
            assert ("document" in reply) is owed
            assert not owed or json.loads(bytes(reply["document"])) == live.replica.state.document
            await send_missed()
            again = await node.subscribing.subscribe(live, outbox, viewer, body, lambda: True)
            assert again is not None
            assert "document" not in again[0], "what it is told on this connection comes in order"
            assert not outbox.events, "nothing is told a second time"


@pytest.mark.parametrize("deliver", ["patch", "snapshot"])
async def test_the_record_loses_the_context_in_the_middle(deliver: str) -> None:
    """It is written anew under another epoch; whoever is being sent the old one is told, once, and goes on."""
    record = MemoryRecord()
    async with node_on(record) as node:
        subscriber = await begin(node, deliver, Narrow(room=20_000))
        await write(node, 400, 600)
        replay = await subscriber.subscribe()
        await until(lambda: subscriber.outbox.waits)
        before = subscriber.checker.position.epoch
        subscriber.outbox.left = 2**62  # it has room again, and the replay does not know it yet
        record._contexts.clear()
        await write(node, 1)
        subscriber.outbox.room = 2**62
        subscriber.outbox.catch_up()
        await replay
        await subscriber.at_the_end()
        assert subscriber.checker.position.epoch != before
        assert subscriber.checker.restarted == 1
        await write(node, 3)
        await subscriber.at_the_end()


async def test_the_record_goes_away_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    record = MemoryRecord()
    async with node_on(record) as node:
        subscriber = await begin(node, outbox=Narrow(room=50_000))
        await write(node, 1_500, 1_000)
        replay = await subscriber.subscribe()
        await until(lambda: subscriber.outbox.waits)

        async def away(*_: Any) -> Any:
            raise Unavailable("away")

        monkeypatch.setattr(record, "read", away)
        while not replay.done():
            subscriber.outbox.catch_up()
            await asyncio.sleep(0)
        await subscriber.at_the_end()
        assert (subscriber.checker.recovered, subscriber.checker.restarted) == (1, 1)


@pytest.mark.parametrize("resume", [False, True])
async def test_large_documents_are_given_to_many_one_after_the_other(resume: bool) -> None:
    """Whoever begins, or comes back from too far behind, waits for a turn: others go on between."""
    async with node_on(MemoryRecord()) as node:
        await create(node, state={f"k{n}": "x" * 1_000 for n in range(600)})
        subscribers = [Subscriber(node) for _ in range(20)]
        if resume:
            for subscriber in subscribers:
                subscriber.checker.state.position = Position("another", 3)
        ticking = Ticking()
        joining = asyncio.gather(*(subscriber.subscribe(resume=resume) for subscriber in subscribers))
        answered = 0
        while not joining.done():
            await ok(node, Apply(context="c", ops=[StateIncr(path="/between")]))
            answered += 1
        ticking.stop()
        assert answered > 5
        assert ticking.count > 20 * 600_000 / PIECE_BYTES / (2 * PIECES)
        for subscriber in subscribers:
            await subscriber.at_the_end()
            assert subscriber.checker.restarted == int(resume)


async def test_many_at_once_share_the_loop() -> None:
    """Two hundred come back together: others are answered between their replays."""
    async with node_on(MemoryRecord()) as node:
        await begin(node)
        subscribers = [Subscriber(node, deliver) for deliver in ("patch", "snapshot") for _ in range(100)]
        for subscriber in subscribers:
            await (await subscriber.subscribe(resume=False))
            leave(subscriber)
        await write(node, 300, 600)
        ticking = Ticking()
        replays = [await subscriber.subscribe() for subscriber in subscribers]
        await ok(node, Apply(context="c", ops=[StateIncr(path="/between")]))
        assert not all(replay.done() for replay in replays), "they wait for each other, not everybody for them"
        await asyncio.gather(*replays)
        ticking.stop()
        sent = sum(sum(subscriber.outbox.pieces) for subscriber in subscribers)
        assert ticking.count > sent / (4 * PIECES * PIECE_BYTES)
        for subscriber in subscribers:
            assert (subscriber.checker.recovered, subscriber.checker.restarted) == (1, 0)
            await subscriber.at_the_end()


async def test_a_crowd_reads_a_few_pieces_at_a_time() -> None:
    """What all of them read at once from the record would have to be held at once, and each would wait for all the others'."""
    record = CountingRecord()
    async with node_on(record) as node:
        subscribers = [await begin(node)]
        for _ in range(5 * READS):
            subscriber = Subscriber(node)
            await (await subscriber.subscribe(resume=False))
            leave(subscriber)
            subscribers.append(subscriber)
        await write(node, 700, 600)  # more than the ring keeps
        replays = await asyncio.gather(*(subscriber.subscribe() for subscriber in subscribers))
        await asyncio.gather(*replays)
        for subscriber in subscribers:
            await subscriber.at_the_end()
            assert (subscriber.checker.recovered, subscriber.checker.restarted) == (1, 0)
        assert 1 < record.most <= READS


async def test_large_private_data_is_told_to_a_few_an_iteration() -> None:
    """The document may be small: what a reply has besides counts, too."""
    async with node_on(MemoryRecord()) as node:
        await create(node)
        await ok(node, Apply(context="c", ops=[DataSet(key="k", value="x" * 10 * PIECE_BYTES)]))
        ticking, told = Ticking(), Counter[int]()

        async def subscribe() -> None:
            await Subscriber(node).subscribe(resume=False)
            told[ticking.count] += 1

        await asyncio.gather(*(subscribe() for _ in range(30)))
        ticking.stop()
        assert max(told.values()) <= PIECES
        assert max(told) - min(told) > 30


class CountingRecord(MemoryRecord):
    """Knows how many pieces were read at a time at most."""

    now = most = 0

    async def read(self, context: str, after: Position, limit: int = 1_000) -> tuple[list[RecordEntry], bool]:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(0)
            return await super().read(context, after, limit)
        finally:
            self.now -= 1
