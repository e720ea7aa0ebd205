"""The link of a process without a hub: contexts live in its memory, and every write is confirmed at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final

from hub.agent.link import Linked
from hub.agent.writer import Writer
from hub.core.requests import Author, LogAdd, Role
from hub.core.times import iso


class AloneLink:
    """``Link`` without anything beyond it. ``clock`` gives seconds since 1970."""

    decides: Final = True
    names_broadcasts: Final = True
    """The writers' views are the record here, so they refuse on their own."""

    def __init__(self, clock: Callable[[], float] = time.time, author: Author | None = None) -> None:
        self.author = author or Author("local", Role.OPERATOR)
        self.notices: dict[str, dict[str, Any]] = {}
        """What was announced, by id."""
        self._clock = clock

    def now(self) -> str:
        """The time, ISO 8601 UTC."""
        return iso(self._clock())

    def attach(self, context: Linked, *, create: bool, replace: bool) -> None:
        """Begin to serve a context. One that is to be opened is not there: everything there is lives in this process."""
        if create:
            self.wake(context)
        else:
            context.closed("not_found")

    def detach(self, context: Linked) -> None:
        """Serve it no more."""

    def wake(self, context: Linked) -> None:
        """Confirm what was written."""
        assert isinstance(context, Writer)
        context.confirm()

    def broadcast(self, id: str, op: LogAdd, before: Sequence[Future[None]] = ()) -> None:
        """Nobody is beyond this process; its own contexts are the registry's business."""

    def post_notice(self, notice: dict[str, Any]) -> None:
        """Keep a notice."""
        self.notices[notice["id"]] = notice

    def clear_notice(self, id: str) -> None:
        """Forget a notice."""
        self.notices.pop(id, None)
