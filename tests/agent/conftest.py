"""Every test has a registry of its own, on its own link, and leaves no secrets and no current context behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hub.agent.alone import AloneLink
from hub.agent.current import clear_context_data
from hub.agent.registry import Registry, use_registry
from hub.agent.secret import SECRETS


@pytest.fixture(autouse=True)
def registry() -> Iterator[Registry]:
    clear_context_data()
    fresh = Registry(AloneLink())
    before = use_registry(fresh)
    yield fresh
    for context in fresh.all():
        context.kill_process()
    use_registry(before)
    SECRETS.forget(*SECRETS.values)
    clear_context_data()
