"""Idempotency: the same key gives the first outcome, over other connections and after the hub was killed; versions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.clients import Client, People, serving
from tests.support import HubProcess

REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("context.update", {"context": "c", "name": "renamed"}),
    ("apply", {"context": "c", "ops": [{"op": "state.incr", "path": "/n"}, {"op": "log.add", "type": "info"}]}),
    ("message", {"context": "c", "text": "hello"}),
    ("message", {"context": "c", "text": "hello", "attachments": []}),
    ("queue.send", {"context": "c", "joined": True}),
    ("control", {"context": "c", "action": "pause"}),
    ("queue.clear", {"context": "c"}),
    ("run.open", {"context": "c"}),
]


@pytest.fixture
async def pair(everywhere: People) -> tuple[Client, Client]:
    """Two connections of one operator."""
    first, second = await everywhere.operator(), await everywhere.operator("msgpack")
    await first.ok("context.create", id="c", agent="nobody", key="create")
    return first, second


@pytest.mark.parametrize("form", ["key{}", "writer/{}"])
async def test_a_retry_gets_the_first_outcome(pair: tuple[Client, Client], form: str) -> None:
    first, second = pair
    for n, (name, payload) in enumerate(REQUESTS, 1):
        request = {**payload, "key": form.format(n)}
        outcome = await first.ok(name, **request)
        changes = (await first.ok("context.get", context="c"))["seq"]
        for client in (second, first):
            assert await client.ok(name, **request) == outcome | {"duplicate": True}, name
        assert (await first.ok("context.get", context="c"))["seq"] == changes, "a retry changed something"


async def test_a_creation_that_is_asked_again(pair: tuple[Client, Client]) -> None:
    first, second = pair
    again = await second.ok("context.create", id="c", agent="nobody", key="create")
    assert again["duplicate"] is True
    assert again["seq"] == 1
    await second.refused("context.create", "key_reused", id="c", agent="other", key="create")
    await second.refused("context.create", "exists", id="c", agent="nobody", key="another")
    made = await first.ok("context.create", key="without id")
    assert (await second.ok("context.create", key="without id"))["id"] == made["id"]
    both = await asyncio.gather(*(client.ok("context.create", id="d", key="k") for client in (first, second) * 3))
    assert {(reply["epoch"], reply["seq"]) for reply in both} == {(both[0]["epoch"], 1)}
    assert sum("duplicate" in reply for reply in both) == 5


async def test_a_removal_that_is_asked_again(pair: tuple[Client, Client]) -> None:
    first, second = pair
    outcome = await first.ok("context.remove", context="c", key="end")
    for client in (second, first):
        assert await client.ok("context.remove", context="c", key="end") == outcome | {"duplicate": True}
    await second.refused("context.remove", "not_found", context="c", key="another end")
    await second.refused("context.remove", "not_found", context="nothing", key="end")


async def test_another_payload_under_a_used_key(pair: tuple[Client, Client]) -> None:
    first, second = pair
    for n, key in enumerate(("a key", "writer/7")):
        await first.ok("apply", context="c", ops=[{"op": "state.incr", "path": f"/n{n}"}], key=key)
        for client in (first, second):
            other = [{"op": "state.incr", "path": f"/n{n}", "by": 2}]
            await client.refused("apply", "key_reused", context="c", ops=other, key=key)
            await client.refused("message", "key_reused", context="c", text="hello", key=key)
    assert (await first.ok("context.get", context="c"))["document"]["state"] == {"n0": 1, "n1": 1}


async def test_a_refused_request_leaves_its_key_free(pair: tuple[Client, Client]) -> None:
    first, _ = pair
    await first.refused("queue.remove", "not_found", context="c", id="m", key="w/1")
    await first.ok("apply", context="c", ops=[{"op": "state.incr", "path": "/n"}], key="w/1")


async def test_a_key_that_is_too_old(pair: tuple[Client, Client]) -> None:
    first, second = pair
    for n in range(1, 67):
        await first.ok("apply", context="c", ops=[{"op": "state.incr", "path": "/n"}], key=f"w/{n}")
    ops = [{"op": "state.incr", "path": "/n"}]
    await second.refused("apply", "key_expired", context="c", ops=ops, key="w/2")
    assert (await second.ok("apply", context="c", ops=ops, key="w/3"))["duplicate"]
    assert (await second.ok("context.get", context="c"))["document"]["state"]["n"] == 66


async def test_notices_and_broadcasts_apply_once(everywhere: People) -> None:
    op, other = await everywhere.operator(), await everywhere.operator()
    await op.ok("context.create", id="c")
    await op.ok("subscribe", topic="notices")
    first = await op.ok("notice.post", message="once", key="k")
    assert await other.ok("notice.post", message="once", key="k") == first | {"duplicate": True}
    await other.refused("notice.post", "key_reused", message="other words", key="k")
    assert len((await op.ok("subscribe", topic="notices"))["rows"]) == len(op.of("row")) == 1
    for _ in range(2):
        assert (await op.ok("broadcast", type="info", content="once", key="b"))["contexts"] == 1
    await op.refused("broadcast", "key_reused", type="info", content="other words", key="b")
    assert (await op.ok("context.get", context="c"))["document"]["log"]["length"] == 1


async def test_expected_versions(pair: tuple[Client, Client]) -> None:
    first, second = pair
    start = (await first.ok("context.get", context="c"))["document"]["versions"]
    merge = [{"op": "state.merge", "value": {"by": "first"}}]
    written = await first.ok("apply", context="c", ops=merge, expected={"state": start["state"]})
    late = [{"op": "state.merge", "value": {"by": "second"}}, {"op": "log.add", "type": "info"}]
    error = await second.refused("apply", "conflict", context="c", ops=late, expected={"state": start["state"]})
    assert error["details"]["versions"]["state"] == written["versions"]["state"]
    assert not error["retryable"]
    document = (await first.ok("context.get", context="c"))["document"]
    assert document["state"] == {"by": "first"}
    assert document["log"]["length"] == 0
    await first.ok("apply", context="c", ops=[{"op": "log.add", "type": "info"}])  # a log makes no state stale
    current = {"state": written["versions"]["state"], "output": start["output"]}
    await second.ok("apply", context="c", ops=late, expected=current)
    await second.refused("apply", "conflict", context="c", ops=late, expected={"state": "nonsense"})


async def test_of_many_compare_and_sets_one_wins(everywhere: People) -> None:
    op = await everywhere.operator()
    await op.ok("context.create", id="c", state={"n": 0})
    clients = [await everywhere.operator() for _ in range(4)]

    async def count(client: Client, times: int) -> None:
        for _ in range(times):
            while True:
                document = (await client.ok("context.get", context="c"))["document"]
                ops = [{"op": "state.merge", "value": {"n": document["state"]["n"] + 1}}]
                expected = {"state": document["versions"]["state"]}
                reply = await client.ask("apply", context="c", ops=ops, expected=expected)
                if reply["ok"]:
                    break
                assert reply["error"]["code"] == "conflict"

    await asyncio.gather(*(count(client, 5) for client in clients))
    assert (await op.ok("context.get", context="c"))["document"]["state"]["n"] == 20


@pytest.mark.parametrize("kill", [False, True])
async def test_keys_outlive_the_hub(tmp_path: Path, kill: bool) -> None:
    with HubProcess(tmp_path) as hub:
        op = await Client(hub.url, hub.token).connect()
        await op.ok("context.create", id="c", agent="nobody", key="create")
        outcomes = []
        for n, (name, payload) in enumerate(REQUESTS, 1):
            outcomes.append(await op.ok(name, **payload, key=f"w/{n}" if n % 2 else f"other {n}"))
        before = await op.ok("context.get", context="c")
        notice = await op.ok("notice.post", message="once", key="k")
        await op.close()
        if kill:
            hub.kill()
        hub.restart()
        op = await Client(hub.url, hub.token).connect()
        assert (await op.ok("context.create", id="c", agent="nobody", key="create"))["duplicate"]
        for n, (name, payload) in enumerate(REQUESTS, 1):
            key = f"w/{n}" if n % 2 else f"other {n}"
            assert await op.ok(name, **payload, key=key) == outcomes[n - 1] | {"duplicate": True}
            await op.refused("apply", "key_reused", context="c", ops=[], key=key)
        again = await op.ok("notice.post", message="once", key="k")
        assert (again["id"], again.get("duplicate")) == (notice["id"], True)
        after = await op.ok("context.get", context="c")
        assert after["document"] | {"run": None} == before["document"] | {"run": None}
        where = {"node", "worker"}  # who asks again for its run has it now
        first, second = (
            {name: value for name, value in got["document"]["run"].items() if name not in where}
            for got in (before, after)
        )
        assert first == second
        assert after["seq"] <= before["seq"] + 1
        await op.close()


async def test_many_creations_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path / "hub", record="embedded") as people:
        op = await people.operator("msgpack")
        made = await asyncio.gather(*(op.ok("context.create", id=f"c{n}") for n in range(200)))
        assert [reply["id"] for reply in made] == [f"c{n}" for n in range(200)]
        rows = (await op.ok("contexts.page", limit=500))["rows"]
        assert len(rows) == 200
        assert len({row["no"] for row in rows}) == 200
