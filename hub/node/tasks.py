"""How tasks beside the requests begin and end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from typing import Any

from hub.core.errors import HubError

_log = logging.getLogger(__name__)


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks until they have ended. Once may not do: before Python 3.12 ``asyncio.wait_for``, which redis-py uses,
    loses a cancellation that comes just when what it waits for is done."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        done, left = await asyncio.wait(left, timeout=0.2)
        for task in done:
            if not task.cancelled() and (error := task.exception()) is not None:
                _log.error("%s", task.get_name(), exc_info=error)


class Background:
    """Work that nobody waits for: it is kept from being collected, and the log has what it raises, after ``what`` it was."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self, work: Coroutine[Any, Any, Any]) -> None:
        """Start work on the running event loop."""
        task = asyncio.get_running_loop().create_task(self._logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        """Cancel what is under way, and wait for its end."""
        await end_tasks(self._tasks)

    async def _logged(self, work: Coroutine[Any, Any, Any]) -> None:
        try:
            await work
        except HubError as error:
            _log.warning("%s: %s: %s", self._what, error.code, error.message)
        except Exception:
            _log.exception("%s", self._what)
