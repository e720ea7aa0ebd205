"""Clients that do not read: what waits for them is bounded, they are ended, and nobody else notices."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from hub.core.requests import Role
from hub.node.settings import Settings
from hub.server import bounds
from tests.clients import Client, Follower, People, serving
from tests.raw import enter
from tests.support import SECONDS, until

BOUND = 256 * 1024


@pytest.fixture
async def people(tmp_path: Path) -> AsyncIterator[People]:
    async with serving(tmp_path / "hub", settings=Settings(outbox_bytes=BOUND)) as people:
        yield people


class Deaf:
    """A connection that sends what it is told to, and reads nothing after its greeting."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, people: People, token: str) -> Deaf:
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.setblocking(False)
        await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", people.server.port))
        reader, writer = await asyncio.open_connection(sock=raw, limit=4096)
        deaf = cls(reader, writer)
        writer.write(
            b"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\n"
            b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        await reader.readuntil(b"\r\n\r\n")
        deaf.send(enter(token))
        return deaf

    def send(self, text: str) -> None:
        """A frame of text, masked with zeros as the protocol asks of a client."""
        data = text.encode()
        size = bytes([0x80 | len(data)]) if len(data) < 126 else bytes([0x80 | 126]) + len(data).to_bytes(2, "big")
        self.writer.write(b"\x81" + size + bytes(4) + data)

    def event(self, id: int, name: str, payload: dict[str, Any]) -> None:
        self.send(f"42{id}{json.dumps([name, payload])}")

    async def read(self) -> str:
        """The next frame of text, now that it reads after all. Pings are answered and left out."""
        async with asyncio.timeout(SECONDS):
            while True:
                size = (await self.reader.readexactly(2))[1]
                if size > 125:
                    size = int.from_bytes(await self.reader.readexactly(2 if size == 126 else 8))
                text = (await self.reader.readexactly(size)).decode()
                if text != "2":
                    return text
                self.send("3")

    def close(self) -> None:
        self.writer.transport.abort()


def waiting(people: People) -> int:
    """The most bytes that wait for any connection."""
    outboxes: list[Any] = [o for server in people.server.sockets.servers.values() for o in server.outboxes.values()]
    return max((o.waiting for o in outboxes), default=0)


async def test_a_viewer_that_never_reads(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SLOW_SECONDS", 1.0)
    op = await people.operator("msgpack")
    await op.ok("context.create", id="c")
    healthy, follower = await people.operator(), Follower("c")
    await follower.subscribe(healthy)
    deaf = await Deaf.connect(people, people.server.token)
    deaf.event(1, "subscribe", {"topic": "context:c"})
    await until(lambda: len(people.server.node.contexts.live["c"].audience.room.members) == 2)
    most, slowest = 0, 0.0
    for _ in range(300):
        began = time.monotonic()
        ops = [{"op": "state.merge", "value": {"pad": "x" * 20_000}}, {"op": "log.add", "type": "info"}]
        await op.ok("apply", context="c", ops=ops)
        slowest = max(slowest, time.monotonic() - began)
        most = max(most, waiting(people))
        if people.server.sockets.count == 2:
            break
    assert most <= bounds.HARD * BOUND + 100_000
    assert slowest < 1.0
    await until(lambda: people.server.sockets.count == 2, "the end of the one that never reads")
    assert len(people.server.node.contexts.live["c"].audience.room.members) == 1
    got = await op.ok("context.get", context="c")
    await healthy.until(lambda: follower.read(healthy).position.seq == got["seq"])
    assert follower.state.document == got["document"]
    deaf.close()


@pytest.mark.parametrize("deliver", ["patch", "snapshot"])
async def test_one_that_reads_again_in_time_gets_it_whole(people: People, deliver: str) -> None:
    """What was left out is one snapshot that says so; then changes again, without a gap."""
    op = await people.operator("msgpack")
    await op.ok("context.create", id="c")
    slow = await Deaf.connect(people, people.server.token)
    slow.event(1, "subscribe", {"topic": "context:c", "deliver": deliver})
    audience: Any = (await people.server.node.contexts.open("c")).audience
    await until(lambda: audience.room.members)
    content = "x" * 20_000
    async with asyncio.timeout(20):
        while not audience.room.behind:
            await op.ok("apply", context="c", ops=[{"op": "log.add", "type": "info", "content": content}])
    assert waiting(people) < BOUND
    end = (await op.ok("apply", context="c", ops=[{"op": "state.incr", "path": "/n"}]))["seq"]
    await until(lambda: audience.room.behind)
    events: list[Any] = []
    while not (events and events[-1][0] == "snapshot" and events[-1][1].get("recovered") is False):
        frame = await slow.read()
        if frame.startswith("42"):
            events.append(json.loads(frame[2:]))
    snapshot = events[-1][1]
    assert (snapshot["seq"], snapshot["reason"], snapshot["document"]["state"]) == (end, "lagged", {"n": 1})
    assert snapshot["entries"][-1]["no"] == snapshot["document"]["log"]["length"] - 1
    seqs = [event["seq"] for name, event in events[:-1] if name == ("change" if deliver == "patch" else "log")]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
    assert seqs[-1] < end
    for n in range(3):
        await op.ok("apply", context="c", ops=[{"op": "log.add", "type": "info"}])
        names = []
        while "change" not in names and "snapshot" not in names:
            frame = await slow.read()
            if frame.startswith("42"):
                name, event = json.loads(frame[2:])
                names.append(name)
                assert event["seq"] == end + n + 1
    slow.close()


async def test_it_is_ended_after_a_while_below_the_hard_bound(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SLOW_SECONDS", 0.3)
    op = await people.operator("msgpack")
    await op.ok("context.create", id="c")
    deaf = await Deaf.connect(people, people.server.token)
    deaf.event(1, "subscribe", {"topic": "context:c", "deliver": "patch"})
    await until(lambda: people.server.node.contexts.live["c"].audience.room.members)
    members = people.server.node.contexts.live["c"].audience.room.members
    async with asyncio.timeout(10):
        while members:
            large = waiting(people) < 1.5 * BOUND
            ops = [{"op": "log.add", "type": "info", "content": "x" * (20_000 if large else 1)}]
            await op.ok("apply", context="c", ops=ops)
            await asyncio.sleep(0.001)
    assert waiting(people) < 2 * BOUND
    await until(lambda: people.server.sockets.count == 1)
    deaf.close()


async def test_one_that_asks_and_never_takes_the_answers(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing more is read from it once so many answers wait; then it is ended."""
    monkeypatch.setattr(bounds, "SLOW_SECONDS", 0.5)
    op = await people.operator("msgpack")
    await op.ok("context.create", id="c", state={"pad": "x" * 100_000})
    deaf = await Deaf.connect(people, people.server.token)
    most = 0
    for n in range(3000):
        deaf.event(n, "context.get", {"context": "c"})
        if n % 50 == 0:
            await op.ok("contexts.page")
            most = max(most, waiting(people))
        if people.server.sockets.count == 1:
            break
    await until(lambda: people.server.sockets.count == 1, "its end")
    assert most <= BOUND + 10 * 101_000
    deaf.close()


async def test_a_burst_does_not_end_a_healthy_client(people: People) -> None:
    """Coming back to many contexts at once brings more than the bound, and all of it."""
    op = await people.operator("msgpack")
    count = 30
    await asyncio.gather(*(op.ok("context.create", id=f"c{n}") for n in range(count)))
    add = [{"op": "log.add", "type": "info", "content": "x" * 5_000}]
    for _ in range(10):
        await asyncio.gather(*(op.ok("apply", context=f"c{n}", ops=add) for n in range(count)))
    for kind in ("websocket", "msgpack", "polling"):
        client = await people.operator(kind)
        for n in range(count):
            epoch = people.server.node.contexts.live[f"c{n}"].replica.position.epoch
            request = {"topic": f"context:c{n}", "deliver": "patch", "from": {"epoch": epoch, "seq": 1}}
            await client.send("subscribe", request)
        await client.until(lambda: len(client.of("change")) == 10 * count)  # noqa: B023 - waited for right here
        assert all(reply["recovered"] for reply in client.of("reply"))
        assert not client.of("disconnect")


async def test_requests_under_way_are_bounded(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the record does not answer, no more is read from a connection than it may have under way."""
    record: Any = people.server.node.record
    gate = asyncio.Event()
    original = record.append

    async def slow(appends: Any) -> Any:
        await gate.wait()
        return await original(appends)

    op, other = await people.operator("msgpack"), await people.operator()
    await op.ok("context.create", id="c")
    monkeypatch.setattr(record, "append", slow)
    for n in range(40):
        await op.send("apply", {"context": "c", "ops": [{"op": "state.merge", "value": {f"k{n}": "x" * 100_000}}]})
    await other.ok("context.get", context="c")
    outboxes: list[Any] = list(people.server.sockets.servers["/msgpack/socket.io"].outboxes.values())
    await until(lambda: outboxes[0].unanswered[1] > bounds.HARD * BOUND)
    assert outboxes[0].unanswered[1] < (bounds.HARD + 1) * BOUND
    gate.set()
    await op.until(lambda: len(op.of("reply")) == 40)
    replies = op.of("reply")
    codes = {reply["ok"] or reply["error"]["code"] for reply in replies}
    assert codes == {True, "too_large"}, "the document's limit, and nothing lost"
    assert outboxes[0].unanswered == (0, 0)


async def events(slow: Deaf, until: str) -> list[tuple[str, Any]]:
    """Events and answers as they come, up to a name."""
    found: list[tuple[str, Any]] = []
    while not (found and found[-1][0] == until):
        frame = await slow.read()
        if frame.startswith("42"):
            name, payload = json.loads(frame[2:])
            found.append((name, payload))
        elif frame.startswith("43"):
            found.append(("reply", json.loads(frame[frame.index("[") :])[0]))
    return found


@pytest.mark.parametrize("topic", ["contexts", "notices"])
async def test_rows_do_not_pile_up(people: People, topic: str) -> None:
    """Who does not take them is told once to read the set again, and is not ended."""
    op = await people.operator("msgpack")
    await op.ok("context.create", id="c")
    slow, healthy = await Deaf.connect(people, people.server.token), await people.operator()
    await healthy.ok("subscribe", topic=topic)
    slow.event(1, "subscribe", {"topic": topic})
    readers: Any = people.server.node.listing.topic if topic == "contexts" else people.server.node.notices.topic
    await until(lambda: sum(map(len, readers._rooms.values())) == 2)
    most, n = 0, 0

    async def another_row() -> None:
        nonlocal n
        n += 1
        if topic == "contexts":
            await op.ok("context.update", context="c", name=f"{n:03d}".ljust(200, "n"))
        else:
            await op.ok("notice.post", id="n", message=f"{n:03d}".ljust(10_000, "n"))

    async with asyncio.timeout(60):
        while not readers._behind:
            await another_row()
            most = max(most, waiting(people))
        for _ in range(300):
            await another_row()
            most = max(most, waiting(people))
    assert most < BOUND // 4 + 100_000
    came = await events(slow, "hub.lagged")
    assert came[-1][1] == {"topic": topic}
    assert [name for name, _ in came].count("hub.lagged") == 1
    versions = [int(row["version"].rpartition(":")[2]) for name, row in came if name == "row"]
    assert versions == sorted(set(versions))
    slow.event(2, "subscribe", {"topic": topic})
    reply = (await events(slow, "reply"))[-1][1]
    assert (reply["rows"][0]["name" if topic == "contexts" else "message"]).startswith(f"{n:03d}")
    await another_row()
    row = (await events(slow, "row"))[-1][1]["row"]
    assert (row["name" if topic == "contexts" else "message"]).startswith(f"{n:03d}")
    assert len(healthy.of("row")) >= n - 1
    slow.close()
    await until(lambda: people.server.sockets.count == 2)
    assert not readers._behind


async def test_gone_while_its_rows_wait(people: People) -> None:
    op = await people.operator("msgpack")
    slow = await Deaf.connect(people, people.server.token)
    slow.event(1, "subscribe", {"topic": "notices"})
    readers: Any = people.server.node.notices.topic
    await until(lambda: readers._rooms)
    async with asyncio.timeout(30):
        while not readers._behind:
            await op.ok("notice.post", id="n", message="n" * 10_000)
    slow.close()
    await until(lambda: people.server.sockets.count == 1)
    assert not readers._behind
    assert not readers._rooms
    await op.ok("notice.post", id="n", message="n")


async def test_who_has_too_much_to_take_is_told_so(people: People) -> None:
    """Answers are never left out; that they are too many is said once."""
    op = await people.operator("msgpack")
    for n in range(100):
        await op.ok("context.create", id=f"c{n}", name="n" * 200)
    slow = await Deaf.connect(people, people.server.token)
    count = 150
    for id in range(count):
        slow.event(id, "contexts.page", {})
    await until(lambda: waiting(people) > BOUND)
    found: list[tuple[str, Any]] = []
    while [name for name, _ in found].count("reply") < count:
        found += await events(slow, "reply")
    lagged = [payload for name, payload in found if name == "hub.lagged"]
    assert lagged
    assert lagged[0]["topic"] is None
    assert lagged[0]["waiting"] > lagged[0]["limit"] == BOUND
    assert lagged[0]["seconds"] == bounds.SLOW_SECONDS
    assert all(reply["ok"] for name, reply in found if name == "reply")
    slow.close()


async def test_what_is_told_when_it_comes_back(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who could not be told why it was ended is told at its next connection: found by its name, else by who it is."""
    monkeypatch.setattr(bounds, "SLOW_SECONDS", 0.3)
    op = await people.operator("msgpack")
    await op.ok("context.create", id="c", state={"pad": "x" * 100_000}, user_id="ann")
    slow = [await Deaf.connect(people, people.token("ann", Role.USER)) for _ in range(2)]
    ended = []
    for one in slow:
        while not (frame := await one.read()).startswith("40"):
            pass
        ended.append(json.loads(frame[2:])["sid"])
    for left, one in enumerate(slow):
        for n in range(200):
            one.event(n, "context.get", {"context": "c"})
        await until(lambda: people.server.sockets.count == 2 - left, "its end")  # noqa: B023 - waited for right here
        one.close()
    bob = await people.user("bob")
    assert "previous" not in await bob.next("hello")
    for auth, expected in [
        ({"previous": "another"}, None),
        ({"previous": ended[1]}, 4008),
        ({"previous": ended[1]}, None),
        ({}, 4008),
        ({}, None),
        ({"previous": 5}, None),
    ]:
        ann = Client(people.server.url, people.token("ann", Role.USER))
        await ann.connect(**auth)
        previous = (await ann.next("hello")).get("previous")
        assert (previous and previous["code"]) == expected, auth
        await ann.close()


async def test_snapshots_of_many_topics_come_one_after_the_other(people: People) -> None:
    """A connection that was behind in many contexts gets all of them whole, and is never sent more than it takes."""
    op = await people.operator("msgpack")
    count = 20
    for n in range(count):
        await op.ok("context.create", id=f"c{n}", state={"pad": "x" * 200_000})
    slow = await Deaf.connect(people, people.server.token)
    rooms: list[Any] = []
    for n in range(count):
        slow.event(n, "subscribe", {"topic": f"context:c{n}", "deliver": "patch"})
        while (await events(slow, "reply"))[-1][0] != "reply":
            pass
        rooms.append(people.server.node.contexts.live[f"c{n}"].audience.room)
    add = [{"op": "log.add", "type": "info", "content": "x" * 20_000}]
    async with asyncio.timeout(30):
        while not all(room.behind for room in rooms):
            await asyncio.gather(*(op.ok("apply", context=f"c{n}", ops=add) for n in range(count)))
    most = 0
    topics: set[str] = set()
    while len(topics) < count:
        snapshot = (await events(slow, "snapshot"))[-1][1]
        assert snapshot["recovered"] is False
        topics.add(snapshot["topic"])
        most = max(most, waiting(people))
    assert most < 1_000_000, "one snapshot with the log's tail, and some changes"
    slow.close()


async def test_one_that_stops_polling(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for its next poll is bounded like everything else."""
    monkeypatch.setattr(bounds, "SLOW_SECONDS", 0.5)
    op = await people.operator("msgpack")
    await op.ok("context.create", id="c")
    async with aiohttp.ClientSession() as http:
        url = f"{people.server.url}/socket.io/?EIO=4&transport=polling"
        async with http.get(url) as answer:
            url += f"&sid={json.loads((await answer.text())[1:])['sid']}"
        for packet in (
            enter(people.token("poll", Role.OPERATOR)),
            '421["subscribe",{"topic":"context:c"}]',
            '422["subscribe",{"topic":"contexts"}]',
        ):
            await (await http.post(url, data=packet)).read()
        room = people.server.node.contexts.live["c"].audience.room
        await until(lambda: room.members)
        most = 0
        async with asyncio.timeout(20):
            while people.server.sockets.count == 2:
                await op.ok("apply", context="c", ops=[{"op": "log.add", "type": "info", "content": "x" * 20_000}])
                await op.ok("context.update", context="c", name=f"{most}")
                most = max(most, waiting(people))
        assert most < BOUND
        assert (await http.get(url)).status == 400
    hello = await (await people.join(people.token("poll", Role.OPERATOR))).next("hello")
    assert hello["previous"]["code"] == 4008


@pytest.mark.parametrize("kind", ["websocket", "msgpack", "polling"])
async def test_large_answers_do_not_end_who_takes_them(people: People, kind: str) -> None:
    """Asked for all at once, they are many times the bound."""
    op = await people.operator("msgpack")
    count = 30
    for n in range(count):
        await op.ok("context.create", id=f"c{n}", state={"pad": "x" * 300_000})
    client = await people.operator(kind)
    for n in range(count):
        await client.send("subscribe", {"topic": f"context:c{n}", "deliver": "patch"})
    await client.until(lambda: len(client.of("reply")) == count)
    assert all(reply["ok"] for reply in client.of("reply"))
    assert not client.of("disconnect")


async def ask_for_much(people: People) -> tuple[Client, Deaf]:
    """Somebody who is sent an answer that is ten times the bound, and does not read it yet."""
    op = await people.operator()
    await op.ok("context.create", id="c")
    for n in range(3):
        await op.ok("apply", context="c", ops=[{"op": "data.set", "key": f"k{n}", "value": "x" * 900_000}])
    slow = await Deaf.connect(people, people.server.token)
    for outbox in people.server.sockets.servers["/socket.io"].outboxes.values():  # what waits does so in the hub
        assert outbox._transport is not None
        outbox._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    slow.event(1, "subscribe", {"topic": "context:c", "deliver": "patch"})
    await until(lambda: waiting(people) > 5 * BOUND)
    return op, slow


async def test_one_large_answer_takes_its_time(people: People) -> None:
    """Who goes on taking an answer that is far larger than the bounds may ask meanwhile, and is not ended for it."""
    op, slow = await ask_for_much(people)
    for n in range(2, 6):
        slow.event(n, "contexts.page", {"limit": 1})
        await op.ok("apply", context="c", ops=[{"op": "log.add", "type": "info", "content": str(n)}])
    for n in range(1, 6):
        while not (await slow.read()).startswith(f"43{n}["):
            pass
    slow.close()


async def test_a_large_answer_that_nobody_takes(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not kept until the next thing is sent, or a ping is not answered."""
    monkeypatch.setattr(bounds, "SLOW_SECONDS", 0.3)
    _, deaf = await ask_for_much(people)
    await until(lambda: people.server.sockets.count == 1, seconds=5)
    deaf.close()
