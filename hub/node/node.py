"""A node: everything that one hub process knows, put together."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

from hub.core.changes import Change
from hub.fanout.ring import Budget
from hub.node.broadcasts import Broadcasts
from hub.node.contexts import Contexts
from hub.node.dispatch import Dispatch
from hub.node.hearing import Hearing
from hub.node.listing import Listing
from hub.node.live import LiveContext, Waiting, touches_document
from hub.node.mirroring import Mirroring
from hub.node.notices import Notices
from hub.node.orders import Orders
from hub.node.presence import Presence
from hub.node.recent import Recent
from hub.node.retention import Retention
from hub.node.settings import Settings
from hub.node.sleeping import Sleeping
from hub.node.subscribing import Subscribing
from hub.node.tasks import until_answered
from hub.node.trimming import Trimming
from hub.record.port import Loaded, Record

_log = logging.getLogger(__name__)


START_SECONDS = 10.0
"""How long each step of a start waits for a record that is slow to answer."""


class Node:
    """The live contexts of a process and what happens around them. ``clock`` gives seconds since 1970."""

    def __init__(
        self,
        record: Record,
        settings: Settings | None = None,
        *,
        name: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings or Settings()
        self.record = record
        self.name = name or f"node-{secrets.token_hex(4)}"
        self.clock = clock
        self.contexts = Contexts(record, self.settings.limits, self, clock, Budget(self.settings.ring_bytes))
        self.recent = Recent(self.settings.recent_bytes)
        self.subscribing = Subscribing(record, self.contexts)
        self.hearing = Hearing(record, self.contexts, self.name)
        self.contexts.on_away = self._record_away
        self.contexts.on_loss = self._record_lost
        self.listing = Listing(record)
        self.notices = Notices(record, clock)
        self.presence = Presence(record, self.name, lambda: self.info(), self.hearing.tell)
        self.broadcasts = Broadcasts(
            record, self.contexts, node=self.name, tell=self.hearing.tell, others=lambda: self.presence.others
        )
        self.orders = Orders(self.name, self.hearing.tell)
        self.hearing.on_row = self.listing.told
        self.hearing.on_notice = self.notices.told
        self.hearing.on_told = self._told
        self.hearing.on_again += [self.listing.missed, self.notices.missed, self.broadcasts.missed]
        self.mirroring = Mirroring(record, self.contexts)
        self.dispatch = Dispatch(
            record,
            self.contexts,
            self.presence,
            default_agent=self.settings.default_agent,
            grace=self.settings.run_grace,
            stop_grace=self.settings.stop_grace,
        )
        self.presence.on_company = self.hearing.follow_all
        self.presence.on_alone = self.hearing.alone
        self.presence.on_dead = self.dispatch.node_died
        self.presence.on_late = self.dispatch.was_late
        self.on_live: list[Callable[[LiveContext], None]] = []
        """Called with every context that becomes live and has been created."""
        self.on_degraded: Callable[[bool], None] = lambda degraded: None
        """Called when the record goes away and when it is back."""
        self.info: Callable[[], dict[str, Any]] = dict
        """What this node tells the others of itself with each beat."""
        self.retention = Retention(record, self.contexts, self.settings.keep_sessions, clock)
        self.trimming = Trimming(self.contexts, self.settings.keep_entries)
        self.sleeping = Sleeping(
            self.contexts,
            self.mirroring,
            self.recent,
            idle=self.settings.idle,
            needed=self.dispatch.needs,
            too_long=self.trimming.look,
            let_go=self._let_go,
        )

    async def start(self) -> None:
        """Bring back what the record has. Raises StartError."""
        await self.record.start()
        self.contexts.start()
        self.mirroring.start()
        await until_answered(self.hearing.start, START_SECONDS)
        newest, _ = await until_answered(lambda: self.record.rows(limit=1), START_SECONDS)
        self.contexts.highest_no = max((row["no"] for row in newest), default=0)
        for part in (self.notices, self.broadcasts, self.presence):
            await until_answered(part.start, START_SECONDS)
        await self.presence.say_hello()
        await self.dispatch.start()
        self.retention.start()
        self.sleeping.start()

    async def close(self) -> None:
        """Append what waits, bring the hashes up to date, and stop."""
        await self.sleeping.close()
        await self.retention.close()
        await self.dispatch.close()
        await self.contexts.close()
        await self.mirroring.close()
        await self.presence.close()
        await self.orders.close()
        await self.hearing.close()
        await self.broadcasts.close()
        await self.notices.close()
        await self.record.close()

    @property
    def agents(self) -> list[str]:
        """Names of the agents that are served now: here, and at other nodes by their last beats."""
        names, others = set(self.dispatch.agents), self.presence.others
        for row in self.presence.rows() if others else ():
            if row["name"] in others and isinstance(agents := row["info"].get("agents"), list):
                names.update(agent for agent in agents if isinstance(agent, str))
        return sorted(names)

    @property
    def degraded(self) -> bool:
        """Whether the record is away."""
        return self.contexts.away_since is not None

    @property
    def deaf(self) -> bool:
        """Whether it may not hear what other nodes do."""
        return self.hearing.is_deaf

    @property
    def lag(self) -> float:
        """Seconds for which something here may have been behind the record; 0.0: nothing is."""
        return max(self.contexts.doubt_seconds, self.hearing.deaf_seconds)

    # what happens in contexts (the Watcher of live contexts)

    def loaded(self, live: LiveContext, loaded: Loaded | None) -> None:
        self.hearing.add(live)
        self.retention.used(live.id)
        self.trimming.loaded(live, created=loaded is None)
        self.mirroring.loaded(live, loaded)
        if loaded is not None:
            self._belongs(live)
            self.dispatch.loaded(live)
            for told in self.on_live:
                told(live)

    def answered(self, live: LiveContext, kept: bytes) -> None:
        self.recent.add(live.id, kept, asyncio.get_running_loop().time())

    def take_answered(self, live: LiveContext) -> list[bytes]:
        return self.recent.take(live.id)

    def changed(self, live: LiveContext, changes: Sequence[Change], *, own: bool) -> None:
        self.mirroring.changed(live, changes, own=own)
        self.trimming.changed(live, changes, own=own)
        if touches_document(changes):
            self._belongs(live)
            self.dispatch.changed(live, own=own)
        if changes and changes[0].position.seq == 1:
            for told in self.on_live:
                told(live)

    def create(self, waiting: Waiting) -> None:
        self.contexts.create(waiting)

    def gone(self, live: LiveContext, reason: str) -> None:
        self._let_go(live)
        self.dispatch.closed(live)

    def _let_go(self, live: LiveContext) -> None:
        """It is live here no longer."""
        self.contexts.forget(live)
        self.hearing.drop(live)
        self.mirroring.forget(live.id)
        self.trimming.forget(live.id)
        self.recent.take(live.id)
        self.dispatch.forget(live.id)

    def _belongs(self, live: LiveContext) -> None:
        """Viewers who may not see it any more, because it is somebody else's now, lose it."""
        owner = live.replica.state.document["user_id"]
        if owner != live.owner:
            live.owner = owner
            live.audience.expel(owner)

    def _told(self, message: dict[str, Any]) -> None:
        """A node told all nodes something."""
        for part in (self.orders, self.presence, self.broadcasts):
            part.told(message)

    def _record_lost(self) -> None:
        """Rows and notices may be gone with what the record lost."""
        self.listing.missed()
        self.notices.missed()

    def _record_away(self, away: bool) -> None:
        _log.warning("the record is %s", "away" if away else "back")
        self.on_degraded(away)
