"""Pages in a real Chromium, and what a person would see in them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, async_playwright

from tests.support import HubProcess

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
SECONDS = 60.0


@asynccontextmanager
async def browser(path: Path) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=str(path), args=FLAGS)
        yield chromium
        await chromium.close()


class Tab:
    """One page of its own profile. ``problems`` has every error that the page reported."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.problems: list[str] = []
        self.navigations = 0
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda message: self._heard(message))
        page.on("framenavigated", lambda frame: self._moved())

    def _heard(self, message: Any) -> None:
        # While the hub is away its address does not answer; the page says so itself.
        if message.type == "error" and "ERR_CONNECTION_REFUSED" not in message.text:
            self.problems.append(message.text)

    def _moved(self) -> None:
        self.navigations += 1

    async def entries(self) -> list[str]:
        """The ids of the entries that the page shows, in its order."""
        found: list[str] = await self.page.evaluate(
            "() => [...document.querySelectorAll('[data-entry-id]')].map(e => e.dataset.entryId)"
        )
        return found

    async def wait_for_text(self, text: str, seconds: float = SECONDS) -> None:
        await self.page.wait_for_function(
            "text => document.body.innerText.includes(text)", arg=text, timeout=seconds * 1000
        )


@asynccontextmanager
async def tab(
    chromium: Browser, hub: HubProcess, path: str = "/", *, width: int = 1280, height: int = 800
) -> AsyncIterator[Tab]:
    """A page of the hub, opened with the operator's token."""
    context = await chromium.new_context(viewport={"width": width, "height": height})
    page = await context.new_page()
    opened = Tab(page)
    await page.goto(f"{hub.url}{path}#token={hub.token}")
    yield opened
    await context.close()
