"""Delivery and order, from an agent's call or a person's message to whoever looks."""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import hub
from hub import AgentContext, UserMessage
from tests.clients import Client, Follower, People, Talk
from tests.e2e.browsing import Tab, browser
from tests.registries import own_registry
from tests.support import HubProcess, environment, until
from tests.trials.rounds import page_in
from tests.trials.stock import Cable, node

# ------------------------------------------------------------------------------------- D1: emit and exit at once

RESULTS = 100
PROGRAM = f"""
import asyncio, sys
import hub

url, token, kind, end = sys.argv[1:]

def work(ctx):
    for number in range({RESULTS}):
        ctx.log.log("response", content=str(number))
    if end == "exit":
        sys.exit()
    if end == "raise":
        raise ValueError("mine")

def wait():
    print("ready", flush=True)
    sys.stdin.readline()

async def main():
    async with hub.connect(url, token=token, leave=1.0) as client:
        ctx = await client.create(id="results")
        await asyncio.to_thread(wait)
        work(ctx)

def plain():
    with hub.connect_sync(url, token=token, leave=1.0) as client:
        ctx = client.create(id="results")
        wait()
        work(ctx)

asyncio.run(main()) if kind == "async" else plain()
"""


@pytest.mark.parametrize("cut", [False, True], ids=["", "cut off"])
@pytest.mark.parametrize("end", ["return", "exit", "raise"])
@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_process_that_emits_and_exits(people: People, kind: str, end: str, cut: bool) -> None:
    """Trial D1: everything is stored, or the process exits non-zero and says how many writes were not confirmed."""
    server = people.server
    async with Cable(server.port) as cable:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROGRAM, cable.url, str(server.token), kind, end),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment(),
        )
        assert process.stdout is not None
        assert process.stdin is not None
        async with asyncio.timeout(30):
            assert await process.stdout.readline() == b"ready\n"
            if cut:
                cable.cut()
            process.stdin.write(b"go\n")
            _, errors = await process.communicate()
    op = await people.operator()
    reply = await op.ok("subscribe", topic="context:results", tail=1000)
    stored = [entry["content"] for entry in reply["entries"]]
    if cut:
        assert process.returncode != 0
        assert f"{RESULTS} writes" in errors.decode()
        assert stored == []
    else:
        assert stored == [str(number) for number in range(RESULTS)]
        assert (process.returncode == 0) == (end != "raise"), errors.decode()


# ------------------------------------------------------------------------------------------ D7: order of an agent

ENTRIES = 1_000


async def one_after_the_other(ctx: AgentContext, chance: random.Random) -> None:
    """One sequence, written from the event loop, from threads and from tasks, each in its turn, with uneven pauses."""

    def write(number: int) -> None:
        ctx.log.log("info", "one", str(number))

    async def write_later(number: int) -> None:
        await asyncio.sleep(chance.random() / 1000)
        write(number)

    for number in range(ENTRIES):
        match chance.randrange(4):
            case 0:
                await asyncio.to_thread(write, number)
            case 1:
                await asyncio.create_task(write_later(number))
            case _:
                write(number)
        if not chance.randrange(20):
            await asyncio.sleep(chance.random() / 100)


async def two_threads(ctx: AgentContext, chance: random.Random) -> None:
    """A sequence each, side by side."""

    def write(name: str, pauses: random.Random) -> None:
        for number in range(ENTRIES):
            ctx.log.log("info", name, str(number))
            if not pauses.randrange(50):
                time.sleep(pauses.random() / 100)

    names = ("first", "second")
    await asyncio.gather(*(asyncio.to_thread(write, name, random.Random(chance.random())) for name in names))


def in_order(entries: list[tuple[str, str]], headings: tuple[str, ...]) -> bool:
    """Whether each sequence is whole and in its order."""
    wanted = [str(number) for number in range(ENTRIES)]
    return all([content for name, content in entries if name == heading] == wanted for heading in headings)


@pytest.mark.browser
@pytest.mark.parametrize(
    ("work", "headings"), [(one_after_the_other, ("one",)), (two_threads, ("first", "second"))], ids=["one", "threads"]
)
async def test_numbered_entries(
    browser_path: Path,
    hub_process: HubProcess,
    work: Callable[[AgentContext, random.Random], Coroutine[Any, Any, None]],
    headings: tuple[str, ...],
) -> None:
    """Trial D7: stored, delivered and rendered in order, for viewers of all kinds that are there from the beginning."""
    server = hub_process
    count = ENTRIES * len(headings)
    async with AsyncExitStack() as stack:
        stack.enter_context(own_registry())
        client = await stack.enter_async_context(hub.connect(server.url, token=server.token))
        ctx = await client.create(id="numbers", agent="nobody")
        page = await open_page(stack, browser_path, server.url, server.token, "numbers")
        javascript = (await stack.enter_async_context(node())).client()
        viewers: list[tuple[Talk, Follower]] = [
            (await javascript.open(server.url, server.token, "msgpack", "websocket"), Follower("numbers")),
            *[(await join(stack, server, kind), Follower("numbers")) for kind in ("msgpack", "polling")],
            (await join(stack, server, "websocket"), Follower("numbers", "snapshot")),
        ]
        for viewer, follower in viewers:
            await follower.subscribe(viewer)
        await work(ctx, random.Random(7))
        await ctx.flush()
        truth = await (await join(stack, server, "websocket")).ok("subscribe", topic="context:numbers", tail=1000)
        assert truth["document"]["log"]["length"] == count
        stored: list[dict[str, Any]] = []
        for viewer, follower in viewers:
            await viewer.until(lambda: follower.read(viewer).log.length == count, 30)  # noqa: B023 - waited for here
            log = follower.state.log
            seen: dict[str, Any] = {
                "document": {"id": "numbers"},
                "log_id": log.id,
                "entries": [e.to_json() for e in log.entries],
            }
            await page_in(viewer, seen)  # one that was behind has the newest, and gets the others page by page
            assert in_order([(entry["heading"], entry["content"]) for entry in seen["entries"]], headings)
            assert [entry["no"] for entry in seen["entries"]] == list(range(count))
            stored = stored or seen["entries"]
        assert stored[-len(truth["entries"]) :] == truth["entries"]
        await until(partial(shows_last, page, stored[-1]["id"]), "the last entry on the page")
        shown = await page.shown()
        assert shown == [entry["id"] for entry in stored][-len(shown) :]
        held = await page.entries()
        assert [entry[0] for entry in held] == [entry["id"] for entry in stored][-len(held) :]


async def shows_last(page: Tab, id: str) -> bool:
    shown = await page.shown()
    return bool(shown) and shown[-1] == id


async def join(stack: AsyncExitStack, server: HubProcess, kind: str) -> Client:
    client = Client(server.url, server.token, kind)
    stack.push_async_callback(client.close)
    return await client.connect()


async def open_page(stack: AsyncExitStack, browser_path: Path, url: str, token: str, context: str) -> Tab:
    """The page of a session in Chromium."""
    chromium = await stack.enter_async_context(browser(browser_path))
    page = Tab(await chromium.new_page())
    await page.page.goto(f"{url}/c/{context}#token={token}")
    await page.online()
    return page


# --------------------------------------------------------------------------------------- D3: messages while offline

MESSAGES = 50
LONG = [pytest.mark.long, pytest.mark.timeout(180)]
AWAY = [(0.5, "cut"), (5.0, "cut"), pytest.param(60.0, "cut", marks=LONG), (0.5, "killed")]


def texts(document: dict[str, Any]) -> list[str]:
    return [item["text"] for item in document["queue"]]


@pytest.mark.browser
@pytest.mark.parametrize(("seconds", "how"), AWAY)
async def test_a_page_that_is_offline(browser_path: Path, hub_process: HubProcess, seconds: float, how: str) -> None:
    """Trial D3: 50 numbered messages by somebody who does not wait for the network, some of them as the connection goes, or
    as the hub is killed."""
    async with AsyncExitStack() as stack:
        cable = await stack.enter_async_context(Cable(hub_process.port))
        op = await join(stack, hub_process, "websocket")
        await op.ok("context.create", id="offline", agent="nobody")
        page = await open_page(stack, browser_path, cable.url, hub_process.token, "offline")
        await page.page.wait_for_function("() => sessionHub.app.session.value?.document.value")
        await send(page, 0, 10)
        cable.cut()  # the answers to some are lost
        if how == "killed":
            await asyncio.to_thread(hub_process.kill)
            await asyncio.to_thread(hub_process.start)
            op = await join(stack, hub_process, "websocket")
        await page.page.wait_for_selector(".layout:not([data-link=online])")
        await send(page, 10, MESSAGES)
        assert len((await op.ok("context.get", context="offline"))["document"]["queue"]) <= 10
        await asyncio.sleep(seconds)  # the time away is the trial
        cable.mend()
        await page.online(30)
        expected = [f"message {n}" for n in range(MESSAGES)]
        await until(partial(has_all, op, expected), "the messages", 30)
        await until(partial(page.page.evaluate, "() => sessionHub.app.outbox.messages.value.length === 0"))
        shown = await page.page.evaluate("() => sessionHub.app.session.value.queue.value.map(item => item.text)")
        assert shown == expected
        assert texts((await op.ok("context.get", context="offline"))["document"]) == expected
        assert page.loads == 1


async def send(page: Tab, first: int, end: int) -> None:
    """Messages by the model behind the composer, which has the text that somebody wrote."""
    script = (
        "([first, end]) => { for (let n = first; n < end; n++) sessionHub.app.session.value.send(`message ${n}`, []) }"
    )
    await page.page.evaluate(script, [first, end])


async def has_all(op: Client, expected: list[str]) -> bool:
    return len(texts((await op.ok("context.get", context="offline"))["document"])) >= len(expected)


@pytest.mark.parametrize("kind", ["lost", "killed"])
async def test_an_agent_process_that_is_offline(hub_process: HubProcess, kind: str) -> None:
    """Trial D3: the same by the client library of Python, over a lost network and over a hub that is killed."""
    async with AsyncExitStack() as stack:
        cable = await stack.enter_async_context(Cable(hub_process.port))
        stack.enter_context(own_registry())
        client = await stack.enter_async_context(hub.connect(cable.url, token=hub_process.token))
        ctx = await client.create(id="offline", agent="nobody")
        expected = [f"message {n}" for n in range(MESSAGES)]
        for text in expected[:10]:
            ctx.communicate(text)
        await asyncio.sleep(0)
        if kind == "lost":
            cable.cut()
        else:
            await asyncio.to_thread(hub_process.kill)
        await until(lambda: not client.connection.up)
        for text in expected[10:]:
            ctx.communicate(UserMessage(text))
        assert client.unconfirmed >= MESSAGES - 10
        await asyncio.sleep(0.5)  # the time away is the trial
        if kind == "lost":
            cable.mend()
        else:
            await asyncio.to_thread(hub_process.start)
        await ctx.flush()
        op = await join(stack, hub_process, "websocket")
        assert texts((await op.ok("context.get", context="offline"))["document"]) == expected


async def test_stock_clients_learn_what_was_not_answered(people: People) -> None:
    """Trial D3: a stock client's own rule is that what had gone out fails; sent again with its key it applies once."""
    op = await people.operator()
    await op.ok("context.create", id="offline", agent="nobody")
    async with Cable(people.server.port) as cable:
        client = Client(cable.url, people.server.token)
        await client.connect()
        unanswered = []

        async def message(n: int) -> None:
            payload = {"context": "offline", "text": f"message {n}", "key": f"me/{n}"}
            try:
                assert (await client.call("message", payload, seconds=2))["ok"]
            except Exception:  # python-socketio has several for it
                unanswered.append(payload)

        sending = [asyncio.create_task(message(n)) for n in range(MESSAGES)]
        await asyncio.sleep(0.005)
        cable.cut()
        await asyncio.gather(*sending)
        cable.mend()
        again = await people.operator()
        for payload in sorted(unanswered, key=lambda payload: number_in(payload["text"])):
            assert (await again.call("message", payload))["ok"]
        stored = texts((await op.ok("context.get", context="offline"))["document"])
        assert stored == [f"message {n}" for n in range(MESSAGES)], "each of them once, in order"
        await client.close()


def number_in(text: str) -> int:
    return int(re.findall(r"\d+", text)[0])


# ------------------------------------------------------------------------------ D11: a background task that raises

SECONDS = 1.0


async def left_task(ctx: AgentContext, fail: Callable[[], None]) -> None:
    async def background() -> None:
        await asyncio.sleep(0.05)
        fail()

    keep = asyncio.get_running_loop().create_task(background())
    await asyncio.sleep(60)
    await keep


async def own_task(ctx: AgentContext, fail: Callable[[], None]) -> None:
    async def background() -> None:
        await asyncio.sleep(0.05)
        fail()

    ctx.run_task(background)
    await asyncio.sleep(60)


async def task_in_a_thread(ctx: AgentContext, fail: Callable[[], None]) -> None:
    def background() -> None:
        time.sleep(0.05)
        fail()

    ctx.run_task(background)
    await asyncio.sleep(60)


async def task_of_a_task(ctx: AgentContext, fail: Callable[[], None]) -> None:
    async def background() -> None:
        await left_task(ctx, fail)

    ctx.run_task(background)
    await asyncio.sleep(60)


async def handler(ctx: AgentContext, fail: Callable[[], None]) -> None:
    await asyncio.sleep(0.05)
    fail()


async def callback(ctx: AgentContext, fail: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(0.05, fail)
    await asyncio.sleep(60)


@pytest.mark.parametrize("work", [left_task, own_task, task_in_a_thread, task_of_a_task, handler, callback])
async def test_a_background_task_that_raises(people: People, work: Callable[..., Coroutine[Any, Any, None]]) -> None:
    """Trial D11: an error entry and the end of the run, within a second, in every viewer."""
    server = people.server
    raised: list[float] = []

    def fail() -> None:
        raised.append(time.monotonic())
        raise ValueError("in mid-stream")

    async with AsyncExitStack() as stack:
        stack.enter_context(own_registry())
        client = await stack.enter_async_context(hub.connect(server.url, token=server.token))
        agent = client.agent("fails")

        @agent.on_message
        async def handle(ctx: AgentContext, message: UserMessage) -> None:
            entry = ctx.log.log("response", "stream")
            stop = threading.Event()

            def stream() -> None:
                while not stop.wait(0.01):
                    entry.stream("text ")

            streaming = asyncio.create_task(asyncio.to_thread(stream))
            try:
                await work(ctx, fail)
            finally:
                stop.set()
                await streaming

        serving = asyncio.create_task(agent.serve())
        op = await people.operator()
        await op.ok("context.create", id="c", agent="fails")
        javascript = (await stack.enter_async_context(node())).client()
        viewers: list[tuple[Talk, str]] = [
            (op, "snapshot"),
            (await people.operator("msgpack"), "patch"),
            (await people.operator("polling"), "snapshot"),
            (await people.viewer("c"), "patch"),
            (await javascript.open(server.url, server.token, "json", "websocket"), "patch"),
        ]
        for viewer, deliver in viewers:
            await viewer.ok("subscribe", topic="context:c", deliver=deliver)
        await op.ok("message", context="c", text="go")
        for viewer, _ in viewers:
            await viewer.until(lambda: is_told(viewer))  # noqa: B023 - waited for right here
        took = time.monotonic() - raised[0]
        assert took < SECONDS, f"{took:.2f} s"
        run = (await op.ok("context.get", context="c"))["document"]["run"]
        assert run["status"] == "failed"
        assert "in mid-stream" in run["error"]
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def test_exceptions_that_somebody_takes(people: People) -> None:
    """Trial D11: what is awaited, gathered or looked at ends no run."""

    async def fail(seconds: float = 0) -> None:
        await asyncio.sleep(seconds)
        raise ValueError("taken")

    async def work() -> str:
        task = asyncio.create_task(fail())
        await asyncio.sleep(0.05)
        assert isinstance(task.exception(), ValueError)
        await asyncio.gather(fail(0.4), fail(0.5), return_exceptions=True)
        done, _ = await asyncio.wait([asyncio.create_task(fail()), asyncio.create_task(fail(0.4))])
        assert all(task.exception() for task in done)
        with pytest.raises(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                group.create_task(fail(0.1))
        with pytest.raises(ValueError, match="taken"):
            await asyncio.wait_for(asyncio.shield(asyncio.create_task(fail(0.1))), 5)
        await asyncio.sleep(0.5)
        return "done"

    with own_registry():
        async with hub.connect(people.server.url, token=people.server.token) as client:
            agent = client.agent("careful")
            outcomes: list[str] = []

            @agent.on_message
            async def handle(ctx: AgentContext, message: UserMessage) -> None:
                outcomes.append(await work())  # on the loop of the process
                outcomes.append(await ctx.run_task(work).result(10))  # on one of its own

            serving = asyncio.create_task(agent.serve())
            ctx = await client.create(id="c", agent="careful")
            ctx.communicate("go")
            await until(lambda: ctx.document()["run"] and not ctx.is_running())
            assert ctx.document()["run"]["status"] == "finished", ctx.document()["run"]
            assert outcomes == ["done", "done"]
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


def is_told(viewer: Talk) -> bool:
    """Whether it was sent the error's entry, and that the run failed."""
    entries = [
        part["entry"] for event in viewer.of("change", "log") for part in event["parts"] if part["kind"] == "log.add"
    ]
    error = any(entry["type"] == "error" and "in mid-stream" in json.dumps(entry) for entry in entries)
    failed = '"failed"' in json.dumps([viewer.of("change")[-3:], viewer.of("snapshot")[-1:]])
    return error and failed
