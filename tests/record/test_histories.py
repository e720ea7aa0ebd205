"""One history: random writers through conflicts, lost requests, lost answers and kills, on every kind of record.

The protocol is RECORD.md's, "Append": a writer that is behind takes what it missed, finds out whether its own entry came
through, and works its requests out again under a new entry id. At the end nothing was applied twice, whatever a living
writer had answered is there, and all readers are equal.
"""

from __future__ import annotations

import random

import pytest

from hub.core.changes import Part
from hub.record.port import Append, Outcome, Record
from tests.record.writer import Writer, everything, put


class Node:
    """A writer with requests that wait, as a node has for one context."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.writer = Writer()
        self.waiting: list[str] = []
        self.answered: list[str] = []
        self.in_flight: Append | None = None

    async def load(self) -> None:
        loaded = await self.record.load("ctx1")
        assert loaded is not None
        self.writer.state, self.writer.tip = loaded.state, loaded.tip

    def known(self, key: str) -> bool:
        return self.writer.state.keys.find(key, key) is not None

    async def step(self, lost_request: bool, lost_answer: bool) -> None:
        if self.in_flight is None:
            self.answered += [key for key in self.waiting if self.known(key)]
            self.waiting = [key for key in dict.fromkeys(self.waiting) if not self.known(key)]
            if not self.waiting:
                return
            self.in_flight = self.writer.append(*(self.parts(key) for key in self.waiting))
        if lost_request:
            return
        (result,) = await self.record.append([self.in_flight])
        if lost_answer:
            return
        mine, self.in_flight = self.in_flight.entry, None
        if result.outcome is Outcome.APPENDED:
            self.writer.take(mine)
            return
        assert result.outcome is Outcome.STALE
        for entry in result.entries:
            self.writer.take(entry)

    def parts(self, key: str) -> list[Part]:
        count = self.writer.state.document["state"].get("count", 0) + self.waiting.index(key) + 1
        return [*put("/state/count", count), {"kind": "key", "key": key, "digest": key, "result": {"count": count}}]


@pytest.mark.parametrize("seed", range(12))
async def test_random_histories(record: Record, seed: int) -> None:
    rng = random.Random(seed)
    await Writer().create(record)
    nodes = [Node(record) for _ in range(3)]
    for node in nodes:
        await node.load()
    answered: list[str] = []
    for turn in range(80):
        what = rng.random()
        if what < 0.35:
            rng.choice(nodes).waiting.append(f"k{turn}")
            if rng.random() < 0.2:
                rng.choice(nodes).waiting.append(f"k{turn}")  # the client retries elsewhere
        elif what < 0.9:
            await rng.choice(nodes).step(rng.random() < 0.15, rng.random() < 0.15)
        elif what < 0.95:
            n = rng.randrange(3)
            answered += nodes[n].answered  # what a killed node answered must be there too
            nodes[n] = Node(record)
            await nodes[n].load()
    for _ in range(30):
        for node in nodes:
            await node.step(False, False)
    for node in nodes:
        await node.writer.catch_up(record)
    loaded = await record.load("ctx1")
    assert loaded is not None
    for node in nodes:
        assert everything(node.writer.state) == everything(loaded.state)
        assert not node.waiting
        assert node.in_flight is None
        answered += node.answered
    keys = [field[2:] for field in loaded.state.keys.fields()]
    assert set(answered) <= set(keys)
    assert loaded.state.document["state"].get("count", 0) == len(keys)  # each was applied once
