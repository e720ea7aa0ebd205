"""What comes in on one connection: how much of it is unanswered, and when more of it may be read."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from hub.node.rates import Rate
from hub.server import bounds
from hub.server.packets import MOST_IGNORED

PAUSE_SECONDS: Final = 0.02
"""Shorter waits of who asks too much are made together."""
_OPEN_REQUESTS: Final = 1024
"""Requests of one connection that may be unanswered; then nothing more is read from it for a while."""


class Intake(ABC):
    """The way in of a connection. Answers that nobody takes must not pile up, nor requests: so what waits on the way out
    counts, too."""

    __slots__ = (
        "_ask_timer",
        "_ask_until",
        "_askers",
        "_excused",
        "_hard",
        "_ignored_bytes",
        "_ignored_count",
        "_limit",
        "_open_bytes",
        "_open_count",
        "_owed_until",
        "ended",
        "incoming",
        "owed",
        "rate",
    )

    def __init__(self, limit: int) -> None:
        self.ended = False
        self.incoming = 0
        """Bytes of the message that is being read."""
        self.owed = 0.0
        """Seconds to wait before more is read from it."""
        self.rate = Rate()
        """How fast it asks, whoever is let in on it."""
        self._limit = limit
        self._excused = 0
        """Of what waits on the way out, so much does not count: one large thing is under way."""
        self._hard = bounds.HARD * limit
        self._open_count = self._open_bytes = 0
        self._ignored_count = self._ignored_bytes = 0
        self._askers: list[Callable[[], None]] | None = None
        self._ask_timer: asyncio.TimerHandle | None = None
        self._ask_until = self._owed_until = 0.0

    @property
    @abstractmethod
    def waiting(self) -> int:
        """Bytes that wait for the connection."""

    @property
    @abstractmethod
    def is_closing(self) -> bool:
        """Whether its transport is closing, so that its end is on its way."""

    @abstractmethod
    def end(self, reason: str, code: int = bounds.UNREADABLE) -> None:
        """End the connection at once."""

    @property
    def unanswered(self) -> tuple[int, int]:
        """Requests that wait for an answer, and their bytes."""
        return self._open_count, self._open_bytes

    @property
    def _full(self) -> bool:
        return (
            self._open_count >= _OPEN_REQUESTS
            or self._open_bytes > self._hard
            or self.waiting - self._excused > self._limit
        )

    def may_ask(self) -> bool:
        """Whether more may be read from it."""
        return self.owed < PAUSE_SECONDS and not self._full

    def when_it_may_ask(self, call: Callable[[], None]) -> None:
        """Call once when more may be read, or when it ended. It ends if that takes too long."""
        now = asyncio.get_running_loop().time()
        owed, self.owed = self.owed, 0.0
        self._owed_until = now + owed
        self._ask_until = now + owed + bounds.SLOW_SECONDS
        if self._askers is None:
            self._askers = []
        self._askers.append(call)
        self._look_again(owed)

    async def has_room(self) -> bool:
        """Wait until more may be read from it. False if it ended."""
        while not self.ended and not self.may_ask():
            room = asyncio.Event()
            self.when_it_may_ask(room.set)
            await room.wait()
        return not self.ended

    def look_for_room(self) -> None:
        """Something was taken or answered, or it ended: there may be room now."""
        if self._askers:
            asyncio.get_running_loop().call_soon(self._let_ask)

    def _look_again(self, owed: float = 0.0) -> None:
        if self._ask_timer is None:
            seconds = max(owed, bounds.LOOK_SECONDS)
            self._ask_timer = asyncio.get_running_loop().call_later(seconds, self._look_for_askers)

    def _look_for_askers(self) -> None:
        self._ask_timer = None
        self._let_ask()

    def _let_ask(self) -> None:
        if not self._askers:
            return
        now = asyncio.get_running_loop().time()
        if not self.ended and (self._full or now < self._owed_until) and not self.is_closing:
            if now <= self._ask_until:
                self._look_again(self._owed_until - now)
            else:
                self.end("it asks without taking the answers, or faster than they come", bounds.TOO_SLOW)
            return
        askers, self._askers = self._askers, None
        for call in askers:
            call()

    def open_request(self, send: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
        """A request came in that ``send`` acknowledges. Returns what is called with its answer."""
        self._open_count += 1
        self._open_bytes += self.incoming
        return partial(self._answer, self.incoming, send)

    def _answer(self, size: int, send: Callable[[dict[str, Any]], None], answer: dict[str, Any]) -> None:
        self._open_count -= 1
        self._open_bytes -= size
        self.look_for_room()
        send(answer)

    def ignore(self, size: int, limit: int) -> None:
        """A binary frame where there is none; a few follow an event that was refused for its attachments."""
        self._ignored_count += 1
        self._ignored_bytes += size
        if self._ignored_count > MOST_IGNORED or self._ignored_bytes > limit:
            self.end("it sends binary frames, and values here are JSON")

    def stop_reading(self) -> None:
        """It has ended."""
        self.look_for_room()
        if self._ask_timer is not None:
            self._ask_timer.cancel()
