"""A facade's copy of its context: what is confirmed, with own writes on top.

Changes of others that come by are not worked in one by one while many writes wait, since each would mean working all of
them out again. They are kept aside until somebody reads, or until there are so many that the price per change is bounded.

Nor is streamed text worked out before somebody reads: often nobody does before it is confirmed, and it comes by as a change.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any, Final

from hub.core.changes import Change, Part
from hub.core.errors import (
    Conflict,
    Exists,
    HubError,
    InvalidRequest,
    NotFound,
    Overloaded,
    RunLost,
    RunRequired,
    TooLarge,
)
from hub.core.limits import Limits
from hub.core.position import Position
from hub.core.replica import Pending, Replica
from hub.core.requests import Apply, Request, StateAppend, StateIncr, StateRemove
from hub.core.state import ContextState
from hub.core.work_out import Worked, work_out

SHARE: Final = 8
"""Others' changes are worked in once there is one of them for so many writes that wait."""

_NOTHING: Final = Worked([], {})


class View(Replica):
    """A Replica that never refuses what only the record can decide, and that works changes in when it pays.

    ``decides``: this view is the record, so what does not fit its state is refused at once.
    """

    __slots__ = ("_aside", "_gone", "_unseen", "base", "decides")

    def __init__(self, state: ContextState, limits: Limits, *, decides: bool) -> None:
        super().__init__(state, limits, keyed=False)
        self.decides = decides
        self.base = state.position
        """The confirmed position that ``state`` stands on."""
        self._aside: list[Change] = []
        self._gone: set[Pending] = set()
        self._unseen = 0  # so many of the newest writes are not worked out

    # writing

    def write(self, request: Request) -> Pending:
        """Work a request out on top of everything. What only the state here speaks against is kept without effect: the
        record decides. Raises HubError, with nothing changed."""
        self.see_all()
        try:
            return super().write(request)
        except HubError as error:
            if self.decides or not _depends_on_state(error, request):
                raise
            pending = Pending(request, _NOTHING)
            self.pending.append(pending)
            return pending

    def write_unseen(self, request: Request) -> Pending:
        """Keep a write that is sure to be valid, and that only the log shows, for ``see_all`` to work out."""
        assert not self.decides
        pending = Pending(request, _NOTHING)
        self.pending.append(pending)
        self._unseen += 1
        return pending

    def rewrite_last(self, request: Request) -> None:
        """Let the newest write say something else."""
        pending = self.pending[-1]
        pending.request = request
        if self._unseen:
            return
        del self.pending[-1]
        if pending.worked.undo is not None:
            pending.worked.undo()
        self.again([pending])

    def see_all(self) -> None:
        """Work out what is not."""
        self.again(self._take_unseen())

    def _take_unseen(self) -> list[Pending]:
        if not self._unseen:
            return []
        unseen, self._unseen = self.pending[-self._unseen :], 0
        del self.pending[-len(unseen) :]
        return unseen

    def again(self, taken: list[Pending]) -> list[tuple[Pending, HubError]]:
        """Work writes out once more. One that does not fit now has no effect, but stays: the record decides."""
        for pending in taken:
            try:
                pending.worked = work_out(self.state, pending.request, self.limits, keyed=False)
            except HubError:
                pending.worked = _NOTHING
            self.pending.append(pending)
        return []

    # what the record says

    def answered(self, pending: Pending, position: Position) -> None:
        """The record has a write: its change comes by at ``position``, or came already."""
        if not self.base.seq and self.base.epoch != position.epoch:
            self._move_to(position.epoch)  # the context was created under the record's own epoch
        pending.at = position
        if self._passed(pending):
            self._leave(pending)

    def refused(self, pending: Pending) -> None:
        """The record refused a write."""
        self._leave(pending)

    def heard(self, change: Change) -> None:
        """The next confirmed change; one that came already is left out. Raises DoesNotFit."""
        reached = self._aside[-1].position if self._aside else self.base
        if reached.includes(change.position):
            return
        if not self._aside and not self._gone:
            if len(self.pending) == self._unseen:
                self.state.apply(change)
                self.base = change.position
                self._drop_passed()
                return
            oldest = self.pending[0]
            if oldest.at == change.position and _adopt(self.state, oldest.worked.parts, change.parts):
                del self.pending[0]  # it stands at the bottom already
                self.base = change.position
                self._drop_passed()
                return
        self._aside.append(change)
        if len(self._aside) * SHARE >= len(self.pending):
            self.fold()

    def fold(self) -> None:
        """Work in what was kept aside. Raises DoesNotFit, and then stands on the last change that did fit."""
        if not self._aside and not self._gone:
            return
        gone, aside = self._gone, self._aside
        self._gone, self._aside = set(), []
        unseen, taken = self._take_unseen(), self.take_back()
        try:
            for change in aside:
                self.state.apply(change)
        finally:
            self.base = self.state.position
            self.again([pending for pending in taken if pending not in gone and not self._passed(pending)])
            still = [pending for pending in unseen if not self._passed(pending)]
            self.pending += still
            self._unseen = len(still)

    def load(self, state: ContextState, known: Container[str | None]) -> None:
        """Stand on another state. Writes that are in it (their key is ``known``, or their position is behind it) go."""
        gone, taken = self._gone, self.pending
        self._aside, self._gone, self.pending, self._unseen = [], set(), [], 0
        self.state = state
        self.base = state.position
        waiting = [pending for pending in taken if pending not in gone and pending.request.body.key not in known]
        self.again([pending for pending in waiting if pending.at is None or self._ahead(pending.at)])

    def confirm_all(self, but: Iterable[Pending] = ()) -> list[Pending]:
        """This view is the record: everything is confirmed as it is, except for ``but``. Returns what was confirmed."""
        open_writes = set(but)
        if open_writes:
            taken = self.take_back()
            self.again([pending for pending in taken if pending not in open_writes])
            confirmed = list(self.pending)
            self.confirm()
            self.base = self.state.position
            self.again([pending for pending in taken if pending in open_writes])
            return confirmed
        confirmed = self.pending
        self.confirm()
        self.base = self.state.position
        return confirmed

    def without(self, members: Container[Pending]) -> None:
        """Take some writes out, as if they had never been."""
        self.fold()
        self.see_all()
        taken = self.take_back()
        self.again([pending for pending in taken if pending not in members])

    # inside

    def _leave(self, pending: Pending) -> None:
        if pending.worked.parts:
            self._gone.add(pending)
            if len(self._gone) * SHARE >= len(self.pending):
                self.fold()
        elif pending in self.pending:
            if self.pending.index(pending) >= len(self.pending) - self._unseen:
                self._unseen -= 1
            self.pending.remove(pending)

    def _drop_passed(self) -> None:
        """Those that changed nothing there, or were not worked out here."""
        while self.pending and self._passed(self.pending[0]):
            self._leave(self.pending[0])
            if self._gone:
                break

    def _passed(self, pending: Pending) -> bool:
        return pending.at is not None and self.base.includes(pending.at)

    def _ahead(self, at: Position) -> bool:
        return at.epoch == self.base.epoch and at.seq > self.base.seq

    def _move_to(self, epoch: str) -> None:
        self.see_all()
        taken = self.take_back()
        self.state.position = self.base = Position(epoch, 0)
        self.again(taken)


def _depends_on_state(error: HubError, request: Request) -> bool:
    """Whether another state than the one here might have let the request pass."""
    if isinstance(error, (Conflict, Exists, NotFound, Overloaded, RunLost, RunRequired)):
        return True
    if not isinstance(request.body, Apply):
        return False
    if isinstance(error, TooLarge):
        return True
    changing = (StateIncr, StateAppend, StateRemove)
    return isinstance(error, InvalidRequest) and any(isinstance(op, changing) for op in request.body.ops)


def _adopt(state: ContextState, mine: list[Part], theirs: list[Part]) -> bool:
    """Whether a confirmed change is what was worked out here. The hub's clock may differ: its time of an entry is taken."""
    if mine == theirs:
        return True
    if len(mine) != len(theirs):
        return False
    times: list[tuple[str, str]] = []
    for own, confirmed in zip(mine, theirs, strict=True):
        if own == confirmed:
            continue
        if own["kind"] != "log.add" or confirmed["kind"] != "log.add":
            return False
        added: Any = confirmed["entry"]
        if {**own["entry"], "timestamp": added["timestamp"]} != added or added["id"] not in state.log:
            return False
        times.append((added["id"], added["timestamp"]))
    for id, timestamp in times:
        state.log.restamp(id, timestamp)
    return True
