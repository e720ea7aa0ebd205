"""Every test has a registry of its own, on a record in memory."""

from collections.abc import Iterator

import pytest

from hub.agent.alone import AloneLink
from hub.agent.current import clear_context_data
from hub.agent.registry import Registry, use_registry


@pytest.fixture(autouse=True)
def registry() -> Iterator[Registry]:
    clear_context_data()
    fresh = Registry(AloneLink())
    before = use_registry(fresh)
    yield fresh
    for context in fresh.all():
        context.kill_process()
    use_registry(before)
    clear_context_data()
