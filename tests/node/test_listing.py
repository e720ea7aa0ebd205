"""The contexts list of many nodes: each row once to who may see it, at whichever node; pages; a node that was deaf."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import Any

import pytest

from hub.core.enums import ContextType
from hub.core.position import Position
from hub.core.requests import Create, Remove, Role, Update
from hub.fanout.room import Viewer
from hub.node import listing as module
from hub.node.listing import Listing
from hub.node.node import Node
from hub.node.rights import Identity
from hub.record.connection import Connection
from hub.record.memory import MemoryRecord
from hub.record.port import RowTold
from hub.record.redis import RedisRecord
from tests.node.support import KeptOutbox, ask, create, incr, node_on, ok
from tests.support import until

OPERATOR = Identity("op", Role.OPERATOR)
ANN, BOB = Identity("ann", Role.USER), Identity("bob", Role.USER)
AGENT = Identity("bot", Role.AGENT, ("a*",))

Nodes = tuple[Node, Node]


class Readers:
    """Who reads the list at each of two nodes, as each of some identities."""

    def __init__(self, pair: Nodes, *identities: Identity) -> None:
        self.pair = pair
        self.outboxes = {(n, who.sub): KeptOutbox() for n in range(2) for who in identities}
        for n, node in enumerate(pair):
            for who in identities:
                node.listing.topic.join(self.outboxes[n, who.sub], who)

    async def told(self) -> dict[str, list[tuple[str, Any]]]:
        """What each identity was told: id, and name or None, in order, without news of the last context. The same at both
        nodes."""
        await create(self.pair[0], "zz-last", user_id="ann")
        await ok(self.pair[0], Update(context="zz-last", user_id="bob"))
        for (n, sub), outbox in self.outboxes.items():
            if sub != AGENT.sub:
                await until(partial(self._last, outbox), f"the last row for {sub} at {n}")
        found: dict[str, list[tuple[str, Any]]] = {}
        for (n, sub), outbox in self.outboxes.items():
            rows = [event for event in outbox.of("row") if event["id"] != "zz-last"]
            seqs = [(event["id"], Position.parse(event["version"])) for event in rows]
            assert len(set(seqs)) == len(seqs), f"{sub} was told something twice at {n}: {rows}"
            said = [(event["id"], event["row"] and event["row"]["name"]) for event in rows]
            assert found.setdefault(sub, said) == said, "both nodes tell the same"
        return found

    def _last(self, outbox: KeptOutbox) -> bool:
        """Whether this reader has all: its last news is that the last context came to it, or went from it."""
        rows = [event["row"] for event in outbox.of("row") if event["id"] == "zz-last"]
        return bool(rows) and (rows[-1] is None or rows[-1]["user_id"] == "bob")


async def test_a_row_reaches_the_readers_of_all_nodes_once(pair: Nodes) -> None:
    first, second = pair
    readers = Readers(pair, OPERATOR, ANN, BOB, AGENT)
    await create(first, "anns", name="by first", user_id="ann")
    await create(second, "bobs", name="by second", user_id="bob")
    await ok(second, Update(context="anns", name="renamed by second"))
    await ok(first, incr("anns"))  # no row shows it
    await ok(first, Update(context="anns", name="renamed by first"))
    await create(first, "apart", name="hidden", type=ContextType.BACKGROUND, user_id="ann")
    await ok(second, Remove(context="anns"))
    anns = [("anns", "by first"), ("anns", "renamed by second"), ("anns", "renamed by first"), ("anns", None)]
    told = await readers.told()
    assert told == {
        "op": [anns[0], ("bobs", "by second"), *anns[1:]],
        "ann": anns,
        "bob": [("bobs", "by second")],
        "bot": anns,
    }


async def test_a_context_that_moves_is_gone_for_who_sees_it_no_more(pair: Nodes) -> None:
    first, second = pair
    readers = Readers(pair, OPERATOR, ANN, BOB, AGENT)
    await create(first, "anns", name="n", user_id="ann")
    live, viewer = await second.contexts.open("anns"), KeptOutbox()
    live.audience.join(viewer, Viewer(patch=True, private=False, sees=lambda user: user == "ann"))
    await ok(first, Update(context="anns", user_id="bob"))
    row, gone = ("anns", "n"), ("anns", None)
    assert await readers.told() == {"op": [row, row], "ann": [row, gone], "bob": [row], "bot": [row, row]}
    await until(lambda: not live.audience.room.members)
    assert viewer.of("change")[-1]["parts"] == [{"kind": "closed", "reason": "forbidden"}]


async def test_pages_are_the_same_at_all_nodes(pair: Nodes) -> None:
    for n in range(7):
        await create(pair[n % 2], f"c{n}", user_id="ann" if n < 6 else "bob")
    await create(pair[0], "hidden", type=ContextType.BACKGROUND, user_id="ann")
    await ok(pair[0], Update(context="c3", name="new"))
    await ok(pair[1], Remove(context="c1"))
    for start in range(2):
        found, before = [], None
        for turn in range(3):
            page = await pair[(start + turn) % 2].listing.page(ANN, before, 2, types=lambda type: type != "background")
            found += [(row["id"], row["name"]) for row in page["rows"]]
            before = page.get("next")
            if before is None:
                break
        assert found == [("c5", ""), ("c4", ""), ("c3", "new"), ("c2", ""), ("c0", "")]
        assert before is None


async def test_who_was_not_told_of_rows_reads_them_again(valkey: Connection, valkey_server: str) -> None:
    async with node_on(RedisRecord(valkey_server)) as node:
        readers = [KeptOutbox(), KeptOutbox()]
        node.listing.topic.join(readers[0], OPERATOR)
        node.listing.topic.join(readers[1], ANN)
        await create(node, "c", user_id="ann")
        await until(lambda: all(reader.of("row") for reader in readers))
        assert not any(reader.of("hub.lagged") for reader in readers)
        assert await valkey.run("CLIENT", "KILL", "TYPE", "pubsub") == 1
        await until(lambda: all(reader.of("hub.lagged") == [{"topic": "contexts"}] for reader in readers))
        await ok(node, Update(context="c", name="heard again"))
        await until(lambda: all(reader.of("row")[-1]["row"]["name"] == "heard again" for reader in readers))


def told(seq: int, id: str = "c", epoch: str = "e", name: str = "n") -> RowTold:
    return RowTold(id, Position(epoch, seq), {"id": id, "name": name}, "user", "ann", "ann")


async def test_no_older_row_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SENT", 10)
    listing, reader = Listing(MemoryRecord()), KeptOutbox()
    listing.topic.join(reader, ANN)
    for row in (told(2), told(2), told(1), told(3), told(1, epoch="f"), told(1, epoch="f")):
        listing.told(row)
    assert [event["version"] for event in reader.of("row")] == ["e:2", "e:3", "f:1"]
    for n in range(50):
        listing.told(told(1, id=f"c{n}"))
    assert len(listing._sent) == 10


async def test_lagging_readers_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    listing, slow = Listing(MemoryRecord()), KeptOutbox()
    listing.topic.join(slow, ANN)
    slow.behind = True
    listing.told(told(1))
    listing.missed()
    assert slow.events == []
    slow.catch_up()
    assert slow.events == [("hub.lagged", {"topic": "contexts"})]


class Reader(KeptOutbox):
    """Keeps the list as a client does: a row that is newer counts; after ``hub.lagged`` the list is read again."""

    def __init__(self, node: Node, identity: Identity) -> None:
        super().__init__()
        self.rows: dict[str, dict[str, Any]] = {}
        self._node, self._identity = node, identity
        self._taken = 0
        node.listing.topic.join(self, identity)

    async def read(self) -> dict[str, str]:
        """Take what came. Returns the names by id."""
        while self._taken < len(self.events):
            name, event = self.events[self._taken]
            self._taken += 1
            if name == "hub.lagged":
                self._taken = len(self.events)
                self.rows = await self.page()
            elif event["row"] is None:
                self.rows.pop(event["id"], None)
            else:
                self.rows[event["id"]] = event["row"]
        return {id: row["name"] for id, row in self.rows.items()}

    async def page(self) -> dict[str, dict[str, Any]]:
        page = await self._node.listing.page(self._identity, None, 500, types=lambda type: type != "background")
        return {row["id"]: row for row in page["rows"]}

    async def is_right(self) -> bool:
        """Whether it has what the record has."""
        there = await self.page()
        return await self.read() == {id: row["name"] for id, row in there.items()}


@pytest.mark.parametrize("seed", range(3))
async def test_all_readers_come_to_have_what_the_record_has(valkey: Connection, valkey_server: str, seed: int) -> None:
    """Contexts come, change, move and go at both nodes, while the nodes' connections break."""
    chance = random.Random(seed)
    async with node_on(RedisRecord(valkey_server)) as first, node_on(RedisRecord(valkey_server)) as second:
        readers = [Reader(node, who) for node in (first, second) for who in (OPERATOR, ANN, BOB, AGENT)]

        async def play(node: Node, steps: int) -> None:
            for n in range(steps):
                id = f"{chance.choice('ab')}{chance.randrange(8)}"
                user = chance.choice(("ann", "bob"))
                await ask(
                    node,
                    chance.choice(
                        (
                            Create(context=id, name=f"made {n}", user_id=user),
                            Update(context=id, name=f"named {n}"),
                            Update(context=id, user_id=user),
                            Remove(context=id),
                        )
                    ),
                )
                if chance.random() < 0.03:
                    await valkey.run("CLIENT", "KILL", "TYPE", "pubsub")

        await asyncio.gather(*(play(node, 60) for node in (first, second) for _ in range(2)))
        for reader in readers:
            await until(reader.is_right)
