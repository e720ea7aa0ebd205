"""Calls from any thread that an event loop makes soon."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable


class OnLoop:
    """What is called is run by the loop that this was made on, in order, and is nobody's run. Raises RuntimeError once the
    loop has ended."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._context = contextvars.copy_context()

    def __call__(self, call: Callable[..., object], *args: object) -> None:
        # From the loop's own tasks there is nobody to wake: that would cost two system calls. A signal's handler is in the
        # same thread, but may come while the loop sleeps.
        here = threading.get_ident() == self._thread and asyncio.current_task(self._loop) is not None
        soon = self._loop.call_soon if here else self._loop.call_soon_threadsafe
        soon(call, *args, context=self._context)
