"""Trial T9: whatever an agent started is gone within 5 s, however the agent, its run or its hub ends."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.clients import Client
from tests.descendants import begun, ended
from tests.support import ROOT, HubProcess, environment, until

SOON = 5.0
LEAVE = 20.0
"""A hub that ends gives the runs of its own agents a while."""

AGENT = f"""
import asyncio, os, sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
import hub
from tests.descendants import family_of

def setup(host):
    agent = host.agent("parent", capacity=4)

    @agent.on_message
    async def handle(ctx, message):
        process = await ctx.create_subprocess_exec(*family_of(Path(message.message), stubborn=True))
        await process.wait()

    return agent

async def main():
    async with hub.connect(sys.argv[1], token=os.environ["HUB_TOKEN"]) as client:
        await setup(client).serve()

if __name__ == "__main__":
    asyncio.run(main())
"""


@asynccontextmanager
async def hub_with_family(tmp_path: Path, *, inside: bool) -> AsyncIterator[tuple[HubProcess, int, Client, list[int]]]:
    """A hub, the process that has the agent, an operator, and the processes that the agent's run in context ``c`` started."""
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "agents_for_trial.py").write_text(
        AGENT.replace("    return agent\n", "" if inside else "    return agent\n")
    )
    hub, agent = HubProcess(tmp_path, record="memory"), None
    if inside:
        hub.options = ["--app", "agents_for_trial:setup"]
    with hub:
        if not inside:
            agent = await asyncio.create_subprocess_exec(
                sys.executable, folder / "agents_for_trial.py", hub.url, env=environment(HUB_TOKEN=hub.token)
            )
        client = await Client(hub.url, hub.token).connect()
        try:
            await client.ok("context.create", id="c", agent="parent")
            await client.ok("message", context="c", text=str(tmp_path / "ids"))
            ids = await begun(tmp_path / "ids")
            yield hub, hub.pid if agent is None else agent.pid, client, ids
        finally:
            await client.close()
            if agent is not None:
                if agent.returncode is None:
                    agent.kill()
                await agent.wait()


@pytest.mark.parametrize("inside", [False, True])
async def test_a_stop(tmp_path: Path, inside: bool) -> None:
    async with hub_with_family(tmp_path, inside=inside) as (_, _, client, ids):
        await client.ok("control", context="c", action="stop")
        await ended(ids, SOON)

        async def stopped() -> bool:
            return bool((await client.ok("context.get", context="c"))["document"]["run"]["status"] == "stopped")

        await until(stopped)


@pytest.mark.parametrize(
    ("inside", "number"),
    [
        (False, signal.SIGKILL),
        (False, signal.SIGTERM),
        (True, signal.SIGKILL),
        pytest.param(True, signal.SIGTERM, marks=pytest.mark.long),
    ],
)
async def test_the_end_of_the_agents_process(tmp_path: Path, inside: bool, number: signal.Signals) -> None:
    async with hub_with_family(tmp_path, inside=inside) as (_, pid, _, ids):
        os.kill(pid, number)
        await ended(ids, LEAVE if inside and number == signal.SIGTERM else SOON)
