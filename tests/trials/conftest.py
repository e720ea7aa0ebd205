"""A hub in this process, and people who talk to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.clients import People, serving


@pytest.fixture
async def people(tmp_path: Path) -> AsyncIterator[People]:
    """People at a hub with a record in memory."""
    async with serving(tmp_path / "hub") as people:
        yield people
