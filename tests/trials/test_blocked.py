"""The event loop is blocked while people go on: nothing is lost, and the log says where it was blocked."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from hub.node.settings import Settings
from hub.server.server import HubServer, Options
from tests.clients import People
from tests.support import until

STALL = 1.0
BLOCKED = 2.5


@pytest.fixture
def hub_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="hub")
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
async def people(hub_loop: asyncio.AbstractEventLoop, tmp_path: Path) -> AsyncIterator[People]:
    """People at a hub whose loop is not theirs."""
    options = Options(data_dir=tmp_path / "hub", record="memory", port=0, settings=Settings(stall_seconds=STALL))
    server = HubServer(options)
    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(server.start(), hub_loop))
    async with AsyncExitStack() as stack:
        yield People(server, stack)
    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(server.stop(), hub_loop))


def sleeps_in_the_loop() -> None:
    time.sleep(BLOCKED)


def computes_in_the_loop() -> None:
    until = time.monotonic() + BLOCKED
    while time.monotonic() < until:
        sum(range(10_000))


@pytest.mark.parametrize("block", [sleeps_in_the_loop, computes_in_the_loop])
@pytest.mark.parametrize("kind", ["websocket", "msgpack", "polling"])
async def test_messages_while_the_loop_is_blocked(
    people: People,
    hub_loop: asyncio.AbstractEventLoop,
    caplog: pytest.LogCaptureFixture,
    block: Callable[[], None],
    kind: str,
) -> None:
    """Trial S2."""
    op = await people.operator(kind)
    await op.ok("context.create", id="c", agent="nobody")
    with caplog.at_level(logging.WARNING, "hub.server.watchdog"):
        began = time.monotonic()
        hub_loop.call_soon_threadsafe(block)
        asked = [asyncio.create_task(op.ask("message", context="c", text=f"m{n}", key=f"w/{n + 1}")) for n in range(20)]
        replies = [await reply for reply in asked]
        assert time.monotonic() - began > BLOCKED / 2, "it was blocked"
        await until(lambda: len(caplog.records) >= 2)
    assert all(reply["ok"] for reply in replies)
    queue = (await op.ok("context.get", context="c"))["document"]["queue"]
    assert [message["text"] for message in queue] == [f"m{n}" for n in range(20)]
    stall, end = [record.getMessage() for record in caplog.records]
    assert block.__name__ in stall
    assert __file__ in stall
    assert f"over {STALL:g} s" in stall
    seconds = float(end.split("blocked for ")[1].split(" s")[0])
    assert BLOCKED - 2 * STALL < seconds < BLOCKED + 5


async def test_a_loop_that_is_only_busy_is_not_reported(people: People, caplog: pytest.LogCaptureFixture) -> None:
    op = await people.operator("msgpack")
    await op.ok("context.create", id="c")
    with caplog.at_level(logging.WARNING, "hub.server.watchdog"):
        ends = time.monotonic() + 3 * STALL
        while time.monotonic() < ends:
            adds = [{"context": "c", "ops": [{"op": "log.add", "type": "info"}]} for _ in range(50)]
            await op.ok("apply.many", batches=adds)
    assert not caplog.records
