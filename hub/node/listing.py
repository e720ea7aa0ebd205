"""The contexts list: pages of it, and its rows as they change, each to those who may see it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from hub.core.position import Position
from hub.core.requests import Role
from hub.node.rights import Identity
from hub.node.rows import RowTopic
from hub.record.port import Record, RowTold

SCAN: Final = 2_000
"""Rows that are read at a time when most may be left out."""
SENT: Final = 4_096
"""Contexts of which is known which version of their row was sent last."""


class Listing:
    """The topic ``contexts``. The record tells all nodes of each row that changes, whichever node appended: what it tells is
    sent, and nothing else. Contexts in the background have no row."""

    def __init__(self, record: Record) -> None:
        self.topic = RowTopic("contexts")
        self._record = record
        self._sent: OrderedDict[str, Position] = OrderedDict()  # longest ago first

    def told(self, told: RowTold) -> None:
        """Send a row. Who saw the context as its former owner, and sees it no more, is told that it is gone."""
        if told.type == "background" or not self._is_newer(told.id, told.version):
            return
        if told.before != told.owner:
            self.topic.send(told.id, told.version, None, told.before, partial(_loses, told))
        self.topic.send(told.id, told.version, told.row, told.owner, partial(_sees, told))

    def _is_newer(self, id: str, version: Position) -> bool:
        """Whether a row is newer than the one that was sent last, as far as that is known."""
        sent = self._sent.get(id)
        if sent is not None and sent.includes(version):
            return False
        self._sent[id] = version
        self._sent.move_to_end(id)
        if len(self._sent) > SENT:
            self._sent.popitem(last=False)
        return True

    def missed(self) -> None:
        """Rows changed that this node was not told of: its readers read the list again."""
        self.topic.lagged()

    async def page(
        self, identity: Identity, before: str | None, limit: int, *, types: Callable[[str], bool]
    ) -> dict[str, Any]:
        """Rows of the contexts that an identity sees, newest first. Raises Unavailable, InvalidRequest."""
        if identity.role not in (Role.USER, Role.OPERATOR) and not identity.ctx:
            return {"rows": []}
        user = identity.sub if identity.role is Role.USER and not identity.ctx else None
        rows: list[dict[str, Any]] = []
        cursor, size = before, limit
        while len(rows) < limit:
            start = cursor
            found, cursor = await self._record.rows(user_id=user, before=start, limit=size)
            size = SCAN  # some were left out, so it may be most of them
            seen = [n for n, row in enumerate(found) if identity.sees(row["id"], row["user_id"]) and types(row["type"])]
            wanted = seen[: limit - len(rows)]
            rows += [found[n] for n in wanted]
            if (
                len(rows) == limit and wanted and wanted[-1] < len(found) - 1
            ):  # the next page begins behind the last one
                _, cursor = await self._record.rows(user_id=user, before=start, limit=wanted[-1] + 1)
            if cursor is None:
                break
        return {"rows": rows, "next": cursor} if cursor is not None else {"rows": rows}


def _sees(told: RowTold, identity: Identity) -> bool:
    return identity.sees(told.id, told.owner)


def _loses(told: RowTold, identity: Identity) -> bool:
    return identity.sees(told.id, told.before) and not identity.sees(told.id, told.owner)
