"""A context that is live in this node: its state, the requests that wait for the record, and who hears of its changes."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from itertools import count
from math import inf
from typing import Any, NamedTuple, Protocol

from hub.core.changes import ROOT, Change, RecordEntry
from hub.core.errors import HubError, Internal, Overloaded, Removed, TooLarge, Unavailable
from hub.core.limits import Limits
from hub.core.position import Position
from hub.core.replica import Pending, Replica
from hub.core.requests import Create, Request
from hub.core.state import ContextState, DoesNotFit
from hub.fanout.ring import Budget
from hub.node.audience import Audience
from hub.node.recent import packed, unpacked
from hub.record.port import Append, Appended, Loaded, Outcome

_log = logging.getLogger(__name__)

WAITING_BYTES = 8 * 1024 * 1024
"""Bytes of requests that may wait for the record in one context."""
MOST_REQUESTS = 256
MOST_BYTES = 524_288
"""What goes together into one append."""
FIRST_PIECE = 16
"""Requests of an append after one that was stale: the less there is to work out, the sooner it is there."""
MOST_HEARD = 64
"""Entries of others that are kept while an append is under way; more of them are read from the record."""

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


class EntryIds:
    """Ids that no other entry of any node has. Those of one node begin alike."""

    def __init__(self) -> None:
        self.prefix = f"{secrets.token_urlsafe(9)}."
        self._numbers = count(1)

    def new(self) -> str:
        """The next one."""
        return f"{self.prefix}{next(self._numbers)}"


class Settled(Enum):
    """What is to be done after an append's outcome was taken."""

    DONE = auto()
    LOAD = auto()  # the record must be loaded: it does not go on from here
    LOST = auto()  # the record lost something that this node holds, and has no other epoch yet


class Watcher(Protocol):
    """Who in the node acts on what happened in a context: rows, dispatch of runs, the hashes."""

    def loaded(self, live: LiveContext, loaded: Loaded | None) -> None:
        """It became live, or stands on what the record has now. None: it is about to be created."""

    def changed(self, live: LiveContext, changes: list[Change], *, own: bool) -> None:
        """``own``: this node appended them."""

    def answered(self, live: LiveContext, kept: bytes) -> None:
        """Requests were answered by changes that the record has: the ``kept`` ones, packed (hub/node/recent.py)."""

    def take_answered(self, live: LiveContext) -> list[bytes]:
        """What was given to ``answered`` not long ago, oldest first; it is not kept any more."""

    def create(self, waiting: Waiting) -> None:
        """A creation waits that nothing is in the way of any more."""

    def gone(self, live: LiveContext, reason: str) -> None: ...


class LiveContext:
    """The node's copy of a context. ``prepare`` works out what waits, ``settle`` takes the record's outcome."""

    def __init__(
        self, id: str, loaded: Loaded | None, limits: Limits, watcher: Watcher, budget: Budget, ids: EntryIds
    ) -> None:
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
        self.owner = state.document["user_id"] if loaded else None
        """Whose it is, as far as viewers were told."""
        self.touched = asyncio.get_running_loop().time()
        self.created: asyncio.Future[None] | None = None if loaded else asyncio.get_running_loop().create_future()
        self.closed: str | None = None
        self.doubted = False
        """Whether the record may have another end: the next append, or a comparison, tells."""
        self.unseen = False
        """Whether this node has not compared its end for so long that a missing context may have been removed."""
        self.renewed = False
        """Whether it was given a new epoch because a client stood past its end."""
        self.yields_to = ""
        """Another writer that goes first once, by what the ids of its entries begin with."""
        self.rest: asyncio.TimerHandle | None = None
        """Set while it does: this node goes on when that is over at the latest."""
        self._watcher = watcher
        self._ids = ids
        self._in_flight: _InFlight | None = None
        self._stale = False  # the last append was
        self._heard: list[tuple[str, int, RecordEntry | None]] = []  # while an append is under way
        self._untold: list[tuple[list[Change], list[Pending], bool]] = []

    # requests

    def submit(self, request: Request, done: Done, size: int, deadline: float) -> None:
        """Let a request wait for the next append. ``done`` gets its answer, once."""
        if self.closed is not None:
            done(self._last_answer(request) or Removed(f"context {self.id!r} was removed"))
        elif size > WAITING_BYTES:
            done(TooLarge(f"a request of {size:,} bytes; at most {WAITING_BYTES:,} can wait", limit=WAITING_BYTES))
        elif self.waiting_bytes + size > WAITING_BYTES:
            done(Overloaded(f"context {self.id!r} has too much waiting; try again shortly"))
        else:
            # Named tuples are made so on the hot path: that takes half as long.
            self.waiting.append(tuple.__new__(Waiting, (request, done, size, deadline)))
            self.waiting_bytes += size

    @property
    def last_entry(self) -> str:
        """The id of the entry in flight, or of the last one that is confirmed."""
        return self._in_flight.append.entry.id if self._in_flight else self.tip

    @property
    def idle(self) -> bool:
        """Whether there is nothing to append or to compare, and nothing under way."""
        return not self.waiting and self._in_flight is None and not self.doubted

    @property
    def in_flight(self) -> bool:
        """Whether an append, or a comparison, has no outcome yet."""
        return self._in_flight is not None

    def expire(self, now: float) -> None:
        """Answer what has waited too long for a record that is away. What is in flight may still happen; its key makes
        a retry safe."""
        error = Unavailable("the record cannot be reached; try again with the same key")
        late = [waiting for waiting in self.waiting if waiting.deadline <= now]
        if late:
            self.waiting = [waiting for waiting in self.waiting if waiting.deadline > now]
        for waiting in late:
            self.waiting_bytes -= waiting.size
            self._give(waiting, error)
        if self._in_flight:
            asked = self._in_flight.asked
            for index, (waiting, outcome) in enumerate(asked):
                if waiting.deadline <= now:
                    asked[index] = waiting._replace(done=_ignore), outcome
                    self._give(waiting, error)

    # the append

    def prepare(self) -> Append | None:
        """Work out what waits. Returns the append to send, again the same one while its outcome is not known."""
        if self._in_flight is not None:
            return self._in_flight.append
        if self.closed is not None or not (self.waiting or self.doubted):
            return None
        self.doubted = False
        position = self.replica.position
        if not position.seq and not self.waiting:
            return None  # it is to be created: there is nothing to compare yet
        asked: list[tuple[Waiting, Pending | HubError]] = []
        room = MOST_BYTES
        most = FIRST_PIECE if self._stale else MOST_REQUESTS
        for waiting in self.waiting:
            if room <= 0 or len(asked) >= most:
                break
            self.waiting_bytes -= waiting.size
            room -= waiting.size
            asked.append((waiting, self._work_out(waiting.request)))
        del self.waiting[: len(asked)]
        changes = self.replica.changes()
        if not position.seq and not changes:
            self._never_created(asked)
            return None
        entry = tuple.__new__(RecordEntry, (self._ids.new(), self.tip, changes))
        append = Append(self.id, position, entry, self.replace, self.born)
        if not position.seq:
            append.key = asked[0][0].request.body.key or ""
        elif self.replica.state.closed is not None:
            append.key = self.replica.state.keys.first() or ""
        self._in_flight = tuple.__new__(_InFlight, (append, asked))
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

    def settle(self, appended: Appended) -> Settled:
        """Take the outcome of the append, and give the answers; ``tell`` does the rest."""
        flight = self._in_flight
        assert flight is not None
        self._stale = appended.outcome is Outcome.STALE
        match appended.outcome:
            case Outcome.APPENDED:
                self.yields_to = appended.wanted
                self._confirm(flight)
            case Outcome.STALE:
                return self._catch_up(flight, appended)
            case Outcome.REMOVED:
                if appended.entries:
                    self._catch_up(flight, appended)
                self.close("removed")
            case Outcome.FAILED:
                self.replica.take_back()
                self.audience.forget_prepared()
                self._in_flight = None
                self._answer(flight, appended.error or Internal("the record refused the append"))
                if not flight.append.entry.changes:
                    return Settled.LOAD
                self.doubted = True  # perhaps it has what this node cannot read
            case Outcome.EXISTS | Outcome.EPOCH | Outcome.MISSING:
                return Settled.LOAD
        return Settled.DONE

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
        self._keep(flight)
        if changes:
            self._untold.append((changes, pending, True))

    def _keep(self, flight: _InFlight) -> None:
        """What was answered is kept for a while, also what was known already: the record may lose it yet."""
        at = self.replica.position
        kept: list[tuple[int, Request]] = []
        for waiting, outcome in flight.asked:
            if isinstance(outcome, HubError):
                continue
            change = outcome.worked.change
            if change is not None:
                kept.append((change.position.seq, waiting.request))
            elif outcome.worked.duplicate:
                kept.append((at.seq, waiting.request))
        if kept:
            self._watcher.answered(self, packed(at.epoch, kept))

    def _answer(self, flight: _InFlight, error: HubError | None = None) -> None:
        for waiting, outcome in flight.asked:
            answer: Answer
            if error is not None:
                answer = error
            elif isinstance(outcome, HubError):
                answer = outcome
            else:
                answer = _answer_of(outcome)
            self._give(waiting, answer)

    def _give(self, waiting: Waiting, answer: Answer) -> None:
        try:
            waiting.done(answer)
        except Exception:  # one that cannot take its answer must not cost the others theirs
            _log.exception("answering %s on context %s", type(waiting.request.body).__name__, self.id)

    def tell(self) -> None:
        """Tell everybody what was confirmed, then what was heard meanwhile."""
        self._tell()
        if self._in_flight is None:
            heard, self._heard = self._heard, []
            for epoch, last, entry in heard:
                self._follow(epoch, last, entry)

    def _tell(self) -> None:
        untold, self._untold = self._untold, []
        for changes, pending, own in untold:
            self.audience.tell(changes, pending)
            if self.replica.state.closed is not None:
                self.close(self.replica.state.closed)
            else:
                self._watcher.changed(self, changes, own=own)

    def _last_answer(self, request: Request) -> Answer | None:
        """The outcome of a request that was applied before the context ended: the end itself, asked for again."""
        if self.replica.state.closed is None:
            return None
        outcome = self._work_out(request)
        return outcome if isinstance(outcome, HubError) else _answer_of(outcome)

    # what others append

    def heard(self, epoch: str, last: int, entry: RecordEntry | None) -> None:
        """The record has another end, as was told by who appended. An entry that fits is applied; anything else that is not
        known makes this context doubted."""
        if self._in_flight is None:
            self._follow(epoch, last, entry)
        elif len(self._heard) < MOST_HEARD:  # which of both came first shows when the append is settled
            self._heard.append((epoch, last, entry))
        else:
            self.doubted = True

    def _follow(self, epoch: str, last: int, entry: RecordEntry | None) -> None:
        at = self.replica.position
        if self.closed is not None or self.doubted:
            return
        if epoch == at.epoch and (last < at.seq or (last == at.seq and (entry is None or entry.id == self.tip))):
            return  # known already
        if entry is None or epoch != at.epoch or entry.before != self.tip or not self._apply(entry):
            self.doubted = True
        else:
            self._tell()

    def _apply(self, entry: RecordEntry) -> bool:
        """Apply another's entry that is the next one. False if it does not fit, which makes this state worthless."""
        try:
            for change in entry.changes:
                self.replica.follow(change)
        except DoesNotFit:
            _log.exception("context %s: an entry does not fit", self.id)
            return False
        self.tip = entry.id
        self._untold.append((entry.changes, [], False))
        return True

    def _catch_up(self, flight: _InFlight, appended: Appended) -> Settled:
        """Others appended: take back, apply theirs, and let the waiting requests be worked out again. An entry of one's own
        means that only its answer was lost."""
        if self._is_other_history(appended.entries):
            return Settled.LOST
        self.doubted = self.doubted or appended.more
        for entry in appended.entries:
            if entry.before != self.tip:
                return Settled.LOAD
            if self._in_flight is not None and entry.id == flight.append.entry.id:
                self._confirm(flight)
                self._tell()
                continue
            if self._in_flight is not None:
                self._give_back(flight)
            if not self._apply(entry):
                return Settled.LOAD
            self._tell()
        if self._in_flight is not None:
            self._give_back(flight)
        return Settled.DONE

    def _is_other_history(self, entries: Sequence[RecordEntry]) -> bool:
        """Whether the record does not continue what this node holds, in the same epoch: so it lost that. One that begins
        later than the next change was only trimmed."""
        if not entries:
            return True
        return entries[0].before != self.tip and entries[0].changes[0].position == self.replica.position.after()

    def _give_back(self, flight: _InFlight) -> None:
        """The requests in flight wait again, in front of the others; their entry is forgotten."""
        self.replica.take_back()
        self.audience.forget_prepared()
        self._in_flight = None
        self.waiting[:0] = [waiting for waiting, _ in flight.asked]
        self.waiting_bytes += sum(waiting.size for waiting, _ in flight.asked)

    def start_over(self, loaded: Loaded, reason: str) -> None:
        """The record's state counts: stand on it, and work out again what waits, and before that what this node had answered
        and the record may have lost. Viewers get a snapshot with the reason."""
        flight = self._in_flight
        appended = flight is not None and loaded.tip == flight.append.entry.id  # only the answer was lost
        if flight is not None and appended:
            self._answer(flight)
            self.replica.take_back()
            self._in_flight = None
        elif flight is not None:
            self._give_back(flight)
        self._heard = []
        self.doubted = self._stale = False
        lost = [Waiting(request, _ignore, request.size, inf) for request in self._lost(loaded)]
        self.waiting[:0] = lost
        self.waiting_bytes += sum(waiting.size for waiting in lost)
        self.replica = Replica(loaded.state, self.replica.limits, keyed=True)
        self.tip, self.born = loaded.tip, loaded.born
        if flight is not None and appended:
            self._keep(flight)
        if self.created is not None:
            self.created.set_result(None)
            self.created = None
        self.audience.start_over(self.replica, reason)
        self._watcher.loaded(self, loaded)

    def _lost(self, loaded: Loaded) -> list[Request]:
        """What was answered here in the epoch that ended, and may not be in the record, in order. A key tells for
        itself; without one a request is lost for sure if its position is past what the record kept."""
        before, now = self.replica.position, loaded.state.position
        if before.epoch == now.epoch:
            return []
        kept_to: float = now.seq
        if loaded.since:
            since = Position.parse(loaded.since)
            kept_to = since.seq if since.epoch == before.epoch else inf
        return [
            request
            for kept in self._watcher.take_answered(self)
            for at, request in unpacked(kept)
            if at.epoch == before.epoch and (request.body.key is not None or at.seq > kept_to)
        ]

    def hand_over(self) -> list[Waiting]:
        """Everything that waits, unanswered, for another copy of this context to take."""
        if self._in_flight is not None:
            self._give_back(self._in_flight)
        requests, self.waiting = self.waiting, []
        self.waiting_bytes = 0
        return requests

    def close(self, reason: str, error: HubError | None = None) -> None:
        """The context ended, here at least; what waits gets the ``error``, by default that it was removed."""
        if self.closed is not None:
            return
        self.closed = reason
        error_for_all = error or Removed(f"context {self.id!r} was removed")
        for waiting in self.hand_over():
            answer = self._last_answer(waiting.request) or error_for_all
            creates = isinstance(waiting.request.body, Create) and isinstance(answer, HubError)
            if creates and reason == "removed" and self.created is None:
                self._watcher.create(waiting)  # it found this context in its way, which is gone now
            else:
                self._give(waiting, answer)
        if self.created is not None:
            self.created.set_result(None)
            self.created = None
        self.audience.close(reason)
        self._watcher.gone(self, reason)


def _answer_of(outcome: Pending) -> dict[str, Any]:
    worked = outcome.worked
    return {**worked.result, "duplicate": True} if worked.duplicate else worked.result


def touches_document(changes: Iterable[Change]) -> bool:
    """Whether any of the changes patches the document: a row cannot change otherwise."""
    for change in changes:
        for part in change.parts:
            if part["kind"] == "patch":
                return True
    return False


def _ignore(answer: Answer) -> None:
    """The request was answered already."""
