"""A question of an agent in two pages: both show it, one answers, and it goes from both."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients import Client
from tests.e2e.browsing import browser, tab
from tests.support import HubProcess


@pytest.mark.browser
@pytest.mark.timeout(120)
@pytest.mark.parametrize("hub_process", ["memory"], indirect=True)
async def test_a_question_is_answered_from_one_of_two_pages(browser_path: Path, hub_process: HubProcess) -> None:
    hub = hub_process
    agent = await Client(hub.url, hub.token).connect()
    await agent.ok("context.create", id="c")
    await agent.ok("subscribe", topic="context:c")
    async with (
        browser(browser_path) as chromium,
        tab(chromium, hub, "/c/c") as desk,
        tab(chromium, hub, "/c/c", width=390, height=844, touch=True) as phone,
    ):
        ops = [{"op": "ask.open", "id": "q1", "question": "Deploy to production?", "options": ["Deploy", "Not now"]}]
        await agent.ok("apply", context="c", ops=ops)
        for page in (desk, phone):
            await page.page.get_by_role("button", name="Not now").wait_for()
        await phone.page.get_by_role("button", name="Deploy", exact=True).click()
        answered = await agent.next(
            "snapshot", lambda event: event["document"]["asks"].get("q1", {}).get("status") == "answered"
        )
        assert answered["document"]["asks"]["q1"]["value"] == "Deploy"
        for page in (desk, phone):
            await page.page.get_by_label("A question of the agent").wait_for(state="detached")

        await agent.ok("apply", context="c", ops=[{"op": "ask.open", "id": "q2", "question": "Which version?"}])
        await desk.page.get_by_label("Answer", exact=True).fill("1.2.3")
        await desk.page.get_by_label("Answer", exact=True).press("Enter")
        answered = await agent.next(
            "snapshot", lambda event: event["document"]["asks"].get("q2", {}).get("status") == "answered"
        )
        assert answered["document"]["asks"]["q2"]["value"] == "1.2.3"
        for page in (desk, phone):
            await page.page.get_by_label("A question of the agent").wait_for(state="detached")
            assert page.problems == []
    await agent.close()
