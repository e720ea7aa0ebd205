"""Contexts that are not live in this process yet: open one that exists, or create one and wait until the record has it."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

from hub.agent.checks import checked_context_id
from hub.agent.config import AgentConfig
from hub.agent.context import AgentContext
from hub.agent.link import Link
from hub.agent.registry import current_registry
from hub.agent.writer import Writer
from hub.core.errors import InvalidRequest
from hub.core.limits import DEFAULT_LIMITS


async def open(id: str, *, config: AgentConfig | None = None, link: Link | None = None) -> AgentContext:
    """The context with that id, wherever it is: live here, or brought from the record. Raises NotFound.

    ``link``: through which, if not through the one that this process's new contexts go.
    """
    checked = checked_context_id(id)
    if checked is None:
        raise InvalidRequest("open needs the id of a context; create makes one")
    registry = current_registry()
    live, opened, mine = registry.begin_opening(checked)
    if live is not None:
        return live
    if mine:
        writer = Writer(checked, link or registry.link, config.limits if config else DEFAULT_LIMITS)

        def ready(state: Future[None]) -> None:
            error = state.exception()
            if error is not None:
                registry.end_opening(checked)
                opened.set_exception(error)
                return
            context = AgentContext.opened(registry, writer, config)
            registry.add(context)
            registry.end_opening(checked)
            if writer.closed_by is not None:
                registry.drop(context)
            opened.set_result(context)

        writer.ready.add_done_callback(ready)
        writer.link.attach(writer, create=False, replace=False)
    return await asyncio.shield(asyncio.wrap_future(opened))


async def create(**fields: Any) -> AgentContext:
    """A new context, once the record has it. Takes what AgentContext takes. Raises Exists, and what AgentContext raises."""
    context = AgentContext(**fields)
    await context.flush()
    return context
