"""Which nodes live. Each shows it every 2 s, by a beat in the record; one that has shown none for long enough is dead.

Who judges must have watched all that time. A node that slept, or could not reach the record, only knows that it missed the
others' beats: it begins to count anew. So a record that was away is nobody's death. Only of a process of the same machine it is
known at once that it has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from itertools import count
from math import inf
from typing import Any

from hub.core.errors import HubError, Unavailable
from hub.node.machine import has_ended, this_process
from hub.node.tasks import Background, end_tasks
from hub.record.port import Beat, Record

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Other:
    """Another node, as far as this one has seen it. Times are the event loop's."""

    seen: float
    """When its latest beat was seen first."""
    mark: Any = None
    """Which beat that is."""
    lives: bool = False
    buried: bool = False
    """Whether its burial is under way, or done."""


class Presence:
    """Shows that this node lives, and knows which others do.

    ``info``: what the node says of itself with each beat. ``tell`` tells all nodes something. Times in seconds: ``every``
    between two beats; without one for ``dead_after`` a node is dead; own beats that are further apart than ``late`` do not
    count as watching.
    """

    def __init__(
        self,
        record: Record,
        node: str,
        info: Callable[[], dict[str, Any]],
        tell: Callable[[dict[str, Any]], Awaitable[None]],
        *,
        every: float = 2.0,
        dead_after: float = 15.0,
        late: float = 5.0,
    ) -> None:
        self.node = node
        self.tell = tell
        self.on_company: Callable[[], Coroutine[Any, Any, None]] = _nothing
        """Called when another node shows up; one that says hello is answered once this is done."""
        self.on_alone: Callable[[], None] = lambda: None
        """Called when no other node lives any more."""
        self.on_dead: Callable[[str, float], Coroutine[Any, Any, None]] = _no_heir
        """Called with a node that is gone, and the seconds for which this one has missed it, in every node that knew it; then
        it is forgotten. Called again if it raises Unavailable."""
        self.on_late: Callable[[], None] = lambda: None
        """Called when this node's beats were so late that others may have taken it for dead."""
        self.refused: str | None = None
        """Why the record does not take this node's beats, such as one that is full."""
        self._record = record
        self._info = info
        self._every = every
        self._dead_after = dead_after
        self._late = late
        self._numbers = count(1)
        self._process = this_process()
        self._beats: dict[str, Beat] = {}
        self._others: dict[str, _Other] = {}
        self._looked = -inf  # when the last beat went out that was answered
        self._watching = inf  # since when no own beat failed or came late
        self._here: set[str] = set()  # those who answered this node's hello
        self._answering: set[str] = set()
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._background = Background("nodes")

    async def start(self) -> None:
        """Show that this node lives, from now on. Raises Unavailable."""
        await self._beat()
        self._task = asyncio.create_task(self._beat_forever(), name="beat")

    async def close(self) -> None:
        """Live no longer. A node that leaves runs behind stays known, as one that ended: others look after them at once."""
        if self._task is None:
            return
        await end_tasks([self._task])
        await self._background.end()
        with contextlib.suppress(Unavailable):  # then its beat grows old
            if await self._record.runs_of(self.node):
                await self._record.beat(self.node, self._says() | {"ended": True})
            else:
                await self._record.leave(self.node)

    # who lives

    @property
    def others(self) -> list[str]:
        """The other nodes that live, in order."""
        return sorted(name for name, other in self._others.items() if other.lives)

    @property
    def alone(self) -> bool:
        """Whether no other node lives."""
        return not any(other.lives for other in self._others.values())

    @property
    def is_first(self) -> bool:
        """Whether this is the node that does what one of them has to do: the first by name."""
        return all(self.node < name for name in self.others)

    @property
    def sure(self) -> bool:
        """Whether this node knows now which others live."""
        return self._watching < inf and self._now() - self._looked <= self._late

    def may_live(self, node: str) -> bool:
        """Whether a node lives, or may: it has a beat in the record, and is not known to be dead."""
        other = self._others.get(node)
        return node == self.node or (other is not None and not other.buried)

    def rows(self) -> list[dict[str, Any]]:
        """The nodes by name, this one too: ``name``, ``age`` (seconds since its last beat), ``info``."""
        since = self._now() - self._looked
        return [
            {"name": name, "age": round(beat.age + since, 3), "info": beat.info}
            for name, beat in sorted(self._beats.items())
            if not beat.info.get("ended")
        ]

    async def look(self) -> list[dict[str, Any]]:
        """The rows as the record has them now: one may have started a moment ago. While it is away, as they were."""
        with contextlib.suppress(HubError):
            await self._beat()
        return self.rows()

    # hello

    async def say_hello(self) -> None:
        """Tell the others that this node is here, and wait until each has followed its contexts: from then on they hear what
        this node appends. One that shows no beat meanwhile is not waited for any longer: it will see this one when it wakes,
        and follow then."""
        until = self._now() + self._dead_after
        while missing := self._unheard():
            if self._now() >= until:
                _log.warning("no answer from %s", ", ".join(missing))
                return
            with contextlib.suppress(Unavailable):
                await self.tell({"kind": "hello", "node": self.node})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._every):
                    while self._unheard():
                        self._news.clear()
                        await self._news.wait()

    def _unheard(self) -> list[str]:
        oldest = self._now() - self._late
        return [name for name in self.others if name not in self._here and self._others[name].seen > oldest]

    def told(self, message: dict[str, Any]) -> None:
        """A node told all nodes something; if it is about who is here, act on it."""
        match message:
            case {"kind": "hello", "node": str(name)} if name != self.node:
                other = self._others.setdefault(name, _Other(0.0))
                other.seen, other.lives, other.buried = self._now(), True, False
                if name not in self._answering:
                    self._answering.add(name)
                    self._background.run(self._answer(name))
            case {"kind": "here", "node": str(name), "to": self.node}:
                self._here.add(name)
                self._news.set()

    async def _answer(self, name: str) -> None:
        try:
            await self.on_company()
            await self.tell({"kind": "here", "node": self.node, "to": name})
        finally:
            self._answering.discard(name)

    # beats

    async def _beat_forever(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            try:
                await self._beat()
            except HubError as error:
                self._watching = inf
                if not isinstance(error, Unavailable):
                    self._refuse(error.message)
            except Exception:
                self._watching = inf
                _log.exception("a beat")

    async def _beat(self) -> None:
        """Show that this node lives, and look at the others. Raises Unavailable."""
        began = self._now()
        beats = await self._record.beat(self.node, self._says())
        now, self.refused = self._now(), None
        if now - self._looked > self._late:
            if self._looked > -inf:
                self.on_late()
                self._here.clear()
                self._background.run(self.say_hello())  # they may have stopped to follow what this node appends
            self._watching = now
        self._watching = min(self._watching, now)
        self._beats, self._looked = beats, now
        before = self.alone
        for name, beat in beats.items():
            if name != self.node:
                self._look(name, beat, now)
        for name, other in list(self._others.items()):
            if name not in beats and other.seen < began:  # it left, or somebody else buried it
                self._gone(name, other)
        if self.alone and not before:
            self.on_alone()
        elif before and not self.alone:
            self._background.run(self.on_company())
        self._news.set()

    def _refuse(self, why: str) -> None:
        if self.refused is None:
            _log.warning("this node cannot show that it lives: %s", why)
        self.refused = why

    def _says(self) -> dict[str, Any]:
        return self._info() | {"beat": next(self._numbers), "process": self._process}

    def _look(self, name: str, beat: Beat, now: float) -> None:
        other, mark = self._others.get(name), beat.info.get("beat")
        ended = beat.info.get("ended") is True or has_ended(beat.info.get("process"))
        if other is None:
            other = self._others[name] = _Other(now, mark, lives=beat.age < self._dead_after and not ended)
        elif other.mark != mark:
            other.mark, other.seen, other.lives, other.buried = mark, now, True, False
        missed = now - max(other.seen, self._watching)  # by this clock: the record's may be set, or be another server's
        if ended or missed >= self._dead_after:
            other.lives = False
            if not other.buried:
                _log.warning("node %s %s", name, "has ended" if ended else f"has not been seen for {missed:.0f} s")
                other.buried = True
                self._background.run(self._bury(name, other, missed))

    def _gone(self, name: str, other: _Other) -> None:
        del self._others[name]
        self._here.discard(name)
        if not other.buried:
            _log.info("node %s is gone", name)
            self._background.run(self.on_dead(name, 0.0))

    async def _bury(self, name: str, other: _Other, missed: float) -> None:
        """Look after what a node left behind, then forget it, unless it has come back to life."""
        mark = other.mark
        try:
            await self.on_dead(name, missed)
            if other.mark == mark:
                await self._record.leave(name)
        except Unavailable:
            other.buried = False  # once more
            raise

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


async def _nothing() -> None: ...


async def _no_heir(node: str, missed: float) -> None: ...
