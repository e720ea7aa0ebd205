"""Two nodes write the hashes of one context in turns; answers are lost, nodes end and load again: the hashes and the stream
always make the state."""

from __future__ import annotations

import random

import pytest

from hub.core import keys
from hub.core.changes import Change, Part
from hub.core.state import ContextState
from hub.record.mirror import MirrorState
from hub.record.port import Loaded
from hub.record.redis import RedisRecord
from tests.record.writer import Writer, log_add, put

SMALL_SIZES = (1, 50)
LARGE_SIZES = (9_000, 20_000)


def some_parts(chance: random.Random, state: ContextState) -> list[Part]:
    """What a request does, with its key."""
    size = chance.choice(SMALL_SIZES + LARGE_SIZES)
    n = state.position.seq + 1
    parts: list[Part]
    match chance.randrange(4):
        case 0:
            parts = put(f"/state/k{chance.randrange(4)}", "x" * size)
        case 1:
            parts = log_add(state.log.length, f"l{n}", "y" * size)
        case 2 if state.log.length:
            entry = state.log.entries[chance.randrange(state.log.length)]
            parts = [
                {"kind": "log.append", "id": entry.id, "at": entry.units, "text": "zé😀" * chance.choice((1, 900))}
            ]
        case _:
            parts = []
    key = chance.choice([f"w{chance.randrange(12)}/{n}", f"another key {chance.randrange(12)}"])
    return [*parts, {"kind": "key", "key": key, "digest": "d", "result": {"epoch": "E1", "seq": n}}]


class Nodes:
    """Their mirrors, which all know of every change."""

    def __init__(self, record: RedisRecord, writer: Writer, chance: random.Random) -> None:
        self._record, self._writer, self._chance = record, writer, chance
        self.mirrors: list[MirrorState] = []
        self.now = 100.0

    async def loaded(self) -> Loaded:
        found = await self._record.load(self._writer.context)
        assert found is not None
        return found

    async def load(self) -> MirrorState:
        return MirrorState.of(await self.loaded(), self.now)

    async def change(self) -> None:
        parts = some_parts(self._chance, self._writer.state)
        await self._writer.write(self._record, parts)
        for mirror in self.mirrors:
            mirror.note(Change(self._writer.position, parts), self.now)

    async def write(self, mirror: MirrorState, *, lossy: bool = True) -> None:
        """As a node does it, but that the request or the answer may be lost."""
        write = mirror.write(self._writer.state, self.now, everything=self._chance.random() < 0.15)
        if write is None:
            return
        lost = self._chance.random() if lossy else 1.0
        done = lost > 0.15 and (await self._record.mirror([write]))[0] and lost > 0.3
        mirror.wrote(done, self.now)
        if not done:
            [there] = await self._record.mirrored([self._writer.context])
            assert there is not None
            seq, held = there
            mirror.moved(seq, held, self.now)

    async def check(self) -> None:
        """What is loaded is the state."""
        found, state = (await self.loaded()).state, self._writer.state
        assert found.snapshot() == state.snapshot()
        assert {field: found.keys.dump(field) for field in state.keys.fields()} == {
            field: state.keys.dump(field) for field in state.keys.fields()
        }


@pytest.mark.parametrize("seed", range(12))
async def test_what_they_write_in_turns(redis_record: RedisRecord, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(keys, "WRITERS", 6)
    chance, writer = random.Random(seed), Writer()
    await writer.create(redis_record)
    nodes = Nodes(redis_record, writer, chance)
    nodes.mirrors = [await nodes.load(), await nodes.load()]
    for _ in range(100):
        nodes.now += chance.choice((0.01, 0.2, 1.5))
        await nodes.change()
        for n, mirror in enumerate(nodes.mirrors):
            if chance.random() < 0.4:
                await nodes.write(mirror)
            if chance.random() < 0.08:
                nodes.mirrors[n] = await nodes.load()
        if chance.random() < 0.3:
            await nodes.check()
    nodes.now += 10.0
    for _ in range(3):  # one that was refused learns what is there, and writes the rest
        await nodes.write(nodes.mirrors[0], lossy=False)
    await nodes.check()
    assert sorted((await nodes.loaded()).state.keys.fields()) == sorted(writer.state.keys.fields())
