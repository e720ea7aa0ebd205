"""How the node's tasks end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

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
