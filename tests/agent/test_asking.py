"""Questions to people: an agent asks, in a process of its own or without a hub, and whoever is first answers."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import hub as library
from hub import AgentContext, NoAnswer, RunStopped
from hub.core.requests import AskAnswer
from hub.node.settings import Settings
from tests.clients import Client, People, refusal, serving
from tests.support import ROOT, environment, until


@pytest.fixture(params=["memory", "embedded"])
async def people(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[People]:
    async with serving(tmp_path / "hub", record=request.param) as people:
        yield people


def answer(ctx: AgentContext, value: Any) -> None:
    """Answer the only open question, as somebody beside it would."""
    [id] = [id for id, ask in ctx.document()["asks"].items() if ask["status"] == "open"]
    ctx.writer.submit(AskAnswer(context=ctx.id, ask=id, value=value))


async def test_a_coroutine_waits_for_the_answer() -> None:
    ctx = AgentContext()
    asking = asyncio.create_task(ctx.ask("Deploy?", options=["yes", "no"]))
    await until(lambda: ctx.document()["asks"])
    assert not asking.done()
    answer(ctx, "yes")
    assert await asyncio.wait_for(asking, 5) == "yes"
    entry = ctx.log.entries()[-1]
    assert (entry.type, entry.content) == ("input", "Deploy?")
    assert entry.kvps == {"options": ["yes", "no"], "answer": "yes", "answered_by": ctx.writer.link.author.sub}


def test_a_thread_waits_for_the_answer() -> None:
    ctx, answers = AgentContext(), []
    thread = threading.Thread(target=lambda: answers.append(ctx.wait_ask("Who?")))
    thread.start()
    while not ctx.document()["asks"]:
        thread.join(0.01)
    answer(ctx, {"name": "ann"})
    thread.join(5)
    assert answers == [{"name": "ann"}]


async def test_the_same_question_twice_is_two_questions() -> None:
    ctx = AgentContext()
    for value in ("first", "second"):
        asking = asyncio.create_task(ctx.ask("Again?"))
        await until(lambda: any(ask["status"] == "open" for ask in ctx.document()["asks"].values()))
        answer(ctx, value)
        assert await asyncio.wait_for(asking, 5) == value


async def test_nobody_answers_in_time() -> None:
    ctx = AgentContext()
    with pytest.raises(NoAnswer, match="expired"):
        await ctx.ask("Anybody?", timeout=0.05)
    with pytest.raises(NoAnswer, match="expired"):
        await asyncio.to_thread(ctx.wait_ask, "Anybody there?", None, 0.05)
    assert [ask["status"] for ask in ctx.document()["asks"].values()] == ["expired", "expired"]
    with pytest.raises(library.InvalidRequest, match="await ask"):
        ctx.wait_ask("On a loop?")


class Bot:
    """An agent process that asks before it goes on."""

    def __init__(self, client: library.Client, timeout: float | None = None) -> None:
        self.answers: list[Any] = []
        self.errors: list[Exception] = []
        self.agent = client.agent("bot", capacity=4)

        @self.agent.on_message
        async def handle(ctx: AgentContext, message: library.UserMessage) -> None:
            try:
                self.answers.append(await ctx.ask(f"{message.message}?", ["yes", "no"], timeout))
            except (NoAnswer, RunStopped) as error:
                self.errors.append(error)
                raise
            ctx.log.log("response", content=f"it is {self.answers[-1]}")

        self.serving = asyncio.create_task(self.agent.serve())

    async def end(self) -> None:
        self.serving.cancel()
        await asyncio.gather(self.serving, return_exceptions=True)


async def open_ask(person: Client) -> str:
    """The id of the question that is open in the session, once it is shown."""
    snapshot = await person.next("snapshot", lambda event: open_ids(event["document"]))
    return open_ids(snapshot["document"])[0]


async def run_is(person: Client, status: str) -> dict[str, Any]:
    """The snapshot that says so."""
    snapshot: dict[str, Any] = await person.next(
        "snapshot", lambda event: (event["document"]["run"] or {}).get("status") == status
    )
    return snapshot


def open_ids(document: dict[str, Any]) -> list[str]:
    return [id for id, ask in document["asks"].items() if ask["status"] == "open"]


async def test_every_page_shows_it_and_the_first_answer_wins(people: People) -> None:
    ann, otto = await people.operator(), await people.operator("msgpack")
    await ann.ok("context.create", id="c", agent="bot")
    for person in (ann, otto):
        await person.ok("subscribe", topic="context:c")
    async with library.connect(people.server.url, token=people.server.token) as client:
        bot = Bot(client)
        await ann.ok("message", context="c", text="deploy")
        ask = await open_ask(ann)
        assert await open_ask(otto) == ask
        assert (await ann.ok("context.get", context="c"))["document"]["run"]["status"] == "waiting"
        assert refusal(await ann.ask("answer", context="c", ask=ask, value="perhaps"), "invalid_value")
        replies = await asyncio.gather(
            ann.ask("answer", context="c", ask=ask, value="yes"), otto.ask("answer", context="c", ask=ask, value="no")
        )
        won = [reply["ok"] for reply in replies]
        assert sorted(won) == [False, True]
        [lost] = [reply for reply in replies if not reply["ok"]]
        assert refusal(lost, "already_answered")
        assert lost["error"]["details"]["by"]
        value = ["yes", "no"][won.index(True)]
        for person in (ann, otto):
            ended = await run_is(person, "finished")
            assert ended["document"]["asks"][ask]["value"] == value
        assert bot.answers == [value]
        await bot.end()


@pytest.mark.parametrize("when", ["before", "after"])
async def test_it_outlives_the_agent_process(tmp_path: Path, when: str) -> None:
    """Another one takes the message again and asks the same: it has the answer that came before, or still waits for it."""
    async with serving(tmp_path / "hub", settings=Settings(run_grace=0.1)) as people:
        ann = await people.operator()
        await ann.ok("context.create", id="c", agent="bot")
        await ann.ok("subscribe", topic="context:c")
        file = tmp_path / "agent.py"
        file.write_text(AGENT)
        process = await asyncio.create_subprocess_exec(
            sys.executable, file, people.server.url, cwd=ROOT, env=environment(HUB_TOKEN=people.server.token)
        )
        try:
            await ann.ok("message", context="c", text="deploy")
            ask = await open_ask(ann)
        finally:
            process.kill()
            await process.wait()
        await run_is(ann, "interrupted")
        if when == "before":
            await ann.ok("answer", context="c", ask=ask, value="yes")
        async with library.connect(people.server.url, token=people.server.token) as client:
            bot = Bot(client)
            await ann.ok("control", context="c", action="nudge")
            if when == "after":
                again = await ann.next("snapshot", lambda event: (event["document"]["run"] or {}).get("attempt") == 2)
                assert open_ids(again["document"]) == [ask]
                await ann.ok("answer", context="c", ask=ask, value="yes")
            ended = await run_is(ann, "finished")
            assert (ended["document"]["run"]["attempt"], list(ended["document"]["asks"])) == (2, [ask])
            assert bot.answers == ["yes"]
            await bot.end()


AGENT = """
import asyncio, os, sys
import hub

async def main():
    async with hub.connect(sys.argv[1], token=os.environ["HUB_TOKEN"]) as client:
        agent = client.agent("bot")

        @agent.on_message
        async def handle(ctx, message):
            await ctx.ask(f"{message.message}?", ["yes", "no"])

        await agent.serve()

asyncio.run(main())
"""


async def test_a_stop_ends_the_wait(people: People) -> None:
    ann = await people.operator()
    await ann.ok("context.create", id="c", agent="bot")
    await ann.ok("subscribe", topic="context:c")
    async with library.connect(people.server.url, token=people.server.token) as client:
        bot = Bot(client)
        await ann.ok("message", context="c", text="deploy")
        ask = await open_ask(ann)
        await ann.ok("control", context="c", action="stop")
        ended = await run_is(ann, "stopped")
        assert ended["document"]["asks"][ask]["status"] == "withdrawn"
        assert bot.answers == []
        await bot.end()
