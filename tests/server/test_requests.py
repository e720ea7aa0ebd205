"""Every request of the protocol, by stock clients of all sorts: the good case, and the typed refusals."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from hub.node.asked import Asked
from hub.wire.messages import ASKED, BODIES, LATER
from tests.clients import KINDS, Client, People, refusal

GOOD: dict[str, dict[str, Any]] = {
    "subscribe": {"topic": "context:c"},
    "unsubscribe": {"topic": "context:c"},
    "context.get": {"context": "c"},
    "contexts.page": {"limit": 10},
    "context.create": {"id": "d", "name": "another", "key": "k1"},
    "context.update": {"context": "c", "name": "new name", "key": "k2"},
    "apply": {"context": "c", "ops": [{"op": "state.incr", "path": "/n"}], "key": "k3"},
    "apply.many": {"batches": [{"context": "c", "ops": [{"op": "state.incr", "path": "/n"}], "key": "k4"}]},
    "message": {"context": "c", "text": "hello", "key": "k5"},
    "queue.send": {"context": "c", "joined": True, "key": "k8"},
    "queue.clear": {"context": "c", "key": "k9"},
    "answer": {"context": "c", "ask": "q", "value": "yes", "key": "k16"},
    "control": {"context": "c", "action": "pause", "key": "k10"},
    "log.page": {"context": "c", "log": "", "before": 5, "limit": 10},
    "broadcast": {"type": "info", "content": "to all", "key": "k11"},
    "notice.post": {"id": "n", "message": "read this", "key": "k12"},
    "notice.read": {"ids": ["n"]},
    "notice.clear": {"id": "n", "key": "k13"},
    "agent.serve": {"agent": "demo", "capacity": 0},
    "run.open": {"context": "c", "key": "k14"},
    "queue.edit": {"context": "c", "id": "", "text": "other words", "key": "k6"},
    "queue.remove": {"context": "c", "id": "", "key": "k7"},
    "context.remove": {"context": "d", "key": "k15"},
}
"""A good payload for each; some need what was made before them."""


def test_the_table_has_every_request() -> None:
    assert set(GOOD) == set(ASKED) | set(BODIES)


@pytest.mark.parametrize("kind", KINDS)
async def test_every_request_goes_well(everywhere: People, kind: str) -> None:
    client = await everywhere.operator(kind)
    made = await client.ok("context.create", id="c", agent="nobody", key="k0")
    assert made["seq"] == 1
    log = (await client.ok("context.get", context="c"))["document"]["log"]["id"]
    for name, payload in GOOD.items():
        payload = dict(payload)
        if name == "log.page":
            payload["log"] = log
        elif name == "answer":
            await client.ok("apply", context="c", ops=[{"op": "ask.open", "id": "q", "question": "?"}])
        elif name in ("queue.edit", "queue.remove"):
            payload["id"] = (await client.ok("message", context="c", text="wait"))["id"]
        reply = await client.ok(name, **payload)
        if name in BODIES:
            assert reply["epoch"], name
            assert reply["seq"] >= 1, name
    await client.refused("context.get", "not_found", context="d")


async def test_a_request_without_a_context_that_exists(op: Client) -> None:
    for name, payload in GOOD.items():
        if "context" in payload:
            payload = {**payload, "context": "nobody-made-it"}
            error = await op.refused(
                name, "not_found", **{**payload, "id": "x"} if payload.get("id") == "" else payload
            )
            assert not error["retryable"]
    await op.refused("subscribe", "not_found", topic="context:nobody-made-it")


@pytest.mark.parametrize("name", sorted(LATER))
async def test_what_comes_later_is_refused_by_name(op: Client, name: str) -> None:
    assert name in (await op.refused(name, "unsupported"))["message"]


@pytest.mark.parametrize(
    ("name", "code", "payload"),
    [
        ("no.such.request", "unknown_request", {}),
        ("", "unknown_request", {}),
        ("connect", "unknown_request", {}),
        ("disconnect", "unknown_request", {}),
        ("connected", "unknown_request", {}),
        ("*", "unknown_request", {}),
        ("\0too large", "unknown_request", {}),
        ("run.start", "unknown_request", {"context": "c", "agent": "a", "worker": "w", "node": "n"}),
        ("run.end", "unknown_request", {"context": "c"}),
        ("apply", "unknown_operation", {"context": "c", "ops": [{"op": "state.explode"}]}),
        ("apply", "invalid_request", {"context": "c", "ops": [{"path": "/n"}]}),
        ("apply", "invalid_request", {"context": "c", "ops": {}}),
        ("apply", "invalid_request", {"context": "c"}),
        ("apply", "invalid_request", {"ops": []}),
        ("apply", "invalid_request", {"context": "c", "ops": [], "more": 1}),
        ("apply", "invalid_request", {"context": "c", "ops": [], "key": ""}),
        ("apply", "invalid_request", {"context": "c", "ops": [], "key": "k" * 201}),
        ("apply", "invalid_request", {"context": 5, "ops": []}),
        ("apply", "invalid_request", {"context": "с", "ops": []}),  # a Cyrillic letter
        ("apply", "unknown_type", {"context": "c", "ops": [{"op": "log.add", "type": "shout"}]}),
        ("apply", "invalid_request", {"context": "c", "ops": [{"op": "ask.open", "id": "q", "question": " "}]}),
        ("answer", "not_found", {"context": "c", "ask": "q", "value": 1}),
        ("answer", "invalid_request", {"context": "c", "ask": "q"}),
        ("context.update", "invalid_request", {"context": "c", "when_busy": "later"}),
        ("apply", "not_found", {"context": "c", "ops": [{"op": "log.append", "id": "gone", "text": "x"}]}),
        ("apply", "run_lost", {"context": "c", "ops": [], "run": {"id": "old", "fence": 1}}),
        ("context.create", "exists", {"id": "c"}),
        ("context.create", "unknown_type", {"id": "e", "type": "holiday"}),
        ("context.create", "invalid_request", {"id": "a b"}),
        ("context.create", "too_large", {"id": "e", "name": "n" * 201}),
        ("context.create", "invalid_request", {"id": "e", "created_at": "yesterday"}),
        ("context.update", "too_large", {"context": "c", "name": "n" * 201}),
        ("message", "invalid_request", {"context": "c", "text": "  "}),
        ("message", "not_found", {"context": "c", "text": "t", "attachments": [{"id": "nothing"}]}),
        ("message", "too_large", {"context": "c", "text": "x" * 262_145}),
        ("queue.edit", "not_found", {"context": "c", "id": "m", "text": "t"}),
        ("queue.remove", "not_found", {"context": "c", "id": "m"}),
        ("queue.send", "invalid_request", {"context": "c"}),
        ("control", "invalid_request", {"context": "c", "action": "explode"}),
        ("log.page", "log_reset", {"context": "c", "log": "another", "before": 1}),
        ("log.page", "invalid_request", {"context": "c", "log": "x", "before": 1, "limit": 0}),
        ("contexts.page", "invalid_request", {"limit": 501}),
        ("contexts.page", "invalid_request", {"before": "no cursor"}),
        ("contexts.page", "invalid_request", {"filter": {"colour": "red"}}),
        ("subscribe", "not_found", {"topic": "everything"}),
        ("subscribe", "not_found", {"topic": ""}),
        ("subscribe", "not_found", {"topic": "context:"}),
        ("subscribe", "invalid_request", {"topic": "contexts", "deliver": "pigeon"}),
        ("subscribe", "invalid_request", {"topic": "context:c", "from": {"epoch": "e", "seq": -1}}),
        ("subscribe", "invalid_request", {"topic": "context:c", "from": "e:1"}),
        ("broadcast", "unknown_type", {"type": "shout"}),
        ("notice.post", "invalid_request", {}),
        ("notice.post", "invalid_request", {"message": "m", "expires_at": "soon"}),
        ("notice.post", "unknown_type", {"message": "m", "type": "shout"}),
        ("notice.clear", "not_found", {"id": "nothing"}),
        ("agent.serve", "invalid_request", {"agent": "a b"}),
        ("agent.serve", "invalid_request", {"agent": "demo", "capacity": -1}),
        ("agent.serve", "invalid_request", {"agent": "demo", "attempts": 0}),
        ("apply.many", "invalid_request", {"batches": "all"}),
        ("apply.many", "too_large", {"batches": [0] * 4097}),
    ],
)
async def test_refusals(op: Client, name: str, code: str, payload: dict[str, Any]) -> None:
    await op.ok("context.create", id="c")
    before = await op.ok("context.get", context="c")
    refusal(await op.call(name, payload), code)
    assert await op.ok("context.get", context="c") == before, "a refused request changed something"


@pytest.mark.parametrize(
    ("value", "path"),
    [(2**53, "/ops/0/value/a/0/b"), (float("nan"), "/ops/0/value/a/0/b"), (float("inf"), "/ops/0/value/a/0/b")],
)
async def test_a_value_outside_json_is_named_by_its_place(op: Client, value: Any, path: str) -> None:
    await op.ok("context.create", id="c")
    ops = [{"op": "state.merge", "value": {"a": [{"b": value}]}}]
    error = await op.refused("apply", "invalid_value", context="c", ops=ops)
    assert error["details"]["path"] == path


@pytest.mark.parametrize("value", [b"bytes", 2**63, {5: 1}])
async def test_a_value_outside_json_by_msgpack(people: People, value: Any) -> None:
    client = await people.operator("msgpack")
    await client.ok("context.create", id="c")
    ops = [{"op": "state.merge", "value": {"a": value}}]
    await client.refused("apply", "invalid_value", context="c", ops=ops)
    assert (await client.ok("context.get", context="c"))["document"]["state"] == {}


async def test_apply_many_answers_each_batch_in_its_place(everywhere: People) -> None:
    op = await everywhere.operator()
    for id in ("a", "b"):
        await op.ok("context.create", id=id)
    incr = [{"op": "state.append", "path": "/l", "value": 1}]
    batches = [
        {"context": "a", "ops": incr},
        {"context": "missing", "ops": incr},
        "not an apply",
        {"context": "b", "ops": [{"op": "nope"}]},
        {"context": "b", "ops": incr},
        {"context": "a", "ops": [{"op": "state.append", "path": "/l", "value": 2}]},
    ]
    replies = (await op.ok("apply.many", batches=batches))["replies"]
    codes = [reply["ok"] or reply["error"]["code"] for reply in replies]
    assert codes == [True, "not_found", "invalid_request", "unknown_operation", True, True]
    assert replies[5]["seq"] == replies[0]["seq"] + 1
    assert (await op.ok("context.get", context="a"))["document"]["state"] == {"l": [1, 2]}
    assert (await op.ok("apply.many", batches=[]))["replies"] == []


async def test_a_fault_inside_is_answered_and_logged(
    op: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(self: Asked, body: Any) -> dict[str, Any]:
        raise RuntimeError("a fault for the test")

    monkeypatch.setattr(Asked, "answer", broken)
    with caplog.at_level(logging.ERROR):
        error = await op.refused("context.get", "internal", context="c")
    assert "a fault" not in error["message"]
    assert "RuntimeError: a fault for the test" in caplog.text
    await op.ok("context.create", id="c")


async def test_a_fault_in_working_out_a_change(
    op: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from hub.core import requests, work_out

    def broken(draft: Any, body: Any) -> dict[str, Any]:
        raise RuntimeError("a fault for the test")

    await op.ok("context.create", id="c")
    monkeypatch.setitem(work_out.REQUESTS, requests.Control, broken)
    with caplog.at_level(logging.ERROR):
        await op.refused("control", "internal", context="c", action="pause")
    assert "RuntimeError: a fault for the test" in caplog.text
    assert (await op.ok("apply", context="c", ops=[{"op": "state.incr", "path": "/n"}]))["seq"] == 2
