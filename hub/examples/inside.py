"""An agent in the hub's own process: nothing else to start.

session-hub serve --app hub.examples.inside:setup
session-hub send $(session-hub new --agent inside) "hello" --wait
"""

from __future__ import annotations

import hub


def setup(inside: hub.InsideHub) -> None:
    """What ``serve --app`` calls once the hub serves."""
    agent = inside.agent("inside")

    @agent.on_message
    def shout(ctx: hub.AgentContext, message: hub.UserMessage) -> None:
        """A plain function: it runs in a thread, so it delays nobody."""
        ctx.log.log("response", "Shout", message.message.upper())
        ctx.state.incr("/messages")
