"""Which contexts are live in this process, and where new ones go."""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from hub.agent.alone import AloneLink
from hub.agent.ids import generate_id
from hub.agent.link import Link
from hub.core.errors import Exists

if TYPE_CHECKING:
    from hub.agent.context import AgentContext
    from hub.agent.notifications import NotificationManager


class Registry:
    """Live contexts by id and by age. Nothing here waits for anything but a lock that is held for some instructions."""

    def __init__(self, link: Link | None = None) -> None:
        self.link: Link = link or AloneLink()
        """Where contexts that are made from now on go."""
        self.notifications: NotificationManager | None = None
        self._lock = threading.Lock()
        self._by_id: dict[str, AgentContext] = {}
        self._by_age: list[tuple[str, str]] = []  # (created_at, id)
        self._claimed: set[str] = set()
        self._opening: dict[str, Future[AgentContext]] = {}
        self._highest_no = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def bind(self, link: Link) -> Callable[[], None]:
        """Let new contexts go through ``link``. Returns what brings back the link before."""
        with self._lock:
            before, self.link = self.link, link

        def unbind() -> None:
            with self._lock:
                if self.link is link:
                    self.link = before

        return unbind

    # a context comes

    def claim(self, id: str | None, *, replace: bool = False) -> str:
        """Take an id for a context that is being built; None makes one. It stays unseen until ``add``. Raises Exists."""
        with self._lock:
            while id is None:
                made = generate_id()
                if made not in self._by_id and made not in self._claimed:
                    id = made
            if id in self._claimed or (id in self._by_id and not replace):
                raise Exists(f"context {id!r} is live in this process; replace=True ends it first")
            self._claimed.add(id)
            return id

    def begin_opening(self, id: str) -> tuple[AgentContext | None, Future[AgentContext], bool]:
        """The context if it is live, else what will give it, and whether the caller is the one to open it. Raises Exists
        while a context of that id is being built."""
        with self._lock:
            future = self._opening.get(id)
            if id in self._by_id or future is not None:
                return self._by_id.get(id), future or Future(), False
            if id in self._claimed:
                raise Exists(f"context {id!r} is being created in this process")
            self._claimed.add(id)
            future = self._opening[id] = Future()
            return None, future, True

    def end_opening(self, id: str) -> None:
        """It is opened, or cannot be."""
        with self._lock:
            self._opening.pop(id, None)
            self._claimed.discard(id)

    def release(self, id: str) -> None:
        """Give back an id: its context could not be built."""
        with self._lock:
            self._claimed.discard(id)

    def next_no(self) -> int:
        """One more than the highest number that this process has seen."""
        with self._lock:
            self._highest_no += 1
            return self._highest_no

    def saw_no(self, no: int) -> None:
        """A context with that number came by."""
        with self._lock:
            self._highest_no = max(self._highest_no, no)

    def add(self, context: AgentContext) -> AgentContext | None:
        """Show a context that is fully built, in place of one of the same id. Returns that one."""
        with self._lock:
            self._claimed.discard(context.id)
            before = self._by_id.get(context.id)
            if before is not None:
                self._drop(before)
            self._by_id[context.id] = context
            insort(self._by_age, (context.writer.created_at, context.id))
            return before

    # a context goes

    def drop(self, context: AgentContext) -> None:
        """Take this very context out, if it is there."""
        with self._lock:
            if self._by_id.get(context.id) is context:
                self._drop(context)

    def _drop(self, context: AgentContext) -> None:
        del self._by_id[context.id]
        key = (context.writer.created_at, context.id)
        index = bisect_left(self._by_age, key)
        if index < len(self._by_age) and self._by_age[index] == key:
            del self._by_age[index]

    # which are there

    def get(self, id: str) -> AgentContext | None:
        """The context with that id."""
        return self._by_id.get(id)

    def first(self) -> AgentContext | None:
        """The oldest: the smallest (created_at, id)."""
        with self._lock:
            return self._by_id[self._by_age[0][1]] if self._by_age else None

    def all(self) -> list[AgentContext]:
        """All, oldest first."""
        with self._lock:
            return [self._by_id[id] for _, id in self._by_age]


class ContextsView(Mapping[str, "AgentContext"]):
    """A read-only view of the process's registry, oldest context first."""

    def __getitem__(self, id: str) -> AgentContext:
        context = current_registry().get(id)
        if context is None:
            raise KeyError(id)
        return context

    def __iter__(self) -> Iterator[str]:
        return iter([context.id for context in current_registry().all()])

    def __len__(self) -> int:
        return len(current_registry())

    def __repr__(self) -> str:
        return f"<contexts: {', '.join(self)}>"


_registry: Final = [Registry()]


def current_registry() -> Registry:
    """The process's registry."""
    return _registry[0]


def use_registry(registry: Registry) -> Registry:
    """Let another registry be the process's. Returns the one before."""
    before, _registry[0] = _registry[0], registry
    return before
