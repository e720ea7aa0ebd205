"""An agent process and a real hub, over a real connection."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

import hub as hub_package
from hub import (
    AgentBusy,
    AgentConfig,
    AgentContext,
    Conflict,
    Exists,
    Forbidden,
    HubError,
    InvalidRequest,
    NotFound,
    RunStopped,
    TooLarge,
    Unauthorized,
    Unavailable,
    Unconfirmed,
    UnknownType,
    UserMessage,
    WhenBusy,
    connect,
    register_secret,
)
from hub.agent.connect import Client
from hub.agent.on_loop import OnLoop
from hub.agent.serving import Agent
from hub.agent.socket import Socket
from hub.core.requests import Role
from hub.node import contexts as contexts_module
from hub.record.port import Append, Appended
from hub.server.server import HubServer
from tests.clients import cut_websocket, tokens_of
from tests.support import free_port, until


@pytest.fixture
async def client(hub: HubServer) -> AsyncIterator[Client]:
    async with connect(hub.url, token=hub.token) as client:
        yield client


def record(hub: HubServer, id: str) -> Any:
    return hub.node.contexts.live[id].replica.state


def same(ctx: AgentContext, hub: HubServer) -> None:
    """The view and the hub's state are equal."""
    theirs = record(hub, ctx.id)
    with ctx.writer.lock:
        mine = ctx.writer.read()
        assert mine.document == theirs.document
        assert mine.log.to_json() == theirs.log.to_json()
        assert mine.data == theirs.data


def drop(client: Client) -> None:
    """Lose the connection without a word."""
    attempt = client.connection._now
    if attempt is not None and attempt._socket is not None and client.connection.up:
        cut_websocket(attempt._socket._websocket)


def hold_applies(client: Client, monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, list[int]]:
    """Events of applies go to the hub once the event is set; how many batches each has."""
    request, let, sent = client.connection.request, asyncio.Event(), list[int]()

    async def late(name: str, payload: dict[str, Any]) -> dict[str, Any]:
        if name == "apply.many":
            sent.append(len(payload["batches"]))
            await let.wait()
        return await request(name, payload)

    monkeypatch.setattr(client.connection, "request", late)
    return let, sent


async def serve(client: Client, agent: Agent) -> asyncio.Task[None]:
    task = asyncio.create_task(agent.serve())
    await until(lambda: client.connection.up and agent._serving is not None)
    return task


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


# contexts


async def test_hello_and_identity(hub: HubServer, client: Client) -> None:
    assert client.hello["role"] == "operator"
    assert client.link.author.sub == "operator"
    assert client.unconfirmed == 0


async def test_a_wrong_token(hub: HubServer) -> None:
    with pytest.raises(Unauthorized):
        async with connect(hub.url, token="wrong"):
            pass


async def test_nobody_there() -> None:
    with pytest.raises(Unavailable):
        async with connect(f"http://127.0.0.1:{free_port()}", token="x", wait=0.2):
            pass


async def test_an_attempt_that_is_given_up_leaves_no_connection_open() -> None:
    """A hub that stops between the end of the handshake and its first packet; and what was raised then is kept."""
    told: list[str] = []

    async def silent(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        told.append("opened")
        await socket.receive()
        told.append("closed")
        return socket

    app = web.Application()
    app.router.add_get("/msgpack/socket.io/", silent)
    async with TestServer(app) as server, aiohttp.ClientSession() as http:
        with pytest.raises(TimeoutError) as kept:
            async with asyncio.timeout(0.2):
                await Socket.connect(http, str(server.make_url("/msgpack/socket.io")), {})
        await until(lambda: told == ["opened", "closed"])
        assert kept.value.__traceback__


async def test_a_token_from_a_function(hub: HubServer) -> None:
    asked = []

    async def token() -> str:
        asked.append(1)
        return hub.token

    async with connect(hub.url, token=token) as client:
        drop(client)
        await until(lambda: not client.connection.up)
        await until(lambda: client.connection.up)
    assert len(asked) == 2


async def test_a_context_that_is_made_here_is_at_the_hub(hub: HubServer, client: Client) -> None:
    ctx = AgentContext(name="Mine", data={"private": 1}, state={"n": 1}, paused=False)
    entry = ctx.log.log("agent", "Heading")
    for word in ["one", "two", "three"]:
        entry.stream(word + " ")
    ctx.state.incr("n")
    ctx.set_output_data("out", [1])
    ctx.session_context.save(goal="g", plan=["a", "b"])
    ctx.name = "Renamed"
    with ctx.batch():
        ctx.state["m"] = 1
        ctx.metadata["k"] = "v"
    assert entry.content == "one two three "
    await ctx.flush()
    await until(lambda: ctx.version == str(record(hub, ctx.id).position))
    same(ctx, hub)
    assert record(hub, ctx.id).document["name"] == "Renamed"


async def test_what_many_contexts_write_while_events_are_under_way_goes_together(
    hub: HubServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts = [await client.create(id=f"c{number}") for number in range(20)]
    let, sent = hold_applies(client, monkeypatch)
    for number, ctx in enumerate(contexts):
        ctx.state["n"] = number
        for _ in range(5):
            await asyncio.sleep(0)  # the loop is at it in between
    made = await client.create(id="made")  # waits for no event
    let.set()
    await asyncio.gather(*(ctx.flush() for ctx in contexts))
    assert sent == [1, 19]
    assert [record(hub, ctx.id).document["state"] for ctx in contexts] == [{"n": number} for number in range(20)]
    made.close()


async def test_30_a_scheduler(hub: HubServer) -> None:
    """A process of its own creates a TASK context, starts a run in it, logs and removes it."""
    token = tokens_of(hub).make("scheduler", Role.AGENT, ctx=("job-*",))
    async with connect(hub.url, token=token) as client:
        ctx = await client.create(id="job-1", type="task")

        async def job() -> str:
            ctx.log.log("info", "at work")
            await ctx.checkpoint()
            return "done"

        assert await ctx.run_task(job).result(5) == "done"
        await ctx.flush()
        assert record(hub, "job-1").document["run"]["status"] == "finished"
        AgentContext.remove("job-1")
        await until(lambda: "job-1" not in hub.node.contexts.live)
        with pytest.raises(NotFound):
            await client.open("job-1")


async def test_create_and_open(hub: HubServer, client: Client) -> None:
    ctx = await client.create(id="one", data={"a": 1})
    with pytest.raises(NotFound):
        await client.open("none")
    assert await client.open("one") is ctx
    ctx.close()
    assert AgentContext.get("one") is None
    again, twin = await asyncio.gather(client.open("one"), hub_package.open("one"))
    assert again is twin
    assert again is not ctx
    assert again.data == {"a": 1}
    with pytest.raises(Exists):
        AgentContext(id="one")
    again.close()
    ctx = AgentContext(id="one", data={"b": 2})
    with pytest.raises(Exists):
        await ctx.flush()
    assert AgentContext.get("one") is None
    new = AgentContext(id="one", data={"b": 2}, replace=True)
    await new.flush()
    assert record(hub, "one").data == {"b": 2}


async def test_a_token_that_does_not_cover_it(hub: HubServer, client: Client) -> None:
    await client.create(id="secret-1")
    token = tokens_of(hub).make("bot", Role.AGENT, ctx=("mine-*",))
    async with connect(hub.url, token=token) as bot:
        AgentContext.get("secret-1").close()  # type: ignore[union-attr]
        with pytest.raises(NotFound):
            await bot.open("secret-1")
        ctx = AgentContext(id="other-1", link=bot.link)
        with pytest.raises(Forbidden):
            await ctx.flush()


async def test_a_whole_log_is_read(hub: HubServer, client: Client) -> None:
    ctx = AgentContext(id="long")
    for number in range(2300):
        ctx.log.log("info", content=f"{number} " + "x" * 300)
    await ctx.flush()
    ctx.close()
    ctx = await client.open("long")
    assert [entry.no for entry in ctx.log.entries()] == list(range(2300))
    ctx.log.entries()[3].stream("!")
    await ctx.flush()
    await until(lambda: ctx.version == str(record(hub, "long").position))
    same(ctx, hub)


async def test_two_processes_write_at_once(hub: HubServer, client: Client) -> None:
    ctx = await client.create(id="one", state={"n": 0})
    async with connect(hub.url, token=hub.token) as other:
        seen = AgentContext.get("one")
        client._registry.drop(ctx)
        twin = await other.open("one")
        assert seen is ctx
        assert twin is not ctx
        for number in range(150):
            for writer in (ctx, twin):
                writer.state.incr("n")
                writer.log.log("info", str(number))
            await asyncio.sleep(0)
        await asyncio.gather(ctx.flush(), twin.flush())
        await until(lambda: ctx.version == twin.version == str(record(hub, "one").position))
        assert ctx.state["n"] == twin.state["n"] == 300
        same(ctx, hub)
        same(twin, hub)
        seen_at = ctx.state.version
        twin.state["n"] = 7
        await twin.flush()
        await until(lambda: ctx.state["n"] == 7)
        ctx.state.merge({"n": 8}, expected=seen_at)
        with pytest.raises(Conflict):
            await ctx.flush()
        assert ctx.state["n"] == 7
        await until(lambda: ctx.version == str(record(hub, "one").position))


async def test_threads_write_in_order(hub: HubServer, client: Client) -> None:
    """Trial T10, in short; of processes it is in tests/trials/test_controls.py."""
    ctx = await client.create(id="one")

    def write(thread: int) -> None:
        for number in range(200):
            ctx.log.log("info", str(thread), str(number))

    await asyncio.gather(*(asyncio.to_thread(write, thread) for thread in range(8)))
    await ctx.flush()
    entries = record(hub, "one").log.entries
    for thread in range(8):
        assert [e.content for e in entries if e.heading == str(thread)] == [str(n) for n in range(200)]


async def test_what_is_too_large_is_refused_and_nothing_else(hub: HubServer, client: Client) -> None:
    ctx = await client.create(id="one")
    ctx.set_data("big", "x" * 1_100_000)
    ctx.set_data("small", 1)
    entry = ctx.log.log("info", "h", "y" * 400_000)
    with pytest.raises(TooLarge):
        await ctx.flush()
    assert ctx.data == {"small": 1}
    assert (len(entry.content), entry.cut) == (250_000, 150_000)
    await until(lambda: ctx.version == str(record(hub, "one").position))
    same(ctx, hub)


async def test_more_contexts_than_may_be_followed(hub: HubServer, client: Client) -> None:
    client.link.subscriptions = 3
    contexts = [AgentContext(id=f"c{number}", state={"n": 0}) for number in range(6)]
    for ctx in contexts:
        ctx.state.incr("n")
        await ctx.flush()
    assert all(record(hub, ctx.id).document["state"]["n"] == 1 for ctx in contexts)
    await client.request("context.create", {"id": "other"})
    with pytest.raises(hub_package.HubError, match="may follow"):
        await client.open("other")
    for ctx in contexts[:3]:
        ctx.close()
    await client.request("context.update", {"context": "c5", "name": "renamed"})
    await until(lambda: contexts[5].name == "renamed")
    same(contexts[5], hub)


async def test_removed_by_others(hub: HubServer, client: Client) -> None:
    ctx = await client.create(id="one")
    await client.request("context.remove", {"context": "one"})
    await until(lambda: ctx.closed)
    assert ctx.closed == "removed"
    assert AgentContext.get("one") is None
    with pytest.raises(hub_package.Removed):
        ctx.set_data("a", 1)


async def test_uploads(client: Client) -> None:
    kept = await client.upload("a ä.txt", b"content", "text/plain")
    assert (kept["name"], kept["size"], kept["type"]) == ("a ä.txt", 7, "text/plain")
    assert await client.download(kept["id"]) == b"content"
    with pytest.raises(NotFound):
        await client.download("unknown")
    ctx = await client.create(id="one", agent="nobody")
    ctx.communicate(UserMessage("look", [{"id": kept["id"]}]))
    await ctx.flush()
    await until(lambda: ctx.message_queue and ctx.message_queue[0]["attachments"][0]["size"] == 7)


async def test_notices_and_broadcasts(hub: HubServer, client: Client) -> None:
    ctx = await client.create(id="one", user_id="anna", set_current=True)
    background = await client.create(id="two", type="background")
    manager = AgentContext.get_notification_manager()
    manager.send_notification("warning", "Message", id="n1", expires_at="2999-01-01T00:00:00Z")
    assert AgentContext.log_to_all("warning", "Maintenance", "soon") == []
    await client.link.announcements.settle()
    assert (await hub.node.notices.find("n1"))["message"] == "Message"  # type: ignore[index]
    await until(lambda: [len(context.log) for context in (ctx, background)] == [1, 1])
    assert ctx.log.entries()[0].content == "soon"
    manager.clear("n1")
    await client.link.announcements.settle()
    assert await hub.node.notices.find("n1") is None


# the connection goes and comes


async def test_writes_go_on_over_lost_connections(hub: HubServer, client: Client) -> None:
    ctx = await client.create(id="one", state={"n": 0})
    entry = ctx.log.log("agent", "stream")
    for number in range(300):
        entry.stream(f"{number} ")
        ctx.log.log("info", str(number))
        ctx.state.incr("n")
        if number % 60 == 30:
            drop(client)
        if number % 7 == 0:
            await asyncio.sleep(0.002)
    await ctx.flush()
    await until(lambda: ctx.version == str(record(hub, "one").position))
    same(ctx, hub)
    assert ctx.state["n"] == 300
    assert entry.content == "".join(f"{number} " for number in range(300))
    assert [e.heading for e in ctx.log.entries(1)] == [str(number) for number in range(300)]


async def test_writes_stay_pending_while_the_record_is_away(
    hub: HubServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contexts_module, "WAIT", 0.1)
    ctx = await client.create(id="one", state={"l": []})
    tries: list[int] = []

    async def away(appends: Sequence[Append]) -> list[Appended]:
        tries.append(len(appends))
        raise Unavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(hub.node.record, "append", away)
        for n in range(3):
            ctx.state.append("l", n)
        await until(lambda: len(tries) > 5)  # more than one request of them waited in vain
        assert ctx.state["l"] == [0, 1, 2], "its author sees what it wrote"
        assert client.unconfirmed
    await ctx.flush()
    assert client.unconfirmed == 0
    await until(lambda: record(hub, "one").document["state"] == {"l": [0, 1, 2]})


async def test_what_was_missed_meanwhile_comes(hub: HubServer, client: Client) -> None:
    ctx = await client.create(id="one")
    async with connect(hub.url, token=hub.token) as other:
        client._registry.drop(ctx)
        twin = await other.open("one")
        drop(client)
        await until(lambda: not client.connection.up)
        for number in range(700):  # more than the ring keeps
            twin.log.log("info", str(number))
        ctx.log.log("info", "own")
        await asyncio.gather(twin.flush(), ctx.flush())
        await until(lambda: ctx.version == twin.version == str(record(hub, "one").position))
        same(ctx, hub)


async def test_a_hub_that_says_it_is_for_good(hub: HubServer) -> None:
    token = tokens_of(hub).make("bot", Role.OPERATOR, ttl=3600)
    tokens = [token, "no longer good"]
    async with connect(hub.url, token=lambda: tokens.pop(0)) as client:
        ctx = await client.create(id="one")
        agent = client.agent("echo")
        agent.on_message(lambda ctx, message: None)
        task = await serve(client, agent)
        drop(client)
        with pytest.raises(Unauthorized):
            await asyncio.wait_for(task, 5)
        assert isinstance(client.error, Unauthorized)
        with pytest.raises(Unavailable):
            ctx.set_data("a", 1)


async def test_d1_what_is_not_confirmed_is_said(hub: HubServer) -> None:
    async def process() -> None:
        async with connect(hub.url, token=hub.token, leave=0.3) as client:
            ctx = await client.create(id="one")
            await hub.stop()
            for number in range(7):
                ctx.log.log("info", str(number))

    with pytest.raises(Unconfirmed) as unconfirmed:
        await process()
    assert unconfirmed.value.details["writes"] == 7
    assert "7 writes" in unconfirmed.value.message


async def test_d1_what_was_written_is_confirmed_at_the_end(hub: HubServer) -> None:
    register_secret("sesame")
    async with connect(hub.url, token=hub.token):
        ctx = AgentContext(id="one")
        entry = ctx.log.log("agent")
        for number in range(100):
            ctx.log.log("info", str(number))
        entry.stream("ses")
    log = record(hub, "one").log
    assert len(log.entries) == 101
    assert log.entries[0].content == "ses"


async def test_a_refusal_that_nobody_heard_of_is_raised_at_the_end(hub: HubServer) -> None:
    async def process() -> None:
        async with connect(hub.url, token=hub.token) as client:
            ctx = await client.create(id="one")
            ctx.state.merge({"a": 1}, expected="other:1")
            await until(lambda: not ctx.writer.unconfirmed)

    with pytest.raises(Conflict):
        await process()


# agents


async def test_an_agent_answers(hub: HubServer, client: Client) -> None:
    agent = client.agent("echo", capacity=2)
    seen: list[Any] = []

    @agent.on_message
    async def handle(ctx: AgentContext, message: UserMessage) -> None:
        seen.append((AgentContext.current(), ctx.document()["run"]["status"], message.message, message.attachments))
        entry = ctx.log.log("response", "Echo")
        for word in message.message.split():
            entry.stream(word + " ")
        await ctx.checkpoint()

    task = await serve(client, agent)
    ctx = await client.create(id="one", agent="echo")
    ids = [ctx.communicate("hello there"), ctx.communicate("again")]
    await until(lambda: len(seen) == 2 and not ctx.is_running() and not ctx.message_queue)
    assert seen == [(ctx, "running", "hello there", []), (ctx, "running", "again", [])]
    assert [(e.type, e.content) for e in ctx.log.entries()] == [
        ("user", "hello there"),
        ("response", "hello there "),
        ("user", "again"),
        ("response", "again "),
    ]
    assert ctx.log.entries()[0].id == ids[0]
    assert ctx.document()["run"]["status"] == "finished"
    await end(task)
    same(ctx, hub)


async def test_a_plain_handler_runs_in_a_thread(hub: HubServer, client: Client) -> None:
    agent = client.agent("plain")
    threads: list[str] = []
    go = threading.Event()

    @agent.on_message
    def handle(ctx: AgentContext, message: UserMessage) -> None:
        threads.append(threading.current_thread().name)
        assert AgentContext.current() is ctx
        go.wait(5)
        ctx.log.log("response", message.message)

    task = await serve(client, agent)
    ctx = await client.create(agent="plain")
    ctx.communicate("m")
    await until(lambda: threads)
    go.set()
    await until(lambda: len(ctx.log) == 2 and not ctx.is_running())
    assert threads == [f"task {ctx.id}"]
    await end(task)


async def test_22_a_handler_that_raises(hub: HubServer, client: Client) -> None:
    agent = client.agent("fails")

    @agent.on_message
    async def handle(ctx: AgentContext, message: UserMessage) -> None:
        ctx.log.log("info", "before")
        raise ValueError(message.message)

    task = await serve(client, agent)
    ctx = await client.create(agent="fails")
    ctx.communicate("no good")
    await until(lambda: ctx.document()["run"] and ctx.document()["run"]["status"] == "failed")
    assert [e.heading for e in ctx.log.entries()][1:] == ["before", "ValueError: no good"]
    await end(task)


async def test_d11_a_background_task_that_raises(hub: HubServer, client: Client) -> None:
    agent = client.agent("fails")

    @agent.on_message
    async def handle(ctx: AgentContext, message: UserMessage) -> None:
        async def background() -> None:
            raise ValueError("in the background")

        asyncio.get_running_loop().call_soon(lambda: _leave(background()))
        await asyncio.sleep(60)

    task = await serve(client, agent)
    ctx = await client.create(agent="fails")
    ctx.communicate("m")
    await until(lambda: ctx.document()["run"] and ctx.document()["run"]["status"] == "failed", seconds=5)
    assert ctx.log.entries()[-1].heading == "ValueError: in the background"
    await end(task)


def _leave(coroutine: Any) -> None:
    asyncio.get_running_loop().create_task(coroutine)


async def test_t6_five_tasks_one_stop(hub: HubServer, client: Client) -> None:
    """Trial T6, of tasks on the event loop alone; of all kinds and over processes it is in tests/trials/test_controls.py."""
    agent = client.agent("busy")
    alive: list[int] = []

    @agent.on_message
    async def handle(ctx: AgentContext, message: UserMessage) -> None:
        async def child(number: int) -> None:
            alive.append(number)
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.01)
                alive.remove(number)

        loose = [asyncio.create_task(child(number)) for number in range(5)]
        await asyncio.sleep(60)
        del loose

    task = await serve(client, agent)
    ctx = await client.create(agent="busy")
    ctx.communicate("m")
    await until(lambda: len(alive) == 5)
    await client.request("control", {"context": ctx.id, "action": "stop", "key": "k"})
    await until(lambda: not ctx.is_running())
    assert alive == []
    await until(lambda: record(hub, ctx.id).document["run"]["status"] == "stopped")
    await end(task)


async def test_25_pause_and_resume(hub: HubServer, client: Client) -> None:
    agent = client.agent("steps")
    steps: list[int] = []

    @agent.on_message
    async def handle(ctx: AgentContext, message: UserMessage) -> None:
        for number in range(1000):
            await ctx.checkpoint()
            steps.append(number)
            await asyncio.sleep(0.001)

    task = await serve(client, agent)
    ctx = await client.create(agent="steps")
    ctx.communicate("m")
    await until(lambda: len(steps) > 3)
    await client.request("control", {"context": ctx.id, "action": "pause", "key": "p"})
    await until(lambda: ctx.paused)
    await asyncio.sleep(0.02)
    reached = len(steps)
    await asyncio.sleep(0.05)
    assert len(steps) == reached
    await client.request("control", {"context": ctx.id, "action": "resume", "key": "r"})
    await until(lambda: len(steps) > reached)
    await ctx.kill_process()
    await until(lambda: not ctx.is_running())
    assert ctx.document()["run"]["status"] == "stopped"
    await end(task)


async def test_a_worker_has_so_much_room(hub: HubServer, client: Client) -> None:
    agent = client.agent("slow", capacity=2)
    running: list[str] = []
    most: list[int] = []
    go = asyncio.Event()

    @agent.on_message
    async def handle(ctx: AgentContext, message: UserMessage) -> None:
        running.append(ctx.id)
        most.append(len(running))
        await go.wait()
        running.remove(ctx.id)

    task = await serve(client, agent)
    contexts = [await client.create(agent="slow") for _ in range(5)]
    for ctx in contexts:
        ctx.communicate("m")
    await until(lambda: len(running) == 2)
    go.set()
    await until(lambda: len(most) == 5 and not any(ctx.is_running() for ctx in contexts))
    assert max(most) <= 2
    assert [ctx.document()["run"]["attempt"] for ctx in contexts] == [1] * 5
    await end(task)


async def test_a_run_goes_on_over_a_lost_connection(hub: HubServer, client: Client) -> None:
    agent = client.agent("steps")
    go = asyncio.Event()

    @agent.on_message
    async def handle(ctx: AgentContext, message: UserMessage) -> None:
        ctx.log.log("info", "before")
        await go.wait()
        ctx.log.log("info", "after")

    task = await serve(client, agent)
    ctx = await client.create(agent="steps")
    ctx.communicate("m")
    await until(lambda: len(ctx.log) == 2)
    drop(client)
    await until(lambda: not client.connection.up)
    go.set()
    await until(lambda: client.connection.up)
    await until(lambda: record(hub, ctx.id).document["run"]["status"] == "finished")
    assert len(record(hub, ctx.id).log.entries) == 3
    ctx.communicate("again")  # and it takes runs again
    await until(lambda: len(ctx.log) == 6)
    await end(task)


async def test_an_agent_that_ends_leaves_its_runs_interrupted(hub: HubServer, client: Client) -> None:
    agent = client.agent("steps")
    begun = asyncio.Event()
    errors: list[BaseException] = []

    @agent.on_message
    async def handle(ctx: AgentContext, message: UserMessage) -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        except BaseException as error:
            errors.append(error)
            raise

    task = await serve(client, agent)
    ctx = await client.create(agent="steps")
    ctx.communicate("m")
    await begun.wait()
    await end(task)
    await until(lambda: record(hub, ctx.id).document["run"]["status"] == "interrupted")
    assert isinstance(errors[0], asyncio.CancelledError)
    assert record(hub, ctx.id).document["run"]["messages"]


async def test_a_message_whose_run_was_interrupted_is_given_to_the_agent_again(hub: HubServer, client: Client) -> None:
    seen: list[tuple[int, list[str]]] = []

    async def process(agent: Agent, ends: bool) -> None:
        @agent.on_message
        async def handle(ctx: AgentContext, message: UserMessage) -> None:
            seen.append((message.attempt, [entry.content for entry in ctx.log.entries()]))
            ctx.log.log("info", content=f"attempt {message.attempt}")
            await ctx.flush()
            if not ends:
                await asyncio.Event().wait()

        task = await serve(client, agent)
        await until(lambda: seen and seen[-1][1][1:] == [f"attempt {n + 1}" for n in range(len(seen) - 1)])
        if ends:
            await until(lambda: record(hub, ctx.id).document["run"]["status"] == "finished")
        await end(task)

    ctx = await client.create(agent="steps")
    ctx.communicate("m")
    for n in (1, 2, 3):
        await process(client.agent("steps", attempts=3, version=f"1.{n}"), n == 3)
    assert seen == [(1, ["m"]), (2, ["m", "attempt 1"]), (3, ["m", "attempt 1", "attempt 2"])]
    run = record(hub, ctx.id).document["run"]
    assert (run["status"], run["attempt"], run["version"]) == ("finished", 3, "1.3")


async def test_a_message_while_the_agent_works(hub: HubServer, client: Client) -> None:
    agent = client.agent("steps")

    @agent.on_message
    async def handle(ctx: AgentContext, message: UserMessage) -> None:
        ctx.log.log("info", content=f"begun {message.message}")
        if message.message == "long":
            await asyncio.Event().wait()

    task = await serve(client, agent)
    ctx = await client.create(agent="steps", when_busy="reject")
    assert ctx.when_busy is WhenBusy.REJECT
    ctx.communicate("long")
    await until(lambda: [entry.content for entry in ctx.log.entries()] == ["long", "begun long"])
    with pytest.raises(AgentBusy):
        ctx.communicate("refused")
    ctx.when_busy = "interrupt"
    ctx.communicate("next")
    await until(lambda: ctx.log.entries()[-1].content == "begun next")
    assert [entry.content for entry in ctx.log.entries()] == ["long", "begun long", "next", "begun next"]
    with pytest.raises(UnknownType, match="queue, interrupt, reject, replace"):
        ctx.when_busy = "later"
    await end(task)


async def test_an_agent_ends_though_the_hub_is_gone(hub: HubServer) -> None:
    begun = asyncio.Event()

    async def process() -> None:
        async with connect(hub.url, token=hub.token, leave=0.5) as client:
            agent = client.agent("steps")

            @agent.on_message
            async def handle(ctx: AgentContext, message: UserMessage) -> None:
                begun.set()
                await asyncio.sleep(60)

            await serve(client, agent)
            ctx = await client.create(agent="steps")
            ctx.communicate("m")
            await begun.wait()
            await hub.stop()
            await until(lambda: not client.connection.up)

    with pytest.raises(Unconfirmed):
        await asyncio.wait_for(process(), 5)


async def test_t8_reset_in_mid_run(hub: HubServer, client: Client) -> None:
    """Trial T8, as the agent sees it; as viewers do it is in tests/trials/test_controls.py."""
    agent = client.agent("chatty", capacity=1)
    stopped: list[BaseException] = []

    @agent.on_message
    async def handle(ctx: AgentContext, message: UserMessage) -> None:
        try:
            while True:
                ctx.log.log("info", message.message)
                await asyncio.sleep(0)
        except BaseException as error:
            stopped.append(error)
            raise

    task = await serve(client, agent)
    ctx = await client.create(id="one", agent="chatty")

    async def one(number: int) -> None:
        ctx.communicate(str(number))
        await until(lambda: any(e.heading == str(number) for e in ctx.log.entries()))
        await client.request("control", {"context": "one", "action": "reset", "key": f"reset-{number}"})
        await until(lambda: not ctx.is_running() and len(stopped) == number + 1)
        assert not record(hub, "one").log.entries

    for number in range(10):
        await one(number)
    await until(lambda: not agent.runs)
    await end(task)
    assert all(isinstance(error, asyncio.CancelledError | HubError | RunStopped) for error in stopped)


async def test_a_refused_write_fails_the_run(hub: HubServer, client: Client) -> None:
    agent = client.agent("stale")

    @agent.on_message
    async def handle(ctx: AgentContext, message: UserMessage) -> None:
        ctx.state.merge({"a": 1}, expected="other:1")

    task = await serve(client, agent)
    ctx = await client.create(agent="stale")
    ctx.communicate("m")
    await until(lambda: ctx.document()["run"] and ctx.document()["run"]["status"] == "failed")
    assert ctx.log.entries()[-1].heading.startswith("Conflict")
    await end(task)


async def test_an_agent_token(hub: HubServer) -> None:
    token = tokens_of(hub).make("bot", Role.AGENT, ctx=("*",))
    async with connect(hub.url, token=token, config=AgentConfig(stop_grace=1)) as client:
        agent = client.agent("bot")

        @agent.on_message
        async def handle(ctx: AgentContext, message: UserMessage) -> None:
            await asyncio.to_thread(ctx.log.log, "info", "named by contextvars")
            by_hand = threading.Thread(target=lambda: ctx.log.log("info", "named for it"))
            by_hand.start()
            by_hand.join()
            assert ctx.run_task(lambda: "child").shared

        task = await serve(client, agent)
        ctx = await client.create(agent="bot")
        ctx.communicate("m")
        await until(lambda: ctx.document()["run"] and not ctx.is_running())
        assert [e.heading for e in ctx.log.entries()][1:] == ["named by contextvars", "named for it"]
        assert ctx.document()["run"]["status"] == "finished"
        await end(task)


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1:80", "ftp://127.0.0.1", "http://", "http://127.0.0.1:0", "http://127.0.0.1:99999", "http://[::1"],
)
async def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(InvalidRequest, match="like http://"):
        async with connect(url, token="x", wait=5):
            pass


@pytest.mark.parametrize("token", [None, 5, b"x"])
async def test_a_token_that_is_none(hub: HubServer, token: Any) -> None:
    with pytest.raises(InvalidRequest, match="a token is text"):
        async with connect(hub.url, token=token):
            pass


async def test_the_address_that_people_open_will_do_and_its_token_is_not_told(hub: HubServer) -> None:
    async with connect(f"{hub.url}/?a=1#token=sesame", token=hub.token) as client:
        assert client.url == hub.url
    with pytest.raises(Unavailable) as refused:
        async with connect(f"http://127.0.0.1:{free_port()}/#token=sesame", token="x", wait=0.1):
            pass
    assert "sesame" not in str(refused.value)


async def test_a_token_function_that_fails_is_asked_again_later(hub: HubServer) -> None:
    asked: list[int] = []

    def token() -> str:
        asked.append(1)
        if len(asked) == 2:
            raise ZeroDivisionError
        return hub.token

    async with connect(hub.url, token=token) as client:
        ctx = await client.create()
        drop(client)
        await until(lambda: len(asked) == 3)
        ctx.state["a"] = 1
        await ctx.flush()


async def test_an_attempt_that_fails_at_the_start_says_so_and_leaves_nothing_open(hub: HubServer) -> None:
    def token() -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):  # an unclosed session would be a warning, which is an error here
        async with connect(hub.url, token=token):
            pass
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1), connect(f"http://127.0.0.1:{free_port()}", token="x", wait=60):
            pass


async def test_what_a_signal_handler_calls_wakes_the_loop() -> None:
    """It is in the loop's thread, and the loop may sleep."""
    loop = asyncio.get_running_loop()
    called, soon = loop.create_future(), OnLoop()
    before = signal.signal(signal.SIGUSR1, lambda number, frame: soon(called.set_result, loop.time()))
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        timer.start()
        began = loop.time()
        await asyncio.wait([called], timeout=20)
        assert called.result() - began < 10
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


async def test_large_writes_of_many_contexts_do_not_wait_for_each_other(
    hub: HubServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts = [await client.create() for _ in range(8)]
    let, sent = hold_applies(client, monkeypatch)
    for ctx in contexts:
        ctx.state["large"] = "x" * 200_000
    await until(lambda: sum(sent) == 8)
    let.set()
    await asyncio.gather(*(ctx.flush() for ctx in contexts))
