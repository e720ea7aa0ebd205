"""Hubs with a record in memory and with their own embedded server, and people who talk to them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.clients import Client, People, serving


@pytest.fixture
async def people(tmp_path: Path) -> AsyncIterator[People]:
    """People at a hub with a record in memory."""
    async with serving(tmp_path / "hub") as people:
        yield people


@pytest.fixture(params=["memory", "embedded"])
async def everywhere(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[People]:
    """The same, and once more with the embedded server."""
    async with serving(tmp_path / "hub", record=request.param) as people:
        yield people


@pytest.fixture
async def op(people: People) -> Client:
    """An operator."""
    return await people.operator()
