"""Notices: what operators and contexts announce. Kept in the record, expired by the hub, read marks a user.

The record tells all nodes which notice changed; each reads it and tells its own readers what differs from what they know.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Any

from hub.core.errors import KeyReused, NotFound, Unavailable
from hub.core.position import Position
from hub.core.requests import Role
from hub.core.times import iso, seconds
from hub.node.rights import Identity
from hub.node.rows import RowTopic
from hub.node.tasks import Upkeep
from hub.record.port import Record
from hub.wire.messages import NoticePost

LONGEST_PAUSE = 3600.0
"""Seconds until the clock is looked at again, at most: it may be set."""
MOST_OF_CONTEXTS = 100
"""Notices of contexts that are kept; the oldest go. Operators' stay until they expire or are cleared."""


class Notices:
    """All notices in memory, in step with the record. ``time`` gives seconds since 1970."""

    def __init__(self, record: Record, time: Callable[[], float]) -> None:
        self.topic = RowTopic("notices")
        self._record = record
        self._time = time
        self._position = Position(secrets.token_urlsafe(6), 0)
        self._notices: dict[str, dict[str, Any]] = {}  # in the order in which they were put
        self._versions: dict[str, Position] = {}
        self._later: set[str] = set()  # those whose time has not begun
        self._told: dict[str, None] = {}  # those that changed in the record, and must be read
        self._all_told = True  # any may have changed
        self._turn = asyncio.Lock()  # what is read or kept first is taken first: nothing here goes back
        self._reading = Upkeep("notices", self._read)
        self._tidying = Upkeep("expired notices", self._drop_old)
        self._timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Raises Unavailable."""
        await self._read()

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._reading.end()
        await self._tidying.end()

    # what is asked

    async def post(
        self, post: NoticePost, source: str, audience: str | None, posted: list[str] | None = None
    ) -> dict[str, Any]:
        """Announce; the same id again updates the notice and makes it unread. Answered once it is kept.

        ``posted`` is the request's key and digest: the same again changes nothing, whichever node it was asked of. Raises
        KeyReused, InvalidRequest, Unavailable.
        """
        id = post.id or secrets.token_hex(8)
        there = await self.find(id) if posted is not None else None
        if there is not None and posted is not None and there.get("posted", [""])[0] == posted[0]:
            if there["posted"] != posted:
                raise KeyReused(f"{post.key!r} was used for another notice; use a new key")
            return {"id": id, "version": str(self._versions[id]), "duplicate": True}
        for moment in (post.starts_at, post.expires_at):
            if moment is not None:
                seconds(moment)
        notice = {
            "id": id,
            "type": post.type,
            "title": post.title,
            "message": post.message,
            "detail": post.detail,
            "priority": post.priority,
            "display_time": post.display_time,
            "group": post.group,
            "source": source,
            "context": post.context,
            "audience": audience,
            "created_at": iso(self._time()),
            "starts_at": post.starts_at,
            "expires_at": post.expires_at,
            "posted": posted or [secrets.token_hex(8), ""],
        }
        async with self._turn:
            await self._record.put_notice(notice)
            self._take(id, notice)
            version = self._versions[id]
        self._tidying.call()
        return {"id": id, "version": str(version)}

    async def find(self, id: str) -> dict[str, Any] | None:
        """A notice, as the record has it now. Raises Unavailable."""
        async with self._turn:
            self._told.pop(id, None)
            notice = await self._record.notice(id)
            self._take(id, notice)
        return notice

    async def see(self, id: str, identity: Identity) -> dict[str, Any]:
        """A notice. Raises NotFound if there is no such notice that this identity may see, Unavailable."""
        notice = await self.find(id)
        if notice is None or not self._sees(identity, notice):
            raise NotFound(f"no notice {id!r}; it was cleared or it expired")
        return notice

    async def drop(self, id: str) -> None:
        """Clear a notice if it is there. Raises Unavailable."""
        await self._drop([id])

    async def rows(self, identity: Identity) -> dict[str, Any]:
        """The subscribe reply: what this identity may see now, newest first, and which of it its user has read."""
        seen = [n for n in reversed(self._notices.values()) if self._shows(n) and self._sees(identity, n)]
        read = await self._record.read_marks(identity.sub)
        return {
            "rows": [self._row(notice) | {"version": str(self._versions[notice["id"]])} for notice in seen],
            "read": [notice["id"] for notice in seen if notice["id"] in read],
        }

    async def mark_read(self, identity: Identity, ids: list[str]) -> None:
        """Mark notices as read by this user. Unknown ids are ignored: they may have just expired."""
        seen = [id for id in ids if (notice := self._notices.get(id)) and self._sees(identity, notice)]
        if seen:
            await self._record.mark_read(identity.sub, seen)

    # what the record tells

    def told(self, id: str) -> None:
        """A notice was put or dropped, by some node."""
        self._told[id] = None
        self._reading.call()

    def missed(self) -> None:
        """Notices may have changed that this node was not told of."""
        self._all_told = True
        self._reading.call()

    async def _read(self) -> None:
        """Take what the record has of all that may have changed. Raises Unavailable."""
        try:
            if self._all_told:
                await self._read_all()
            while self._told:
                await self.find(next(iter(self._told)))
        except Unavailable:
            self._all_told = True
            raise

    async def _read_all(self) -> None:
        async with self._turn:
            self._all_told = False
            self._told.clear()
            there = await self._record.notices()
            for id in self._notices.keys() - there.keys():
                self._take(id, None)
            for id, notice in sorted(there.items(), key=lambda item: str(item[1]["created_at"])):
                self._take(id, notice)

    def _take(self, id: str, now: dict[str, Any] | None) -> None:
        """The record has this of a notice now; readers are told if that is another than they know of."""
        before = self._notices.get(id)
        if before is now or (before and now and before.get("posted") == now.get("posted")):
            return
        self._notices.pop(id, None)
        if id in self._later:
            self._later.discard(id)
            before = None
        self._position = self._position.after()
        if now is None:
            self._versions.pop(id, None)
        else:
            self._notices[id], self._versions[id] = now, self._position
            self._sweep_when_due(now)
            if not self._begun(now):
                self._later.add(id)
                now = None
        self._send(id, self._position, before, now)

    # who is told

    def _row(self, notice: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in notice.items() if name != "posted"}

    def _sees(self, identity: Identity, notice: dict[str, Any]) -> bool:
        if identity.role is Role.OPERATOR:
            return True
        if notice["audience"] is not None:
            if identity.role is Role.USER and identity.sub == notice["audience"]:
                return True
            return notice["context"] is not None and identity.covers(notice["context"])
        if notice["context"] is not None:
            return identity.covers(notice["context"])
        return True

    def _send(self, id: str, version: Position, before: dict[str, Any] | None, now: dict[str, Any] | None) -> None:
        """Send what is shown of a notice from now on to those who may see it. Who was shown another one before, and may not
        see this one, is told that it is gone."""
        if now is not None:
            self._send_to(id, version, self._row(now), now, lambda identity: self._sees(identity, now))
        if before is not None:
            self._send_to(
                id,
                version,
                None,
                before,
                lambda identity: self._sees(identity, before) and not (now and self._sees(identity, now)),
            )

    def _send_to(
        self,
        id: str,
        version: Position,
        row: dict[str, Any] | None,
        notice: dict[str, Any],
        sees: Callable[[Identity], bool],
    ) -> None:
        if notice["context"] is None and notice["audience"] is None:
            self.topic.send_everybody(id, version, row, sees)
        else:
            self.topic.send(id, version, row, notice["audience"], sees)

    def _begun(self, notice: dict[str, Any]) -> bool:
        return notice["starts_at"] is None or seconds(notice["starts_at"]) <= self._time()

    def _is_over(self, notice: dict[str, Any]) -> bool:
        return notice["expires_at"] is not None and seconds(notice["expires_at"]) <= self._time()

    def _shows(self, notice: dict[str, Any]) -> bool:
        return self._begun(notice) and not self._is_over(notice)

    async def _drop(self, ids: list[str]) -> None:
        if ids:
            async with self._turn:
                await self._record.drop_notices(ids)
                for id in ids:
                    self._take(id, None)

    async def _drop_old(self) -> None:
        """Drop those whose time is over, and those of contexts that are too many. Raises Unavailable.

        Another node may have dropped them, or somebody announced one anew: what the record has now counts."""
        for id in [notice["id"] for notice in self._notices.values() if self._is_over(notice)]:
            await self.find(id)
        over = [notice["id"] for notice in self._notices.values() if self._is_over(notice)]
        of_contexts = [notice["id"] for notice in self._notices.values() if notice["source"] == "context"]
        await self._drop([*over, *(id for id in of_contexts[:-MOST_OF_CONTEXTS] if id not in over)])

    def _sweep_when_due(self, notice: dict[str, Any]) -> None:
        """Look again when a notice begins or ends, if that is yet to come or to be seen to."""
        if self._is_over(notice):
            self._tidying.call()
            return
        loop = asyncio.get_running_loop()
        for moment in (notice["starts_at"], notice["expires_at"]):
            if moment is not None and (pause := seconds(moment) - self._time()) > 0:
                at = loop.time() + min(max(pause, 0.01), LONGEST_PAUSE)
                if self._timer is None or at < self._timer.when():
                    if self._timer is not None:
                        self._timer.cancel()
                    self._timer = loop.call_at(at, self._sweep)

    def _sweep(self) -> None:
        """Show what has begun, drop what is over."""
        self._timer = None
        for notice in self._notices.values():
            if notice["id"] in self._later and self._begun(notice):
                self._later.discard(notice["id"])
                if not self._is_over(notice):
                    self._send(notice["id"], self._versions[notice["id"]], None, notice)
            self._sweep_when_due(notice)
