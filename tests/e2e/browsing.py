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
        self.loads = 0
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda message: self._heard(message))
        page.on("load", lambda _: self._loaded())

    def _heard(self, message: Any) -> None:
        # While the hub is away its address does not answer; the page says so itself.
        if message.type == "error" and "ERR_CONNECTION_REFUSED" not in message.text:
            self.problems.append(message.text)

    def _loaded(self) -> None:
        self.loads += 1

    async def entries(self) -> list[list[str]]:
        """Id, heading and content of all entries that the page holds, in its order."""
        found: list[list[str]] = await self.page.evaluate(
            """() => globalThis.sessionHub.app.session.value.log.cells
                 .map(cell => cell.entry.value).map(e => [e.id, e.heading, e.content])"""
        )
        return found

    async def shown(self) -> list[str]:
        """Ids of the entries that are rendered, in their order on the page."""
        ids: list[str] = await self.page.evaluate(
            "() => [...document.querySelectorAll('.entry[data-id]')].map(e => e.dataset.id)"
        )
        return ids

    async def online(self, seconds: float = SECONDS) -> None:
        """Wait until the page is connected and says so."""
        await self.page.wait_for_selector(".layout[data-link=online]", timeout=seconds * 1000)

    async def wait_for_text(self, text: str, seconds: float = SECONDS) -> None:
        await self.page.get_by_text(text).last.wait_for(timeout=seconds * 1000)


@asynccontextmanager
async def tab(
    chromium: Browser,
    hub: HubProcess,
    path: str = "/",
    *,
    url: str | None = None,
    script: str = "",
    width: int = 1280,
    height: int = 800,
    touch: bool = False,
) -> AsyncIterator[Tab]:
    """A page of the hub, opened with the operator's token. ``url``: another way to the hub; ``script`` runs before the page's
    own; ``touch``: a finger instead of a mouse."""
    context = await chromium.new_context(viewport={"width": width, "height": height}, has_touch=touch, is_mobile=touch)
    page = await context.new_page()
    if script:
        await page.add_init_script(script)
    opened = Tab(page)
    await page.goto(f"{url or hub.url}{path}#token={hub.token}")
    await opened.online()
    yield opened
    await context.close()
