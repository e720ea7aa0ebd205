"""A context that is live in this node: its state, the requests that wait for the record, and who hears of its changes."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable
from itertools import count, takewhile
from typing import Any, Final, NamedTuple, Protocol

from hub.core.changes import ROOT, Change, RecordEntry
from hub.core.contexts import row_of
from hub.core.errors import HubError, Internal, Overloaded, Removed, Unavailable
from hub.core.limits import Limits
from hub.core.position import Position
from hub.core.replica import Pending, Replica
from hub.core.requests import Request
from hub.core.state import ContextState, DoesNotFit
from hub.fanout.ring import Budget
from hub.node.audience import Audience
from hub.record.port import Append, Appended, Loaded, Outcome

_log = logging.getLogger(__name__)

WAITING_BYTES = 8 * 1024 * 1024
"""Bytes of requests that may wait for the record in one context."""
MOST_REQUESTS = 256
MOST_BYTES = 524_288
"""What goes together into one append."""

Answer = dict[str, Any] | HubError
Done = Callable[[Answer], None]


class Waiting(NamedTuple):
    """A request that waits for its append."""

    request: Request
    done: Done
    size: int
    deadline: float


class _InFlight(NamedTuple):
    append: Append
    asked: list[tuple[Waiting, Pending | HubError]]


class Watcher(Protocol):
    """Who in the node acts on what happened in a context: rows, dispatch of runs, the hashes."""

    def loaded(self, live: LiveContext, loaded: Loaded | None) -> None:
        """It became live, or stands on what the record has now. None: it is about to be created."""

    def changed(self, live: LiveContext, changes: list[Change]) -> None: ...

    def gone(self, live: LiveContext, reason: str) -> None: ...


class LiveContext:
    """The node's copy of a context. ``prepare`` works out what waits, ``settle`` takes the record's outcome."""

    def __init__(self, id: str, loaded: Loaded | None, limits: Limits, watcher: Watcher, budget: Budget) -> None:
        state = loaded.state if loaded else ContextState(Position(secrets.token_urlsafe(6), 0))
        self.id = id
        self.replica = Replica(state, limits, keyed=True)
        self.tip = loaded.tip if loaded else ROOT
        self.born = loaded.born if loaded else state.position.epoch
        self.replace = False
        """With a creation: it ends a context of that id that the record has."""
        self.ready = False
        """Whether it waits for an append, or one of its is under way."""
        self.waiting: list[Waiting] = []
        self.waiting_bytes = 0
        self.audience = Audience(id, self.replica, budget)
        self.row = row_of(state.document) if loaded else None
        self.row_version = state.position
        self.touched = asyncio.get_running_loop().time()
        self.created: asyncio.Future[None] | None = None if loaded else asyncio.get_running_loop().create_future()
        self.closed: str | None = None
        self._watcher = watcher
        self._in_flight: _InFlight | None = None
        self._untold: list[tuple[list[Change], list[Pending]]] = []

    # requests

    def submit(self, request: Request, done: Done, size: int, deadline: float) -> None:
        """Let a request wait for the next append. ``done`` gets its answer, once."""
        if self.closed is not None:
            done(Removed(f"context {self.id!r} was removed"))
        elif self.waiting_bytes + size > WAITING_BYTES:
            done(Overloaded(f"context {self.id!r} has too much waiting; try again shortly"))
        else:
            self.waiting.append(Waiting(request, done, size, deadline))
            self.waiting_bytes += size

    @property
    def last_entry(self) -> str:
        """The id of the entry in flight, or of the last one that is confirmed."""
        return self._in_flight.append.entry.id if self._in_flight else self.tip

    @property
    def idle(self) -> bool:
        """Whether there is nothing to append and nothing under way."""
        return not self.waiting and self._in_flight is None

    def expire(self, now: float) -> None:
        """Answer what has waited too long for a record that is away. What is in flight may still happen; its key makes
        a retry safe."""
        error = Unavailable("the record cannot be reached; try again with the same key")
        late = list(takewhile(lambda waiting: waiting.deadline <= now, self.waiting))
        del self.waiting[: len(late)]
        for waiting in late:
            self.waiting_bytes -= waiting.size
            self._give(waiting, error)
        if self._in_flight and any(waiting.deadline <= now for waiting, _ in self._in_flight.asked):
            asked = [(waiting._replace(done=_ignore), outcome) for waiting, outcome in self._in_flight.asked]
            for waiting, _ in self._in_flight.asked:
                self._give(waiting, error)
            self._in_flight = _InFlight(self._in_flight.append, asked)

    # the append

    def prepare(self) -> Append | None:
        """Work out what waits. Returns the append to send, again the same one while its outcome is not known."""
        if self._in_flight is not None:
            return self._in_flight.append
        if not self.waiting or self.closed is not None:
            return None
        position = self.replica.position
        asked: list[tuple[Waiting, Pending | HubError]] = []
        room = MOST_BYTES
        for waiting in self.waiting:
            if room <= 0 or len(asked) >= MOST_REQUESTS:
                break
            self.waiting_bytes -= waiting.size
            room -= waiting.size
            asked.append((waiting, self._work_out(waiting.request)))
        del self.waiting[: len(asked)]
        changes = self.replica.changes()
        if not position.seq and not changes:
            self._never_created(asked)
            return None
        entry = RecordEntry(_new_entry_id(), self.tip, changes)
        append = Append(self.id, position, entry, self.replace, self.born)
        self._in_flight = _InFlight(append, asked)
        return append

    def _work_out(self, request: Request) -> Pending | HubError:
        try:
            pending = self.replica.write(request)
        except HubError as error:
            return error.bare()
        except Exception:
            _log.exception("working out %s on context %s", type(request.body).__name__, self.id)
            return Internal("the hub failed at this request; it is in the hub's log")
        if pending.worked.parts:
            self.audience.prepare_snapshot(pending)
        return pending

    def _never_created(self, asked: list[tuple[Waiting, Pending | HubError]]) -> None:
        """The creation itself was refused: there is nothing to compare with, and no context."""
        for waiting, outcome in asked:
            waiting.done(outcome if isinstance(outcome, HubError) else Internal("a creation without a change"))
        self.close("refused")

    def settle(self, appended: Appended) -> bool:
        """Take the outcome of the append, and give the answers; ``tell`` does the rest. Returns False if the record must be
        loaded again."""
        flight = self._in_flight
        assert flight is not None
        match appended.outcome:
            case Outcome.APPENDED:
                self._confirm(flight)
            case Outcome.STALE:
                return self._catch_up(flight, appended)
            case Outcome.REMOVED:
                self.close("removed")
            case Outcome.FAILED:
                self.replica.take_back()
                self.audience.forget_prepared()
                self._in_flight = None
                self._answer(flight, appended.error or Internal("the record refused the append"))
            case Outcome.EXISTS | Outcome.EPOCH | Outcome.MISSING:
                return False
        return True

    def _confirm(self, flight: _InFlight) -> None:
        self._in_flight = None
        pending = self.replica.pending
        changes = self.replica.confirm()
        if changes:
            self.tip = flight.append.entry.id
        if self.created is not None and self.replica.position.seq:
            self.created.set_result(None)
            self.created = None
        self._answer(flight)
        if changes:
            self._untold.append((changes, pending))

    def _answer(self, flight: _InFlight, error: HubError | None = None) -> None:
        for waiting, outcome in flight.asked:
            answer: Answer
            if error is not None:
                answer = error
            elif isinstance(outcome, HubError):
                answer = outcome
            else:
                worked = outcome.worked
                answer = {**worked.result, "duplicate": True} if worked.duplicate else worked.result
            self._give(waiting, answer)

    def _give(self, waiting: Waiting, answer: Answer) -> None:
        try:
            waiting.done(answer)
        except Exception:  # one that cannot take its answer must not cost the others theirs
            _log.exception("answering %s on context %s", type(waiting.request.body).__name__, self.id)

    def tell(self) -> None:
        """Tell everybody what was confirmed."""
        untold, self._untold = self._untold, []
        for changes, pending in untold:
            self.audience.tell(changes, pending)
            if self.replica.state.closed is not None:
                self.close(self.replica.state.closed)
            else:
                self._watcher.changed(self, changes)

    def _catch_up(self, flight: _InFlight, appended: Appended) -> bool:
        """Others appended: take back, apply theirs, and let the waiting requests be worked out again. An entry of one's own
        means that only its answer was lost."""
        if not appended.entries:
            return False
        for entry in appended.entries:
            if entry.before != self.tip:
                return False
            if self._in_flight is not None and entry.id == flight.append.entry.id:
                self._confirm(flight)
                self.tell()
                continue
            if self._in_flight is not None:
                self._give_back(flight)
            try:
                for change in entry.changes:
                    self.replica.follow(change)
            except DoesNotFit:
                _log.exception("context %s: an entry does not fit", self.id)
                return False
            self.tip = entry.id
            self._untold.append((entry.changes, []))
            self.tell()
        if self._in_flight is not None:
            self._give_back(flight)
        return True

    def _give_back(self, flight: _InFlight) -> None:
        """The requests in flight wait again, in front of the others; their entry is forgotten."""
        self.replica.take_back()
        self.audience.forget_prepared()
        self._in_flight = None
        self.waiting[:0] = [waiting for waiting, _ in flight.asked]
        self.waiting_bytes += sum(waiting.size for waiting, _ in flight.asked)

    def start_over(self, loaded: Loaded, reason: str) -> None:
        """The record's state counts: stand on it, and work out again what waits. Viewers get a snapshot with the reason."""
        flight = self._in_flight
        if flight is not None:
            if loaded.tip == flight.append.entry.id:  # it was appended, only the answer was lost
                self._answer(flight)
                self.replica.take_back()
                self._in_flight = None
            else:
                self._give_back(flight)
        self.replica = Replica(loaded.state, self.replica.limits, keyed=True)
        self.tip, self.born = loaded.tip, loaded.born
        if self.created is not None:
            self.created.set_result(None)
            self.created = None
        self.audience.start_over(self.replica, reason)
        self._watcher.loaded(self, loaded)

    def hand_over(self) -> list[Waiting]:
        """Everything that waits, unanswered, for another copy of this context to take."""
        if self._in_flight is not None:
            self._give_back(self._in_flight)
        requests, self.waiting = self.waiting, []
        self.waiting_bytes = 0
        return requests

    def close(self, reason: str) -> None:
        """The context ended; what waits gets the reason."""
        if self.closed is not None:
            return
        self.closed = reason
        error_for_all = Removed(f"context {self.id!r} was removed")
        flight, self._in_flight = self._in_flight, None
        if flight is not None:
            self.replica.take_back()
            self._answer(flight, error_for_all)
        for waiting in self.hand_over():
            self._give(waiting, error_for_all)
        if self.created is not None:
            self.created.set_result(None)
            self.created = None
        self.audience.close(reason)
        self._watcher.gone(self, reason)


_PROCESS: Final = secrets.token_urlsafe(9)
_numbers = count(1)


def _new_entry_id() -> str:
    """An id that no other entry of any process has."""
    return f"{_PROCESS}.{next(_numbers)}"


def touches_document(changes: Iterable[Change]) -> bool:
    """Whether any of the changes patches the document: a row cannot change otherwise."""
    for change in changes:
        for part in change.parts:
            if part["kind"] == "patch":
                return True
    return False


def _ignore(answer: Answer) -> None:
    """The request was answered already."""
