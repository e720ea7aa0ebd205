"""A follower that keeps what it heard."""

from __future__ import annotations

from typing import Any

from hub.core.changes import RecordEntry
from hub.record.port import RowTold
from tests.support import until


class Heard:
    """What a follower was told, in order: a name and what came with it."""

    def __init__(self) -> None:
        self.all: list[tuple[Any, ...]] = []

    def followed(self, context: str) -> None:
        self.all.append(("followed", context))

    def appended(self, context: str, epoch: str, last: int, entry: RecordEntry | None) -> None:
        self.all.append(("appended", context, epoch, last, entry))

    def row(self, row: RowTold) -> None:
        self.all.append(("row", row))

    def notice(self, id: str) -> None:
        self.all.append(("notice", id))

    def told(self, message: dict[str, Any]) -> None:
        self.all.append(("told", message))

    def deaf(self) -> None:
        self.all.append(("deaf",))

    def hearing(self) -> None:
        self.all.append(("hearing",))

    def of(self, *names: str) -> list[tuple[Any, ...]]:
        """What was told under these names, without the names if it is one."""
        return [one[1:] if len(names) == 1 else one for one in self.all if one[0] in names]

    async def until(self, name: str, count: int) -> list[tuple[Any, ...]]:
        """Wait until so many were told under a name, and no more."""
        await until(lambda: len(self.of(name)) >= count, f"{count} {name}")
        found = self.of(name)
        assert len(found) == count
        return found
