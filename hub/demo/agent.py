"""The demo agent: it analyses what it is sent or told to read, step by step, and answers questions about it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import hub
from hub.agent.errors import RunStopped
from hub.agent.tasks import running_task
from hub.core.errors import HubError
from hub.demo import intent, questions
from hub.demo.cache import TableCache
from hub.demo.errors import DemoError
from hub.demo.formats import Format, detect
from hub.demo.parse import parse
from hub.demo.render import blocks, escape
from hub.demo.source import Download, Source, fetch
from hub.demo.steps import Steps
from hub.demo.table import Table
from hub.demo.work import Analysis, in_slices, stream

if TYPE_CHECKING:
    from hub.agent.config import UserMessage
    from hub.agent.connect import Client
    from hub.agent.context import AgentContext
    from hub.agent.serving import Agent

HINT = """I look into logs, tables and texts:

- **Upload** a file (up to 20 MB): an access log, the log of a program, CSV or TSV, JSON lines, plain text.
- **Paste** lines into the chat.
- Or say **analyse FILE** with the name of a file that I may read.

Then ask about it, for example “top 5 status codes”, “errors after 14:00” or “average bytes by status”.
"""


def _this_year() -> int:
    return datetime.now(UTC).year


class DemoAgent:
    """Handles the messages of the contexts that are given to it.

    `download` fetches uploads, `files` is the directory whose files may be named (None: no files). `pace` is a pause in
    seconds after each chunk of the work, so that people can watch; 0 for full speed.
    """

    def __init__(
        self,
        download: Download,
        files: Path | None = None,
        *,
        pace: float = 0.0,
        year: Callable[[], int] = _this_year,
        cache: TableCache | None = None,
    ) -> None:
        self._download = download
        self._files = files
        self._pace = pace
        self._year = year
        self._cache = cache if cache is not None else TableCache()

    async def handle(self, ctx: "AgentContext", message: "UserMessage") -> None:
        """Do what one message asks for. Whatever is wrong with an input becomes an entry that says what to do."""
        kept = Source.from_data(ctx.data.get("source"))
        wanted = intent.read(message.message, message.attachments, self._files, loaded=kept is not None)
        try:
            if wanted.kind == "analyse" and wanted.source is not None:
                if wanted.more:
                    ctx.log.log(
                        "hint",
                        heading="One at a time",
                        content=f"I analyse {escape(wanted.source.name)} now. Send the other files one by one.",
                    )
                await self._analyse(ctx, wanted.source, message.id)
                if wanted.question:
                    await self._ask_if_understood(ctx, wanted.source, wanted.question)
            elif wanted.kind == "again":
                await self._again(ctx, kept, message.id)
            elif wanted.kind == "ask" or (wanted.kind == "help" and kept is not None):
                await self._ask(ctx, kept, wanted.question)
            else:
                self._greet(ctx, wanted, kept)
        except DemoError as error:
            ctx.log.log("error", heading=str(error)[:120], content=f"{escape(str(error), 400)}\n\n{error.advice}")
            ctx.set_progress("Not possible", active=False)
            self._forget_work(ctx)

    async def _analyse(self, ctx: "AgentContext", source: Source, message: str) -> None:
        work = ctx.data.get("work")
        if message and isinstance(work, dict) and work.get("message") == message:
            ctx.log.log(
                "info",
                heading="Taken up again",
                content=f"The analysis of {escape(source.name)} was not finished. It starts over.",
            )
        ctx.data["work"] = {"message": message, "name": source.name}
        ctx.data["source"] = source.to_data()
        self._cache.drop(ctx.id)
        job = Analysis(ctx, source, year=self._year(), pace=self._pace)
        try:
            table, form = await job.run(self._download, self._files)
        except (RunStopped, asyncio.CancelledError):
            # Stopped by somebody, or this process ends. What was under way stays noted: whoever takes the message up
            # again says that it starts over.
            with suppress(HubError):
                rows = f"{job.rows:,} rows were read. " if job.rows else ""
                task = running_task()
                if task is not None and task.stopping and task.stopped_as == "interrupted":
                    how, then = "Interrupted", "The agent’s process ended. “Go on” takes the analysis up again."
                else:
                    how, then = "Stopped", "Say “analyse again” to start over."
                ctx.log.log("info", heading=how, content=f"{rows}{then}")
                ctx.set_progress(how, active=False)
            raise
        self._cache.put(ctx.id, source, table, form)
        self._forget_work(ctx)

    async def _again(self, ctx: "AgentContext", kept: Source | None, message: str) -> None:
        if kept is None:
            ctx.log.log("hint", heading="There is nothing to analyse again", content=HINT)
            return
        if kept.kind == "paste" and not kept.ref:
            await fetch(kept, self._download, self._files)  # raises, and says what to do
        await self._analyse(ctx, kept, message)

    async def _ask(self, ctx: "AgentContext", kept: Source | None, question: str) -> None:
        if kept is None:
            ctx.log.log(
                "hint",
                heading="There is no data yet",
                content=blocks(f"I have nothing yet to look up “{escape(question, 200)}” in.", HINT),
            )
            return
        table, _ = await self._table(ctx, kept)
        await self._answer(ctx, question, await in_slices(ctx, questions.ask(table, question)))

    async def _ask_if_understood(self, ctx: "AgentContext", source: Source, question: str) -> None:
        """What came along with an upload may be a question, or just words."""
        table, _ = await self._table(ctx, source)
        answer = await in_slices(ctx, questions.ask(table, question))
        if answer.understood and answer.data is not None:
            await self._answer(ctx, question, answer)

    async def _answer(self, ctx: "AgentContext", question: str, answer: questions.Answer) -> None:
        if answer.understood and answer.data is not None:
            ctx.set_output_data("answer", {"question": question[:500], "result": answer.data})
        await stream(ctx, "response" if answer.understood else "hint", answer.heading, answer.markdown)

    async def _table(self, ctx: "AgentContext", source: Source) -> tuple[Table, Format]:
        """The table of the context, read again if this process does not have it."""
        kept = self._cache.get(ctx.id, source)
        if kept is not None:
            return kept
        ctx.set_progress(f"Reading {source.name} again", active=True)
        data = await fetch(source, self._download, self._files)
        table, form = await in_slices(ctx, _load(data, source, self._year()))
        self._cache.put(ctx.id, source, table, form)
        ctx.log.log("info", heading=f"Read {source.name} again"[:120], content=f"{table.rows:,} rows, to answer from.")
        ctx.set_progress("Done", active=False)
        return table, form

    def _greet(self, ctx: "AgentContext", wanted: intent.Intent, kept: Source | None) -> None:
        if wanted.kind == "hello" and kept is not None:
            text = f"I have {escape(kept.name)}: ask me about it (“help” says what), or send something else.\n\n{HINT}"
        else:
            text = HINT
        ctx.log.log("response", heading="Hello!" if wanted.kind == "hello" else "What I can do", content=text)

    def _forget_work(self, ctx: "AgentContext") -> None:
        if "work" in ctx.data:
            del ctx.data["work"]


def _load(data: bytes, source: Source, year: int) -> Steps[tuple[Table, Format]]:
    form = detect(data, source.name if source.kind != "paste" else "")
    yield
    reading = parse(data, form, source.name, year=year)
    while True:
        try:
            next(reading)
        except StopIteration as end:
            return end.value, form
        yield


async def finish_runs(client: "Client", agent: "Agent", seconds: float) -> None:
    """Take no more runs, and wait until those that are worked on have ended; or until the hub was away for so many seconds."""
    agent.capacity = 0
    loop = asyncio.get_running_loop()
    there = loop.time()
    while agent.runs and client.error is None:
        await asyncio.sleep(0.05)
        if client.connection.up:
            there = loop.time()
        elif loop.time() - there >= seconds:
            return


async def run_demo(
    url: str,
    token: str,
    files: Path | None = None,
    *,
    name: str = "demo",
    capacity: int = 4,
    pace: float = 0.0,
    on_serving: Callable[["Client", "Agent"], None] | None = None,
) -> None:
    """Connect to the hub at `url` and serve the agent `name` until the task is cancelled or the hub ends it for good.

    `files` is the directory whose files users may name, `capacity` how many runs go at the same time. `on_serving` gets
    the connected client and the agent, see `finish_runs`.
    """
    async with hub.connect(url, token=token) as client:
        demo = DemoAgent(client.download, files, pace=pace)
        agent = client.agent(name, capacity=capacity)
        agent.on_message(demo.handle)
        if on_serving is not None:
            on_serving(client, agent)
        await agent.serve()
