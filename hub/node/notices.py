"""Notices: what operators and contexts announce. Kept in the record, expired by the hub, read marks a user."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import Any

from hub.core.errors import KeyReused, NotFound, Unavailable
from hub.core.position import Position
from hub.core.requests import Role
from hub.core.times import iso, seconds
from hub.node.rights import Identity
from hub.node.rows import RowTopic
from hub.record.port import Record
from hub.wire.messages import NoticePost

_log = logging.getLogger(__name__)

RETRY = 1.0
"""Seconds until what has expired is dropped once more, while the record is away."""
MOST_OF_CONTEXTS = 100
"""Notices of contexts that are kept; the oldest go. Operators' stay until they expire or are cleared."""


class Notices:
    """All notices in memory, in step with the record. ``time`` gives seconds since 1970."""

    def __init__(self, record: Record, time: Callable[[], float]) -> None:
        self.topic = RowTopic("notices")
        self._record = record
        self._time = time
        self._position = Position(secrets.token_urlsafe(6), 0)
        self._notices: dict[str, dict[str, Any]] = {}
        self._versions: dict[str, Position] = {}
        self._later: set[str] = set()  # those whose time has not begun
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        for id, notice in sorted((await self._record.notices()).items(), key=lambda item: item[1]["created_at"]):
            self._notices[id] = notice
            self._move(id)
            if not self._begun(notice):
                self._later.add(id)
        self._sweep()

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def post(
        self, post: NoticePost, source: str, audience: str | None, posted: list[str] | None = None
    ) -> dict[str, Any]:
        """Announce; the same id again updates the notice and makes it unread. Answered once it is kept.

        ``posted`` is the request's key and digest: the same again changes nothing. Raises KeyReused, InvalidRequest.
        """
        id = post.id or secrets.token_hex(8)
        there = self._notices.get(id)
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
        }
        if posted is not None:
            notice["posted"] = posted
        await self._record.put_notice(notice)
        self._notices.pop(id, None)
        self._notices[id] = notice
        self._move(id)
        if self._begun(notice):
            self._send(id, notice)
        else:
            self._later.add(id)
        old = [n["id"] for n in self._notices.values() if n["source"] == "context"][:-MOST_OF_CONTEXTS]
        if old:
            await self._drop(old)
        self._sweep()
        return {"id": id, "version": str(self._versions[id])}

    def see(self, id: str, identity: Identity) -> dict[str, Any]:
        """A notice. Raises NotFound if there is no such notice that this identity may see."""
        notice = self._notices.get(id)
        if notice is None or not self._sees(identity, notice):
            raise NotFound(f"no notice {id!r}; it was cleared or it expired")
        return notice

    async def drop(self, id: str) -> None:
        """Clear a notice if it is there."""
        if id in self._notices:
            await self._drop([id])

    def get(self, id: str) -> dict[str, Any] | None:
        return self._notices.get(id)

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

    def _row(self, notice: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in notice.items() if name != "posted"}

    def _move(self, id: str) -> None:
        self._position = self._versions[id] = self._position.after()

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

    def _send(self, id: str, notice: dict[str, Any], *, gone: bool = False) -> None:
        row, version = None if gone else self._row(notice), self._versions[id]
        if notice["context"] is None and notice["audience"] is None:
            self.topic.send_everybody(id, version, row)
        else:
            self.topic.send(id, version, row, notice["audience"], lambda identity: self._sees(identity, notice))

    def _begun(self, notice: dict[str, Any]) -> bool:
        return notice["starts_at"] is None or seconds(notice["starts_at"]) <= self._time()

    def _shows(self, notice: dict[str, Any]) -> bool:
        ends = notice["expires_at"]
        return self._begun(notice) and (ends is None or seconds(ends) > self._time())

    async def _drop(self, ids: list[str]) -> None:
        await self._record.drop_notices(ids)
        for id in ids:
            notice = self._notices.pop(id, None)
            self._later.discard(id)
            if notice is not None:
                self._move(id)
                self._send(id, notice, gone=True)
                del self._versions[id]

    async def _drop_expired(self, ids: list[str]) -> None:
        try:
            await self._drop(ids)
        except Unavailable:  # nobody is shown them; they go when the record is back
            _log.warning("the record is away; %s expired notices stay in it for now", len(ids))
            self._later_sweep(RETRY)

    def _later_sweep(self, pause: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(pause, self._sweep)

    def _sweep(self) -> None:
        """Show what begins, drop what has expired, and look again when the next of either is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now, due = self._time(), []
        expired = []
        for notice in self._notices.values():
            if notice["expires_at"] is not None:
                ends = seconds(notice["expires_at"])
                if ends <= now:
                    expired.append(notice["id"])
                    continue
                due.append(ends)
            if notice["starts_at"] is not None:
                begins = seconds(notice["starts_at"])
                if begins > now:
                    due.append(begins)
                elif notice["id"] in self._later:
                    self._later.discard(notice["id"])
                    self._send(notice["id"], notice)
        if expired:
            task = asyncio.create_task(self._drop_expired(expired))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if due:
            self._later_sweep(min(max(min(due) - now, 0.01), 3600.0))
