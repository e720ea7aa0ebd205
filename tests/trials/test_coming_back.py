"""Coming back: with a cursor, to a hub that restarted, to a record that lost everything."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio as redis

from hub.record.embedded import socket_url
from tests.clients import Client, Follower, People, serving
from tests.support import HubProcess

MODES = [(deliver, kind) for deliver in ("patch", "snapshot") for kind in ("websocket", "msgpack", "polling")]
ENTRY: list[dict[str, Any]] = [{"op": "log.add", "type": "info", "content": "x"}, {"op": "state.incr", "path": "/n"}]


async def write(client: Client, count: int) -> dict[str, Any]:
    """So many changes; the state after them, as somebody sees it who begins."""
    for _ in range(count):
        await client.ok("apply", context="c", ops=ENTRY)
    return await client.ok("subscribe", topic="context:c", deliver="patch", tail=1000)


async def heard_all(client: Client) -> None:
    """A round trip: what was sent before is there."""
    await client.ok("unsubscribe", topic="context:none")


async def arrive(follower: Follower, client: Client, truth: dict[str, Any]) -> None:
    """The follower comes to the end, and has the confirmed state."""
    await client.until(lambda: follower.read(client).position == (truth["epoch"], truth["seq"]))
    await heard_all(client)
    follower.read(client)
    follower.checker.compare(truth)


def lose(client: Client) -> None:
    """The connection ends without a word, if there is one that can."""
    if client.kind != "polling":
        client.drop()


# --------------------------------------------------------------------- D4: a drop before anything came


@pytest.mark.parametrize("missed", [0, 1, 7])
@pytest.mark.parametrize(("deliver", "kind"), MODES)
async def test_a_drop_before_any_event(tmp_path: Path, deliver: str, kind: str, missed: int) -> None:
    """Trial D4: the cursor of the subscribe reply is good, again and again; nothing is replayed, nothing lost."""
    async with serving(tmp_path / "hub", record="embedded") as people:
        op = await people.operator()
        await op.ok("context.create", id="c")
        await write(op, 3)
        follower = Follower("c", deliver)
        for n in range(4):
            client = await people.operator(kind)
            reply = await follower.subscribe(client)
            assert reply["recovered"] is (n > 0)
            if n == 0 or not missed:
                await heard_all(client)
                assert not client.of("change", "snapshot", "log")
            lose(client)
            await client.close()
            follower.read(client)
            await write(op, missed)
        client = await people.operator(kind)
        assert (await follower.subscribe(client))["recovered"]
        await arrive(follower, client, await write(op, 2))
        assert follower.checker.restarted == 0


@pytest.mark.parametrize(("deliver", "kind"), MODES)
async def test_a_drop_before_the_reply(people: People, deliver: str, kind: str) -> None:
    """Trial D4, with the reply lost, too: the client knows what it knew before."""
    op = await people.operator()
    await op.ok("context.create", id="c")
    await write(op, 3)
    follower = Follower("c", deliver)
    for n in range(6):
        client = await people.operator(kind)
        if n % 2:
            await follower.subscribe(client)
        else:
            follower.checker.connected()
            await client.send("subscribe", follower.checker.request())
            lose(client)
        await write(op, 2)
        await client.close()
        if n % 2:
            follower.read(client)
    client = await people.operator(kind)
    assert (await follower.subscribe(client))["recovered"]
    await arrive(follower, client, await write(op, 2))


# --------------------------------------------------------------------- D5: an old cursor


async def flush(hub: HubProcess) -> None:
    """The record loses everything."""
    server = redis.Redis.from_url(socket_url(hub.folder))
    await server.flushall()
    await server.aclose()


async def killed(hub: HubProcess) -> None:
    hub.kill()
    hub.restart()


async def stopped(hub: HubProcess) -> None:
    hub.restart()


async def flushed(hub: HubProcess) -> None:
    await flush(hub)


async def flushed_and_killed(hub: HubProcess) -> None:
    await flush(hub)
    await killed(hub)


async def flushed_and_stopped(hub: HubProcess) -> None:
    await flush(hub)
    await stopped(hub)


HAPPENINGS = [killed, stopped, flushed, flushed_and_killed, flushed_and_stopped]


@pytest.mark.parametrize("happen", HAPPENINGS, ids=lambda happen: str(happen.__name__))
async def test_an_old_cursor(tmp_path: Path, happen: Any) -> None:
    """Trial D5: whoever comes back with it is never told to be caught up with what is another history, and never goes back
    within an epoch. The new history gets just as many changes as the old one had, so that only the epoch tells."""
    lost = happen in (flushed_and_killed, flushed_and_stopped)
    with HubProcess(tmp_path) as hub:
        op = await Client(hub.url, hub.token).connect()
        await op.ok("context.create", id="c", name="old")
        before = await write(op, 5)
        followers = [(Follower("c", deliver), kind) for deliver, kind in MODES]
        for follower, kind in followers:
            client = await Client(hub.url, hub.token, kind).connect()
            await follower.subscribe(client)
            lose(client)
            await client.close()
        await happen(hub)
        await op.close()
        op = await Client(hub.url, hub.token).connect()
        there = await op.ask("context.get", context="c")
        if happen is flushed_and_stopped and there["ok"]:
            lost = False  # the hub noticed before it ended, and wrote it again
        if lost:
            assert there["error"]["code"] == "not_found"
            refused = await followers[0][0].try_to_subscribe(op)
            assert refused["error"]["code"] == "not_found"
            await op.ok("context.create", id="c", name="new")
        after = await write(op, 5)
        new_history = happen not in (killed, stopped)
        assert (after["epoch"] != before["epoch"]) is new_history
        assert after["document"]["name"] == ("new" if lost else "old")
        assert after["document"]["state"]["n"] == (5 if lost else 10)
        if lost:
            assert after["seq"] == before["seq"]
        for follower, kind in followers:
            client = await Client(hub.url, hub.token, kind).connect()
            reply = await follower.subscribe(client)
            assert reply["recovered"] is not new_history
            assert reply.get("reason") == ("epoch_changed" if new_history else None)
            await arrive(follower, client, after)
            await client.close()
        await op.close()


@pytest.mark.parametrize(("deliver", "kind"), MODES)
async def test_a_flush_under_live_viewers(tmp_path: Path, deliver: str, kind: str) -> None:
    """Trial D5, without a reconnect: with the next change they are told that it is another history now."""
    with HubProcess(tmp_path) as hub:
        op = await Client(hub.url, hub.token).connect()
        await op.ok("context.create", id="c")
        await write(op, 5)
        client, follower = await Client(hub.url, hub.token, kind).connect(), Follower("c", deliver)
        epoch = (await follower.subscribe(client))["epoch"]
        for n in range(1, 4):
            await flush(hub)
            if n == 2:  # who comes between the flush and its discovery is told with everybody else
                lose(client)
                await client.close()
                follower.read(client)
                client = await Client(hub.url, hub.token, kind).connect()
                await follower.subscribe(client)
            truth = await write(op, 2)
            await arrive(follower, client, truth)
            assert follower.checker.restarted == n
            assert truth["epoch"] != epoch
            epoch = truth["epoch"]
            assert truth["document"]["state"]["n"] == 5 + 2 * n, "what the hub had in memory is in the record again"
        await client.close()
        await op.close()


async def test_cursors_that_never_were(tmp_path: Path) -> None:
    """Trial D5: positions of other contexts, of the future, and nonsense; whoever has them is given everything, with the
    reason."""
    async with serving(tmp_path / "hub", record="embedded") as people:
        op = await people.operator()
        for id in ("c", "d"):
            await op.ok("context.create", id=id)
        truth = await write(op, 5)
        other = (await op.ok("context.get", context="d"))["epoch"]
        cursors = [(other, 1), (truth["epoch"], 99), (truth["epoch"], 2**53 - 1), ("", 0), ("\0", 3), ("x" * 10_000, 3)]
        ahead = {"epoch": truth["epoch"], "seq": 50}
        reply = await op.ok("subscribe", topic="context:c", from_=ahead)
        assert (reply["recovered"], reply["reason"]) == (False, "epoch_changed"), "perhaps a backup was restored"
        assert (reply["seq"], reply["document"]) == (truth["seq"], truth["document"])
        truth = await op.ok("context.get", context="c")
        cursors += [(truth["epoch"], 99), (truth["epoch"], 2**53 - 1)]
        for deliver in ("patch", "snapshot"):
            for epoch, seq in cursors:
                from_ = {"epoch": epoch, "seq": seq}
                reply = await op.ok("subscribe", topic="context:c", deliver=deliver, from_=from_)
                assert reply["recovered"] is False
                assert reply["reason"] == ("position_ahead" if epoch == truth["epoch"] else "epoch_changed")
                assert (reply["epoch"], reply["seq"], reply["document"]) == (
                    truth["epoch"], truth["seq"], truth["document"]
                )  # fmt: skip
            reply = await op.ok(
                "subscribe", topic="context:c", deliver=deliver, from_={"epoch": truth["epoch"], "seq": 0}
            )
            assert reply["recovered"], "from before the first change everything follows"
        await asyncio.gather(
            *(
                op.refused("subscribe", "invalid_request", topic="context:c", from_=from_)
                for from_ in ({"epoch": "e", "seq": -1}, {"epoch": "e", "seq": 1.5}, {"epoch": 1, "seq": 1}, {"seq": 1})
            )
        )
