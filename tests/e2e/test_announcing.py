"""Operators announce: broadcasts and notices reach every live session and every open page."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.clients import Client
from tests.e2e.browsing import browser, tab
from tests.support import HubProcess, until

SESSIONS = 30
SOON = 1.0
"""Seconds within which an announcement is everywhere."""


async def announce(operator: Client, name: str, **payload: object) -> float:
    """Ask for an announcement; gives the moment when that was done."""
    await operator.ok(name, **payload)
    return time.monotonic()


@pytest.mark.browser
@pytest.mark.timeout(120)
async def test_announcements_reach_everybody(browser_path: Path, hub_process: HubProcess) -> None:
    hub = hub_process
    async with AsyncExitStack() as stack:
        operator = await Client(hub.url, hub.token).connect()
        stack.push_async_callback(operator.close)
        ids = [(await operator.ok("context.create", key=f"s/{n}"))["id"] for n in range(1, SESSIONS + 1)]
        chromium = await stack.enter_async_context(browser(browser_path))
        pages = [await stack.enter_async_context(tab(chromium, hub, f"/c/{id}")) for id in ids[:3]]
        home = await stack.enter_async_context(tab(chromium, hub))

        said = await announce(operator, "broadcast", type="warning", heading="Maintenance", content="at six")
        for page in pages:
            await page.wait_for_text("Maintenance")
        assert time.monotonic() - said < SOON
        for id in ids:
            reply = await operator.ok("subscribe", topic=f"context:{id}")
            assert [(entry["type"], entry["heading"]) for entry in reply["entries"]] == [("warning", "Maintenance")]

        said = await announce(operator, "notice.post", message="Read-only tonight", display_time=60)
        for page in (*pages, home):
            await page.wait_for_text("Read-only tonight")
        assert time.monotonic() - said < SOON

        await operator.ok("notice.post", message="Gone in a moment", id="short", expires_at="2020-01-01T00:00:00Z")
        later = await stack.enter_async_context(tab(chromium, hub, f"/c/{ids[0]}"))
        await later.page.get_by_role("button", name="Notices").first.click()
        await later.wait_for_text("Read-only tonight")
        assert await later.page.get_by_text("Gone in a moment").count() == 0

        hub.kill()
        await asyncio.to_thread(hub.start)
        await later.online()
        reply = await until(lambda: _notices(hub), "the notices after a restart")
        assert [notice["message"] for notice in reply] == ["Read-only tonight"]


async def _notices(hub: HubProcess) -> list[dict[str, str]]:
    found: list[dict[str, str]] = (await asyncio.to_thread(hub.json, "notice", "list"))["notices"]
    return found
