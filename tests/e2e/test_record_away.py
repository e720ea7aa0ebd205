"""The record is away: the page stays what it is, and says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.clients import serving
from tests.e2e.browsing import browser, tab
from tests.support import hanging


@pytest.mark.browser
async def test_the_page_says_it_until_the_record_is_back(browser_path: Path, tmp_path: Path) -> None:
    async with serving(tmp_path / "hub", record="embedded") as people:
        server: Any = people.server
        op = await people.operator()
        await op.ok("context.create", id="c")
        await op.ok("apply", context="c", ops=[{"op": "log.add", "type": "info", "heading": "kept", "id": "e"}])
        async with browser(browser_path) as chromium, tab(chromium, server, "/c/c") as page:
            await page.wait_for_text("kept")
            banner = page.page.locator("[data-link=degraded]")
            assert await banner.count() == 0
            with hanging(server._home._embedded.pid):
                await banner.wait_for()
                assert await page.shown() == ["e"]
                await page.online()
            await banner.wait_for(state="detached")
            assert (page.loads, page.problems) == (1, [])
