"""MirrorReader: exact in another process while everything changes, and the hashes read by plain commands."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import msgpack
import pytest

from hub.core.errors import StartError, Unavailable
from hub.record.connection import Connection, pairs
from hub.record.mirror import MirrorState
from hub.record.reader import MirrorReader
from hub.record.redis import RedisRecord
from tests.record.random_changes import parts
from tests.record.writer import Writer, log_add, put

ROOT = Path(__file__).parents[2]
WATCH = """
import asyncio, json, sys
from hub.record.reader import MirrorReader

async def main():
    async with MirrorReader(sys.argv[1]) as reader:
        seen = 0
        while True:
            snapshot = await reader.get("ctx1")
            if snapshot is None:
                break
            seen += 1
            print(json.dumps(snapshot), flush=True)
asyncio.run(main())
"""


class Live:
    """A writer whose hashes follow, as a node's do."""

    def __init__(self, record: RedisRecord, **members: Any) -> None:
        self.record, self.writer, self.mirror = record, Writer(), MirrorState()
        self.members = members

    async def create(self) -> None:
        await self.writer.create(self.record, **self.members)
        self.note()

    async def write(self, *changes: Any) -> None:
        await self.writer.write(self.record, *changes)
        self.note()
        if self.mirror.due(time.monotonic()):
            await self.follow()

    def note(self) -> None:
        assert self.writer.last is not None
        for change in self.writer.last.entry.changes:
            self.mirror.note(change, time.monotonic())

    async def follow(self) -> None:
        write = self.mirror.write(self.writer.state, time.monotonic())
        if write is not None:
            self.mirror.wrote((await self.record.mirror([write]))[0], time.monotonic())

    async def follow_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.mirror.due(time.monotonic()):
                await self.follow()
            await asyncio.sleep(0.01)


async def test_every_snapshot_in_another_process_is_one_that_there_was(redis_record: RedisRecord, server: str) -> None:
    import json

    live = Live(redis_record)
    await live.create()
    states = {1: json.dumps(live.writer.state.snapshot(), sort_keys=True)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WATCH, server, stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
        limit=2**24,
    )  # fmt: skip
    assert process.stdout is not None
    first = await process.stdout.readline()
    rng = random.Random(1)
    reading = asyncio.create_task(process.stdout.read())
    until = time.monotonic() + 3
    step = 0
    while time.monotonic() < until:
        step += 1
        await live.write(parts(rng, live.writer.state, step))
        states[live.writer.position.seq] = json.dumps(live.writer.state.snapshot(), sort_keys=True)
        await asyncio.sleep(0.001)
    await live.write([{"kind": "closed", "reason": "removed"}])
    lines = [first, *(await reading).splitlines()]
    assert await process.wait() == 0
    seqs = [json.loads(line)["seq"] for line in lines]
    assert seqs == sorted(seqs)
    assert len(set(seqs)) > 20
    for line, seq in zip(lines, seqs, strict=True):
        assert json.dumps(json.loads(line), sort_keys=True) == states[seq]


async def test_plain_commands_read_the_document(redis_record: RedisRecord, connection: Connection) -> None:
    """What RECORD.md promises to any language: small fields within 100 ms, large ones after a second of quiet."""
    live = Live(redis_record, name="plain", user_id="ann", state={"big": {"text": "x" * 30_000}})
    await live.create()
    await live.follow_for(0.15)
    for n in range(30):
        await live.write(
            put("/state/n", n), put("/state/big/n", n), put("/output/o", {"n": n}), log_add(n, f"l{n}", "text")
        )
    await live.write(put("/name", "renamed"), [{"kind": "data", "key": "k", "value": n}])
    await live.follow_for(0.2)

    async def fields(name: str) -> dict[str, Any]:
        flat = await connection.run("HGETALL", "hub:ctx:{ctx1}" + name)
        return {field.decode(): raw for field, raw in pairs(flat).items()}

    def plain(raw: bytes) -> Any:
        version, value = msgpack.unpackb(raw)
        assert version == 1
        return value

    document = live.writer.state.document
    main = await fields("")
    assert (main["name"], main["user_id"], main["running"], main["no"]) == (b"renamed", b"ann", b"false", b"1")
    assert "agent" not in main
    assert (main["epoch"], main["last"]) == (b"E1", str(live.writer.position.seq).encode())
    assert plain(main["log"]) == document["log"]
    assert plain(main["versions"]) == document["versions"]
    assert plain((await fields(":state"))["n"]) == document["state"]["n"]
    assert plain((await fields(":output"))["o"]) == document["output"]["o"]
    assert plain((await fields(":data"))["k"]) == 29
    log = {id: plain(raw) for id, raw in (await fields(":log")).items()}
    assert [log[f"l{n}"]["no"] for n in range(30)] == list(range(30))
    await live.follow_for(1.3)
    assert {name: plain(raw) for name, raw in (await fields(":state")).items()} == document["state"]
    assert "held" not in await fields("")


async def test_contexts_and_missing_ones(redis_record: RedisRecord, server: str) -> None:
    await Writer("one").create(redis_record, user_id="ann")
    await Writer("two").create(redis_record)
    async with MirrorReader(server) as reader:
        assert await reader.get("none") is None
        assert {row["id"] for row in await reader.contexts()} == {"one", "two"}
        assert [row["id"] for row in await reader.contexts(user_id="ann")] == ["one"]
    snapshot = await asyncio.to_thread(MirrorReader.read, server, "one")
    assert snapshot is not None
    assert snapshot["document"]["id"] == "one"
    assert sorted(snapshot) == ["data", "document", "epoch", "log", "seq"]


async def test_a_reader_says_what_is_wrong() -> None:
    with pytest.raises(StartError, match="no embedded server"):
        MirrorReader("/nowhere")
    async with MirrorReader("redis://127.0.0.1:1/0", timeout=1.0) as reader:
        with pytest.raises(Unavailable):
            await reader.get("ctx1")
