"""What comes and goes leaves nothing behind: connections, subscriptions, requests under way, contexts that sleep."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from socketio.exceptions import ConnectionError as Refused

from hub.core.requests import Apply, Role
from hub.node.node import Node
from hub.node.settings import Settings
from hub.server import engine, sockets
from hub.server.auth import Tokens
from tests.clients import Client, Follower, People, serving
from tests.leaks import kept, own_tasks, settled
from tests.raw import enter, raw
from tests.support import until


async def test_five_hundred_bad_tokens(people: People, op: Client) -> None:
    baseline, tasks = kept(people), own_tasks()
    bad = Tokens("some other secret of 32 characters").make("x", Role.OPERATOR)

    async def attempt(n: int) -> None:
        with pytest.raises(Refused):
            await people.join(bad, ("websocket", "msgpack")[n % 2])

    for begin in range(0, 500, 25):
        await asyncio.gather(*(attempt(n) for n in range(begin, begin + 25)))
    await settled(people, baseline)
    await until(lambda: own_tasks() <= tasks, "the tasks' ends")
    await op.ok("contexts.page")


async def test_connect_handlers_that_raise(people: People, op: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trial L1: every one is told, the hub's log has the traceback, and nothing is left."""
    baseline = kept(people)
    logged: list[BaseException | None] = []
    monkeypatch.setattr(sockets._log, "exception", lambda *args: logged.append(None))  # what pytest keeps has frames

    def broken(self: Tokens, token: object) -> Any:
        raise RuntimeError("a fault for the test")

    with monkeypatch.context() as patched:
        patched.setattr(Tokens, "read", broken)
        for n in range(100):
            with pytest.raises(Refused):
                await people.join(op.token, ("websocket", "msgpack")[n % 2])
    assert len(logged) == 100
    await settled(people, baseline)


@pytest.mark.parametrize("kind", ["websocket", "polling", "msgpack"])
async def test_coming_and_going(people: People, op: Client, kind: str) -> None:
    await op.ok("context.create", id="c", agent="bot", user_id="ann")
    await op.ok("message", context="c", text="hello")
    baseline, tasks = kept(people), own_tasks()
    for n in range(30):
        client = await people.join(people.token("ann", Role.USER, "c*", ttl=60) if n % 2 else people.server.token, kind)
        for topic in ("context:c", "contexts", "notices"):
            await client.ok("subscribe", topic=topic, deliver="patch")
        await client.ok("subscribe", topic="context:c")
        if n % 3 == 0:
            await client.ok("unsubscribe", topic="context:c")
        if n % 5 == 0 and kind != "polling":
            client.drop()
        await client.close()
    await settled(people, baseline)
    await until(lambda: own_tasks() <= tasks, "the tasks' ends")


async def test_going_in_the_middle_of_a_request(people: People, op: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Subscribing, serving, asking for a page: the record answers after the connection has gone."""
    record: Any = people.server.node.record
    await op.ok("context.create", id="c", agent="bot")
    await op.ok("apply", context="c", ops=[{"op": "state.incr", "path": "/n"}])
    baseline = kept(people)
    gate, waiting = asyncio.Event(), 0

    def hold(name: str) -> None:
        original = getattr(record, name)

        async def slow(*args: Any, **kwargs: Any) -> Any:
            nonlocal waiting
            waiting += 1
            await gate.wait()
            return await original(*args, **kwargs)

        monkeypatch.setattr(record, name, slow)

    for name in ("load", "rows", "read_marks", "get_upload"):
        hold(name)
    people.server.node.contexts.forget(people.server.node.contexts.live["c"])
    client = await people.operator()
    requests: list[tuple[str, dict[str, Any]]] = [
        ("subscribe", {"topic": "context:c"}),
        ("subscribe", {"topic": "contexts"}),
        ("subscribe", {"topic": "notices"}),
        ("agent.serve", {"agent": "bot", "capacity": 1, "runs": [{"context": "c", "run": {"id": "r", "fence": 1}}]}),
        ("contexts.page", {}),
        ("apply", {"context": "c", "ops": [{"op": "state.incr", "path": "/n"}]}),
        ("message", {"context": "c", "text": "t"}),
    ]
    for name, payload in requests:
        await client.send(name, payload)
    await until(lambda: waiting >= 4)
    client.drop()
    await until(lambda: people.server.sockets.count == 1)
    gate.set()
    await until(lambda: people.server.node.contexts.live.get("c"))
    await until(lambda: people.server.node.contexts.live["c"].replica.state.document["queue"])
    await settled(people, baseline)
    assert (await op.ok("context.get", context="c"))["document"]["state"]["n"] == 2, "it was asked, so it is done"


async def test_connections_that_never_ask_to_be_let_in(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CONNECT_SECONDS", 0.3)
    baseline = kept(people)
    async with raw(people.server.url) as silent, raw(people.server.url) as refused, raw(people.server.url) as gone:
        await refused.send('40{"token":"bad"}')
        await gone.send(enter(people.server.token))
        await gone.until(lambda frame: frame.startswith("40"))
        await gone.send("41")
        for client in (silent, refused, gone):
            assert await client.ended()
    fine = await people.operator()
    await asyncio.sleep(0.5)  # beyond the time that was given
    await fine.ok("contexts.page")
    await fine.close()
    await settled(people, baseline)


async def test_as_many_connections_as_are_taken(tmp_path: Path) -> None:
    async with serving(tmp_path / "hub", settings=Settings(connections=3)) as people:
        clients = [await people.operator() for _ in range(3)]
        with pytest.raises(Refused):
            await people.operator()
        await clients[0].close()
        await until(lambda: people.server.sockets.count == 2)
        await (await people.operator()).ok("contexts.page")


async def test_as_many_subscriptions_as_are_taken(tmp_path: Path) -> None:
    async with serving(tmp_path / "hub", settings=Settings(subscriptions=10)) as people:
        op = await people.operator()
        for n in range(12):
            await op.ok("context.create", id=f"c{n}")
        for n in range(12):
            await op.send("subscribe", {"topic": f"context:c{n}"})
        await op.until(lambda: len(op.of("reply")) == 12)
        replies = [reply["ok"] or reply["error"]["code"] for reply in op.of("reply")]
        assert replies == [True] * 10 + ["rate_limited"] * 2
        await op.ok("subscribe", topic="context:c1", deliver="patch")  # again, not another
        for _ in range(50):
            await op.refused("subscribe", "rate_limited", topic="context:c11")
            await op.ok("unsubscribe", topic="context:nothing")
        await op.ok("unsubscribe", topic="context:c1")
        await op.ok("subscribe", topic="context:c11")


async def test_subscriptions_that_fail_do_not_count(tmp_path: Path) -> None:
    async with serving(tmp_path / "hub", settings=Settings(subscriptions=5)) as people:
        op = await people.operator()
        for n in range(20):
            await op.refused("subscribe", "not_found", topic=f"context:nothing{n}")
        await op.ok("subscribe", topic="contexts")


@pytest.mark.parametrize("record", ["memory", "embedded"])
async def test_contexts_fall_asleep_and_come_back(tmp_path: Path, record: str) -> None:
    settings = Settings(idle=0.2, recent_bytes=0)
    async with serving(tmp_path / "hub", record=record, settings=settings) as people:
        op = await people.operator()
        for n in range(50):
            await op.ok("context.create", id=f"c{n}", agent="bot", state={"n": n})
        await op.ok("run.open", context="c1")
        watcher, follower = await people.operator(), Follower("c0")
        await follower.subscribe(watcher)
        node: Node = people.server.node
        await until(lambda: set(node.contexts.live) == {"c0", "c1"}, "all but the watched and the running one asleep")
        mirroring: Any = node.mirroring
        assert set(mirroring._states) == {"c0", "c1"}
        got = await op.ok("context.get", context="c7")
        assert (got["document"]["state"], got["seq"]) == ({"n": 7}, 1)
        for _ in range(5):
            await op.ok("apply", context="c0", ops=[{"op": "state.incr", "path": "/n"}])
        await watcher.until(lambda: follower.read(watcher).document["state"]["n"] == 5)
        at = {"epoch": got["epoch"], "seq": 1}
        for n in range(3):  # each time it slept meanwhile
            await until(lambda: "c7" not in node.contexts.live)
            reply = await op.ok("subscribe", topic="context:c7", deliver="patch", from_=at)
            assert reply["recovered"]
            assert reply["seq"] == n + 1
            at["seq"] = (await op.ok("apply", context="c7", ops=[{"op": "state.incr", "path": "/n"}]))["seq"]
            await op.next("change", lambda event: (event["topic"], event["seq"]) == ("context:c7", at["seq"]))
            await op.ok("unsubscribe", topic="context:c7")
        worker = await people.operator()
        await until(lambda: "c9" not in node.contexts.live)
        await op.ok("message", context="c9", text="wake up")
        await worker.ok("agent.serve", agent="bot", capacity=1)
        assert (await worker.next("run.start"))["context"] == "c9"


async def test_refused_requests_leave_nothing_behind(people: People) -> None:
    """A payload may have a megabyte: it must not wait for the collector of cycles."""
    op = await people.operator()
    await op.ok("context.create", id="c")
    ops = [{"op": "log.append", "id": "none", "text": "x" * 100_000}]
    async with disabled_gc():
        before = _applies()
        for context in ("c", "none") * 20:
            await op.refused("apply", "not_found", context=context, ops=ops)
        assert _applies() < before + 4, "the last ones may still be on their way"


def _applies() -> int:
    return sum(isinstance(thing, Apply) for thing in gc.get_objects())


@asynccontextmanager
async def disabled_gc() -> AsyncIterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
