"""A message whose agent is not connected: the page says for whom it waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients import Client
from tests.e2e.browsing import browser, tab
from tests.support import HubProcess

WHY = "No agent “nobody” is connected. The message waits for it."


@pytest.mark.browser
@pytest.mark.timeout(120)
@pytest.mark.parametrize("hub_process", ["memory"], indirect=True)
async def test_who_is_waited_for(browser_path: Path, hub_process: HubProcess) -> None:
    hub = hub_process
    client = await Client(hub.url, hub.token).connect()
    await client.ok("context.create", id="c", agent="nobody")
    async with browser(browser_path) as chromium, tab(chromium, hub, "/c/c") as page:
        field = page.page.get_by_label("Message", exact=True)
        await field.fill("Is anybody there?")
        await field.press("Enter")
        await page.wait_for_text(WHY, 5)
        assert await page.page.get_by_text("1 message waits").is_visible()

        await client.ok("agent.serve", agent="nobody", capacity=1)
        await client.next("run.start")
        await page.page.get_by_text(WHY).wait_for(state="detached")
        assert await page.page.get_by_label("Waiting messages").count() == 0
        assert page.problems == []
    await client.close()


@pytest.mark.browser
@pytest.mark.timeout(120)
@pytest.mark.parametrize("hub_process", ["memory"], indirect=True)
async def test_a_finger_is_not_asked_to_drop_files(browser_path: Path, hub_process: HubProcess) -> None:
    async with browser(browser_path) as chromium:
        for touch, placeholder in ((True, "Write to the agent"), (False, "Write to the agent, or drop a file here")):
            async with tab(chromium, hub_process, width=390, height=844, touch=touch) as page:
                field = page.page.get_by_label("Message", exact=True)
                assert await field.get_attribute("placeholder") == placeholder
                assert page.problems == []
