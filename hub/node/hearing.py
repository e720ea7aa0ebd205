"""What this node hears of the record: whatever any node appended, posted or told goes to where it belongs.

A node that is alone need not follow its contexts: whatever is appended, it appends. As soon as another one shows up it follows
all that are live here, and compares their ends, before it answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from hub.core.changes import RecordEntry
from hub.core.errors import Unavailable
from hub.node.contexts import Contexts
from hub.node.live import LiveContext
from hub.node.tasks import Upkeep
from hub.record.port import Record, RowTold

_log = logging.getLogger(__name__)

FOLLOW_SECONDS = 10.0
"""How long another node waits at most until this one follows all its contexts."""
CATCH_UP_SECONDS = 1.0
"""How long a reader waits at most for what another node may have appended already."""


class Hearing:
    """The node's Follower. Those who act on what is heard are set before ``start``."""

    def __init__(self, record: Record, contexts: Contexts, node: str) -> None:
        self.on_row: Callable[[RowTold], None]
        self.on_notice: Callable[[str], None]
        self.on_told: Callable[[dict[str, Any]], None]
        self.on_again: list[Callable[[], None]] = []
        """Called when the node hears again, after it was deaf: what happened meanwhile must be read."""
        self._contexts = contexts
        self._following = record.follow(node, self, own=contexts.ids.prefix)
        self._followed: set[str] = set()
        self._company = False
        self._had_company = False  # one that is only taken for dead may append before it is heard again
        self._new: dict[LiveContext, None] = {}  # confirmed, and not compared yet
        self._uncertain: set[str] = set()  # followed, and not confirmed and compared yet
        self._compared = asyncio.Event()
        self._comparing = Upkeep("comparing contexts that are followed now", self._compare_new)
        self._deaf_since: float | None = None

    async def start(self) -> None:
        """Raises Unavailable."""
        await self._following.start()

    async def close(self) -> None:
        await self._comparing.end()
        await self._following.close()

    @property
    def is_deaf(self) -> bool:
        """Whether something may go unheard now."""
        return self._following.is_deaf

    @property
    def ignored(self) -> int:
        """Messages that nobody could read."""
        return self._following.ignored

    @property
    def deaf_seconds(self) -> float:
        """For how long it has been deaf."""
        return 0.0 if self._deaf_since is None else asyncio.get_running_loop().time() - self._deaf_since

    async def tell(self, message: dict[str, Any]) -> None:
        """Tell all nodes, this one included. Raises Unavailable."""
        await self._following.tell(message)

    # which contexts are followed

    def add(self, live: LiveContext) -> None:
        """A context became live here."""
        if self._company and live.id not in self._followed:
            self._follow([live.id])

    def drop(self, live: LiveContext) -> None:
        """It is live here no longer."""
        self._new.pop(live, None)
        if live.id in self._followed and self._contexts.live.get(live.id) in (None, live):
            self._followed.discard(live.id)
            self._following.drop(live.id)
            self._certain({live.id})

    def _follow(self, ids: list[str]) -> None:
        self._followed.update(ids)
        self._uncertain.update(ids)
        self._following.add(ids)

    async def follow_all(self) -> None:
        """Another node is there: follow what is live here, from now on, and know where it ends. Bounded in time."""
        self._company = self._had_company = True
        self._follow([id for id in self._contexts.live if id not in self._followed])
        waiting = set(self._uncertain)
        try:
            async with asyncio.timeout(FOLLOW_SECONDS):
                while waiting & self._uncertain:
                    self._compared.clear()
                    await self._compared.wait()
        except TimeoutError:
            _log.warning("%d contexts are not followed yet", len(waiting & self._uncertain))

    async def catch_up(self, live: LiveContext) -> None:
        """Let a context stand where the record stands at some moment from now on, so that nobody who comes is shown less than
        another node has shown or answered. While the record is away it stays what it is."""
        if self._had_company and self._contexts.away_since is None:
            with contextlib.suppress(TimeoutError, Unavailable):
                async with asyncio.timeout(CATCH_UP_SECONDS):
                    await self._contexts.compare([live])

    def alone(self) -> None:
        """No other node is there any more."""
        self._company = False
        for id in self._followed:
            self._following.drop(id)
        self._followed.clear()
        self._certain(self._uncertain)

    # the Follower

    def followed(self, context: str) -> None:
        live = self._contexts.live.get(context)
        if live is None:
            if context not in self._followed:
                self._following.drop(context)
            return
        self._new[live] = None
        self._comparing.call()

    def appended(self, context: str, epoch: str, last: int, entry: RecordEntry | None) -> None:
        live = self._contexts.live.get(context)
        if live is not None:
            self._contexts.heard(live, epoch, last, entry)

    def row(self, row: RowTold) -> None:
        self.on_row(row)

    def notice(self, id: str) -> None:
        self.on_notice(id)

    def told(self, message: dict[str, Any]) -> None:
        self.on_told(message)

    def deaf(self) -> None:
        if self._deaf_since is None:
            self._deaf_since = asyncio.get_running_loop().time()
            _log.warning("this node does not hear the others; connecting again")

    def hearing(self) -> None:
        self._deaf_since = None
        for again in self.on_again:
            again()

    async def _compare_new(self) -> None:
        """Compare the ends of contexts that are followed since the last time. Raises Unavailable."""
        lives, self._new = self._new, {}
        try:
            await self._contexts.compare(lives)
        except Unavailable:
            self._new = lives | self._new
            raise
        finally:
            self._certain({live.id for live in lives.keys() - self._new.keys()})

    def _certain(self, ids: set[str]) -> None:
        """Nobody has to wait for these contexts: they were compared, or are not followed any more."""
        self._uncertain = self._uncertain - ids
        self._compared.set()
