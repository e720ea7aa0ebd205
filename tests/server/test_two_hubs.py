"""Two hubs on one record: everybody, at either, is told of rows, notices and broadcasts once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest

from hub.core.requests import Role
from hub.server.auth import Tokens
from tests.clients import Client, health
from tests.support import until
from tests.trials.nodes import SECRET, Nodes


@pytest.fixture(scope="module")
def hubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with Nodes(tmp_path_factory.mktemp("hubs"), 2) as nodes:
        yield nodes


class People:
    """Clients of either hub; everybody reads the contexts list and the notices."""

    def __init__(self, hubs: Nodes, stack: AsyncExitStack) -> None:
        self.hubs = hubs
        self._stack = stack

    async def join(self, hub: int, sub: str, role: Role, *ctx: str, kind: str = "websocket") -> Client:
        token = Tokens(SECRET).make(sub, role, ctx=ctx)
        client = Client(self.hubs.all[hub].url, token, kind)
        self._stack.push_async_callback(client.close)
        await client.connect()
        for topic in ("contexts", "notices"):
            await client.ok("subscribe", topic=topic)
        return client

    async def both(self, sub: str, role: Role, *ctx: str) -> list[Client]:
        """Two clients of the same, one at each hub."""
        return [await self.join(n, sub, role, *ctx, kind=("websocket", "msgpack")[n]) for n in range(2)]


@pytest.fixture
async def people(hubs: Nodes) -> AsyncIterator[People]:
    async with AsyncExitStack() as stack:
        yield People(hubs, stack)


def rows_of(client: Client, topic: str, id: str, field: str) -> list[Any]:
    """What a client was told of one row, in order: a field of it, or None when it is gone."""
    rows = [event for event in client.of("row") if (event["topic"], event["id"]) == (topic, id)]
    assert len({event["version"] for event in rows}) == len(rows), f"told twice: {rows}"
    return [event["row"] and event["row"][field] for event in rows]


async def told(client: Client, topic: str, id: str, field: str, *expected: Any) -> None:
    """Wait until a client was told this of a row; it must have been told nothing else."""
    await client.until(lambda: len(rows_of(client, topic, id, field)) >= len(expected))
    assert rows_of(client, topic, id, field) == list(expected)


async def test_rows(people: People) -> None:
    ops, anns = await people.both("op", Role.OPERATOR), await people.both("ann", Role.USER)
    bots = await people.both("bot", Role.AGENT, "r*")
    await ops[0].ok("context.create", id="r1", name="made", user_id="ann")
    for client in (*ops, *anns, *bots):
        await told(client, "contexts", "r1", "name", "made")
    await anns[1].ok("context.update", context="r1", name="renamed")
    for client in (*ops, *anns, *bots):
        await told(client, "contexts", "r1", "name", "made", "renamed")
    await anns[1].ok("subscribe", topic="context:r1")
    await ops[0].ok("context.update", context="r1", user_id="bob")
    await anns[1].next("snapshot", lambda snapshot: snapshot.get("closed") == "forbidden")
    for client in (*ops, *bots):
        await told(client, "contexts", "r1", "user_id", "ann", "ann", "bob")
    for client in anns:
        await told(client, "contexts", "r1", "name", "made", "renamed", None)
    pages = [(await client.ok("contexts.page"))["rows"] for client in ops]
    assert pages[0] == pages[1]
    assert [row["user_id"] for row in pages[0]] == ["bob"]
    await bots[1].ok("context.remove", context="r1")
    for client in (*ops, *bots):
        await told(client, "contexts", "r1", "user_id", "ann", "ann", "bob", None)
    assert all(len(rows_of(client, "contexts", "r1", "name")) == 3 for client in anns)


async def test_notices(people: People) -> None:
    ops, anns = await people.both("op", Role.OPERATOR), await people.both("ann", Role.USER)
    bobs = await people.both("bob", Role.USER)
    first = await ops[0].ok("notice.post", message="for ann", id="n1", audience="ann", key="k1")
    again = await ops[1].ok("notice.post", message="for ann", id="n1", audience="ann", key="k1")
    assert (again["id"], again["duplicate"]) == (first["id"], True)
    await ops[1].refused("notice.post", "key_reused", message="other", id="n1", audience="ann", key="k1")
    for client in (*ops, *anns):
        await told(client, "notices", "n1", "message", "for ann")
    await anns[0].ok("notice.read", ids=["n1"])
    assert (await anns[1].ok("subscribe", topic="notices"))["read"] == ["n1"]
    await ops[1].ok("notice.clear", id="n1")
    for client in (*ops, *anns):
        await told(client, "notices", "n1", "message", "for ann", None)
    for n in range(20):  # asked of the other hub the moment it is kept
        await ops[n % 2].ok("notice.post", message="short", id=f"s{n}")
        await ops[1 - n % 2].ok("notice.clear", id=f"s{n}")
    await ops[0].ok("notice.post", message="to all", id="last")
    for client in bobs:
        await told(client, "notices", "last", "message", "to all")
        assert not rows_of(client, "notices", "n1", "message")
    await ops[0].ok("notice.clear", id="last")


async def test_broadcasts(people: People) -> None:
    ops = await people.both("op", Role.OPERATOR)
    bot = await people.join(1, "bot", Role.AGENT, "b*")
    for n in range(6):
        await ops[n % 2].ok("context.create", id=f"{'bc'[n // 3]}{n}")
    for op in ops:
        await op.ok("subscribe", topic="context:b0", deliver="patch")
    before = len(ops[0].of("change"))
    for asked in (ops[0], ops[1], ops[0]):
        assert (await asked.ok("broadcast", type="info", content="to all", key="all"))["contexts"] == 6
    assert (await bot.ok("broadcast", type="info", content="to b", key="mine"))["contexts"] == 3
    await ops[1].refused("broadcast", "key_reused", type="info", content="other", key="all")
    for op in ops:
        await until(partial(_has, op, before + 2))
        assert [change["parts"][0]["entry"]["content"] for change in op.of("change")[before:]] == ["to all", "to b"]
    lengths = [
        (await ops[n % 2].ok("context.get", context=f"{'bc'[n // 3]}{n}"))["document"]["log"]["length"]
        for n in range(6)
    ]
    assert lengths == [2, 2, 2, 1, 1, 1]


async def test_a_hub_that_was_cut_off_tells_its_readers(people: People) -> None:
    ops = await people.both("op", Role.OPERATOR)
    await ops[0].ok("context.create", id="away", name="before")
    await ops[1].ok("subscribe", topic="context:away", deliver="patch")
    await ops[0].ok("notice.post", message="before", id="stays")
    await told(ops[1], "contexts", "away", "name", "before")
    await told(ops[1], "notices", "stays", "message", "before")
    with people.hubs.networks[1].silent():
        await ops[0].ok("context.update", context="away", name="meanwhile")
        await ops[0].ok("notice.post", message="meanwhile", id="new")
        assert (await ops[0].ok("broadcast", type="info", content="meanwhile", key="away"))["contexts"] >= 1
    await ops[1].next("hub.lagged", lambda lagged: lagged["topic"] == "contexts")
    await told(ops[1], "notices", "new", "message", "meanwhile")
    assert rows_of(ops[1], "notices", "stays", "message") == ["before"], "what did not change is not told again"
    rows = (await ops[1].ok("subscribe", topic="contexts"))["rows"]
    assert [row["name"] for row in rows if row["id"] == "away"] == ["meanwhile"]
    await ops[0].ok("context.update", context="away", name="after")
    await ops[1].next("row", lambda event: event["row"] and event["row"].get("name") == "after")
    await until(partial(_length_is, ops[1], 1))


async def _length_is(client: Client, length: int) -> bool:
    document = (await client.ok("context.get", context="away"))["document"]
    return bool(document["log"]["length"] == length)


def _has(client: Client, changes: int) -> bool:
    return len(client.of("change")) >= changes


async def test_agents_are_those_of_all_nodes(people: People) -> None:
    """Hello and health name them wherever they are served."""
    worker = await people.join(1, "op", Role.OPERATOR)
    await worker.ok("agent.serve", agent="far", capacity=1)

    async def known(there: bool) -> bool:
        return [("far" in (await health(node.url))[1]["agents"]) for node in people.hubs.all] == [there, there]

    await until(lambda: known(True), "both to know")
    beside = await people.join(0, "op", Role.OPERATOR)
    assert "far" in (await beside.next("hello"))["agents"]
    await worker.close()
    await until(lambda: known(False), "both to know that it went")
