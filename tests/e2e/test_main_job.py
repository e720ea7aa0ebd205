"""The main job with everything real: hub, embedded server, demo agent, command line, browsers; and a kill in the middle."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hub.core.changes import Change
from hub.core.log import LogState
from hub.core.position import Position
from hub.core.state import ContextState
from hub.demo.sample import write_sample
from tests.e2e.browsing import browser, tab
from tests.support import HubProcess, Running, until, wait_until

LINES = 100_000


def followed(lines: list[dict[str, Any]]) -> ContextState:
    """The state that the lines of ``watch --json`` give, with every position checked on the way."""
    state = ContextState(Position("", 0))
    for line in lines:
        if line["event"] == "snapshot":
            assert state.position.seq == 0 or line["reason"], "a second snapshot says why"
            state = ContextState(Position(line["epoch"], line["seq"]))
            state.document = line["document"]
            state.log = LogState(line["log_id"], line["entries"])
        elif line["event"] == "change":
            state.apply(Change(Position(line["epoch"], line["seq"]), line["parts"]))
    return state


def entries_of(state: ContextState) -> list[list[str]]:
    return [[entry.id, entry.heading, entry.content] for entry in state.log.entries]


@pytest.mark.browser
@pytest.mark.timeout(240)
async def test_a_large_log_with_a_kill_in_the_middle(
    browser_path: Path, hub_process: HubProcess, tmp_path: Path
) -> None:
    hub = hub_process
    log = tmp_path / "access.log"
    write_sample(log, LINES)
    assert log.stat().st_size > 10_000_000
    agent = Running("agent", "demo", "--pace", "0.03", folder=tmp_path / "agent", HUB_DATA_DIR=str(hub.folder))
    with ExitStack() as stack:
        stack.enter_context(agent)
        wait_until(lambda: hub.json("health")["agents"] == ["demo"], "the demo agent")
        id = hub.json("new", "--name", "A large log")["id"]
        watch = stack.enter_context(hub.beside("watch", id, "--json"))
        async with AsyncExitStack() as tabs:
            chromium = await tabs.enter_async_context(browser(browser_path))
            first = await tabs.enter_async_context(tab(chromium, hub, f"/c/{id}"))
            second = await tabs.enter_async_context(tab(chromium, hub, f"/c/{id}", width=390, height=844))
            hub.run("notice", "post", "Read-only tonight", "--expires", "2h")
            sent = await asyncio.to_thread(hub.run, "send", id, "analyse this", "--attach", str(log))
            assert sent.returncode == 0, sent.stderr
            await until(lambda: len(followed(watch.lines).log.entries) >= 3, "some findings")
            waiting = await asyncio.to_thread(hub.json, "send", id, "top 5 status codes")

            hub.kill()
            before = followed(watch.lines)
            assert before.document["run"]["status"] in ("starting", "running")
            await asyncio.to_thread(hub.start)
            back = time.monotonic()
            shown = await asyncio.to_thread(hub.json, "show", id, "-n", "500")
            document = shown["document"]
            assert document["name"] == "A large log"
            assert document["session_context"]["goal"] == before.document["session_context"]["goal"]
            assert [step["text"] for step in document["session_context"]["plan"]]
            assert document["state"].keys() >= before.document["state"].keys()
            assert [entry["id"] for entry in shown["entries"]][: len(before.log.entries)] == [
                entry.id for entry in before.log.entries
            ]
            assert any(item["id"] == waiting["id"] for item in document["queue"]) or document["log"]["length"] > 1
            notices = await asyncio.to_thread(hub.json, "notice", "list")
            assert [notice["message"] for notice in notices["notices"]] == ["Read-only tonight"]
            for page in (first, second):
                await page.online(30)
            assert time.monotonic() - back < 30

            def ended() -> bool:
                document = followed(watch.lines).document
                return not document["running"] and not document["queue"]

            await until(ended, "the end of both runs", 120)
            state = followed(watch.lines)
            assert state.document["run"]["status"] == "finished"
            assert state.document["output"]
            assert any(entry.type == "response" and "Top 5" in entry.heading for entry in state.log.entries)
            expected = entries_of(state)
            final = await asyncio.to_thread(hub.json, "show", id, "-n", "500")
            assert [[e["id"], e["heading"], e["content"]] for e in final["entries"]] == expected
            assert final["document"] == state.document
            for page in (first, second):
                await until(partial(_equal, page, expected), "the page's entries")
                rendered = await page.shown()
                assert rendered
                assert rendered == [entry[0] for entry in expected][-len(rendered) :]
                assert page.problems == []
                assert page.loads == 1, "the page was loaded again"


async def _equal(page: Any, expected: list[list[str]]) -> bool:
    return bool(await page.entries() == expected)
