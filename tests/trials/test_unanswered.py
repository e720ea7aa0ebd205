"""Clients that never acknowledge what the hub asks them: nothing is kept for them beyond the time-out."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from hub.core.errors import Unavailable
from hub.node import dispatch
from hub.server import sockets
from tests.clients import Client, People
from tests.raw import raw
from tests.support import until


def unanswered(people: People) -> int:
    """What the hub waits for."""
    servers = people.server.sockets.servers.values()
    return sum(len(outbox.asks) for server in servers for outbox in server.outboxes.values())


@pytest.mark.long
async def test_ten_thousand_requests_to_five_hundred_clients(people: People) -> None:
    """Trial D9."""
    server = people.server.sockets.servers["/socket.io"]
    async with AsyncExitStack() as stack:
        for _ in range(500):
            await stack.enter_async_context(raw(people.server.url, people.server.token))
        tasks = len(asyncio.all_tasks())
        asked = [
            asyncio.ensure_future(server.request(outbox, "run.start", {"n": n}, seconds=2.0))
            for outbox in server.outboxes.values()
            for n in range(20)
        ]
        await until(lambda: unanswered(people) == 10_000)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(answer, Unavailable) for answer in answers)
        assert unanswered(people) == 0
        assert len(asyncio.all_tasks()) <= tasks
        assert people.server.sockets.count == 500, "they may be there all the same"


async def test_clients_that_go_before_they_acknowledge(people: People) -> None:
    server = people.server.sockets.servers["/socket.io"]
    async with raw(people.server.url, people.server.token) as client:
        outbox = next(iter(server.outboxes.values()))
        asked = [asyncio.ensure_future(server.request(outbox, "run.start", {}, seconds=60.0)) for _ in range(20)]
        await until(lambda: unanswered(people) == 20)
        await client.ws.close()
        answers = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(answer, Unavailable) for answer in answers)
    assert unanswered(people) == 0


async def test_a_worker_that_does_not_acknowledge_is_given_no_more_for_a_while(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trial D9, as it comes about: what it did not take goes to another."""
    monkeypatch.setattr(sockets, "ACK_SECONDS", 0.3)
    monkeypatch.setattr(dispatch, "REST_SECONDS", 4.0)  # longer than the other needs to come
    op, silent, other = await people.operator(), await people.operator(), await people.operator()
    silence = asyncio.Event()

    async def say_nothing(run: Any) -> dict[str, Any]:
        await silence.wait()
        return {"ok": True}

    silent.answer_run = say_nothing
    await silent.ok("agent.serve", agent="bot", capacity=5)
    for n in range(5):
        await op.ok("context.create", id=f"c{n}", agent="bot")
        await op.ok("message", context=f"c{n}", text="to do")
    await silent.until(lambda: len(silent.runs) == 5)
    await until(lambda: unanswered(people) == 0)
    await other.ok("agent.serve", agent="bot", capacity=10)
    await other.until(lambda: taken(other) == {f"c{n}" for n in range(5)})
    assert len(silent.runs) == 5, "it was given no other meanwhile"
    silence.set()
    await other.close()
    for n in range(5, 8):
        await op.ok("context.create", id=f"c{n}", agent="bot")
        await op.ok("message", context=f"c{n}", text="to do")
    await silent.until(lambda: taken(silent) >= {"c5", "c6", "c7"})


def taken(worker: Client) -> set[str]:
    return {run["context"] for run in worker.runs}
