"""Coming back: what was missed follows in order, or a snapshot says why not; never a gap, a repetition or a step back."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from tests.clients import Client, Follower, People, serving
from tests.support import HubProcess


def incr(path: str = "/n") -> list[dict[str, Any]]:
    return [{"op": "state.incr", "path": path}]


async def write(client: Client, count: int, ops: list[dict[str, Any]] | None = None) -> int:
    """So many changes; the seq of the last one."""
    replies = await asyncio.gather(*(client.ok("apply", context="c", ops=ops or incr()) for _ in range(count)))
    return int(max(reply["seq"] for reply in replies))


@pytest.mark.parametrize("deliver", ["patch", "snapshot"])
async def test_from_the_ring(everywhere: People, deliver: str) -> None:
    op = await everywhere.operator()
    await op.ok("context.create", id="c")
    epoch = (await op.ok("apply", context="c", ops=[{"op": "log.add", "type": "info", "id": "e"}]))["epoch"]
    await write(op, 20)
    end = await write(op, 5, [{"op": "log.append", "id": "e", "text": "x"}])
    client = await everywhere.operator()
    at = {"epoch": epoch, "seq": 10}
    reply = await client.ok("subscribe", topic="context:c", deliver=deliver, from_=at)
    assert reply == {"ok": True, "epoch": epoch, "seq": 10, "recovered": True}
    if deliver == "patch":
        await client.until(lambda: len(client.of("change")) == end - 10)
        assert [event["seq"] for event in client.of("change")] == list(range(11, end + 1))
    else:
        snapshot = await client.next("snapshot")
        assert snapshot["seq"] == end
        assert snapshot["document"]["state"]["n"] == 20
        assert [event["seq"] for event in client.of("log")] == list(range(end - 4, end + 1))
    await write(op, 1)
    await client.next("change" if deliver == "patch" else "snapshot", lambda event: event["seq"] == end + 1)


@pytest.mark.parametrize("deliver", ["patch", "snapshot"])
async def test_at_the_end_nothing_is_sent_again(everywhere: People, deliver: str) -> None:
    op = await everywhere.operator()
    await op.ok("context.create", id="c")
    end = await write(op, 3)
    epoch = (await op.ok("context.get", context="c"))["epoch"]
    client = await everywhere.operator()
    for _ in range(2):
        at = {"epoch": epoch, "seq": end}
        reply = await client.ok("subscribe", topic="context:c", deliver=deliver, from_=at)
        assert reply == {"ok": True, "epoch": epoch, "seq": end, "recovered": True}
    assert not client.of("change", "snapshot", "log")


@pytest.mark.parametrize(
    ("move", "reason"),
    [(lambda at: ("other", at[1]), "epoch_changed"), (lambda at: (at[0], at[1] + 1), "epoch_changed")],
)
async def test_from_a_position_that_never_was(everywhere: People, move: Any, reason: str) -> None:
    op = await everywhere.operator()
    await op.ok("context.create", id="c")
    got = await op.ok("apply", context="c", ops=[{"op": "log.add", "type": "info", "content": "the tail"}])
    epoch, seq = move((got["epoch"], got["seq"]))
    reply = await op.ok("subscribe", topic="context:c", from_={"epoch": epoch, "seq": seq})
    assert (reply["recovered"], reply["reason"]) == (False, reason)
    assert reply["seq"] == got["seq"]
    assert (reply["epoch"] == got["epoch"]) is (epoch == "other"), "who is past the end may come from a lost history"
    assert [entry["content"] for entry in reply["entries"]] == ["the tail"]
    assert reply["document"]["log"] == {"id": reply["log_id"], "length": 1}


async def test_older_than_the_ring_from_the_record(tmp_path: Path) -> None:
    """Beyond 512 changes the record's stream has them; the reader sees no difference."""
    async with serving(tmp_path / "hub", record="embedded") as people:
        op = await people.operator("msgpack")
        await op.ok("context.create", id="c")
        reader, follower = await people.operator(), Follower("c")
        await follower.subscribe(reader)
        await reader.close()
        end = await write(op, 700)
        reader = await people.operator()
        assert (await follower.subscribe(reader))["recovered"]
        await reader.until(lambda: follower.read(reader).position.seq == end)
        assert len(reader.of("change")) == 700
        assert follower.state.document["state"] == {"n": 700}
        assert (await op.ok("context.get", context="c"))["document"] == follower.state.document


async def test_much_older_gets_a_snapshot_with_the_tail(people: People, op: Client) -> None:
    await op.ok("context.create", id="c")
    epoch = (await op.ok("context.get", context="c"))["epoch"]
    for _ in range(5):
        await write(op, 500, [{"op": "log.add", "type": "info"}])
    log = (await op.ok("context.get", context="c"))["document"]["log"]["id"]
    for deliver in ("patch", "snapshot"):
        at = {"epoch": epoch, "seq": 1}
        reply = await op.ok("subscribe", topic="context:c", deliver=deliver, from_=at)
        assert (reply["recovered"], reply["reason"]) == (False, "too_far_behind")
        assert reply["seq"] == 2501
        assert [entry["no"] for entry in reply["entries"]] == list(range(2450, 2500))
    page = await op.ok("log.page", context="c", log=log, before=2450, limit=10)
    assert [entry["no"] for entry in page["entries"]] == list(range(2449, 2439, -1))
    assert (await op.ok("log.page", context="c", log=log, before=0))["entries"] == []
    assert (await op.ok("log.page", context="c", log=log, before=-5))["entries"] == []


async def test_the_tail_is_whole_and_bounded(people: People, op: Client) -> None:
    await op.ok("context.create", id="c")
    for _ in range(5):
        await write(op, 1, [{"op": "log.add", "type": "info", "content": "x" * 100_000}])
    reply = await op.ok("subscribe", topic="context:c")
    assert [entry["no"] for entry in reply["entries"]] == [3, 4]
    assert all(len(entry["content"]) == 100_000 for entry in reply["entries"])
    assert (await op.ok("subscribe", topic="context:c", tail=0))["entries"] == []
    await write(op, 1, [{"op": "log.add", "type": "info", "content": "ü" * 150_000}])
    assert [entry["no"] for entry in (await op.ok("subscribe", topic="context:c"))["entries"]] == [5]


@pytest.mark.parametrize("kill", [False, True])
async def test_after_the_hub_came_back(tmp_path: Path, kill: bool) -> None:
    """From the stream: a restart loses nobody's position."""
    with HubProcess(tmp_path) as hub:
        op = await Client(hub.url, hub.token).connect()
        await op.ok("context.create", id="c")
        await write(op, 5)
        reader, follower = await Client(hub.url, hub.token).connect(), Follower("c")
        await follower.subscribe(reader)
        await reader.close()
        end = await write(op, 40)
        if kill:
            hub.kill()
        hub.restart()
        await op.close()
        reader = await Client(hub.url, hub.token).connect()
        assert (await follower.subscribe(reader))["recovered"]
        await reader.until(lambda: follower.read(reader).position.seq == end)
        assert follower.state.document["state"] == {"n": 45}
        simple = await Client(hub.url, hub.token).connect()
        at = {"epoch": follower.state.position.epoch, "seq": end - 3}
        reply = await simple.ok("subscribe", topic="context:c", from_=at)
        assert reply["recovered"] or reply["reason"] == "too_far_behind"
        await reader.close()
        await simple.close()


async def test_a_memory_record_that_is_gone_says_so(tmp_path: Path) -> None:
    async with serving(tmp_path / "hub") as people:
        op = await people.operator()
        await op.ok("context.create", id="c")
        at = {"epoch": (await op.ok("context.get", context="c"))["epoch"], "seq": 1}
    async with serving(tmp_path / "hub") as people:
        op = await people.operator()
        await op.refused("subscribe", "not_found", topic="context:c", from_=at)
        await op.ok("context.create", id="c")
        reply = await op.ok("subscribe", topic="context:c", from_=at)
        assert (reply["recovered"], reply["reason"]) == (False, "epoch_changed")


@pytest.mark.parametrize("record", ["memory", "embedded"])
async def test_a_hundred_random_disconnects(tmp_path: Path, record: str) -> None:
    """Readers are cut at any moment, also right after subscribing, while others write; each adds up to the same."""
    chance = random.Random(20)
    kinds = ("websocket", "msgpack")
    async with serving(tmp_path / "hub", record=record) as people:
        op = await people.operator("msgpack")
        await op.ok("context.create", id="c")
        await op.ok("apply", context="c", ops=[{"op": "log.add", "type": "info", "id": "e"}])
        stop = asyncio.Event()

        async def scribble(n: int) -> None:
            writer, own = await people.operator(kinds[n % 2]), random.Random(n)
            while not stop.is_set():
                ops: list[dict[str, Any]] = own.choice(
                    [
                        incr(f"/w{n}"),
                        [{"op": "log.append", "id": "e", "text": own.choice("aé😀")}],
                        [{"op": "log.add", "type": "info", "content": "x" * own.randrange(500)}, *incr()],
                        [{"op": "data.set", "key": f"k{n}", "value": own.random()}],
                        [{"op": "state.append", "path": f"/list{n}", "value": own.randrange(9)}],
                    ]
                )
                await asyncio.gather(*(writer.ok("apply", context="c", ops=ops) for _ in range(own.randrange(1, 4))))
                await asyncio.sleep(0.005)  # not as fast as it goes: the readers share this processor

        writers = [asyncio.create_task(scribble(n)) for n in range(3)]
        followers = [Follower("c") for _ in range(4)]
        try:
            for _ in range(100):
                follower = chance.choice(followers)
                client = await people.operator(chance.choice(kinds))
                await follower.subscribe(client, resume=chance.random() < 0.95)
                seen = chance.choice((0, 0, 1, 3, 10, 40))
                await client.until(lambda: len(client.of("change")) >= seen)  # noqa: B023 - waited for right here
                follower.read(client)
                if chance.random() < 0.5:
                    client.drop()
                await client.close()
        finally:
            stop.set()
            await asyncio.gather(*writers)
        end = await op.ok("context.get", context="c")
        assert sum(follower.recovered for follower in followers) > 80
        for follower in followers:
            client = await people.operator()
            await follower.subscribe(client)
            await client.until(lambda: follower.read(client).position.seq == end["seq"])  # noqa: B023
            assert follower.state.document == end["document"]
            assert follower.state.data == end["data"]
            kept = {entry["id"]: entry for entry in follower.state.log.to_json()["entries"]}
            reply = await op.ok("subscribe", topic="context:c", tail=1000)
            assert kept["e"] == reply["entries"][0]
