"""Who sees and does what: by role, by ownership, by the patterns of a token; on requests, topics, rows and notices."""

from __future__ import annotations

import json
from typing import Any

import pytest
from socketio.exceptions import ConnectionError as Refused

from hub.core.requests import Role
from hub.server.auth import Tokens
from tests.clients import Client, People, refusal
from tests.server.test_requests import GOOD
from tests.support import until

SECRET = "the-secret-plan-of-ann"


@pytest.fixture
async def ann(people: People) -> Client:
    """A user with a session that nobody else may see."""
    ann = await people.user("ann")
    await ann.ok("context.create", id="anns", name=SECRET, agent="nobody", state={"plan": SECRET})
    await ann.ok("message", context="anns", text=SECRET)
    return ann


def heard(client: Client) -> str:
    return json.dumps(client.events, default=str)


async def test_a_user_owns_what_she_opens(people: People, ann: Client) -> None:
    document = (await ann.ok("subscribe", topic="context:anns"))["document"]
    assert document["user_id"] == "ann"
    other_tab = await people.user("ann")
    assert (await other_tab.ok("context.get", context="anns"))["document"] == document
    assert [row["id"] for row in (await other_tab.ok("contexts.page"))["rows"]] == ["anns"]
    await ann.refused("context.create", "forbidden", id="x", user_id="bob")
    await ann.refused("context.update", "forbidden", context="anns", user_id="bob")


async def test_another_user_gets_not_one_byte(people: People, ann: Client) -> None:
    bob = await people.user("bob")
    await bob.ok("subscribe", topic="contexts")
    await bob.ok("subscribe", topic="notices")
    replies = []
    for name, payload in GOOD.items():
        asked = {**payload, "context": "anns"} if "context" in payload else payload
        if name == "subscribe":
            asked = {"topic": "context:anns"}
        elif name == "context.create":
            asked = {"id": "anns"}
        elif name == "apply.many":
            asked = {"batches": [{**payload["batches"][0], "context": "anns"}]}
        elif name == "context.remove":
            asked = {"context": "anns"}
        replies.append((name, await bob.call(name, {**asked, "id": "m"} if asked.get("id") == "" else asked)))
    for name, reply in replies:
        if name in ("unsubscribe", "contexts.page", "notice.read"):
            assert reply["ok"]
        elif name == "apply.many":
            refusal(reply["replies"][0], "not_found")
        elif name == "context.create":
            refusal(reply, "exists")
        elif name in ("broadcast", "notice.post", "notice.clear", "agent.serve", "run.open"):
            refusal(reply, "forbidden")
        else:
            missing = await bob.call(name, {"topic": "context:nope"} if name == "subscribe" else {})
            assert refusal(reply, "not_found")["message"], missing
    # The answer does not tell whether the context exists.
    there = refusal(await bob.ask("context.get", context="anns"), "not_found")["message"]
    missing = refusal(await bob.ask("context.get", context="nope"), "not_found")["message"]
    assert there.replace("anns", "X") == missing.replace("nope", "X")
    await ann.ok("context.update", context="anns", name=SECRET + "!")
    await ann.ok("context.remove", context="anns")
    await bob.ok("contexts.page")  # what was sent before has come by now
    assert SECRET not in heard(bob) + json.dumps(replies)
    assert "anns" not in heard(bob)


@pytest.mark.parametrize(
    "id",
    [
        "аnns",  # Cyrillic а
        "ａｎｎｓ",  # full width
        "ann\u017f",  # a long s, which lower-cases to s
        "ANNS",
        " anns",
        "anns ",
        "anns\n",
        "anns\0",
        "./anns",
        "anns/../anns",
        "*",
        "a*",
        "ann?",
        "[a]nns",
        "{anns}",
        "anns}:state",
        "x}y{anns",
        "contexts",
        "",
    ],
)
async def test_look_alikes_and_patterns_lead_nowhere(people: People, ann: Client, id: str) -> None:
    for client in (await people.user("bob"), await people.operator()):
        for name, payload in (
            ("subscribe", {"topic": f"context:{id}"}),
            ("context.get", {"context": id}),
            ("apply", {"context": id, "ops": [{"op": "state.incr", "path": "/n"}]}),
            ("log.page", {"context": id, "log": "l", "before": 9}),
        ):
            reply = await client.call(name, payload)
            assert not reply["ok"], (name, reply)
            assert reply["error"]["code"] in ("not_found", "invalid_request")
            assert SECRET not in json.dumps(reply)
    assert (await ann.ok("context.get", context="anns"))["document"]["state"] == {"plan": SECRET}


async def test_ids_of_connections_are_no_topics(people: People, ann: Client) -> None:
    bob = await people.user("bob")
    for server in people.server.sockets.servers.values():
        for sid in [*server.outboxes, *(outbox.session_id for outbox in server.outboxes.values())]:
            for topic in (sid, f"context:{sid}"):
                await bob.refused("subscribe", "not_found", topic=topic)
    await ann.ok("subscribe", topic="context:anns")
    await ann.ok("context.update", context="anns", name="again")
    await ann.next("snapshot")
    assert not bob.of("snapshot", "change", "log", "row")


@pytest.mark.parametrize("user", ["ann", "Ann", "an%6e", "a/b", "ü" * 256, "🎈", "a:b"])
async def test_any_text_is_a_user(people: People, user: str) -> None:
    client = await people.user(user)
    id = (await client.ok("context.create"))["id"]
    assert [row["id"] for row in (await client.ok("contexts.page"))["rows"]] == [id]
    other = await people.user(user[:-1] + "x")
    assert (await other.ok("contexts.page"))["rows"] == []
    await other.refused("context.get", "not_found", context=id)


async def test_a_viewer_reads_by_pattern_and_writes_nothing(people: People, ann: Client, op: Client) -> None:
    await op.ok("apply", context="anns", ops=[{"op": "data.set", "key": "k", "value": "private"}])
    viewer = await people.viewer("an*")
    reply = await viewer.ok("subscribe", topic="context:anns", deliver="patch")
    assert reply["document"]["state"] == {"plan": SECRET}
    assert "data" not in reply
    assert [row["id"] for row in (await viewer.ok("subscribe", topic="contexts"))["rows"]] == ["anns"]
    for name, payload in GOOD.items():
        if name in ("subscribe", "unsubscribe", "context.get", "contexts.page", "log.page", "notice.read"):
            continue
        await viewer.refused(name, "forbidden", **{**payload, "id": "m"} if payload.get("id") == "" else payload)
    await op.ok("context.create", id="other")
    await viewer.refused("context.get", "not_found", context="other")
    blind = await people.viewer()
    assert (await blind.ok("contexts.page"))["rows"] == []
    await blind.refused("subscribe", "not_found", topic="context:anns")


async def test_an_agent_sees_what_its_token_covers(people: People, ann: Client) -> None:
    blind = await people.agent()
    assert (await blind.ok("subscribe", topic="contexts"))["rows"] == []
    await blind.refused("subscribe", "not_found", topic="context:anns")
    await blind.refused("apply", "not_found", context="anns", ops=[])
    await blind.refused("context.create", "forbidden", id="new")
    await blind.refused("agent.serve", "unsupported", agent="nobody")
    agent = await people.agent("proj-*", "anns")
    await agent.ok("context.create", id="proj-1")
    await agent.refused("context.create", "forbidden", id="other-1")
    await agent.ok("apply", context="anns", ops=[{"op": "log.add", "type": "info", "heading": "hi"}])
    rows = (await agent.ok("contexts.page"))["rows"]
    assert {row["id"] for row in rows} == {"proj-1", "anns"}
    assert (await agent.ok("broadcast", type="info", content="to mine"))["contexts"] == 2
    await ann.ok("context.create", id="private")
    await ann.ok("context.update", context="private", name="x")
    await blind.ok("contexts.page")
    assert not blind.of("row")


async def test_a_user_may_not_write_the_log(ann: Client) -> None:
    log = (await ann.ok("context.get", context="anns"))["document"]["log"]
    for op in (
        {"op": "log.add", "type": "response", "content": "I am the agent"},
        {"op": "log.update", "id": "x", "content": "y"},
        {"op": "log.append", "id": "x", "text": "y"},
        {"op": "log.reset"},
    ):
        await ann.refused("apply", "forbidden", context="anns", ops=[{"op": "state.incr", "path": "/n"}, op])
        replies = (await ann.ok("apply.many", batches=[{"context": "anns", "ops": [op]}]))["replies"]
        refusal(replies[0], "forbidden")
    after = (await ann.ok("context.get", context="anns"))["document"]
    assert after["log"] == log
    assert after["state"] == {"plan": SECRET}


async def test_rows_reach_their_audience_and_nobody_else(people: People, ann: Client, op: Client) -> None:
    bob, viewer, agent = await people.user("bob"), await people.viewer("pub-*"), await people.agent("anns")
    for client in (ann, op, bob, viewer, agent):
        await client.ok("subscribe", topic="contexts")
    await ann.ok("context.update", context="anns", name="first")
    await bob.ok("context.create", id="pub-1", name="bobs")
    await op.ok("context.create", id="task", type="background")
    for client in (ann, op, bob, viewer, agent):
        await client.ok("contexts.page")
    rows = {client: [event["id"] for event in client.of("row")] for client in (ann, op, bob, viewer, agent)}
    assert rows == {ann: ["anns"], op: ["anns", "pub-1"], bob: ["pub-1"], viewer: ["pub-1"], agent: ["anns"]}
    await op.ok("context.remove", context="anns")
    gone = await ann.next("row", lambda event: event["row"] is None)
    assert gone["id"] == "anns"
    await bob.ok("contexts.page")
    assert [event["id"] for event in bob.of("row")] == ["pub-1"]


async def test_a_session_that_changes_hands(people: People, ann: Client, op: Client) -> None:
    bob = await people.user("bob")
    snapshots = await people.user("ann")
    for client in (ann, bob, snapshots):
        await client.ok("subscribe", topic="contexts")
    await ann.ok("subscribe", topic="context:anns", deliver="patch")
    await snapshots.ok("subscribe", topic="context:anns")
    await op.ok("subscribe", topic="context:anns")
    await op.ok("context.update", context="anns", user_id="bob")
    assert (await bob.next("row"))["row"]["id"] == "anns"
    assert (await ann.next("row"))["row"] is None
    closed = await ann.next("change", lambda event: event["parts"] == [{"kind": "closed", "reason": "forbidden"}])
    assert closed["topic"] == "context:anns"
    assert (await snapshots.next("snapshot", lambda event: event.get("closed")))["closed"] == "forbidden"
    await bob.ok("apply", context="anns", ops=[{"op": "state.merge", "value": {"bobs": "own"}}])
    await op.next("snapshot", lambda event: "bobs" in event["document"]["state"])
    for client in (ann, snapshots):
        await client.refused("context.get", "not_found", context="anns")
        assert "bobs" not in heard(client)


async def test_notices_reach_their_audience(people: People, ann: Client, op: Client) -> None:
    bob, blind, agent = await people.user("bob"), await people.agent(), await people.agent("anns")
    everybody = (ann, op, bob, blind, agent)
    for client in everybody:
        await client.ok("subscribe", topic="notices")
    await op.ok("notice.post", id="all", message="maintenance")
    await op.ok("notice.post", id="for-ann", message="you", audience="ann")
    await agent.ok("notice.post", id="by-agent", message="done", context="anns")
    await op.ok("notice.post", id="on-context", message="look", context="anns")
    await op.ok("context.create", id="nobodys")
    await op.ok("notice.post", id="on-nobodys", message="look", context="nobodys")
    expected = {
        ann: {"all", "for-ann", "by-agent", "on-context"},
        op: {"all", "for-ann", "by-agent", "on-context", "on-nobodys"},
        bob: {"all"},
        blind: {"all"},
        agent: {"all", "by-agent", "on-context"},
    }
    for client in everybody:
        reply = await client.ok("subscribe", topic="notices")
        assert {row["id"] for row in reply["rows"]} == expected[client]
        assert {event["id"] for event in client.of("row")} == expected[client]
        assert "posted" not in json.dumps(reply) + heard(client)
    source = {row["id"]: row["source"] for row in (await op.ok("subscribe", topic="notices"))["rows"]}
    assert source["by-agent"] == "context"
    assert source["all"] == "operator"


async def test_whose_notices_may_be_changed(people: People, ann: Client, op: Client) -> None:
    agent = await people.agent("anns")
    await op.ok("notice.post", id="all", message="maintenance")
    await agent.ok("notice.post", id="mine", message="done", context="anns")
    await agent.refused("notice.post", "invalid_request", id="free", message="to all")
    await agent.refused("notice.post", "invalid_request", id="x", message="m", context="anns", audience="bob")
    await agent.refused("notice.post", "forbidden", id="all", message="hacked", context="anns")
    await agent.refused("notice.clear", "forbidden", id="all")
    other = await people.agent("else-*", "e")
    await op.ok("context.create", id="e")
    await other.refused("notice.post", "forbidden", id="mine", message="hacked", context="e")
    await other.refused("notice.clear", "not_found", id="mine")
    await agent.ok("notice.clear", id="mine")
    await op.ok("notice.clear", id="all")
    assert (await op.ok("subscribe", topic="notices"))["rows"] == []


async def test_read_marks_are_a_users_own(everywhere: People) -> None:
    op = await everywhere.operator()
    ann, bob = await everywhere.user("ann"), await everywhere.user("bob")
    await op.ok("notice.post", id="n", message="one")
    await ann.ok("notice.read", ids=["n", "unknown"])
    assert (await ann.ok("subscribe", topic="notices"))["read"] == ["n"]
    assert (await (await everywhere.user("ann")).ok("subscribe", topic="notices"))["read"] == ["n"]
    assert (await bob.ok("subscribe", topic="notices"))["read"] == []
    await op.ok("notice.post", id="n", message="two")
    assert (await ann.ok("subscribe", topic="notices"))["read"] == [], "posted again: unread"


@pytest.mark.parametrize("token", [None, "", "x", 5, ["t"], {"a": 1}, "a.b.c", b"bytes"])
async def test_bad_tokens(people: People, token: Any) -> None:
    with pytest.raises(Refused):
        await people.join(token, "msgpack" if isinstance(token, bytes) else "websocket")
    assert people.server.sockets.count == 0


async def test_tokens_of_others_and_old_ones(people: People) -> None:
    foreign = Tokens("another secret of at least 32 characters").make("x", Role.OPERATOR)
    unsigned = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4Iiwicm9sZSI6Im9wZXJhdG9yIn0."
    for token in (foreign, unsigned, people.token("x", Role.OPERATOR, ttl=-5)):
        with pytest.raises(Refused):
            await people.join(token)
    client = Client(people.server.url, foreign)
    with pytest.raises(Refused):
        await client.connect()
    error = await client.next("connect_error")
    assert error["data"]["code"] == 4500
    assert error["data"]["reconnect"] is False
    await client.close()


async def test_a_token_that_expires_while_connected(people: People) -> None:
    client = await people.join(people.token("ann", Role.USER, ttl=2))
    await client.ok("context.create", id="c")
    farewell = await client.next("hub.disconnect")
    assert farewell["code"] == 4005
    assert farewell["reconnect"] is True
    await client.next("disconnect")
    await until(lambda: people.server.sockets.count == 0)
    with pytest.raises(Refused):
        await people.join(client.token)
