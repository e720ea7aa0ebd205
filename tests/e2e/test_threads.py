"""Eight threads of agent code inside the hub: everything arrives everywhere, in order per thread."""

from __future__ import annotations

from pathlib import Path

import pytest

from hub import MirrorReader
from tests.e2e.browsing import browser, tab
from tests.support import HubProcess, until

THREADS, EACH = 8, 1_000

APP = f"""
import threading
from hub import AgentContext

def setup(hub):
    ctx = AgentContext(id="threads", name="Eight threads")
    def write(n):
        for i in range({EACH}):
            ctx.log.log("info", heading=f"thread {{n}}", content=str(i))
    for n in range({THREADS}):
        threading.Thread(target=write, args=(n,), daemon=True).start()
"""


def in_order(entries: list[tuple[str, str]]) -> bool:
    """Whether all entries (heading, content) of each thread are there, in its order."""
    wanted = [str(number) for number in range(EACH)]
    return all(
        [content for heading, content in entries if heading == f"thread {thread}"] == wanted
        for thread in range(THREADS)
    )


@pytest.mark.browser
@pytest.mark.timeout(150)
async def test_eight_threads_in_the_mirror_and_in_the_browser(browser_path: Path, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "threads_for_test.py").write_text(APP)
    hub = HubProcess(tmp_path)
    hub.options = ["--app", "threads_for_test:setup"]
    with hub:
        reader = MirrorReader(str(hub.folder))

        async def mirrored() -> bool:
            found = await reader.get("threads")
            return found is not None and found["document"]["log"]["length"] == THREADS * EACH

        await until(mirrored, "all entries in the mirror", 60)
        found = await reader.get("threads")
        assert found is not None
        entries = found["log"]["entries"]
        assert [entry["no"] for entry in entries] == list(range(THREADS * EACH))
        assert in_order([(entry["heading"], entry["content"]) for entry in entries])
        await reader.close()
        async with browser(browser_path) as chromium, tab(chromium, hub, "/c/threads") as page:
            while await page.page.evaluate("() => sessionHub.app.session.value.log.older.value") != "none":
                await page.page.evaluate("() => sessionHub.app.session.value.log.loadOlder()")
            shown = await page.entries()
            assert [entry[0] for entry in shown] == [entry["id"] for entry in entries]
            assert in_order([(heading, content) for _, heading, content in shown])
            assert page.problems == []
