"""What a client missed, over a real socket: it comes as fast as the client reads, and waits nowhere."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hub.fanout import ring
from hub.node.settings import Settings
from hub.node.turns import PIECE_BYTES
from hub.server import bounds
from tests.checker import Checker
from tests.clients import Client, People, serving
from tests.server.test_slow_clients import BOUND, Deaf, waiting
from tests.support import until

SIZE = 8_000


@pytest.fixture
async def people(tmp_path: Path) -> AsyncIterator[People]:
    async with serving(tmp_path / "hub", settings=Settings(outbox_bytes=BOUND)) as people:
        yield people


async def write(op: Client, count: int) -> None:
    ops = [{"op": "log.add", "type": "info", "content": "x" * SIZE}]
    await asyncio.gather(*(op.ok("apply", context="c", ops=ops) for _ in range(count)))


async def read_one(deaf: Deaf, checker: Checker) -> None:
    """Take one frame: an event, or the answer to the subscription."""
    frame = await deaf.read()
    if frame.startswith("42"):
        checker.event(*json.loads(frame[2:]))
    elif frame.startswith("43"):
        checker.reply(json.loads(frame[frame.index("[") :])[0])


async def away_and_back(people: People, deliver: str, missed: int) -> tuple[Client, Deaf, Checker]:
    """Somebody stood at the end and missed some changes; now it asks for them, and reads nothing."""
    op = await people.operator("msgpack")
    await op.ok("context.create", id="c")
    await write(op, 3)
    checker = Checker("c", deliver)
    first = await Deaf.connect(people, people.server.token)
    checker.connected()
    first.event(1, "subscribe", checker.request())
    while not checker.position.epoch:
        await read_one(first, checker)
    first.close()
    await write(op, missed)
    deaf = await Deaf.connect(people, people.server.token)
    for server in people.server.sockets.servers.values():  # so that what waits does so in the hub
        for there in server.outboxes.values():
            assert there._transport is not None
            there._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    checker.connected()
    deaf.event(1, "subscribe", checker.request())
    return op, deaf, checker


def apart(people: People) -> Any:
    """Who is being sent what it missed."""
    return people.server.node.contexts.live["c"].audience._apart


@pytest.mark.parametrize("deliver", ["patch", "snapshot"])
async def test_it_waits_for_one_that_reads_slowly(
    people: People, deliver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most of it is in the record only. While the client does not read, next to nothing is kept for it, and others go on."""
    monkeypatch.setattr(
        bounds, "SLOW_SECONDS", 300.0
    )  # on a busy machine it reads late, and must not be ended for that
    op, deaf, checker = await away_and_back(people, deliver, 100)
    assert 100 * SIZE > 2 * ring.MOST_BYTES
    await until(lambda: waiting(people) > BOUND // bounds.SOFT and apart(people))
    for _ in range(5):
        await write(op, 1)
        assert waiting(people) < BOUND // bounds.SOFT + PIECE_BYTES + 3 * SIZE
    got = await op.ok("context.get", context="c")
    while checker.position.seq < got["seq"] or (deliver == "snapshot" and checker.taken < 106):
        await read_one(deaf, checker)
    assert (checker.recovered, checker.restarted) == (1, 0)
    await until(lambda: not apart(people))
    await write(op, 1)
    truth = await op.ok("subscribe", topic="context:c", tail=1000)
    while checker.position.seq < truth["seq"] or checker.state.document["log"]["length"] < 109:
        await read_one(deaf, checker)
    assert checker.state.document == truth["document"]
    deaf.close()


async def test_one_that_never_reads_is_ended(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SLOW_SECONDS", 0.5)
    op, deaf, _ = await away_and_back(people, "patch", 100)
    await until(lambda: waiting(people) > BOUND // bounds.SOFT and apart(people))
    await until(lambda: people.server.sockets.count == 1, "the end of the one that never reads")
    await until(lambda: not apart(people))
    assert not people.server.node.contexts.live["c"].audience.room.members
    await write(op, 1)
    deaf.close()


@pytest.mark.parametrize("how", ["leaves", "goes"])
async def test_one_that_leaves_in_the_middle(people: People, how: str) -> None:
    op, deaf, checker = await away_and_back(people, "patch", 100)
    await until(lambda: waiting(people) > BOUND // bounds.SOFT and apart(people))
    if how == "leaves":
        deaf.event(2, "unsubscribe", {"topic": "context:c"})
    else:
        deaf.close()
    await until(lambda: not apart(people))
    tasks = [task for task in asyncio.all_tasks() if "Replay" in repr(task) or "_subscribe" in repr(task)]
    await until(lambda: all(task.done() for task in tasks))
    assert not people.server.node.contexts.live["c"].audience.room.members
    if how == "leaves":
        while True:
            frame = await deaf.read()
            if frame.startswith("432"):
                break
            if frame.startswith("42"):
                checker.event(*json.loads(frame[2:]))
            elif frame.startswith("43"):
                checker.reply(json.loads(frame[frame.index("[") :])[0])
        checker.left()
        deaf.event(3, "subscribe", checker.request())
        truth = await op.ok("context.get", context="c")
        while checker.position.seq < truth["seq"]:
            await read_one(deaf, checker)
        assert (checker.recovered, checker.restarted) == (2, 0)
        deaf.close()
