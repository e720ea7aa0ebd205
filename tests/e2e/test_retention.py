"""A log that keeps its newest entries only, on the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients import Client
from tests.e2e.browsing import browser, tab
from tests.support import HubProcess, until

GONE = "Older entries are not kept any more"


@pytest.mark.browser
@pytest.mark.timeout(150)
async def test_entries_leave_the_page_and_it_says_so(browser_path: Path, tmp_path: Path) -> None:
    """For who reads the end, and for who has scrolled up to where the log begins."""
    with HubProcess(tmp_path, HUB_KEEP_ENTRIES="200") as hub:
        client = await Client(hub.url, hub.token).connect()
        await client.ok("context.create", id="c")

        async def add(first: int, to: int) -> None:
            for n in range(first, to, 20):
                ops = [{"op": "log.add", "type": "info", "id": f"e{m}", "heading": f"{m}"} for m in range(n, n + 20)]
                await client.ok("apply", context="c", ops=ops)

        await add(0, 400)
        async with browser(browser_path) as chromium, tab(chromium, hub, "/c/c") as page:
            await page.online()
            await page.wait_for_text("399")
            log = page.page.locator(".log")

            async def at_the_top() -> bool:
                await log.evaluate("log => { log.scrollTop = 0; }")
                return await page.page.get_by_text(GONE).is_visible()

            await until(at_the_top)
            first = int((await page.entries())[0][1])
            assert 180 <= first <= 200
            shown = (await page.shown())[0]
            assert shown == f"e{first}"

            await add(400, 460)  # so the first ones go, while they are on the page
            await page.page.wait_for_selector(f'.entry[data-id="{shown}"]', state="detached")
            held = [int(heading) for _, heading, _ in await page.entries()]
            assert held == list(range(held[0], 460))
            assert first < held[0] <= 260
            assert await page.page.get_by_text(GONE).is_visible()
            assert page.problems == []
        await client.close()
