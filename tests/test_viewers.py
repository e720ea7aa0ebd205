"""What viewers of contexts may rely on, from an author's call to their events: the lines "For viewers" of the semantics,
by their numbers. ``tests/server/`` has the cases at the edges."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import hub
from hub import AgentContext, AgentContextType
from hub.agent.registry import Registry
from hub.wire.messages import ASKED, BODIES
from tests.clients import Client, Follower, People, refusal, serving
from tests.registries import own_registry


@pytest.fixture(autouse=True)
def registry() -> Iterator[Registry]:
    with own_registry() as fresh:
        yield fresh


@pytest.fixture
async def people(tmp_path: Path) -> AsyncIterator[People]:
    async with serving(tmp_path / "hub") as people:
        yield people


@pytest.fixture
async def author(people: People) -> AsyncIterator[hub.Client]:
    """A process that writes to contexts."""
    async with hub.connect(people.server.url, token=people.server.token) as client:
        yield client


def pushed(client: Client) -> list[tuple[str, Any]]:
    """What a client was sent of topics."""
    return [event for event in client.events if event[0] != "hello"]


async def heard_all(client: Client) -> None:
    """A round trip: what was sent to the client before is there."""
    await client.ask("unsubscribe", topic="context:none")


async def test_06_background_contexts_are_left_out_of_lists(people: People, author: hub.Client) -> None:
    watcher = await people.operator()
    await watcher.ok("subscribe", topic="contexts")
    for type in AgentContextType:
        await author.create(id=str(type), type=type)
    await watcher.next("row", lambda row: row["id"] == "task")
    reply = await (await people.operator()).ok("subscribe", topic="contexts")
    assert {row["id"] for row in reply["rows"]} == {"user", "task"}
    assert {row["id"] for row in (await watcher.ok("contexts.page", limit=10))["rows"]} == {"user", "task"}
    everything = await watcher.ok("contexts.page", limit=10, filter={"type": "all"})
    assert {row["id"] for row in everything["rows"]} == {"user", "task", "background"}
    assert {row["id"] for row in watcher.of("row")} == {"user", "task"}


async def test_26_nothing_is_pushed_before_a_subscription(people: People, author: hub.Client) -> None:
    tab = await people.operator()
    ctx = await author.create(id="c")
    ctx.log.log("info", "Heading")
    await ctx.flush()
    await heard_all(tab)
    assert pushed(tab) == []
    await tab.ok("subscribe", topic="context:c", deliver="patch")
    ctx.state["n"] = 1
    await tab.next("change")


async def test_26_contexts_and_tabs_have_cursors_of_their_own(people: People, author: hub.Client) -> None:
    contexts = [await author.create(id=id) for id in ("a", "b")]
    tabs = [await people.operator() for _ in range(2)]
    followers = {(n, ctx.id): Follower(ctx.id) for n in range(2) for ctx in contexts}
    for (n, _), follower in followers.items():
        await follower.subscribe(tabs[n])
    left, stays = tabs
    await left.close()
    for n in range(5):
        contexts[0].state["n"] = n
        await contexts[0].flush()
    await stays.until(lambda: followers[1, "a"].read(stays).document["state"] == {"n": 4})
    assert followers[0, "a"].state.document["state"] == {}
    back = await people.operator()
    for id in ("a", "b"):
        assert (await followers[0, id].subscribe(back))["recovered"] is True
    await back.until(lambda: followers[0, "a"].read(back).document["state"] == {"n": 4})
    assert len(back.of("change")) == 5, "what was missed, and nothing else"
    for id in ("a", "b"):
        mine, others = followers[0, id].state, followers[1, id].read(stays)
        assert (mine.position, mine.document) == (others.position, others.document)


async def test_27_a_stream_touches_only_its_viewers_and_costs_the_list_one_row(
    people: People, author: hub.Client
) -> None:
    busy, quiet = await author.create(id="busy"), await author.create(id="quiet")
    watcher, viewer, other = await people.operator(), await people.operator(), await people.operator()
    await watcher.ok("subscribe", topic="contexts")
    await viewer.ok("subscribe", topic="context:busy", deliver="patch")
    await other.ok("subscribe", topic="context:quiet", deliver="patch")
    busy.name = "renamed"
    entry = busy.log.log("info", "Heading")
    for n in range(20):
        entry.stream(f"{n} ")
        await busy.flush()
    await viewer.until(lambda: len(viewer.of("change")) >= 22)
    await heard_all(other)
    await heard_all(watcher)
    assert pushed(other) == []
    assert [(row["id"], row["row"]["name"]) for row in watcher.of("row")] == [("busy", "renamed")]
    quiet.state["n"] = 1
    await other.next("change")


async def test_28_a_second_read_from_the_current_cursor_gives_nothing(people: People, author: hub.Client) -> None:
    ctx = await author.create(id="c")
    ctx.log.log("info", "Heading", "text")
    await ctx.flush()
    for kind in ("websocket", "msgpack"):
        tab = await people.operator(kind)
        first = await tab.ok("subscribe", topic="context:c")
        assert len(first["entries"]) == 1
        cursor = {"epoch": first["epoch"], "seq": first["seq"]}
        again = await tab.ok("subscribe", topic="context:c", from_=cursor)
        assert again["recovered"] is True
        assert {"epoch": again["epoch"], "seq": again["seq"]} == cursor
        assert not again.get("entries")
        assert "document" not in again
        await heard_all(tab)
        assert pushed(tab) == []
    notices = AgentContext.get_notification_manager()
    notices.send_notification("info", "once")
    changed, at = notices.since(0)
    assert len(changed) == 1
    assert notices.since(at) == ({}, at)


WRONG: list[tuple[str, Any, str]] = [
    ("no.such.request", {}, "unknown_request"),
    ("subscribe", {"topic": "context:missing"}, "not_found"),
    ("subscribe", {"topic": "no-topic"}, "not_found"),
    ("subscribe", {"topic": "context:c", "from": {"epoch": 1}}, "invalid_request"),
    ("context.create", {"id": "not an id"}, "invalid_request"),
    ("context.create", {"id": "c"}, "exists"),
    ("context.create", {"type": "none"}, "unknown_type"),
    ("apply", {"context": "c", "ops": [{"op": "none"}]}, "unknown_operation"),
    ("apply", {"context": "c", "ops": [{"op": "log.add", "type": "none"}]}, "unknown_type"),
    ("apply", {"context": "c", "ops": [{"op": "state.incr", "path": "n"}]}, "invalid_request"),
    ("message", {"context": "c", "text": "x" * 262_145}, "too_large"),
    ("control", {"context": "c", "action": "dance"}, "invalid_request"),
    ("log.page", {"context": "c", "log": "gone", "before": 1, "limit": 1}, "log_reset"),
]


@pytest.mark.parametrize(("name", "payload", "code"), WRONG, ids=[f"{name}-{code}" for name, _, code in WRONG])
async def test_29_invalid_input_gets_a_typed_error(people: People, name: str, payload: Any, code: str) -> None:
    op = await people.operator()
    before = await op.ok("context.create", id="c")
    error = refusal(await op.call(name, payload), code)
    assert error["retryable"] is False
    after = await op.ok("context.get", context="c")
    assert (after["epoch"], after["seq"]) == (before["epoch"], before["seq"]), "nothing of it was done"


async def test_29_no_answer_is_ok_with_an_error_inside(people: People) -> None:
    op = await people.operator()
    refused = 0
    for name in (*ASKED, *BODIES):
        for payload in (None, 5, "text", [1], {}, {"context": 5}, {"context": "missing", "more": 1}):
            reply = await op.call(name, payload)
            assert reply["ok"] is True or refusal(reply, reply["error"]["code"])
            assert reply["ok"] is False or "error" not in reply
            refused += not reply["ok"]
    assert refused > 5 * (len(ASKED) + len(BODIES))


async def test_31_200_small_mutations_give_200_snapshots_in_order(people: People, author: hub.Client) -> None:
    viewer, ctx = await people.operator(), await author.create(id="c")
    begun = (await viewer.ok("subscribe", topic="context:c"))["seq"]
    for n in range(200):
        ctx.state["n"] = n
        if n % 2:  # some go together over the wire; each is a mutation of its own
            await ctx.flush()
    await viewer.until(lambda: len(viewer.of("snapshot")) >= 200)
    snapshots = viewer.of("snapshot")
    assert [snapshot["seq"] for snapshot in snapshots] == list(range(begun + 1, begun + 201))
    assert [snapshot["document"]["state"]["n"] for snapshot in snapshots] == list(range(200))
