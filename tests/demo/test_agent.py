"""The demo agent at work in a real context, with its record in memory."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from hub.agent.config import UserMessage
from hub.agent.context import AgentContext
from hub.agent.errors import RunStopped
from hub.core.errors import NotFound
from hub.core.requests import Control
from hub.demo.agent import DemoAgent
from hub.demo.cache import TableCache
from hub.demo.formats import detect
from hub.demo.sample import sample_lines
from hub.demo.source import Source, pasted
from hub.demo.table import Table
from tests.support import until

LOG = "\n".join(sample_lines(20_000)).encode()
UPLOAD = {"id": "u1", "name": "access.log", "size": len(LOG), "type": "text/plain"}


class Uploads:
    """Uploads that a test offers; counts how often each is fetched."""

    def __init__(self, **there: bytes) -> None:
        self.there = there
        self.fetched: list[str] = []

    async def download(self, id: str) -> bytes:
        self.fetched.append(id)
        if id not in self.there:
            raise NotFound("no such upload")
        return self.there[id]


def make_agent(uploads: Uploads, files: Path | None = None, **more: Any) -> DemoAgent:
    return DemoAgent(uploads.download, files, year=lambda: 2024, **more)


async def say(agent: DemoAgent, ctx: AgentContext, text: str, *attachments: dict[str, Any], id: str = "m") -> None:
    """One run with one message, to its end."""
    task = ctx.run_task(agent.handle, ctx, UserMessage(text, list(attachments), id))
    await task.result(60)
    await ctx.flush()


def entries(ctx: AgentContext, *types: str) -> list[Any]:
    return [entry for entry in ctx.log.entries() if not types or entry.type in types]


async def test_an_upload_is_analysed_step_by_step() -> None:
    ctx, uploads = AgentContext(), Uploads(u1=LOG)
    await say(make_agent(uploads), ctx, "", UPLOAD)
    assert ctx.session_context.goal == "Find out what is in access.log"
    assert [step["text"] for step in ctx.session_context.plan] == [
        "Detect the format", "Read the rows", "Count and show bad rows", "Summarise the numbers", "Find the top values",
        "Draw the histogram over time", "Group the errors", "Write the report",
    ]  # fmt: skip
    assert {step["status"] for step in ctx.session_context.plan} == {"done"}
    assert ctx.session_context.progress[0] == "20 bad rows"
    state = dict(ctx.state)
    assert (state["rows"], state["bad_rows"], state["bytes"], state["bytes_read"]) == (19_980, 20, len(LOG), len(LOG))
    assert state["format"] == "an access log, combined format"
    assert ctx.progress["active"] is False
    headings = [(entry.type, entry.heading) for entry in entries(ctx)]
    assert headings[:3] == [
        ("info", "Format: an access log, combined format"),
        ("progress", "Read access.log: 19,980 requests, 20 bad rows"),
        ("warning", "20 bad rows"),
    ]
    assert headings[-1] == ("response", "Analysis of access.log")
    assert ctx.output_data["analysis"]["rows"] == 19_980
    assert ctx.output_data["analysis"]["bad"]["count"] == 20
    assert len(json.dumps(ctx.output_data["analysis"])) < 50_000
    assert "| status | count | share |" in entries(ctx, "response")[-1].content
    assert ctx.data["source"] == Source("upload", "access.log", "u1", len(LOG)).to_data()
    assert "work" not in ctx.data


async def test_reading_tells_how_far_it_is() -> None:
    ctx, seen = AgentContext(), list[int]()
    unwatch = ctx.writer.watch(lambda: seen.append(ctx.state.get("rows", 0)))
    await say(make_agent(Uploads(u1=LOG)), ctx, "", UPLOAD)
    unwatch()
    lines = next(iter(entries(ctx, "progress"))).content.splitlines()
    assert lines[0].startswith("- 1,998 requests, 2 bad (")
    assert lines[0].endswith(" % read)")
    assert len([line for line in lines if line.startswith("- ")]) == 10
    assert {1_998, 3_996, 19_980} <= set(seen)


async def test_follow_up_questions_use_what_was_read() -> None:
    ctx, uploads = AgentContext(), Uploads(u1=LOG)
    agent = make_agent(uploads)
    await say(agent, ctx, "", UPLOAD)
    await say(agent, ctx, "top 2 status codes")
    assert uploads.fetched == ["u1"]
    answer = entries(ctx)[-1]
    assert (answer.type, answer.heading) == ("response", "Top 2: status")
    assert "| 200 |" in answer.content
    assert ctx.output_data["answer"]["question"] == "top 2 status codes"
    await say(agent, ctx, "sing a song")
    assert entries(ctx)[-1].type == "hint"
    assert "top 5 status" in entries(ctx)[-1].content


async def test_after_a_restart_the_data_is_read_again() -> None:
    ctx, uploads = AgentContext(), Uploads(u1=b"a,b\n1,x\n2,y\n3,y\n")
    await say(make_agent(uploads), ctx, "", {**UPLOAD, "name": "t.csv", "size": 15})
    await say(make_agent(uploads), ctx, "average a")
    assert uploads.fetched == ["u1", "u1"]
    assert [entry.heading for entry in entries(ctx)[-2:]] == ["Read t.csv again", "average of a: 2"]
    uploads.there.clear()
    await say(make_agent(uploads), ctx, "average a")
    assert entries(ctx)[-1].type == "error"
    assert "Upload the file again." in entries(ctx)[-1].content


async def test_a_run_that_is_taken_up_again_starts_over_and_says_so() -> None:
    ctx = AgentContext()
    broken = make_agent(Uploads(u1=LOG))

    async def dies(_: str) -> bytes:
        raise asyncio.CancelledError

    broken._download = dies
    task = ctx.run_task(broken.handle, ctx, UserMessage("", [UPLOAD], "m1"))
    with pytest.raises((asyncio.CancelledError, RunStopped)):
        await task.result(60)
    assert ctx.data["work"]["message"] == "m1"
    await say(make_agent(Uploads(u1=LOG)), ctx, "", UPLOAD, id="m1")
    assert [entry.heading for entry in entries(ctx)].count("Taken up again") == 1
    assert ctx.output_data["analysis"]["rows"] == 19_980
    assert ctx.state["rows"] == 19_980
    assert "work" not in ctx.data


@pytest.mark.parametrize("how", ["control", "kill"])
async def test_stop_ends_it_between_two_chunks(how: str) -> None:
    ctx = AgentContext()
    agent = make_agent(Uploads(u1=LOG), pace=0.01)
    task = ctx.run_task(agent.handle, ctx, UserMessage("", [UPLOAD], "m1"))
    await until(lambda: ctx.state.get("rows", 0) > 0)
    if how == "kill":
        await ctx.kill_process()
    else:
        ctx.writer.submit(Control(context=ctx.id, action="stop"))
    with pytest.raises((asyncio.CancelledError, RunStopped)):
        await task.result(60)
    assert not ctx.is_running()
    assert 0 < ctx.state["rows"] < 19_980
    assert "analysis" not in ctx.output_data
    stopped = entries(ctx)[-1]
    assert stopped.heading == "Stopped"
    assert "rows were read. Say “analyse again” to start over." in stopped.content
    await say(make_agent(Uploads(u1=LOG)), ctx, "analyse again")
    assert ctx.output_data["analysis"]["rows"] == 19_980


async def test_pause_holds_it_and_resume_lets_it_go_on() -> None:
    ctx = AgentContext()
    agent = make_agent(Uploads(u1=LOG), pace=0.002)
    task = ctx.run_task(agent.handle, ctx, UserMessage("", [UPLOAD], "m1"))
    await until(lambda: ctx.state.get("rows", 0) > 0)
    ctx.pause()
    still = 0
    held = ctx.state["rows"]
    while still < 20:  # a chunk that was under way may end; then nothing moves any more
        await asyncio.sleep(0.005)
        still = still + 1 if ctx.state["rows"] == held else 0
        held = ctx.state["rows"]
    assert held < 19_980
    ctx.resume()
    await task.result(60)
    assert ctx.state["rows"] == 19_980


@pytest.mark.parametrize(
    ("data", "told", "advice"),
    [
        (b"", "There is nothing in it.", "Send a file"),
        (b" \n\n", "There is nothing", "Send a file"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "This is a PNG image, not text.", "Send a text file"),
        (bytes(range(256)) * 10, "binary data", "Send a text file"),
        (b"\x1f\x8b\x08\x00\x00", "compressed with gzip", "Unpack it first"),
        (b"x" * (20 * 1024 * 1024 + 1), "20 MB is the limit", "Cut it"),
    ],
)
async def test_wrong_files_get_a_clear_entry(data: bytes, told: str, advice: str) -> None:
    ctx = AgentContext()
    await say(make_agent(Uploads(u1=data)), ctx, "", {**UPLOAD, "size": 1})
    [error] = entries(ctx, "error")
    assert told in error.content
    assert advice in error.content
    assert ctx.progress["active"] is False
    assert "work" not in ctx.data


async def test_a_file_by_name(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,x\n2,y\n")
    ctx, agent = AgentContext(), make_agent(Uploads(), tmp_path)
    await say(agent, ctx, "analyse t.csv")
    assert ctx.output_data["analysis"]["rows"] == 2
    await say(agent, ctx, "analyse ../t.csv")
    assert entries(ctx)[-1].type == "error"
    assert "outside the directory" in entries(ctx)[-1].content
    await say(agent, ctx, "analyse no.csv")
    assert "There are: t.csv." in entries(ctx)[-1].content


async def test_pasted_text_and_a_question_that_comes_along() -> None:
    ctx, agent = AgentContext(), make_agent(Uploads(u1=b"n,c\n1,x\n5,y\n9,y\n"))
    await say(agent, ctx, "here is a text:\nIt was a dark night.\nThe fox slept.\nThe end came.")
    assert ctx.output_data["analysis"]["words"]["words"] == 11
    assert [step["text"] for step in ctx.session_context.plan][2:4] == [
        "Count the words",
        "Find long and repeated lines",
    ]
    await say(agent, ctx, "how many words")
    assert entries(ctx)[-1].heading == "11 words"
    await say(agent, ctx, "average n", {**UPLOAD, "name": "n.csv"})
    assert [entry.heading for entry in entries(ctx, "response")[-2:]] == ["Analysis of n.csv", "average of n: 5"]
    await say(agent, ctx, "some words that are no question", {**UPLOAD, "name": "n.csv"}, {**UPLOAD, "id": "u2"})
    assert entries(ctx)[-1].heading == "Analysis of n.csv"
    assert "One at a time" in [entry.heading for entry in entries(ctx, "hint")]


@pytest.mark.parametrize(
    ("text", "type", "heading"),
    [
        ("hi", "response", "Hello!"),
        ("help", "response", "What I can do"),
        ("", "response", "What I can do"),
        ("top 5 status codes", "hint", "There is no data yet"),
        ("analyse again", "hint", "There is nothing to analyse again"),
    ],
)
async def test_words_without_data(text: str, type: str, heading: str) -> None:
    ctx = AgentContext()
    await say(make_agent(Uploads()), ctx, text)
    [entry] = entries(ctx)
    assert (entry.type, entry.heading) == (type, heading)
    assert "analyse FILE" in entry.content


async def test_headings_from_the_input_are_no_markdown() -> None:
    ctx = AgentContext()
    await say(make_agent(Uploads(u1=b"<b>|x,y\n`1`,2\n")), ctx, "", {**UPLOAD, "name": "<img src=x>|`.csv"})
    for entry in entries(ctx):
        assert "<" not in entry.content
    json.dumps(ctx.document(), allow_nan=False)


def test_the_cache_keeps_what_was_used_last() -> None:
    form = detect(b"a,b\n1,2\n")
    sources = [pasted(f"{number}") for number in range(4)]
    cache = TableCache(max_bytes=3_000, max_tables=10)
    for number in range(3):
        cache.put(f"c{number}", sources[number], Table("", "table", "", "row", size=300), form)
    assert len(cache) == 3
    assert cache.get("c0", sources[0]) is not None
    cache.put("c3", sources[3], Table("", "table", "", "row", size=300), form)
    assert cache.get("c1", sources[1]) is None  # the one that was not used for the longest time
    assert cache.get("c0", sources[0]) is not None
    assert cache.get("c0", sources[1]) is None  # another source
    cache.put("c9", sources[0], Table("", "table", "", "row", size=10_000), form)
    assert len(cache) == 1
    cache.drop("c9")
    assert len(cache) == 0
