"""The agent of the README works as it is written there."""

from __future__ import annotations

import asyncio
import contextlib
import re
from pathlib import Path
from typing import Any

import pytest

from hub import connect
from hub.server.server import HubServer
from tests.support import until

README = Path(__file__).parents[2] / "hub" / "agent" / "README.md"


async def test_the_streaming_agent(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    found = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert found is not None
    code = found[1].replace("http://127.0.0.1:8765", hub.url).replace("asyncio.run(main())", "")
    monkeypatch.setenv("HUB_TOKEN", hub.token)
    names: dict[str, Any] = {}
    exec(code, names)
    agent = asyncio.create_task(names["main"]())
    async with connect(hub.url, token=hub.token) as client:
        ctx = await client.create(agent="echo")
        ctx.communicate("hello streaming world")
        await until(lambda: len(ctx.log) == 2 and not ctx.is_running())
        assert ctx.log.entries()[1].content == "hello streaming world "
        agent.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await agent
