"""An agent process on asyncio: a plan, a streamed answer, state that people see, and stops that take effect at once.

HUB_TOKEN=$(cat .session-hub/token) python -m hub.examples.streaming
session-hub send $(session-hub new --agent streaming) "to be or not to be" --wait
"""

from __future__ import annotations

import asyncio
import contextlib
import os

import hub


async def answer(ctx: hub.AgentContext, message: hub.UserMessage) -> None:
    """Say the words of the message, one after another, and count them."""
    ctx.session_context.save(goal="Count the words", plan=["read", "count", "report"])
    words = message.message.split()
    ctx.session_context.step(0, "done")
    entry = ctx.log.log("response", "Words")
    for word in words:
        entry.stream(word + " ")
        ctx.state.incr(f"/words/{word}")
        await ctx.checkpoint()  # waits while the session is paused, ends here once somebody said stop
    ctx.session_context.step(1, "done")
    ctx.output_data["count"] = len(words)
    ctx.session_context.step(2, "done")


async def main() -> None:
    url = os.environ.get("HUB_URL", "http://127.0.0.1:8765")
    async with hub.connect(url, token=os.environ["HUB_TOKEN"]) as client:
        agent = client.agent("streaming", capacity=8, attempts=3, version=hub.__version__)
        agent.on_message(answer)
        await agent.serve()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
