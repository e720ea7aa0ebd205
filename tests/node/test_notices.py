"""Notices: begin, end, order, bounds, a record that goes away, and many nodes."""

from __future__ import annotations

import asyncio
import random
import time
from functools import partial
from itertools import count
from typing import Any

import pytest

from hub.core.errors import InvalidRequest, KeyReused, NotFound, Unavailable
from hub.core.requests import Role
from hub.core.times import iso
from hub.node import tasks
from hub.node.node import Node
from hub.node.notices import MOST_OF_CONTEXTS, Notices
from hub.node.rights import Identity
from hub.record.connection import Connection
from hub.record.memory import MemoryRecord
from hub.record.redis import RedisRecord
from hub.wire.messages import NoticePost
from tests.node.support import KeptOutbox, node_on
from tests.support import until

OPERATOR = Identity("op", Role.OPERATOR)


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def clock() -> Clock:
    return Clock()


@pytest.fixture
async def notices(clock: Clock) -> Any:
    notices = Notices(MemoryRecord(clock=clock), clock)
    await notices.start()
    yield notices
    await notices.close()


async def shown(notices: Notices, identity: Identity = OPERATOR) -> list[str]:
    return [row["id"] for row in (await notices.rows(identity))["rows"]]


async def test_begin_and_end(notices: Notices, clock: Clock) -> None:
    outbox = KeptOutbox()
    notices.topic.join(outbox, OPERATOR)
    begins, ends = iso(clock.now + 0.2), iso(clock.now + 0.4)
    await notices.post(NoticePost(message="later", id="n", starts_at=begins, expires_at=ends), "operator", None)
    assert await shown(notices) == []
    assert outbox.events == []
    clock.now += 0.3
    assert await shown(notices) == ["n"]
    await until(lambda: outbox.events)
    assert outbox.of("row")[0]["row"]["message"] == "later"
    clock.now += 0.2
    assert await shown(notices) == [], "it has expired, whether or not that was swept"
    await until(lambda: len(outbox.events) == 2)
    assert outbox.of("row")[1]["row"] is None
    assert await notices._record.notices() == {}


async def test_an_expiry_while_the_record_is_away(
    notices: Notices, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "RETRY", 0.05)
    record, away, tries = notices._record, True, 0
    original = record.drop_notices

    async def drop(ids: Any) -> None:
        nonlocal tries
        tries += 1
        if away:
            raise Unavailable("away")
        await original(ids)

    monkeypatch.setattr(record, "drop_notices", drop)
    await notices.post(NoticePost(message="m", id="n", expires_at=iso(clock.now + 0.05)), "operator", None)
    clock.now += 1
    await until(lambda: tries > 1)
    assert await shown(notices) == []
    away = False
    await until(lambda: "n" not in notices._notices)


async def test_newest_first_and_again(notices: Notices) -> None:
    for id in ("a", "b", "c", "a"):
        await notices.post(NoticePost(message=id, id=id), "operator", None)
    assert await shown(notices) == ["a", "c", "b"]


async def test_at_most_so_many_of_contexts(notices: Notices) -> None:
    outbox = KeptOutbox()
    notices.topic.join(outbox, OPERATOR)
    await notices.post(NoticePost(message="mine", id="operators"), "operator", None)
    for n in range(MOST_OF_CONTEXTS + 3):
        await notices.post(NoticePost(message="m", id=f"n{n}", context="c"), "context", "ann")
    await until(lambda: len(notices._notices) == MOST_OF_CONTEXTS + 1)
    ids = await shown(notices)
    assert "operators" in ids
    gone = [event["id"] for event in outbox.of("row") if event["row"] is None]
    assert gone == ["n0", "n1", "n2"]


@pytest.mark.parametrize("moment", ["soon", "2026-13-01T00:00:00Z", "5"])
async def test_times_that_are_none(notices: Notices, moment: str) -> None:
    with pytest.raises(InvalidRequest):
        await notices.post(NoticePost(message="m", id="n", expires_at=moment), "operator", None)
    assert await shown(notices) == []


async def test_after_a_restart(clock: Clock) -> None:
    record = MemoryRecord(clock=clock)
    first = Notices(record, clock)
    await first.start()
    await first.post(NoticePost(message="stays", id="stays", key="k"), "operator", None, ["k", "digest"])
    clock.now += 1
    await first.post(NoticePost(message="goes", id="goes", expires_at=iso(clock.now + 5)), "operator", None)
    await first.mark_read(OPERATOR, ["stays"])
    await first.close()
    clock.now += 10
    second = Notices(record, clock)
    await second.start()
    reply = await second.rows(OPERATOR)
    assert [row["id"] for row in reply["rows"]] == reply["read"] == ["stays"]
    again = await second.post(NoticePost(message="stays", id="stays", key="k"), "operator", None, ["k", "digest"])
    assert again["duplicate"]
    await until(lambda: "goes" not in second._notices)
    await second.close()


# many nodes

ANN, BOB = Identity("ann", Role.USER), Identity("bob", Role.USER)
AGENT = Identity("bot", Role.AGENT, ("a*",))


def told_of(outbox: KeptOutbox, *ids: str) -> bool:
    """Whether a reader heard of these notices."""
    return {event["id"] for event in outbox.of("row")} >= set(ids)


class Readers:
    """Who reads notices at each of two nodes, as each of some identities."""

    def __init__(self, pair: tuple[Node, Node], *identities: Identity) -> None:
        self.pair = pair
        self.outboxes = {(n, who.sub): KeptOutbox() for n in range(2) for who in identities}
        for n, node in enumerate(pair):
            for who in identities:
                node.notices.topic.join(self.outboxes[n, who.sub], who)

    async def in_step(self) -> None:
        """Wait until both nodes have what the record has: of changes that come faster than they are read the last is told."""
        there = await self.pair[0].record.notices()
        await until(lambda: all(node.notices._notices == there for node in self.pair))

    async def told(self) -> dict[str, list[tuple[str, Any]]]:
        """What each identity was told: id, and message or None, in order. The same at both nodes."""
        await self.pair[0].notices.post(NoticePost(message="", id="last"), "operator", None)
        for outbox in self.outboxes.values():
            await until(partial(told_of, outbox, "last"))
        found: dict[str, list[tuple[str, Any]]] = {}
        for (_, sub), outbox in self.outboxes.items():
            rows = [event for event in outbox.of("row") if event["id"] != "last"]
            assert len({event["version"] for event in rows}) == len(rows)
            said = [(event["id"], event["row"] and event["row"]["message"]) for event in rows]
            assert found.setdefault(sub, said) == said, "both nodes tell the same"
        return found


async def say(node: Node, message: str, id: str, audience: str | None = None, **more: Any) -> dict[str, Any]:
    return await node.notices.post(NoticePost(message=message, id=id, **more), "operator", audience)


async def test_each_change_reaches_the_readers_of_all_nodes_once(pair: tuple[Node, Node]) -> None:
    first, second = pair
    readers = Readers(pair, OPERATOR, ANN, BOB, AGENT)
    for change in (
        say(first, "to all", "n"),
        say(second, "to ann", "a", "ann"),
        say(second, "of a1", "c", None, context="a1"),
        say(second, "to all again", "n"),
        first.notices.drop("n"),
        second.notices.drop("n"),
        first.notices.drop("nothing"),
    ):
        await change
        await readers.in_step()
    to_all = [("n", "to all"), ("n", "to all again"), ("n", None)]
    assert await readers.told() == {
        "op": [to_all[0], ("a", "to ann"), ("c", "of a1"), *to_all[1:]],
        "ann": [to_all[0], ("a", "to ann"), *to_all[1:]],
        "bob": to_all,
        "bot": [to_all[0], ("c", "of a1"), *to_all[1:]],
    }


async def test_the_answer_has_the_version_that_readers_are_told(pair: tuple[Node, Node]) -> None:
    for node in pair:
        outbox = KeptOutbox()
        node.notices.topic.join(outbox, OPERATOR)
        answer = await say(node, "m", "n")
        assert answer == {"id": "n", "version": outbox.of("row")[-1]["version"]}
        [row] = (await node.notices.rows(OPERATOR))["rows"]
        assert row["version"] == answer["version"]


async def test_who_may_not_see_it_any_more_is_told_that_it_is_gone(pair: tuple[Node, Node]) -> None:
    readers = Readers(pair, OPERATOR, ANN, BOB)
    later = iso(time.time() + 1000)
    for change in (
        say(pair[0], "to all", "n"),
        say(pair[1], "to ann", "n", "ann"),
        say(pair[0], "to bob", "n", "bob"),
        say(pair[1], "to bob, later", "n", "bob", starts_at=later),
    ):
        await change
        await readers.in_step()
    assert await readers.told() == {
        "op": [("n", "to all"), ("n", "to ann"), ("n", "to bob"), ("n", None)],
        "ann": [("n", "to all"), ("n", "to ann"), ("n", None)],
        "bob": [("n", "to all"), ("n", None), ("n", "to bob"), ("n", None)],
    }


async def test_a_retry_at_another_node(pair: tuple[Node, Node]) -> None:
    first, second = pair
    readers = Readers(pair, OPERATOR)
    post = NoticePost(message="once", id="n", key="k")
    await first.notices.post(post, "operator", None, ["k", "digest"])
    again = await second.notices.post(post, "operator", None, ["k", "digest"])
    assert again["duplicate"]
    assert again["id"] == "n"
    with pytest.raises(KeyReused):
        await second.notices.post(post, "operator", None, ["k", "another"])
    assert await readers.told() == {"op": [("n", "once")]}


async def test_asked_of_both_nodes_at_once(pair: tuple[Node, Node]) -> None:
    readers = Readers(pair, OPERATOR)
    post = NoticePost(message="once", id="n", key="k")
    await asyncio.gather(*(node.notices.post(post, "operator", None, ["k", "digest"]) for node in pair))
    assert await readers.told() == {"op": [("n", "once")]}


async def test_any_node_finds_what_another_has_kept(pair: tuple[Node, Node]) -> None:
    first, second = pair
    await say(first, "to ann", "n", "ann")
    assert (await second.notices.see("n", ANN))["message"] == "to ann"
    with pytest.raises(NotFound):
        await second.notices.see("n", BOB)
    await first.notices.drop("n")
    with pytest.raises(NotFound):
        await second.notices.see("n", ANN)


async def test_all_nodes_let_one_expire(pair: tuple[Node, Node]) -> None:
    readers = Readers(pair, OPERATOR)
    await say(pair[0], "short", "n", expires_at=iso(time.time() + 0.1))
    await until(lambda: all("n" not in node.notices._notices for node in pair))
    assert await readers.told() == {"op": [("n", "short"), ("n", None)]}
    assert await pair[0].record.notice("n") is None


async def test_one_that_is_announced_anew_does_not_expire(pair: tuple[Node, Node]) -> None:
    """A node that has not heard of it yet looks before it drops."""
    first, second = pair
    second.hearing.on_notice = lambda id: None
    await say(first, "short", "n", expires_at=iso(time.time() + 1000))
    await second.notices.find("n")
    second.notices._notices["n"]["expires_at"] = iso(time.time() - 1)
    await say(first, "long", "n", expires_at=iso(time.time() + 2000))
    await second.notices._tidying.call()
    assert (await first.record.notice("n") or {})["message"] == "long"
    assert (await second.notices.rows(OPERATOR))["rows"][0]["message"] == "long"


async def test_who_was_not_told_reads_all_and_tells_what_differs(pair: tuple[Node, Node]) -> None:
    first, second = pair
    for id in ("stays", "changes", "goes"):
        await say(first, "old", id)
    outbox = KeptOutbox()
    second.notices.topic.join(outbox, OPERATOR)
    await until(lambda: len(second.notices._notices) == 3)
    outbox.events.clear()
    second.hearing.on_notice = lambda id: None
    await say(first, "new", "changes")
    await first.notices.drop("goes")
    await say(first, "new", "comes")
    await say(first, "new", "passes")
    await first.notices.drop("passes")
    second.hearing.on_notice = second.notices.told
    second.hearing.hearing()
    await until(partial(told_of, outbox, "comes"))
    assert [(event["id"], event["row"] and event["row"]["message"]) for event in outbox.of("row")] == [
        ("goes", None),
        ("changes", "new"),
        ("comes", "new"),
    ]


async def test_a_broken_connection_costs_no_notice(valkey: Connection, valkey_server: str) -> None:
    async with node_on(RedisRecord(valkey_server)) as first, node_on(RedisRecord(valkey_server)) as second:
        readers = Readers((first, second), OPERATOR)
        for n in range(20):
            await say(first, f"m{n}", f"n{n}")
            if n % 5 == 0:
                await valkey.run("CLIENT", "KILL", "TYPE", "pubsub")
        for outbox in readers.outboxes.values():
            await until(partial(told_of, outbox, *(f"n{n}" for n in range(20))))
            assert sorted(event["id"] for event in outbox.of("row")) == sorted(f"n{n}" for n in range(20))


async def test_the_record_fails_to_read_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "RETRY", 0.01)
    record, away = MemoryRecord(), 0
    async with node_on(record) as first, node_on(record) as second:
        original = record.notice

        async def notice(id: str) -> dict[str, Any] | None:
            nonlocal away
            if away:
                away -= 1
                raise Unavailable("away")
            return await original(id)

        monkeypatch.setattr(record, "notice", notice)
        outbox = KeptOutbox()
        second.notices.topic.join(outbox, OPERATOR)
        away = 2
        await say(first, "m", "n")
        await until(partial(told_of, outbox, "n"))
        assert len(outbox.of("row")) == 1


@pytest.mark.parametrize("seed", range(3))
async def test_all_readers_come_to_have_what_the_record_has(valkey: Connection, valkey_server: str, seed: int) -> None:
    """Notices come, change and go at both nodes, while the nodes' connections break."""
    chance, numbers = random.Random(seed), count()
    async with node_on(RedisRecord(valkey_server)) as first, node_on(RedisRecord(valkey_server)) as second:
        readers = Readers((first, second), OPERATOR, ANN, BOB)

        async def play(node: Node, steps: int) -> None:
            for _ in range(steps):
                id = f"n{chance.randrange(6)}"
                if chance.random() < 0.3:
                    await node.notices.drop(id)
                else:
                    await say(node, f"{next(numbers)}", id, chance.choice((None, "ann", "bob")))
                if chance.random() < 0.03:
                    await valkey.run("CLIENT", "KILL", "TYPE", "pubsub")

        await asyncio.gather(*(play(node, 60) for node in (first, second) for _ in range(2)))
        await readers.in_step()
        there = await first.record.notices()
        for (_, sub), outbox in readers.outboxes.items():
            rows: dict[str, Any] = {}
            for event in outbox.of("row"):
                assert event["row"] != rows.get(event["id"]), "told something that it knew"
                rows[event["id"]] = event["row"]
            seen = {id: notice["message"] for id, notice in there.items() if sub in ("op", notice["audience"] or sub)}
            assert {id: row["message"] for id, row in rows.items() if row is not None} == seen
