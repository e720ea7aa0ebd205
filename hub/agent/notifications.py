"""Notifications: what a context announces to its people. At the hub each is a notice with ``source: context``."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import IntEnum
from typing import Any, Final

from hub.agent.checks import checked_entry_id, checked_text
from hub.agent.current import current_id
from hub.agent.link import Link
from hub.agent.moments import to_text
from hub.agent.secret import SECRETS
from hub.core.enums import NoticeType
from hub.core.errors import InvalidRequest, UnknownType

MOST: Final = 100
"""Notifications that are kept; the oldest go."""


NotificationType = NoticeType
"""How a notification looks: ``INFO``, ``SUCCESS``, ``WARNING``, ``ERROR`` or ``PROGRESS``."""


class NotificationPriority(IntEnum):
    """How much it wants to be seen."""

    NORMAL = 10
    HIGH = 20


_TYPES: Final = frozenset(str(type) for type in NotificationType)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """What was announced. ``display_time`` in seconds; times are ISO 8601 UTC; ``version`` rises with every change of any."""

    id: str
    type: str
    title: str
    message: str
    detail: str
    priority: int
    display_time: float
    group: str
    context: str | None
    created_at: str
    expires_at: str | None
    read: bool
    version: int

    def output(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


class NotificationManager:
    """Announces, and keeps what this process announced. Thread-safe. ``link`` gives the link that counts at the moment."""

    def __init__(self, link: Callable[[], Link]) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._kept: dict[str, Notification] = {}
        self._gone: dict[str, int] = {}  # id -> the version at which it went
        self._forgotten = 0  # what went at or before this version is known no more
        self._version = 0

    def send_notification(
        self,
        type: NotificationType | str,
        message: str,
        title: str = "",
        detail: str = "",
        priority: NotificationPriority | int = NotificationPriority.NORMAL,
        display_time: float = 3,
        group: str = "",
        id: str = "",
        expires_at: datetime | str | None = None,
        *,
        context: str | None = None,
    ) -> Notification:
        """Announce, or update what has that ``id`` and make it unread. ``context``: whose people are told; by default
        those of the current context, without one everybody. Raises UnknownType, InvalidRequest."""
        if type not in _TYPES:
            raise UnknownType(f"{str(type)[:60]!r} is not a type of notification: {', '.join(NotificationType)}")
        if isinstance(priority, bool) or not isinstance(priority, int):
            raise InvalidRequest("priority is a number: 10 is normal, 20 is high")
        if isinstance(display_time, bool) or not 0 <= display_time < 1e6:
            raise InvalidRequest("display_time is a number of seconds")
        texts = {"title": title, "message": message, "detail": detail, "group": group}
        shown = {name: SECRETS.mask(checked_text(text, name)) for name, text in texts.items()}
        link = self._link()
        with self._lock:
            self._expire(link.now())
            id = checked_entry_id(id) if id else secrets.token_hex(8)
            before = self._kept.get(id)
            self._version += 1
            notification = Notification(
                **shown,
                id=id,
                type=str(NotificationType(type)),
                priority=int(priority),
                display_time=display_time,
                context=context or current_id(),
                created_at=before.created_at if before else link.now(),
                expires_at=to_text(expires_at),
                read=False,
                version=self._version,
            )
            self._kept[id] = notification
            self._gone.pop(id, None)
            while len(self._kept) > MOST:
                self._drop(next(iter(self._kept)))
            version = self._version
        notice = notification.output()
        for name in ("created_at", "read", "version"):
            del notice[name]
        key = f"notice-{id}-{version}-{secrets.token_hex(4)}"
        link.post_notice({name: value for name, value in notice.items() if value is not None} | {"key": key})
        return notification

    def clear(self, id: str) -> bool:
        """Take a notification back, for everybody. Returns whether this process knew it."""
        with self._lock:
            known = id in self._kept
            if known:
                self._version += 1
                self._drop(id)
        self._link().clear_notice(id)
        return known

    def get(self, id: str) -> Notification | None:
        """The notification with that id, or None."""
        with self._lock:
            self._expire(self._link().now())
            return self._kept.get(id)

    @property
    def notifications(self) -> list[Notification]:
        """All that are kept, oldest first."""
        with self._lock:
            self._expire(self._link().now())
            return list(self._kept.values())

    def unread(self) -> list[Notification]:
        """Those that were not marked as read in this process."""
        return [notification for notification in self.notifications if not notification.read]

    def mark_read(self, ids: Iterable[str] | None = None) -> None:
        """Mark as read here; None marks all. At the hub read marks belong to each user."""
        with self._lock:
            for id in list(self._kept if ids is None else ids):
                notification = self._kept.get(id)
                if notification is not None and not notification.read:
                    self._version += 1
                    self._kept[id] = replace(notification, read=True, version=self._version)

    def since(self, version: int) -> tuple[dict[str, Notification | None], int]:
        """What changed after a version, None for what went, and the version to ask with next. A version from too long ago
        gives everything that is kept; drop the others then. Version 0 is the beginning."""
        with self._lock:
            self._expire(self._link().now())
            kept: dict[str, Notification | None] = {n.id: n for n in self._kept.values() if n.version > version}
            if version < self._forgotten:
                return {n.id: n for n in self._kept.values()}, self._version
            return {id: None for id, at in self._gone.items() if at > version} | kept, self._version

    def _drop(self, id: str) -> None:
        del self._kept[id]
        self._gone[id] = self._version
        while len(self._gone) > 4 * MOST:
            oldest = next(iter(self._gone))
            self._forgotten = max(self._forgotten, self._gone.pop(oldest))

    def _expire(self, now: str) -> None:
        over = [n.id for n in self._kept.values() if n.expires_at is not None and n.expires_at <= now]
        if over:
            self._version += 1
            for id in over:
                self._drop(id)
