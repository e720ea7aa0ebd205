"""Ten thousand contexts: the list answers in a second, and a change to one of them costs one row for those who watch the list."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from hub.core.changes import ROOT, RecordEntry
from hub.core.limits import DEFAULT_LIMITS
from hub.core.position import Position
from hub.core.replica import Replica
from hub.core.requests import Author, Create, Request, Role
from hub.core.state import ContextState
from hub.record.port import Append, Outcome
from tests.clients import People, serving

COUNT = 10_000


async def fill(people: People, count: int, *, live: bool) -> None:
    """So many contexts, every hundredth ann's: live in the hub, or only in its record."""
    node = people.server.node
    author = Author("operator", Role.OPERATOR)
    for begin in range(0, count, 500):
        bodies = [
            Create(context=f"c{n}", name=f"session {n}", user_id="ann" if n % 100 == 0 else f"user{n % 97}")
            for n in range(begin, begin + 500)
        ]
        requests = [node.contexts.stamp(body, author) for body in bodies]
        if live:
            answers = await asyncio.gather(*(node.contexts.request(request) for request in requests))
            assert all(isinstance(answer, dict) for answer in answers)
        else:
            outcomes = await node.record.append([creation(request) for request in requests])
            assert {appended.outcome for appended in outcomes} == {Outcome.APPENDED}


def creation(request: Request) -> Append:
    """What a node appends for it."""
    id = request.body.context
    replica = Replica(ContextState(Position(f"e-{id}", 0)), DEFAULT_LIMITS, keyed=True)
    at = replica.position
    replica.write(request)
    return Append(id, at, RecordEntry(f"entry-{id}", ROOT, replica.confirm()))


def timed(began: float, what: str) -> None:
    seconds = time.monotonic() - began
    assert seconds < 1.0, f"{what} took {seconds:.2f} s"


@pytest.mark.long
@pytest.mark.parametrize("record", ["memory", "embedded"])
async def test_ten_thousand_contexts(tmp_path: Path, record: str) -> None:
    async with serving(tmp_path / "hub", record=record) as people:
        await fill(people, COUNT, live=record == "memory")
        op, ann, bob = await people.operator(), await people.user("ann"), await people.user("bob")
        watcher, other = await people.operator(), await people.operator("msgpack")
        eve, blind = await people.viewer("c1*"), await people.viewer()
        await other.ok("subscribe", topic="context:c7")

        for client, rows in ((op, 100), (ann, 100), (bob, 0), (watcher, 100), (eve, 100), (blind, 0)):
            began = time.monotonic()
            reply = await client.ok("subscribe", topic="contexts")
            timed(began, "subscribing")
            assert len(reply["rows"]) == rows
        began = time.monotonic()
        first = await op.ok("contexts.page", limit=500)
        timed(began, "a page of 500")
        assert first["rows"][0]["id"] == f"c{COUNT - 1}"
        pages, reply = [first["rows"]], first
        while "next" in reply:
            reply = await op.ok("contexts.page", limit=500, before=reply["next"])
            pages.append(reply["rows"])
        ids = [row["id"] for page in pages for row in page]
        assert len(ids) == len(set(ids)) == COUNT
        began = time.monotonic()
        mine = await ann.ok("contexts.page", limit=500)
        timed(began, "a user's page")
        assert len(mine["rows"]) == COUNT // 100

        sent = {client: len(client.events) for client in (op, ann, bob, watcher, other, eve, blind)}
        await op.ok("context.update", context="c1200", name="renamed")  # ann's, and within eve's pattern
        for client in sent:
            await client.ok("contexts.page", limit=1)
        news = {client: client.events[begin:] for client, begin in sent.items()}
        for client in (op, ann, watcher, eve):
            assert [name for name, _ in news[client]] == ["row"], "exactly one row"
            event = news[client][0][1]
            assert (event["id"], event["row"]["name"]) == ("c1200", "renamed")
            assert len(json.dumps(["row", event]).encode()) < 1024
        for client in (bob, other, blind):
            assert news[client] == []
        before = len(op.events)
        await op.ok("apply", context="c1200", ops=[{"op": "state.incr", "path": "/n"}])
        await op.ok("apply", context="c1200", ops=[{"op": "log.add", "type": "info", "content": "x" * 10_000}])
        await op.ok("contexts.page", limit=1)
        assert len(op.events) == before, "what the row does not show costs the list nothing"
