"""Messages that wait for the agent. None overwrites another, and they are kept across a restart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast, overload

from hub.agent.checks import checked_attachments, checked_text
from hub.agent.writer import Writer
from hub.core.pointer import own
from hub.core.requests import Message, QueueClear, QueueEdit, QueueRemove, QueueSend


class MessageQueue(Sequence[dict[str, Any]]):
    """The waiting messages, first one first, each ``{"id", "text", "attachments", "user_id", "created_at"}``."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        with self._writer.lock:
            return cast("dict[str, Any] | list[dict[str, Any]]", own(self._queue()[index]))

    def __len__(self) -> int:
        with self._writer.lock:
            return len(self._queue())

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self[:])

    def add(self, text: str, attachments: Sequence[dict[str, Any]] = ()) -> str:
        """Let a message wait for the agent. Returns its id. Raises InvalidRequest, TooLarge, Overloaded."""
        text = checked_text(text, "text")
        body = Message(context=self._writer.id, text=text, attachments=checked_attachments(attachments))
        return str(self._writer.submit(body, len(text) + 200).worked.result.get("id", ""))

    def edit(self, id: str, text: str) -> None:
        """Let a waiting message say something else."""
        text = checked_text(text, "text")
        self._writer.submit(QueueEdit(context=self._writer.id, id=id, text=text), len(text) + 200)

    def remove(self, id: str) -> None:
        """Take a message out."""
        self._writer.submit(QueueRemove(context=self._writer.id, id=id))

    def clear(self) -> None:
        """Take all messages out."""
        self._writer.submit(QueueClear(context=self._writer.id))

    def send_next(self, id: str | None = None) -> None:
        """Let a message be the next that the agent gets; without an id the first one is."""
        if id is not None:
            self._writer.submit(QueueSend(context=self._writer.id, id=id))

    def send_all(self) -> None:
        """Join all messages into one."""
        self._writer.submit(QueueSend(context=self._writer.id, joined=True))

    def _queue(self) -> list[dict[str, Any]]:
        queue: list[dict[str, Any]] = self._writer.read().document.get("queue", [])
        return queue
