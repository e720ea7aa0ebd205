"""A hub that the quick tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import HubProcess


@pytest.fixture(scope="module")
def shared_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """A hub process with a record in memory, for all tests of a module."""
    with HubProcess(tmp_path_factory.mktemp("shared"), record="memory") as process:
        yield process
