"""Text that waits: what is appended to one entry travels together."""

from __future__ import annotations

from typing import Final

from hub.core.replica import Pending
from hub.core.requests import Apply, LogAppend, Request, RunRef

JOINED: Final = 20
"""Appends to one entry that become one while they wait."""
JOINED_LENGTH: Final = 65_536
"""Characters that they have together at most."""


class Growing:
    """The newest write, while it is an append to an entry, and the texts that came since."""

    __slots__ = ("_length", "_run", "_taken", "_texts", "id", "pending")

    def __init__(self, pending: Pending, append: LogAppend, run: RunRef | None) -> None:
        self.pending = pending
        self.id = append.id
        self._run = run
        self._texts = [append.text]
        self._length = len(append.text)
        self._taken = 1

    def add(self, id: str, text: str, run: RunRef | None) -> bool:
        """Let a text travel along. False if it belongs to another entry or run, or if there is no room for it."""
        length = self._length + len(text)
        if id != self.id or run != self._run or len(self._texts) >= JOINED or length > JOINED_LENGTH:
            return False
        self._texts.append(text)
        self._length = length
        return True

    def request(self) -> Request | None:
        """The whole write; None if nothing came since it was last asked for."""
        if self._taken == len(self._texts):
            return None
        self._taken = len(self._texts)
        before = self.pending.request
        append = LogAppend(id=self.id, text="".join(self._texts))
        body = Apply(context=before.body.context, ops=[append], run=self._run, key=before.body.key)
        return Request(body, before.author, before.now)
