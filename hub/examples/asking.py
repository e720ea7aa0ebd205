"""An agent process that asks a person before it does something. The question is in every page; the first answer counts.

HUB_TOKEN=$(cat .session-hub/token) python -m hub.examples.asking
id=$(session-hub new --agent asking); session-hub send $id "2.4 to production"
session-hub answer $id "go"
"""

from __future__ import annotations

import asyncio
import contextlib
import os

import hub


async def release(ctx: hub.AgentContext, message: hub.UserMessage) -> None:
    """Do what the message says, if somebody agrees within an hour."""
    try:
        said = await ctx.ask(f"Release {message.message}?", options=["go", "not now"], timeout=3600)
    except hub.NoAnswer:
        ctx.log.log("warning", "Nobody answered", f"{message.message} stays as it is.")
        return
    ctx.log.log("response", "Released" if said == "go" else "Left alone", message.message)


async def main() -> None:
    url = os.environ.get("HUB_URL", "http://127.0.0.1:8765")
    async with hub.connect(url, token=os.environ["HUB_TOKEN"]) as client:
        agent = client.agent("asking", capacity=100, attempts=10)  # the question outlives this process
        agent.on_message(release)
        await agent.serve()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
