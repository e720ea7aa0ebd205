"""The port between an AgentContext and where its writes go: the node of this process, a connection, or nothing beyond."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from hub.core.changes import Change
from hub.core.errors import HubError
from hub.core.position import Position
from hub.core.requests import Author, LogAdd, Request


class Linked(Protocol):
    """What a link sees of an AgentContext. The link calls these from one thread of its own, one at a time and in order:
    an answer before the change that it answers, changes by position."""

    @property
    def id(self) -> str:
        """The context's."""

    def outgoing(self) -> list[Request]:
        """The requests to send next, in order: at most 64 are unanswered at a time. Empty while none may go."""

    def answered(self, key: str, position: Position, result: dict[str, Any]) -> None:
        """A request was applied; its change comes by (or came, for a duplicate) at ``position``."""

    def refused(self, key: str, error: HubError) -> None:
        """A request was refused: it leaves the view."""

    def followed(self, change: Change) -> None:
        """The next confirmed change, others' or own."""

    def loaded(self, snapshot: dict[str, Any], tip_keys: Sequence[str] = ()) -> None:
        """The state anew (``epoch``, ``seq``, ``document``, ``log``, ``data``): at first, or because changes were missed.
        Writes that stay unanswered are worked out again on it; those whose key is in ``tip_keys`` are in it already."""

    def closed(self, reason: str) -> None:
        """The context ended: removed, or it existed before (``exists``), or the link is gone for good; ``reason`` may be the
        code of an error."""


class Link(Protocol):
    """Where a process's contexts are kept. Every method may be called from any thread and never blocks."""

    @property
    def author(self) -> Author:
        """Who writes through this link."""

    @property
    def decides(self) -> bool:
        """Whether the facades' own views are the record: then they refuse what does not fit them."""

    @property
    def names_broadcasts(self) -> bool:
        """Whether an entry for every context gets the id that the caller gave it."""

    def now(self) -> str:
        """The time, ISO 8601 UTC."""

    def attach(self, context: Linked, *, create: bool, replace: bool) -> None:
        """Begin to serve a context. ``create``: its first outgoing request is its creation, and ``replace`` lets it end an
        older one of that id; else ``loaded`` comes first. Attached already: it is loaded anew."""

    def detach(self, context: Linked) -> None:
        """Serve it no more; what is outgoing is still sent."""

    def wake(self, context: Linked) -> None:
        """There are outgoing requests. Called when there were none before, not for every one."""

    def broadcast(self, id: str, op: LogAdd, before: Sequence[Future[None]] = ()) -> None:
        """Add an entry to every live context, under the key ``b/<id>``, once all of ``before`` are done: what this process
        wrote earlier comes first, and a context that it has just made is there."""

    def post_notice(self, notice: dict[str, Any]) -> None:
        """Announce; ``notice`` has the fields of ``notice.post``."""

    def clear_notice(self, id: str) -> None:
        """Take an announcement back."""
