"""Rooms: what reaches nobody, and what a foreigner is never sent a byte of: all that comes over their cables is searched."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import jwt
import pytest
from socketio.exceptions import ConnectionError as Refused

from hub.core.errors import InvalidRequest
from hub.core.requests import Role
from hub.server.auth import ALGORITHM
from tests.clients import Client, People, refusal
from tests.trials.stock import Cable

SECRET = "Zq7-what-only-ann-knows"
KINDS = ("websocket", "polling", "upgrading", "msgpack")
OPERATIONS: list[dict[str, Any]] = [
    {"op": "log.reset"},
    {"op": "state.merge", "value": {"plan": SECRET}},
    {"op": "output.set", "key": "result", "value": SECRET},
    {"op": "data.set", "key": "private", "value": SECRET},
    {"op": "metadata.set", "key": "m", "value": SECRET},
    {"op": "session_context.save", "value": {"goal": SECRET}},
    {"op": "log.add", "type": "response", "id": "e", "heading": SECRET, "content": SECRET, "kvps": {"k": SECRET}},
    {"op": "log.append", "id": "e", "text": SECRET},
    {"op": "progress.set", "text": SECRET},
]


class Foreigner:
    """A client, and all that came to it: the bytes on its cable, and what it made of them (answers to polls are packed)."""

    def __init__(self, client: Client, cable: Cable) -> None:
        self.client, self._cable = client, cable
        self.replies: list[Any] = []

    async def ask(self, name: str, payload: Any) -> Any:
        reply = await self.client.call(name, payload)
        self.replies.append(reply)
        return reply

    def heard(self) -> str:
        assert self._cable.seen
        return json.dumps([self.client.events, self.replies], ensure_ascii=False, default=str) + bytes(
            self._cable.seen
        ).decode("utf-8", "replace")


@asynccontextmanager
async def foreigners(people: People, tokens: dict[str, str]) -> AsyncIterator[dict[str, Foreigner]]:
    """One client for each token and each kind of connection, each on a cable of its own."""
    async with AsyncExitStack() as stack:
        found = {}
        for name, token in tokens.items():
            for kind in KINDS:
                cable = await stack.enter_async_context(Cable(people.server.port))
                client = Client(cable.url, token, kind)
                stack.push_async_callback(client.close)
                found[f"{name}, {kind}"] = Foreigner(await client.connect(), cable)
        yield found


async def write_secrets(op: Client, ann: Client) -> None:
    """A change of every kind, in Ann's session, in the rows about it and in notices for her."""
    await op.ok("apply", context="anns", ops=OPERATIONS)
    await ann.ok("message", context="anns", text=SECRET)
    await ann.ok("context.update", context="anns", name=SECRET, metadata={"again": SECRET})
    await op.ok("notice.post", id="for-ann", message=SECRET, title=SECRET, audience="ann")
    await op.ok("notice.post", id="on-anns", message=SECRET, context="anns")
    await op.ok("notice.clear", id="for-ann")


FALSY: list[Any] = [
    "", " ", "\0", None, 0, False, 0.0, [], {}, [""], ":", "context", "context:", "context: ", "context:\0", "context:null",
    "context:0", "context:None", "context:undefined", "context:*", "context:?", " context:anns", "context:anns ", "CONTEXT:anns",
    "context::anns", "context:anns:", "contexts:", "contexts ", "notices:", "notices\0", "/", "*", "None", "null",
]  # fmt: skip


async def test_falsy_topics_reach_nobody(people: People) -> None:
    """Trial F1: who asks for a topic that is empty, missing or nothing is refused, and whatever happens then reaches nobody."""
    op, ann = await people.operator(), await people.user("ann")
    await ann.ok("context.create", id="anns", agent="nobody")
    await op.ok("context.create", id="nobodys", name=SECRET, agent="nobody")
    async with foreigners(people, {"op": people.server.token, "ann": people.token("ann", Role.USER)}) as listeners:
        for listener in listeners.values():
            for topic in FALSY:
                reply = await listener.ask("subscribe", {"topic": topic})
                assert reply["error"]["code"] in ("not_found", "invalid_request"), (topic, reply)
            for payload in (
                {},
                {"topic": "context:nobody", "deliver": "patch"},
                {"topics": ["contexts"]},
                {"room": ""},
            ):
                refused = await listener.ask("subscribe", payload)
                assert refused["error"]["code"] in ("not_found", "invalid_request"), payload
            refusal(await listener.client.call("subscribe", None), "invalid_request")
        await write_secrets(op, ann)
        await op.ok("context.update", context="nobodys", name=SECRET + "!")
        await op.ok("broadcast", type="info", content=SECRET)
        await op.ok("notice.post", message=SECRET)
        await op.ok("context.remove", context="nobodys")
        for name, listener in listeners.items():
            await listener.ask("contexts.page", {"limit": 1, "filter": {"type": "task"}})
            assert not listener.client.of("change", "snapshot", "log", "row"), name
            assert SECRET not in listener.heard(), name
    for session, _ in people.server.sockets._sessions.values():
        assert not session._asked._topics, "who was refused is in no room"


EMPTY: list[Any] = ["", 0, False, [], {}]


async def test_falsy_audiences_reach_nobody(people: People) -> None:
    """Trial F1: what belongs to no user is not what belongs to users of odd names; empty fields are refused."""
    op = await people.operator()
    odd = ["None", "null", "0", "False", "undefined", " ", "*", "?", "\0", "%00", "{}"]
    async with foreigners(people, {user: people.token(user, Role.USER) for user in odd}) as listeners:
        for listener in listeners.values():
            await listener.ask("subscribe", {"topic": "contexts"})
            await listener.ask("subscribe", {"topic": "notices"})
        await op.ok("context.create", id="nobodys", name=SECRET, agent="nobody")
        await op.ok("context.update", context="nobodys", name=SECRET + "!")
        await op.ok("apply", context="nobodys", ops=OPERATIONS)
        await op.ok("notice.post", message=SECRET, context="nobodys")
        for field in ("audience", "context"):
            for value in EMPTY:
                await op.refused("notice.post", "invalid_request", message=SECRET, **{field: value})
        await op.refused("context.create", "invalid_request", user_id="", name=SECRET)
        await op.refused("context.update", "invalid_request", context="nobodys", user_id="", name=SECRET)
        for value in [*EMPTY, None]:
            refused = await op.ask("broadcast", type=value, content=SECRET)
            assert refused["error"]["code"] in ("invalid_request", "unknown_type")
        for name, listener in listeners.items():
            refusal(await listener.ask("subscribe", {"topic": "context:nobodys"}), "not_found")
            assert (await listener.ask("contexts.page", {}))["rows"] == [], name
            assert (await listener.ask("subscribe", {"topic": "notices"}))["rows"] == [], name
            assert not listener.client.of("row"), name
            assert SECRET not in listener.heard(), name


IDS = [
    "anns",
    "аnns",  # Cyrillic а
    "ａｎｎｓ",  # full width
    "ann\u017f",  # a long s, which becomes s in upper case
    "anns\u200b",
    "anns\u0301",
    "\u202eanns",
    "ANNS",
    "Anns",
    " anns",
    "anns ",
    "anns\n",
    "anns\0",
    "\0anns",
    "%61nns",
    "anns%00",
    "anns%20",
    "./anns",
    "x/../anns",
    "//anns",
    "anns/",
    "anns}:state",
    "{anns}",
    "an*",
    "ann?",
    "[a]nns",
    ["anns"],
    {"id": "anns"},
]


def requests_about(id: Any, log: str) -> list[tuple[str, dict[str, Any]]]:
    """Whatever names a context."""
    ops = [{"op": "state.merge", "value": {"mine": 1}}]
    return [
        ("subscribe", {"topic": f"context:{id}" if isinstance(id, str) else id}),
        ("subscribe", {"topic": f"context:{id}", "deliver": "patch", "from": {"epoch": "e", "seq": 1}, "tail": 1000}),
        ("context.get", {"context": id}),
        ("log.page", {"context": id, "log": log, "before": 100}),
        ("context.update", {"context": id, "name": "mine"}),
        ("context.remove", {"context": id}),
        ("apply", {"context": id, "ops": ops}),
        ("apply", {"context": id, "ops": ops, "expected": {"state": "e:1"}, "key": "of-ann"}),
        ("message", {"context": id, "text": "mine"}),
        ("queue.clear", {"context": id}),
        ("queue.edit", {"context": id, "id": "m", "text": "mine"}),
        ("queue.send", {"context": id, "joined": True}),
        ("control", {"context": id, "action": "reset"}),
    ]


@pytest.mark.parametrize("role", [Role.USER, Role.VIEWER, Role.AGENT])
async def test_a_foreigner_gets_not_one_byte(people: People, role: Role) -> None:
    """Trial F4: another user's session, by its id and by all that looks like it, over every kind of connection."""
    op, ann = await people.operator(), await people.user("ann")
    await ann.ok("context.create", id="anns", name=SECRET, agent="nobody", key="of-ann", state={"plan": SECRET})
    log = (await ann.ok("context.get", context="anns"))["document"]["log"]["id"]
    ctx = () if role is Role.USER else ("bobs*",)
    async with foreigners(people, {"bob": people.token("bob", role, *ctx)}) as bobs:
        for bob in bobs.values():
            for topic in ("contexts", "notices"):
                assert (await bob.ask("subscribe", {"topic": topic}))["ok"]
        await write_secrets(op, ann)
        before = await op.ok("context.get", context="anns")
        for name, bob in bobs.items():
            for id in IDS:
                for request, payload in requests_about(id, log):
                    error = (await bob.ask(request, payload))["error"]
                    # What cannot be an id is refused as such where an id is asked for. Viewers write nothing anywhere.
                    may = {"not_found", "forbidden"} if role is Role.VIEWER else {"not_found"}
                    may |= set() if id == "anns" else {"invalid_request", "invalid_value"}
                    assert error["code"] in may, (name, id, request, error)
            many = await bob.ask("apply.many", {"batches": [{"context": "anns", "ops": OPERATIONS[1:2]}]})
            assert not many.get("ok") or refusal(many["replies"][0], "not_found")
            for request, payload in (
                ("broadcast", {"type": "info", "content": "from bob"}),
                ("notice.post", {"message": "from bob", "context": "anns"}),
                ("notice.post", {"message": "from bob", "audience": "ann"}),
                ("notice.clear", {"id": "on-anns"}),
                ("notice.read", {"ids": ["on-anns", "for-ann"]}),
                ("agent.serve", {"agent": "nobody", "runs": [{"context": "anns", "run": {"id": "r", "fence": 1}}]}),
                ("run.open", {"context": "anns"}),
                ("contexts.page", {"limit": 500, "filter": {"type": "all"}}),
                ("context.create", {"id": "anns", "name": "mine"}),
            ):
                await bob.ask(request, payload)
        assert await op.ok("context.get", context="anns") == before, "and nothing of it has changed"
        assert {row["id"] for row in (await op.ok("subscribe", topic="notices"))["rows"]} == {"on-anns"}
        await write_secrets(op, ann)
        await ann.ok("context.remove", context="anns")
        for name, bob in bobs.items():
            assert (await bob.ask("contexts.page", {}))["rows"] == []
            assert not bob.client.of("row", "change", "snapshot", "log"), name
            assert SECRET not in bob.heard(), name
    assert (await op.ask("context.get", context="anns"))["error"]["code"] == "not_found"


async def test_what_is_sent_is_found(people: People) -> None:
    """That the search above means something: the owner's connections have the secret on them."""
    op, ann = await people.operator(), await people.user("ann")
    await ann.ok("context.create", id="anns", agent="nobody")
    async with foreigners(people, {"ann": people.token("ann", Role.USER)}) as anns:
        for tab in anns.values():
            await tab.ask("subscribe", {"topic": "context:anns"})
        await write_secrets(op, ann)
        for name, tab in anns.items():
            await tab.client.next("snapshot", lambda event: event["document"]["name"] == SECRET)
            assert SECRET in tab.heard(), name


async def test_ids_of_sockets_are_no_rooms(people: People) -> None:
    """Trial F4: the raw id of a connection, of either layer, is no topic, no context and no user."""
    op, ann = await people.operator(), await people.user("ann")
    await ann.ok("context.create", id="anns", agent="nobody")
    await ann.ok("subscribe", topic="context:anns")
    async with foreigners(people, {"bob": people.token("bob", Role.USER)}) as bobs:
        for name, bob in bobs.items():
            for server in people.server.sockets.servers.values():
                for sid in [*server.outboxes, *(outbox.session_id for outbox in server.outboxes.values())]:
                    for topic in (sid, f"context:{sid}", f"/{sid}", f"/#{sid}"):
                        refusal(await bob.ask("subscribe", {"topic": topic}), "not_found")
                    assert (await bob.ask("context.get", {"context": sid}))["error"]["code"] in (
                        "not_found",
                        "invalid_request",
                    )
            await write_secrets(op, ann)
            await ann.next("snapshot")
            await bob.ask("contexts.page", {})
            assert not bob.client.of("row", "change", "snapshot", "log"), name
            assert SECRET not in bob.heard(), name


async def test_uploads_of_others(people: People) -> None:
    """Trial F4: a file is for its owner, by HTTP as by a message that names it; its name is a secret too."""
    ann, bob = people.token("ann", Role.USER), people.token("bob", Role.USER)
    url = people.server.url + "/api/v1/uploads"
    async with aiohttp.ClientSession() as web:
        headers = {"Authorization": f"Bearer {ann}"}
        async with web.post(url, params={"name": SECRET}, data=SECRET, headers=headers) as answer:
            id = (await answer.json())["upload"]["id"]
        for look in (id, f"{id}%00", f"%20{id}", id.upper(), f"../uploads/{id}", f"{id}/", ""):
            async with web.get(f"{url}/{look}", headers={"Authorization": f"Bearer {bob}"}) as answer:
                assert answer.status in (404, 405), look
                assert SECRET not in await answer.text() + str(answer.headers)
    async with foreigners(people, {"bob": bob}) as bobs:
        for number, (name, other) in enumerate(bobs.items()):
            assert (await other.ask("context.create", {"id": f"bobs-{number}", "agent": "nobody"}))["ok"]
            message = {"context": f"bobs-{number}", "text": "look", "attachments": [{"id": id}]}
            refusal(await other.ask("message", message), "not_found")
            named = {**message, "attachments": [{"id": id, "name": "x", "size": 1, "type": "text/plain"}]}
            assert not (await other.ask("message", named))["ok"]
            assert SECRET not in other.heard(), name


@pytest.mark.parametrize("deliver", ["patch", "snapshot"])
async def test_a_session_that_changes_hands(people: People, deliver: str) -> None:
    """Trial F4: from the change on that gives it to somebody else, nothing of it reaches who had it before."""
    op = await people.operator()
    async with foreigners(people, {"ann": people.token("ann", Role.USER)}) as anns:
        for number, (name, ann) in enumerate(anns.items()):
            id = f"anns-{number}"
            await ann.ask("context.create", {"id": id, "agent": "nobody"})
            assert (await ann.ask("subscribe", {"topic": f"context:{id}", "deliver": deliver}))["ok"]
            assert (await ann.ask("subscribe", {"topic": "contexts"}))["ok"]
            # In one turn of the loop: what she may see, the change of hands, and what she may not see any more.
            await op.send("apply", {"context": id, "ops": [{"op": "state.merge", "value": {"still": "hers"}}]})
            await op.send("context.update", {"context": id, "user_id": "bob"})
            await op.send("apply", {"context": id, "ops": OPERATIONS})
            await op.send("context.update", {"context": id, "name": SECRET})
            await op.until(lambda: len(op.of("reply")) == 4 * (number + 1))  # noqa: B023 - at once
            await ann.client.until(lambda: closed(ann.client))  # noqa: B023
            await ann.client.next("row", lambda row: row["row"] is None and row["id"] == id)  # noqa: B023
            shown = json.dumps(ann.client.events)
            assert '"hers"' in shown, "what came before belongs to her"
            refusal(await ann.ask("subscribe", {"topic": f"context:{id}", "deliver": deliver}), "not_found")
            state = {"epoch": "e", "seq": 1}
            refusal(await ann.ask("subscribe", {"topic": f"context:{id}", "from": state}), "not_found")
            assert SECRET not in ann.heard(), name


def closed(client: Client) -> bool:
    parts = [part for change in client.of("change") for part in change["parts"]]
    ends = [part["reason"] for part in parts if part["kind"] == "closed"]
    return "forbidden" in [*ends, *[snapshot.get("closed") for snapshot in client.of("snapshot")]]


@pytest.mark.parametrize("sub", ["ann\ud800", "\udfff"])
async def test_users_whose_names_no_encoder_takes(people: People, sub: str) -> None:
    """Trial F4: lone surrogates become one character; two users must not become one by it."""
    with pytest.raises(InvalidRequest, match="sub"):
        people.token(sub, Role.USER)
    secret = (people.server.options.data_dir / "secret").read_text().strip()
    token = jwt.encode({"sub": sub, "role": "user"}, secret, algorithm=ALGORITHM)
    client = Client(people.server.url, token)
    with pytest.raises(Refused):
        await client.connect()
    assert client.of("connect_error")[0]["data"]["code"] == 4500
    await client.close()
