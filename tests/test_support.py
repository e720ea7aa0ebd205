"""The waiting that tests do: it ends in time, whatever is waited for."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from tests.support import until, until_done


async def deaf() -> None:
    """As a client's call that is answered at the moment in which it is cancelled."""
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(0.05)


@pytest.mark.timeout(10)
async def test_until_ends_though_the_cancellation_is_swallowed() -> None:
    with pytest.raises(AssertionError, match="in vain for nothing"):
        await until(deaf, "nothing", 0.09)


@pytest.mark.timeout(10)
async def test_until_done_ends_though_the_cancellation_is_swallowed() -> None:
    async def attempt() -> None:
        await deaf()
        raise ValueError("again")

    with pytest.raises(TimeoutError):
        await until_done(attempt, ValueError, seconds=0.09)
