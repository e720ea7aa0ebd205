"""A node: everything that one hub process knows, put together."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

from hub.core.changes import Change
from hub.core.contexts import row_of
from hub.core.errors import HubError, NotFound, Removed
from hub.core.requests import Apply, LogAdd, Role
from hub.fanout.ring import Budget
from hub.node.contexts import GROUP, Contexts
from hub.node.dispatch import HUB, Dispatch
from hub.node.live import Answer, LiveContext, touches_document
from hub.node.mirroring import Mirroring
from hub.node.notices import Notices
from hub.node.rights import Identity
from hub.node.rows import RowTopic
from hub.node.settings import Settings
from hub.node.subscribing import Subscribing
from hub.node.tasks import end_tasks
from hub.record.port import Loaded, Record

_log = logging.getLogger(__name__)

SCAN = 2_000
"""Rows that are read at a time when most may be left out."""


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
        self.rows = RowTopic("contexts")
        self.contexts = Contexts(record, self.settings.limits, self, clock, Budget(self.settings.ring_bytes))
        self.subscribing = Subscribing(record)
        self.contexts.on_away = self._record_away
        self.notices = Notices(record, clock)
        self.mirroring = Mirroring(record, self.contexts)
        self.dispatch = Dispatch(
            record,
            self.contexts,
            node=self.name,
            default_agent=self.settings.default_agent,
            grace=self.settings.run_grace,
            stop_grace=self.settings.stop_grace,
        )
        self.on_live: list[Callable[[LiveContext], None]] = []
        """Called with every context that becomes live and has been created."""
        self.on_degraded: Callable[[bool], None] = lambda degraded: None
        """Called when the record goes away and when it is back."""
        self._sleeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Bring back what the record has. Raises StartError."""
        await self.record.start()
        self.contexts.start()
        self.mirroring.start()
        newest, _ = await self.record.rows(limit=1)
        self.contexts.highest_no = max((row["no"] for row in newest), default=0)
        await self.notices.start()
        await self.dispatch.start()
        self._sleeper = asyncio.create_task(self._let_sleep(), name="sleep")

    async def close(self) -> None:
        """Append what waits, bring the hashes up to date, and stop."""
        if self._sleeper is not None:
            await end_tasks([self._sleeper])
        await self.dispatch.close()
        await self.contexts.close()
        await self.mirroring.close()
        await self.notices.close()
        await self.record.close()

    @property
    def degraded(self) -> bool:
        """Whether the record is away."""
        return self.contexts.away_since is not None

    # what happens in contexts (the Watcher of live contexts)

    def loaded(self, live: LiveContext, loaded: Loaded | None) -> None:
        self.mirroring.loaded(live, loaded)
        if loaded is not None:
            self._row_changed(live)
            self.dispatch.changed(live, [])
            for told in self.on_live:
                told(live)

    def changed(self, live: LiveContext, changes: Sequence[Change]) -> None:
        self.mirroring.changed(live, changes)
        if touches_document(changes):
            self._row_changed(live)
            self.dispatch.changed(live, changes)
        if changes and changes[0].position.seq == 1:
            for told in self.on_live:
                told(live)

    def gone(self, live: LiveContext, reason: str) -> None:
        self.contexts.forget(live)
        self.mirroring.forget(live.id)
        self.dispatch.closed(live)
        if live.row is not None and reason != "exists":
            self._send_row(live, None)

    def _row_changed(self, live: LiveContext) -> None:
        before, row = live.row, row_of(live.replica.state.document)
        if row == before:
            return
        live.row, live.row_version = row, live.replica.position
        if before is not None and before["user_id"] != row["user_id"]:
            self._moved(live, before["user_id"], row["user_id"])
        self._send_row(live, row)

    def _moved(self, live: LiveContext, before: str | None, now: str | None) -> None:
        """The context belongs to somebody else: who may not see it any more loses it."""
        live.audience.expel(now)
        if live.replica.state.document["type"] != "background":
            self.rows.send(
                live.id,
                live.replica.position,
                None,
                before,
                lambda identity: identity.sees(live.id, before) and not identity.sees(live.id, now),
            )

    def _send_row(self, live: LiveContext, row: dict[str, Any] | None) -> None:
        document = live.replica.state.document
        if document["type"] == "background":
            return
        user_id = document["user_id"]
        version = live.replica.position
        self.rows.send(live.id, version, row, user_id, lambda identity: identity.sees(live.id, user_id))

    # what is asked of the whole hub

    async def broadcast(self, id: str, op: LogAdd, allowed: Callable[[LiveContext], bool]) -> int:
        """Add an entry to every live context that is allowed. Returns how many took it. The same id again adds nothing."""
        answers: list[Answer] = []
        asked = 0
        done: asyncio.Future[None] | None = None

        def answered(answer: Answer) -> None:
            answers.append(answer)
            if done is not None and len(answers) == asked:
                done.set_result(None)

        wanted = [live for live in self.contexts if allowed(live)]
        for number, live in enumerate(wanted, 1):
            if live.closed is None and self.contexts.live.get(live.id) is live:
                asked += 1
                request = self.contexts.stamp(Apply(context=live.id, ops=[op], key=f"b/{id}"), HUB)
                self.contexts.submit(live, request, answered)
            if number % GROUP == 0:
                await asyncio.sleep(0)  # others have their turn, and the first appends are on their way
        if len(answers) < asked:
            done = asyncio.get_running_loop().create_future()
            await asyncio.shield(done)
        for answer in answers:
            if isinstance(answer, HubError) and not isinstance(answer, NotFound | Removed):
                raise answer
        return sum(1 for answer in answers if not isinstance(answer, HubError))

    async def page(
        self, identity: Identity, before: str | None, limit: int, *, types: Callable[[str], bool]
    ) -> dict[str, Any]:
        """Rows of the contexts that an identity sees, newest first."""
        if identity.role not in (Role.USER, Role.OPERATOR) and not identity.ctx:
            return {"rows": []}
        user = identity.sub if identity.role is Role.USER and not identity.ctx else None
        rows: list[dict[str, Any]] = []
        cursor, size = before, limit
        while len(rows) < limit:
            start = cursor
            found, cursor = await self.record.rows(user_id=user, before=start, limit=size)
            size = SCAN  # some were left out, so it may be most of them
            seen = [n for n, row in enumerate(found) if identity.sees(row["id"], row["user_id"]) and types(row["type"])]
            wanted = seen[: limit - len(rows)]
            rows += [self._fresh(found[n]) for n in wanted]
            if (
                len(rows) == limit and wanted and wanted[-1] < len(found) - 1
            ):  # the next page begins behind the last one
                _, cursor = await self.record.rows(user_id=user, before=start, limit=wanted[-1] + 1)
            if cursor is None:
                break
        return {"rows": rows, "next": cursor} if cursor is not None else {"rows": rows}

    def _fresh(self, row: dict[str, Any]) -> dict[str, Any]:
        live = self.contexts.live.get(row["id"])
        if live is None or live.row is None:
            return row
        return live.row | {"version": str(live.row_version)}

    def _record_away(self, away: bool) -> None:
        _log.warning("the record is %s", "away" if away else "back")
        self.on_degraded(away)

    async def _let_sleep(self) -> None:
        """Contexts that nothing uses leave memory; whoever asks for one next loads it."""
        pause = min(30.0, max(0.05, self.settings.idle / 4))
        while True:
            await asyncio.sleep(pause)
            now = asyncio.get_running_loop().time()
            for live in list(self.contexts):
                if (
                    now - live.touched > self.settings.idle
                    and live.idle
                    and live.audience.empty
                    and not live.replica.state.document["running"]
                    and not self.mirroring.behind(live.id)
                ):
                    self.contexts.forget(live)
                    self.mirroring.forget(live.id)
