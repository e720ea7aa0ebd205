"""A hub that is killed while an agent works: the agent comes back to it and goes on, and nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from hub import AgentContext, UserMessage, connect
from tests.support import HubProcess, until


@pytest.mark.long
async def test_d3_a_kill_of_the_hub_in_mid_run(hub_process: HubProcess) -> None:
    async with connect(hub_process.url, token=hub_process.token, leave=20) as client:
        agent = client.agent("worker")
        kill = asyncio.Event()
        go = asyncio.Event()

        @agent.on_message
        async def handle(ctx: AgentContext, message: UserMessage) -> None:
            entry = ctx.log.log("response", "stream")
            for number in range(600):
                entry.stream(f"{number} ")
                ctx.log.log("info", str(number))
                ctx.state.incr("n")
                if number == 200:
                    kill.set()
                if number == 400:
                    await go.wait()
                await asyncio.sleep(0.001)
            await ctx.checkpoint()

        serving = asyncio.create_task(agent.serve())
        ctx = await client.create(id="one", agent="worker", state={"n": 0})
        ctx.communicate("work")
        await kill.wait()
        await asyncio.to_thread(hub_process.kill)
        await until(lambda: not client.connection.up)
        await asyncio.to_thread(hub_process.start)
        await until(lambda: client.connection.up)
        go.set()
        await until(lambda: ctx.document()["run"]["status"] == "finished")
        await ctx.flush()
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
        ctx.close()
        again = await client.open("one")
        assert again.document()["run"]["status"] == "finished"
        entries = again.log.entries()
        assert [entry.heading for entry in entries[2:]] == [str(number) for number in range(600)]
        assert entries[1].content == "".join(f"{number} " for number in range(600))
        assert again.state["n"] == 600
