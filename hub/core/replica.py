"""Confirmed state with pending writes on top: a node's live context and an author's local view are the same thing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hub.core.changes import Change
from hub.core.errors import HubError
from hub.core.limits import Limits
from hub.core.position import Position
from hub.core.requests import Request
from hub.core.state import ContextState
from hub.core.work_out import Worked, work_out


class Pending:
    """A write that the record has not confirmed: what was asked, what it did here."""

    __slots__ = ("at", "request", "worked")

    def __init__(self, request: Request, worked: Worked) -> None:
        self.request = request
        self.worked = worked
        self.at: Position | None = None
        """Where the record has it, once the answer said so and while its change has not come by."""


class Replica:
    """A context's state, and the writes that stand on it in order until they are confirmed.

    ``keyed`` says whether the state has keys: a node's has, a view that follows the wire has none.
    """

    __slots__ = ("keyed", "limits", "pending", "state")

    def __init__(self, state: ContextState, limits: Limits, *, keyed: bool) -> None:
        self.state = state
        self.limits = limits
        self.keyed = keyed
        self.pending: list[Pending] = []
        """Oldest first. A list that was taken from here is not changed by ``confirm`` or ``take_back``."""

    @property
    def position(self) -> Position:
        """The confirmed position: without pending writes."""
        for pending in self.pending:
            if pending.worked.position is not None:
                return pending.worked.position.after(-1)
        return self.state.position

    def write(self, request: Request) -> Pending:
        """Work a request out on top of everything. Raises HubError, with nothing changed."""
        pending = Pending(request, work_out(self.state, request, self.limits, keyed=self.keyed))
        self.pending.append(pending)
        return pending

    def changes(self) -> list[Change]:
        """What the pending writes did, in order, at the positions that they have once they are confirmed."""
        return [change for pending in self.pending if (change := pending.worked.change) is not None]

    def confirm(self) -> list[Change]:
        """The record has all pending writes as they are. Returns their changes, in order."""
        changes = self.changes()
        self.pending = []
        return changes

    def take_back(self) -> list[Pending]:
        """Undo everything pending. Returns what it was, in order."""
        taken, self.pending = self.pending, []
        _undo(taken)
        return taken

    def follow(self, change: Change) -> list[tuple[Pending, HubError]]:
        """Apply the next confirmed change below what is pending.

        Taking back, applying and working out again are one step. Returns the writes that are refused now. Raises
        DoesNotFit, with nothing changed.
        """
        if self._stands_already(change):
            self.pending.pop(0)
            return []
        taken = self.take_back()
        try:
            self.state.apply(change)
        except BaseException:
            self.again(taken)
            raise
        return self.again([pending for pending in taken if not (pending.at and change.position.includes(pending.at))])

    def _stands_already(self, change: Change) -> bool:
        """Whether the oldest pending write is this change, and did here just what was confirmed."""
        if not self.pending:
            return False
        oldest = self.pending[0]
        if oldest.at != change.position or oldest.worked.position != change.position:
            return False
        return [part for part in oldest.worked.parts if part["kind"] != "key"] == change.parts

    def again(self, taken: list[Pending]) -> list[tuple[Pending, HubError]]:
        """Work writes out once more, in order. Returns those that are refused now."""
        refused: list[tuple[Pending, HubError]] = []
        for pending in taken:
            try:
                pending.worked = work_out(self.state, pending.request, self.limits, keyed=self.keyed)
            except HubError as error:
                refused.append((pending, error))
            else:
                self.pending.append(pending)
        return refused

    def drop(self, gone: Pending) -> list[tuple[Pending, HubError]]:
        """Remove one write that was refused elsewhere. Returns later ones that cannot stand without it."""
        for index, pending in enumerate(self.pending):
            if pending is gone:
                taken = self.pending[index:]
                _undo(taken)
                self.pending = self.pending[:index]
                return self.again(taken[1:])
        return []

    @contextmanager
    def confirmed(self) -> Iterator[ContextState]:
        """The state without what is pending, for as long as the block lasts. Nothing may be written meanwhile."""
        _undo(self.pending)
        try:
            yield self.state
        finally:
            for pending in self.pending:
                change = pending.worked.change
                if change is not None:
                    pending.worked = pending.worked._replace(undo=self.state.apply(change))


def _undo(pending: list[Pending]) -> None:
    for one in reversed(pending):
        if one.worked.undo is not None:
            one.worked.undo()
