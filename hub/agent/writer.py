"""How a facade's writes go out: each gets its key and time once, is seen at once, and waits until the record has it.

Writers are thread-safe. Their link calls the methods of ``Linked`` from one thread; everything else may come from any.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final

from hub.agent.backlog import Backlog
from hub.agent.batch import Batch, batch_of
from hub.agent.current import run_of
from hub.agent.growing import Growing
from hub.agent.ids import writer_name
from hub.agent.link import Link
from hub.agent.tally import Tally, closing_error
from hub.agent.view import View
from hub.agent.waiting import runs_a_loop
from hub.core.changes import Change, Part
from hub.core.errors import (
    HubError,
    InvalidRequest,
    Overloaded,
)
from hub.core.limits import Limits
from hub.core.position import Position
from hub.core.replica import Pending
from hub.core.requests import (
    AnyBody,
    AnyOperation,
    Apply,
    Create,
    Expected,
    LogAdd,
    LogAppend,
    Remove,
    Request,
    Role,
    RunRef,
)
from hub.core.state import ContextState, DoesNotFit

_log = logging.getLogger(__name__)

UNANSWERED: Final = 64
"""Requests of one context that may be under way: a context remembers the outcomes of so many."""


class Writer:
    """One facade's way to its context: the view, what waits to be sent, what is under way."""

    def __init__(self, id: str, link: Link, limits: Limits, *, pending_bytes: int = 8 * 1024 * 1024) -> None:
        self.id = id
        self.name = writer_name()
        self.link = link
        self.created_at = ""
        """When the context was made; it never changes."""
        self.lock = threading.RLock()
        self.closed_by: str | None = None
        """Why the context takes no more writes here, or None."""
        self.on_closed: Callable[[str], None] = lambda reason: None
        self.ready: Future[None] = Future()
        """Done once ``loaded`` gave a state to read."""
        self.held_run: RunRef | None = None
        """The run that this process executes: what an agent's writes name when the code that makes them does not know."""
        self.view = View(ContextState(Position(writer_name(), 0)), limits, decides=link.decides)
        self._backlog = Backlog(self.lock, pending_bytes)
        self._n = 0
        self._unsent: deque[Pending] = deque()
        self._growing: Growing | None = None
        self._under_way: dict[str, Pending] = {}
        self._held_back = False
        self._tally = Tally()
        self._outcomes: dict[str, Future[dict[str, Any]]] = {}
        self._watchers: list[Callable[[], object]] = []
        self._batches: list[Batch] = []
        self._lost = False
        self._over = False
        self._creating = False
        self._closing: HubError | None = None  # what refused the creation

    # reading

    def read(self) -> ContextState:
        """The state with everything that came by. Hold ``lock`` for as long as you look at it."""
        self._join_text()
        self._fold()
        self.view.see_all()
        return self.view.state

    def read_document(self) -> dict[str, Any]:
        """The document of ``read()``, for less: streamed text is not in it. Hold ``lock`` for as long as you look at it."""
        self._fold()
        return self.view.state.document

    @property
    def unconfirmed(self) -> int:
        """How many writes the record has not confirmed."""
        return self._tally.asked - self._tally.settled

    @property
    def settled(self) -> int:
        """How many writes were confirmed, or refused."""
        return self._tally.settled

    # writing

    def apply(
        self,
        operations: list[AnyOperation],
        weight: int,
        *,
        expected: Expected | None = None,
        run: RunRef | None = None,
    ) -> None:
        """Write operations that are done together. Inside a batch they become part of it. ``weight``: bytes, about.
        ``run``: in whose name, if not in that of the run which this code is part of.

        Raises HubError, and then nothing was written.
        """
        batch = batch_of(self)
        if batch is not None:
            self._add(batch, operations, weight, expected)
            return
        run = run or run_of(self.id)
        with self.lock:
            body = Apply(context=self.id, ops=operations, expected=expected, run=run or self._unnamed_run())
            _, wake = self._write(body, weight)
        if wake:
            self.link.wake(self)

    def append(self, id: str, text: str, *, run: RunRef | None = None) -> None:
        """Add text to an entry of the log: as a write of its own, or together with the newest one if that is an append to the
        same entry, in the name of the same run, and waits. Otherwise like ``apply``."""
        weight = 100 + len(text)
        if batch_of(self) is not None:
            self.apply([LogAppend(id=id, text=text)], weight)
            return
        run = run or run_of(self.id)
        with self.lock:
            run = run or self._unnamed_run()
            if self._grow(id, text, run, weight):
                return
            append = LogAppend(id=id, text=text)
            pending, wake = self._write(Apply(context=self.id, ops=[append], run=run), weight, unseen=True)
            self._growing = Growing(pending, append, run)
        if wake:
            self.link.wake(self)

    def submit(self, body: AnyBody, weight: int = 200, *, no: int = 0) -> Pending:
        """Write a request that is no ``apply``. Returns what it did to the view. Raises HubError."""
        with self.lock:
            if batch_of(self) is not None:
                raise InvalidRequest("only writes to state, output, data, metadata, log and progress go into a batch")
            pending, wake = self._write(body, weight, no=no)
        if wake:
            self.link.wake(self)
        return pending

    def submit_first(self, body: Create, *, no: int) -> None:
        """Work the creation out; the link is told when it gets to know the context. Raises HubError."""
        with self.lock:
            self._write(body, 200, no=no)

    def add_by_broadcast(self, op: LogAdd) -> None:
        """Add an entry that goes to every context, unless it came already. Only where the view is the record."""
        with self.lock:
            if self.closed_by is None and str(op.id) not in self.view.state.log:
                self._write(Apply(context=self.id, ops=[op]), 200)
        self.link.wake(self)

    def ask(self, body: AnyBody) -> Future[dict[str, Any]]:
        """``submit``, and the answer when it comes: the result, or the HubError that refused it."""
        outcome: Future[dict[str, Any]] = Future()
        with self.lock:
            _, wake = self._write(body, 200)
            assert body.key is not None
            self._outcomes[body.key] = outcome
        if wake:
            self.link.wake(self)
        return outcome

    def _write(self, body: AnyBody, weight: int, *, no: int = 0, unseen: bool = False) -> tuple[Pending, bool]:
        self._wait_for_room(weight)
        self._join_text()
        body.key = f"{self.name}/{self._n + 1}"
        request = Request(body, self.link.author, self.link.now(), no=no)
        pending = self.view.write_unseen(request) if unseen and not self.link.decides else self.view.write(request)
        self._n += 1
        wake = not self._unsent
        self._unsent.append(pending)
        self._growing = None
        self._backlog.add(pending, weight)
        self._tally.asked += 1
        if isinstance(body, Remove):
            self.closed_by = "removed"
        self._tell()
        return pending, wake

    def _wait_for_room(self, weight: int) -> None:
        self.check_open()
        if self._backlog.has_room(weight):
            return
        if not runs_a_loop() and self._backlog.wait_for_room(weight, lambda: self.closed_by is not None):
            self.check_open()
            return
        waiting = self._backlog.bytes
        raise Overloaded(
            f"context {self.id!r}: {waiting:,} bytes of writes wait for the hub already; flush from time to time"
        )

    def _unnamed_run(self) -> RunRef | None:
        return self.held_run if self.held_run is not None and self.link.author.role is Role.AGENT else None

    def _grow(self, id: str, text: str, run: RunRef | None, weight: int) -> bool:
        growing = self._growing
        if growing is None or not self._unsent or self._unsent[-1] is not growing.pending:
            return False
        if self.closed_by is not None or not self._backlog.has_room(weight) or not growing.add(id, text, run):
            return False
        self._backlog.add(growing.pending, weight)
        return True

    def _join_text(self) -> None:
        """Let the newest write have the text that came to it."""
        if self._growing is not None and (request := self._growing.request()) is not None:
            self.view.rewrite_last(request)

    # batches

    def begin(self, batch: Batch) -> None:
        """A block opens."""
        with self.lock:
            self._batches.append(batch)

    def _add(self, batch: Batch, operations: list[AnyOperation], weight: int, expected: Expected | None) -> None:
        if expected is not None:
            raise InvalidRequest("a write that expects a version does not go into a batch")
        with self.lock:
            self.check_open()
            self._join_text()
            self._growing = None
            body = Apply(context=self.id, ops=operations, run=batch.run or self._unnamed_run())
            pending = self.view.write(Request(body, self.link.author, self.link.now(), nonce=str(len(batch.members))))
            batch.members.append(pending)
            batch.operations += operations
            batch.weight += weight
            self._tell()

    def drop(self, batch: Batch) -> None:
        """A block ends with nothing."""
        with self.lock:
            batch.open = False
            self._batches.remove(batch)
            if batch.members:
                self.view.without(set(batch.members))
                self._tell()

    def send(self, batch: Batch) -> None:
        """A block ends: what it wrote goes out as one. Raises HubError, and then nothing of it stays."""
        with self.lock:
            self.drop(batch)
            if not batch.operations:
                return
            body = Apply(context=self.id, ops=batch.operations, run=batch.run or self._unnamed_run())
            _, wake = self._write(body, batch.weight)
        if wake:
            self.link.wake(self)

    # waiting

    def check_open(self) -> None:
        """Raises what says why nothing more can be written here."""
        if self.closed_by is not None:
            raise self._closing_error()

    def flushed(self) -> Future[None]:
        """Done once the record has all writes up to now; with the error if some were refused since the last time."""
        with self.lock:
            done = self._tally.wait(run_of(self.id))
        self._release()
        return done

    @property
    def is_behind(self) -> bool:
        """Whether so much waits for the record that whoever writes on had better wait."""
        return self._backlog.is_high

    def settling(self) -> Future[None] | None:
        """Done once all writes up to now are confirmed or refused; None if they are."""
        with self.lock:
            return self._tally.wait_deaf() if self.unconfirmed else None

    def raise_failures(self) -> None:
        """Raises the first refusal that nobody has heard of; the others are its notes."""
        if not self._tally.has_failures:
            return
        with self.lock:
            error = self._tally.take_failures(run_of(self.id))
        if error is not None:
            raise error

    def watch(self, told: Callable[[], object]) -> Callable[[], None]:
        """Call ``told`` whenever the context may have changed, from any thread; it must be quick. Returns what ends it."""
        with self.lock:
            self._watchers.append(told)

        def end() -> None:
            with self.lock:
                if told in self._watchers:
                    self._watchers.remove(told)

        return end

    def poke(self) -> None:
        """Let those who watch look again."""
        with self.lock:
            self._tell()

    def _tell(self) -> None:
        for told in list(self._watchers):
            told()

    def _release(self) -> None:
        with self.lock:
            ready = self._tally.ready()
        self._tally.tell(ready)

    # what the link calls

    def outgoing(self) -> list[Request]:
        """The requests to send next, in order."""
        with self.lock:
            self._join_text()
            room = UNANSWERED - len(self._under_way)
            if self._unsent and isinstance(self._unsent[0].request.body, Create):
                room = 1  # nothing else before it is known that the context is this one
            elif self._creating:
                room = 0
            taken = [self._unsent.popleft() for _ in range(min(room, len(self._unsent)))]
            for pending in taken:
                assert pending.request.body.key is not None
                self._under_way[pending.request.body.key] = pending
            self._creating = self._creating or any(isinstance(pending.request.body, Create) for pending in taken)
            self._held_back = bool(self._unsent)
            return [pending.request for pending in taken]

    def answered(self, key: str, position: Position, result: dict[str, Any]) -> None:
        """A request was applied; its change comes by at ``position``, or came."""
        with self.lock:
            pending = self._under_way.pop(key, None)
            if pending is None:
                return
            self._end(pending)
            self._guarded(lambda: self.view.answered(pending, position))
            outcome = self._outcomes.pop(key, None)
            if isinstance(pending.request.body, Create):
                self._creating = False
            self._tell()
        if outcome is not None:
            outcome.set_result(result)
        self._go_on()

    def refused(self, key: str, error: HubError) -> None:
        """A request was refused: it leaves the view."""
        with self.lock:
            pending = self._under_way.pop(key, None)
            if pending is None:
                return
            self._end(pending)
            self._guarded(lambda: self.view.refused(pending))
            outcome = self._outcomes.pop(key, None)
            creation = isinstance(pending.request.body, Create)
            if creation:
                self._closing = self._closing or error
            elif outcome is None:
                self._tally.fail(error, pending.request.body)
            self._tell()
        if outcome is not None:
            outcome.set_exception(error)
        if creation:
            self.closed(error.code)
        self._go_on()

    def followed(self, change: Change) -> None:
        """The next confirmed change."""
        with self.lock:
            if self._lost or self._over:
                return
            parts: list[Part] = [part for part in change.parts if part["kind"] != "key"]
            self._guarded(lambda: self.view.heard(Change(change.position, parts)))
            if self._watchers and any(part["kind"] in ("patch", "closed") for part in parts):
                self._fold()
                self._tell()

    def loaded(self, snapshot: dict[str, Any], tip_keys: Sequence[str] = ()) -> None:
        """The state anew."""
        with self.lock:
            if self._over:
                return
            self._lost = False
            self.view.load(ContextState.from_snapshot(snapshot), set(tip_keys))
            if not self.ready.done():
                self.ready.set_result(None)
            self._tell()

    def closed(self, reason: str) -> None:
        """The context ended; what waits ends with the reason."""
        with self.lock:
            first = self.closed_by is None
            self._over = True
            self.closed_by = self.closed_by or reason
            error = self._closing_error()
            outcomes, self._outcomes = self._outcomes, {}
            if first and (self._unsent or self._under_way or self._closing):
                self._tally.fail(error)
            self._unsent.clear()
            self._under_way.clear()
            self._backlog.clear()
            self._tally.settled = self._tally.asked
            if not self.ready.done():
                self.ready.set_exception(error)
            self._tell()
        for outcome in outcomes.values():
            outcome.set_exception(error)
        self._release()
        self.on_closed(reason)

    def confirm(self) -> None:
        """The view is the record: what was written is confirmed as it is."""
        with self.lock:
            outcomes = []
            self._join_text()
            if self._unsent:
                self.view.confirm_all(pending for batch in self._batches for pending in batch.members)
            while self._unsent:
                pending = self._unsent.popleft()
                self._end(pending)
                outcome = self._outcomes.pop(str(pending.request.body.key), None)
                if outcome is not None:
                    outcomes.append((outcome, pending.worked.result))
        for outcome, result in outcomes:
            outcome.set_result(result)
        self._release()

    # inside

    def _closing_error(self) -> HubError:
        if self._closing is not None:
            return type(self._closing)(self._closing.message, **self._closing.details)
        return closing_error(self.id, self.closed_by or "")

    def _end(self, pending: Pending) -> None:
        self._tally.settled += 1
        self._backlog.drop(pending)

    def _go_on(self) -> None:
        self._release()
        with self.lock:
            wake, self._held_back = self._held_back, False
        if wake:
            self.link.wake(self)

    def _fold(self) -> None:
        self._guarded(self.view.fold)

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except DoesNotFit as error:
            _log.warning("context %s: a change did not fit, loading it again: %s", self.id, error)
            self._lost = True
            self.link.attach(self, create=False, replace=False)
