"""Nodes without a server: records that fail as told, and outboxes that keep what they are sent."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from hub.core.errors import HubError, Unavailable
from hub.core.requests import AnyBody, Apply, Author, Create, Role, StateAppend, StateIncr
from hub.node.live import Answer
from hub.node.node import Node
from hub.node.settings import Settings
from hub.record.memory import MemoryRecord
from hub.record.port import Append, Appended, Record
from hub.wire.codec import Encoded, Variant

ANN = Author("ann", Role.USER)


class LossyRecord(MemoryRecord):
    """Loses requests and answers by chance: the writer cannot know which it was."""

    def __init__(self, chance: random.Random | None = None, *, lost: float = 0.0, unanswered: float = 0.0) -> None:
        super().__init__()
        self.chance = chance or random.Random(1)
        self.lost, self.unanswered = lost, unanswered
        self.appended = 0

    async def append(self, appends: Sequence[Append]) -> list[Appended]:
        await asyncio.sleep(0)
        if self.chance.random() < self.lost:
            raise Unavailable("lost on the way")
        outcomes = await super().append(appends)
        self.appended += 1
        await asyncio.sleep(0)
        if self.chance.random() < self.unanswered:
            raise Unavailable("its answer was lost")
        return outcomes


class KeptOutbox:
    """An outbox that keeps events, decoded."""

    variant = Variant.JSON

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.behind = False
        self._waiting: list[Callable[[], None]] = []

    def send(self, event: Encoded) -> None:
        import json

        name, payload = json.loads(str(event.get(Variant.JSON))[1:])
        self.events.append((name, payload))

    def stream(self, frames: bytes, events: Sequence[Encoded]) -> bool:
        if self.behind:
            return False
        for event in events:
            self.send(event)
        return True

    def when_caught_up(self, call: Callable[[], None]) -> None:
        self._waiting.append(call)

    def catch_up(self) -> None:
        """What waited is gone."""
        self.behind = False
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()

    def of(self, name: str) -> list[dict[str, Any]]:
        return [payload for kind, payload in self.events if kind == name]


@asynccontextmanager
async def node_on(record: Record, **settings: Any) -> AsyncIterator[Node]:
    """A node that serves."""
    node = Node(record, Settings(**settings))
    await node.start()
    try:
        yield node
    finally:
        await node.close()


async def ask(node: Node, body: AnyBody, author: Author = ANN) -> Answer:
    """The answer to a request."""
    return await node.contexts.request(node.contexts.stamp(body, author))


async def ok(node: Node, body: AnyBody, author: Author = ANN) -> dict[str, Any]:
    """The answer to a request that must go well."""
    answer = await ask(node, body, author)
    assert not isinstance(answer, HubError), answer
    return answer


async def create(node: Node, id: str = "c", **fields: Any) -> dict[str, Any]:
    return await ok(node, Create(context=id, **fields))


def incr(id: str = "c", path: str = "/n", key: str | None = None) -> Apply:
    return Apply(context=id, ops=[StateIncr(path=path)], key=key)


def push(value: Any, id: str = "c", key: str | None = None) -> Apply:
    return Apply(context=id, ops=[StateAppend(path="/l", value=value)], key=key)
