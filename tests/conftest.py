"""Fixtures that tests of several folders share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from hub.record.valkey import server_binary
from tests.record.servers import running
from tests.support import HubProcess, find_browser, redis_process

if TYPE_CHECKING:
    from hub.server.server import HubServer

settings.register_profile("hub", settings.default, deadline=None)  # a machine that is busy elsewhere is no fault
settings.load_profile("hub")


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[HubServer]:
    """A hub in this process, on a free port, with a record in memory."""
    from tests.clients import serving  # here, so that tests of other parts do not need a server

    async with serving(tmp_path / "hub-data") as people:
        yield people.server


@pytest.fixture
def hub_process(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HubProcess]:
    """A real ``session-hub serve`` with its embedded server, which can be killed and come back.

    ``@pytest.mark.parametrize("hub_process", ["memory"], indirect=True)`` for a record in memory.
    """
    with HubProcess(tmp_path, record=getattr(request, "param", "embedded")) as process:
        yield process


@pytest.fixture(scope="session")
def browser_path() -> Path:
    """The Chromium or Chrome of the browser tests."""
    return find_browser()


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[str]:
    """The URL of a Valkey that tests share; each empties it first."""
    with running(server_binary()) as url:
        yield url


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    """A Redis of its own that is not the embedded one; only tests marked ``redis`` may ask for it."""
    folder = tmp_path / "redis"
    folder.mkdir()
    with redis_process(folder) as url:
        yield url
