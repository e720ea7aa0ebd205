"""A registry of contexts for one test, in place of the process's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hub.agent.alone import AloneLink
from hub.agent.current import clear_context_data
from hub.agent.registry import Registry, use_registry
from hub.agent.secret import SECRETS


@contextmanager
def own_registry() -> Iterator[Registry]:
    """A registry on a link of its own (memory); no context that runs, no secret and no current context is left behind."""
    clear_context_data()
    fresh = Registry(AloneLink())
    before = use_registry(fresh)
    try:
        yield fresh
    finally:
        for context in fresh.all():
            context.kill_process()
        use_registry(before)
        SECRETS.forget(*SECRETS.values)
        clear_context_data()
