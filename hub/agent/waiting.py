"""Waiting: for a context to change, and between attempts at something that did not work."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from hub.core.errors import InvalidRequest

if TYPE_CHECKING:
    from hub.agent.writer import Writer


async def until(writer: Writer, ready: Callable[[], bool]) -> None:
    """Wait on the event loop until ``ready()``, which is looked at whenever the context may have changed. Raises what it
    raises."""
    if ready():
        return
    loop, changed = asyncio.get_running_loop(), asyncio.Event()

    def tell() -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(changed.set)

    unwatch = writer.watch(tell)
    try:
        while not ready():
            await changed.wait()
            changed.clear()
    finally:
        unwatch()


def wait_until(writer: Writer, ready: Callable[[], bool], timeout: float | None = None) -> bool:
    """``until`` for a thread that runs no event loop. False if it was not ready within ``timeout`` seconds."""
    if ready():
        return True
    deadline = None if timeout is None else time.monotonic() + timeout
    changed = threading.Event()
    unwatch = writer.watch(changed.set)
    try:
        while not ready():
            if not changed.wait(None if deadline is None else max(0.0, deadline - time.monotonic())):
                return False
            changed.clear()
        return True
    finally:
        unwatch()


def runs_a_loop() -> bool:
    """Whether this thread runs an event loop, which must not wait."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def refuse_on_loop(called: str, twin: str) -> None:
    """Raise InvalidRequest on a thread that runs an event loop: waiting there would stop what is waited for."""
    if runs_a_loop():
        raise InvalidRequest(f"{called} would stop the event loop that runs in this thread; write: await {twin}")


def spread(seconds: float) -> float:
    """A pause of about so many seconds: from half to one and a half, so that many clients do not come back at once."""
    return seconds * random.uniform(0.5, 1.5)
