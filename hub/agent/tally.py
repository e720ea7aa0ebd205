"""How many of a writer's writes are settled, who waits for that, and which refusals nobody has heard of."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Final

from hub.core.errors import (
    Exists,
    Forbidden,
    HubError,
    NotFound,
    RateLimited,
    Removed,
    RunLost,
    Unavailable,
)
from hub.core.requests import AnyBody, Apply, RunRef

MOST_FAILURES: Final = 1000
"""Refusals that are kept for who flushes next; of further ones only the number counts."""

_CLOSED: Final[dict[str, tuple[type[HubError], str]]] = {
    "exists": (Exists, "exists already at the hub; nothing written here was kept"),
    "removed": (Removed, "was removed"),
    "replaced": (Removed, "was replaced by another of the same id"),
    "not_found": (NotFound, "does not exist, or is not yours to see"),
    "missing": (NotFound, "is not in the record any more"),
    "forbidden": (Forbidden, "is not yours to make"),
    "rate_limited": (
        RateLimited,
        "is one more than this process may follow at a time; close some that it does not use",
    ),
}


class Tally:
    """Writes are settled in their order: answered or refused. Its writer's lock is held for every call but ``tell``."""

    def __init__(self) -> None:
        self.asked = 0
        self.settled = 0
        self._waiting: deque[tuple[int, Future[None], bool, RunRef | None]] = deque()
        self._failures: list[tuple[RunRef | None, HubError]] = []
        self._more = 0

    def wait(self, run: RunRef | None) -> Future[None]:
        """Done once everything asked up to now is settled; for code that is part of ``run``."""
        done: Future[None] = Future()
        self._waiting.append((self.asked, done, True, run))
        return done

    def wait_deaf(self) -> Future[None]:
        """The same for who does not want to hear of refusals: they are left for the others."""
        done: Future[None] = Future()
        self._waiting.append((self.asked, done, False, None))
        return done

    def fail(self, error: HubError, body: AnyBody | None = None) -> None:
        """Keep a refusal (of ``body``) for who flushes next."""
        if len(self._failures) >= MOST_FAILURES:
            self._more += 1
            return
        lost = body.run if isinstance(error, RunLost) and isinstance(body, Apply) else None
        self._failures.append((lost, error))

    @property
    def has_failures(self) -> bool:
        """Whether there is a refusal that nobody has heard of. Needs no lock."""
        return bool(self._failures)

    def take_failures(self, run: RunRef | None) -> HubError | None:
        """The first refusal, with the others as notes. Late writes of a run that is over concern nobody but its own code."""
        taken, more = self._failures, self._more
        self._failures, self._more = [], 0
        errors = [error for lost, error in taken if lost is None or lost == run]
        return _first(errors, more) if errors else None

    def ready(self) -> list[tuple[Future[None], HubError | None]]:
        """Those whose wait is over, and what each is told."""
        ready: list[tuple[Future[None], HubError | None]] = []
        while self._waiting and self._waiting[0][0] <= self.settled:
            _, done, hears, run = self._waiting.popleft()
            if done.set_running_or_notify_cancel():
                ready.append((done, self.take_failures(run) if hears else None))
        return ready

    @staticmethod
    def tell(ready: Sequence[tuple[Future[None], HubError | None]]) -> None:
        """Tell them, without the lock."""
        for done, error in ready:
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(None)


def closing_error(id: str, reason: str) -> HubError:
    """The error for writes on a context that was closed for ``reason``."""
    cls, text = _CLOSED.get(reason, (Unavailable, f"is closed here: {reason}"))
    return cls(f"context {id!r} {text}")


def _first(errors: Sequence[HubError], more: int) -> HubError:
    error = errors[0]
    for other in islice(errors, 1, 20):
        error.add_note(f"and {other.code}: {other.message}")
    more += max(0, len(errors) - 20)
    if more:
        error.add_note(f"and {more:,} more")
    return error
