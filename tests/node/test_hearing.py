"""Nodes that follow each other's contexts: the same changes at the same positions everywhere, whoever appended, and whatever
a node did not hear is noticed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from hub.core.changes import RecordEntry
from hub.core.errors import HubError, Unavailable
from hub.core.position import Position
from hub.core.requests import Remove, Role
from hub.fanout.room import Viewer
from hub.node import contexts as contexts_module
from hub.node.asked import Asked
from hub.node.live import LiveContext
from hub.node.node import Node
from hub.node.rights import Identity
from hub.record.connection import Connection
from hub.record.memory import MemoryRecord
from hub.record.port import Record
from hub.record.redis import RedisRecord
from hub.wire.messages import ContextGet, From, Subscribe
from tests.node.support import ANN, KeptOutbox, create, incr, node_on, ok, push
from tests.support import until

NEVER = 3600.0


@pytest.fixture
def only_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends are not compared by time: what is known was heard."""
    monkeypatch.setattr(contexts_module, "COMPARE", NEVER)


@pytest.fixture
def deaf_to_entries(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Entries of others are lost on the way. The list says how many."""
    lost: list[int] = []

    def heard(self: LiveContext, epoch: str, last: int, entry: RecordEntry | None) -> None:
        lost.append(last)

    monkeypatch.setattr(LiveContext, "heard", heard)
    yield lost
    assert lost, "nothing was lost: the test shows nothing"


def viewer_of(live: LiveContext) -> KeptOutbox:
    outbox = KeptOutbox()
    live.audience.join(outbox, Viewer(patch=True, private=False, sees=lambda user: True))
    return outbox


def positions(outbox: KeptOutbox) -> list[int]:
    return [change["seq"] for change in outbox.of("change")]


def at(node: Node, id: str = "c") -> Position:
    return node.contexts.live[id].replica.position


@pytest.mark.usefixtures("only_heard")
async def test_viewers_anywhere_get_the_same_changes_at_the_same_positions(pair: tuple[Node, Node]) -> None:
    first, second = pair
    await create(first)
    here, there = viewer_of(first.contexts.live["c"]), viewer_of(await second.contexts.open("c"))
    await until(lambda: not second.lag)
    for n in range(20):
        await ok(pair[n % 2], push(n, key=f"w{n % 2}/{n // 2}"))
        await until(lambda: at(first) == at(second))
    await until(lambda: len(positions(here)) == len(positions(there)) == 20)
    assert here.events == there.events
    assert positions(here) == list(range(2, 22))


@pytest.mark.usefixtures("only_heard")
async def test_a_context_that_was_live_before_the_other_node_came_is_followed(new_record: Callable[[], Record]) -> None:
    async with node_on(new_record()) as first:
        for n in range(30):
            await create(first, f"c{n}")
        outboxes = {id: viewer_of(live) for id, live in first.contexts.live.items()}
        async with node_on(new_record()) as second:  # it serves once the first one follows
            for id in outboxes:
                await ok(second, incr(id))
            await until(lambda: all(positions(outbox) == [2] for outbox in outboxes.values()))


async def test_what_is_live_is_followed_unless_a_node_is_alone(valkey: Connection, valkey_server: str) -> None:
    async def followed() -> list[bytes]:
        return sorted(await valkey.run("PUBSUB", "SHARDCHANNELS"))

    async def are(expected: list[bytes]) -> bool:
        return await followed() == expected

    async with node_on(RedisRecord(valkey_server)) as first:
        await create(first, "a")
        await first.hearing.tell({"kind": "nothing"})
        assert await followed() == []
        async with node_on(RedisRecord(valkey_server)) as second:
            assert await followed() == [b"hub:ctx:{a}:live"], "before the second one serves"
            await create(second, "b")
            await until(lambda: are([b"hub:ctx:{a}:live", b"hub:ctx:{b}:live"]))
            await ok(second, Remove(context="b"))
            await until(lambda: are([b"hub:ctx:{a}:live"]))
        await first.presence.look()
        await until(lambda: are([]))
        await ok(first, incr("a"))


@pytest.mark.usefixtures("only_heard")
async def test_a_large_change_is_read_from_the_record(pair: tuple[Node, Node]) -> None:
    first, second = pair
    await create(first)
    outbox = viewer_of(await second.contexts.open("c"))
    await until(lambda: not second.lag)
    await ok(first, push("x" * 400_000))
    await until(lambda: positions(outbox) == [2])


@pytest.mark.parametrize("goes", ["the other node", "the context"])
async def test_nobody_waits_for_what_is_not_followed_any_more(goes: str) -> None:
    """A node that shows up is answered once all contexts are followed, or need not be."""
    async with node_on(MemoryRecord()) as node:
        await create(node)
        hearing: Any = node.hearing
        hearing._following.add = lambda contexts: None  # no confirmation comes
        waiting = asyncio.create_task(node.hearing.follow_all())
        await until(lambda: hearing._uncertain)
        if goes == "the context":
            await ok(node, Remove(context="c"))
        else:
            node.hearing.alone()
        await asyncio.wait_for(waiting, 5)


async def test_a_message_that_was_lost_is_noticed_without_another_one(
    pair: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch, deaf_to_entries: list[int]
) -> None:
    monkeypatch.setattr(contexts_module, "COMPARE", 0.05)
    first, second = pair
    await create(first)
    outbox = viewer_of(await second.contexts.open("c"))
    await ok(first, incr())
    await until(lambda: positions(outbox) == [2])


@pytest.mark.usefixtures("only_heard")
async def test_an_entry_that_does_not_fit_makes_the_node_read(
    pair: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = pair
    await create(first)
    outbox = viewer_of(await second.contexts.open("c"))
    await until(lambda: not second.lag)
    with monkeypatch.context() as deaf:
        lost: list[int] = []
        deaf.setattr(second.contexts, "heard", lambda live, epoch, last, entry: lost.append(last))
        await ok(first, incr())
        await until(lambda: lost)
    assert positions(outbox) == []
    await ok(first, incr())
    await until(lambda: positions(outbox) == [2, 3])


@pytest.mark.usefixtures("only_heard")
async def test_a_client_that_is_ahead_makes_the_node_read(pair: tuple[Node, Node], deaf_to_entries: list[int]) -> None:
    first, second = pair
    await create(first)
    live = await second.contexts.open("c")
    await until(lambda: not second.lag)
    answer = await ok(first, incr())
    assert at(second).seq == 1
    outbox = KeptOutbox()
    viewer = Viewer(patch=True, private=False, sees=lambda user: True)
    body = Subscribe(topic="context:c", from_=From(epoch=answer["epoch"], seq=answer["seq"]))
    subscribed = await second.subscribing.subscribe(live, outbox, viewer, body, lambda: True)
    assert subscribed is not None
    assert subscribed[0] == {"epoch": answer["epoch"], "seq": 2, "recovered": True}
    await ok(second, incr())
    assert positions(outbox) == [3]
    await until(lambda: deaf_to_entries)


@pytest.mark.usefixtures("only_heard")
@pytest.mark.parametrize("asks", ["context.get", "subscribe"])
async def test_who_comes_is_shown_what_another_node_has_answered(
    pair: tuple[Node, Node], deaf_to_entries: list[int], asks: str
) -> None:
    first, second = pair
    await create(first)
    await second.contexts.open("c")
    await until(lambda: not second.lag)
    asked = somebody_at(second)
    for n in range(2, 12):
        answer = await ok(first, incr())
        if asks == "subscribe":
            reply, _ = await asked.subscribe(Subscribe(topic="context:c"))
        else:
            reply = await asked.answer(ContextGet(context="c"))
        assert (reply["epoch"], reply["seq"]) == (answer["epoch"], n)
        assert json.loads(bytes(reply["document"]))["state"] == {"n": n - 1}
    await until(lambda: deaf_to_entries)


async def test_who_comes_while_the_record_is_away_is_shown_what_is_known(
    pair: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = pair
    await create(first)
    await second.contexts.open("c")
    monkeypatch.setattr(second.record, "differ", away)
    asked = somebody_at(second)
    reply = await asyncio.wait_for(asked.answer(ContextGet(context="c")), 5)
    assert reply["seq"] == 1


@pytest.mark.usefixtures("only_heard")
async def test_who_comes_to_a_node_that_hears_old_entries_is_shown_the_newest(
    pair: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It slept: what it was told meanwhile is heard while it compares."""
    first, second = pair
    await create(first)
    live = await second.contexts.open("c")
    hearing: Any = second.hearing
    await until(lambda: not hearing._uncertain)
    heard: list[tuple[str, int, RecordEntry | None]] = []
    hear = LiveContext.heard

    def kept(self: LiveContext, *told: Any) -> None:
        heard.append(told) if self is live else hear(self, *told)

    monkeypatch.setattr(LiveContext, "heard", kept)
    for _ in range(4):
        await ok(first, incr())
    answer = await ok(first, incr())
    await until(lambda: len(heard) == 5)
    differ = second.record.differ

    async def slow(ends: Any) -> Any:
        found = await differ(ends)
        hear(live, *heard.pop(0))
        return found

    monkeypatch.setattr(second.record, "differ", slow)
    asked = somebody_at(second)
    assert (await asked.answer(ContextGet(context="c")))["seq"] == answer["seq"]
    assert len(heard) == 4


@pytest.mark.usefixtures("only_heard")
async def test_who_comes_to_a_node_that_takes_the_others_for_dead_is_shown_the_newest(pair: tuple[Node, Node]) -> None:
    first, second = pair
    await create(first)
    await second.contexts.open("c")
    await until(lambda: not second.lag)
    second.hearing.alone()
    answer = await ok(first, incr())
    asked = somebody_at(second)
    assert (await asked.answer(ContextGet(context="c")))["seq"] == answer["seq"]


def somebody_at(node: Node) -> Asked:
    """An operator's connection to a node."""
    return Asked(node, Identity("ann", Role.OPERATOR), KeptOutbox(), no_call)


async def no_call(name: str, payload: dict[str, Any]) -> dict[str, Any]:
    raise AssertionError(f"nobody is to be asked {name}")


async def away(ends: Sequence[Any]) -> Any:
    raise Unavailable("away")


@pytest.mark.usefixtures("only_heard")
async def test_a_removal_ends_it_everywhere(pair: tuple[Node, Node]) -> None:
    first, second = pair
    await create(first)
    patches, snapshots = KeptOutbox(), KeptOutbox()
    live = await second.contexts.open("c")
    live.audience.join(patches, Viewer(patch=True, private=False, sees=lambda user: True))
    live.audience.join(snapshots, Viewer(patch=False, private=False, sees=lambda user: True))
    await until(lambda: not second.lag)
    await ok(first, push("x" * 40_000))  # a large one's snapshots keep a pace
    for n in range(3):
        await ok(first, push(n))
    await ok(first, Remove(context="c"))
    await until(lambda: "c" not in second.contexts.live)
    assert patches.of("change")[-1]["parts"] == [{"kind": "closed", "reason": "removed"}]
    assert [snapshot.get("closed") for snapshot in snapshots.of("snapshot")][-2:] == [None, "removed"]


async def test_deafness_is_mended_and_what_came_meanwhile_is_there(
    valkey: Connection, valkey_server: str, new_record: Callable[[], Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contexts_module, "COMPARE", NEVER)
    async with node_on(RedisRecord(valkey_server)) as first, node_on(RedisRecord(valkey_server)) as second:
        await create(first)
        outbox = viewer_of(await second.contexts.open("c"))
        for turn in range(10):
            await valkey.run("CLIENT", "KILL", "TYPE", "pubsub")
            for _ in range(3):
                await ok(first, incr())
            await until(lambda turn=turn: positions(outbox) == list(range(2, 3 * turn + 5)))  # type: ignore[misc]
        await until(lambda: not first.deaf and not second.deaf and not second.lag)


async def test_every_node_gets_on_where_all_write_to_one_context(new_record: Callable[[], Record]) -> None:
    """Each writer waits for its answer. When the fastest is done the slowest has had its share."""
    count = 150
    async with node_on(new_record()) as first, node_on(new_record()) as second, node_on(new_record()) as third:
        nodes = (first, second, third)
        await create(first)
        for node in nodes:
            await node.contexts.open("c")
        done = [0, 0, 0]
        share: list[int] = []

        async def write(index: int) -> None:
            for n in range(count):
                answer = await nodes[index].contexts.request(
                    nodes[index].contexts.stamp(incr(key=f"w{index}/{n}"), ANN)
                )
                assert not isinstance(answer, HubError), answer
                done[index] += 1
                await asyncio.sleep(0)
            share.append(min(done))

        await asyncio.wait_for(asyncio.gather(*(write(index) for index in range(3))), 60)
        assert share[0] > count / 5, f"when the fastest had {count} the slowest had {share[0]}"
        await until(lambda: len({at(node) for node in nodes}) == 1)
        states: list[dict[str, Any]] = [node.contexts.live["c"].replica.state.document["state"] for node in nodes]
        assert [state["n"] for state in states] == [3 * count] * 3
