"""Wait for a condition, with a bound; no test sleeps for an effect."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any


async def until(condition: Callable[[], Any], seconds: float = 10.0) -> None:
    """Wait until ``condition()`` holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in other processes
            await asyncio.sleep(0.005)


async def until_done(attempt: Callable[[], Awaitable[Any]], *passing: type[Exception], seconds: float = 10.0) -> Any:
    """Try until ``attempt`` raises none of the ``passing`` errors; what it gives then."""
    async with asyncio.timeout(seconds):
        while True:
            try:
                return await attempt()
            except passing:
                await asyncio.sleep(0.02)
