"""Every test has a registry of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hub.agent.registry import Registry
from tests.registries import own_registry


@pytest.fixture(autouse=True)
def registry() -> Iterator[Registry]:
    with own_registry() as fresh:
        yield fresh
