"""One context, read in every way there is while it changes: all show the same values at the same position."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import hub
from hub import AgentContext
from hub.agent.registry import Registry, use_registry
from hub.core.contexts import ROW_FIELDS
from hub.node.inprocess import NodeLink
from hub.record.reader import MirrorReader
from tests.clients import Client, Follower, People, serving
from tests.support import run_command, until

SHARED = (*ROW_FIELDS, "metadata", "progress", "log", "run")
"""Members that output() shares with the document."""


@pytest.fixture
async def people(tmp_path: Path) -> AsyncIterator[People]:
    async with serving(tmp_path / "hub", record="embedded") as people:
        yield people


@pytest.fixture
def registry() -> Any:
    registry = Registry()
    before = use_registry(registry)
    yield registry
    use_registry(before)


class Readers:
    """Everybody who reads context ``c``."""

    def __init__(self, people: People, facade: AgentContext, reader: MirrorReader) -> None:
        self.people, self.facade, self.reader = people, facade, reader
        self.patches: Client
        self.snapshots: Client
        self.follower = Follower("c")

    async def begin(self) -> None:
        self.patches = await self.people.operator("msgpack")
        self.snapshots = await self.people.operator()
        await self.follower.subscribe(self.patches)
        await self.snapshots.ok("subscribe", topic="context:c")

    async def compare(self) -> None:
        """Read in every way, and compare. Nothing may change meanwhile."""
        got = await self.patches.ok("context.get", context="c")
        document, at = got["document"], (got["epoch"], got["seq"])
        fresh = await self.people.operator()
        subscribed = await fresh.ok("subscribe", topic="context:c", tail=1000)
        await fresh.close()
        await self.patches.until(lambda: self.follower.read(self.patches).position == at)
        followed = self.follower.state
        assert (subscribed["epoch"], subscribed["seq"]) == at
        assert subscribed["document"] == document
        assert followed.document == document
        assert followed.data == subscribed["data"] == got["data"]
        entries = followed.log.to_json()["entries"]
        assert entries == subscribed["entries"]
        for snapshot in self.snapshots.of("snapshot")[-1:]:
            await self.snapshots.next("snapshot", lambda event: event["seq"] == at[1])
            assert self.snapshots.of("snapshot")[-1]["document"] == document, snapshot["seq"]
        mirrored = await self.reader.get("c")
        assert mirrored is not None
        assert (mirrored["epoch"], mirrored["seq"]) == at
        assert mirrored["document"] == document
        assert mirrored["data"] == got["data"]
        assert mirrored["log"] == {"id": subscribed["log_id"], "entries": entries}
        rows = (await self.patches.ok("contexts.page"))["rows"]
        assert [rows[0][name] for name in ROW_FIELDS] == [document[name] for name in ROW_FIELDS]
        assert (await self.reader.contexts())[0]["id"] == "c"
        await until(lambda: self.facade.writer.view.base == at, "the facade")
        self.compare_output(document)

    def compare_output(self, document: dict[str, Any]) -> None:
        output = self.facade.output()
        assert json.loads(json.dumps(output)) == output
        for name in SHARED:
            assert output[name] == document[name], name
        for name, value in document["output"].items():
            if name not in SHARED:
                assert output[name] == value
        assert set(output) == set(SHARED) | set(document["output"])

    async def compare_command(self) -> None:
        folder = str(self.people.server.options.data_dir)
        done = await asyncio.to_thread(run_command, "show", "c", "--json", "--entries", "500", HUB_DATA_DIR=folder)
        assert done.returncode == 0, done.stderr
        shown, got = json.loads(done.stdout), await self.patches.ok("context.get", context="c")
        assert {name: shown[name] for name in ("epoch", "seq", "document", "data")} == {
            name: got[name] for name in ("epoch", "seq", "document", "data")
        }
        assert shown["entries"] == self.follower.state.log.to_json()["entries"]


def changes(chance: random.Random, op: Client, facade: AgentContext) -> list[Any]:
    """Things that happen to a context, by its facade and by others."""
    return [
        lambda: op.ok("apply", context="c", ops=[{"op": "state.merge", "value": {"a": chance.random()}}]),
        lambda: op.ok("apply", context="c", ops=[{"op": "output.set", "key": "name", "value": "hidden by the core"}]),
        lambda: op.ok("apply", context="c", ops=[{"op": "data.set", "key": "d", "value": {"ä": [1, None, True]}}]),
        lambda: op.ok("apply", context="c", ops=[{"op": "session_context.save", "value": {"goal": "g", "x": 1}}]),
        lambda: op.ok("apply", context="c", ops=[{"op": "metadata.set", "key": "m", "value": chance.randrange(9)}]),
        lambda: op.ok("apply", context="c", ops=[{"op": "progress.set", "text": "half", "entry": "e"}]),
        lambda: op.ok("apply", context="c", ops=[{"op": "log.append", "id": "e", "text": "😀é"}]),
        lambda: op.ok("context.update", context="c", name=f"name {chance.randrange(99)}"),
        lambda: op.ok("message", context="c", text="hello"),
        lambda: op.ok("queue.clear", context="c"),
        lambda: op.ok("control", context="c", action=chance.choice(["pause", "resume"])),
        lambda: op.ok("control", context="c", action="nudge"),
        lambda: facade.set_output_data("result", {"rows": [1, 2.5, "ü"]}),
        lambda: facade.log.log("info", "Heading", "content " * chance.randrange(300), kvps={"k": "v"}),
        lambda: facade.state.incr("n"),
        lambda: facade.set_data("private", chance.random()),
        lambda: facade.set_progress("working", active=True),
    ]


@pytest.mark.parametrize("kind", ["inside", "connected"])
async def test_all_readers_agree(people: People, registry: Registry, kind: str) -> None:
    chance = random.Random(7)
    async with AsyncExitStack() as stack:
        if kind == "inside":
            registry.bind(NodeLink(people.server.node))
            facade = AgentContext(id="c", name="first", state={"n": 0})
        else:
            client = await stack.enter_async_context(hub.connect(people.server.url, token=people.server.token))
            facade = await client.create(id="c", name="first", state={"n": 0})
        await facade.flush()
        op = await people.operator()
        add = {"op": "log.add", "type": "response", "id": "e", "content": "begin "}
        await op.ok("apply", context="c", ops=[add])
        reader = await stack.enter_async_context(MirrorReader(people.server.options.data_dir))
        readers = Readers(people, facade, reader)
        await readers.begin()
        happen = changes(chance, op, facade)
        for round in range(40):
            for change in chance.choices(happen, k=chance.randrange(1, 5)) if round else happen:
                asked = change()
                if asyncio.iscoroutine(asked):
                    await asked
            await facade.flush()
            await readers.compare()
        await readers.compare_command()
        await op.ok("apply", context="c", ops=[{"op": "state.merge", "value": {"pad": "x" * 100_000}}])
        await readers.compare()
        await op.ok("control", context="c", action="reset")
        await readers.compare()
        await readers.compare_command()
        assert (await op.ok("context.get", context="c"))["document"]["log"]["length"] == 0


async def test_what_a_reader_in_another_process_sees_while_it_changes(people: People) -> None:
    """Read at any moment: each time one state that really was, and never an older one than before."""
    op, viewer = await people.operator("msgpack"), await people.operator()
    await op.ok("context.create", id="c", state={"a": 0, "b": 0})
    await viewer.ok("subscribe", topic="context:c")
    stop = asyncio.Event()

    async def write() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            value = {"a": n, "b": n, "pad": "x" * (n % 7) * 2000}
            ops = [{"op": "state.merge", "value": value}, {"op": "log.add", "type": "info", "content": str(n)}]
            await op.ok("apply", context="c", ops=ops)

    writer = asyncio.create_task(write())
    last = 0
    async with MirrorReader(people.server.options.data_dir) as reader:
        for _ in range(60):
            seen = await reader.get("c")
            assert seen is not None
            state, seq = seen["document"]["state"], seen["seq"]
            assert state["a"] == state["b"] == seq - 1
            assert [entry["content"] for entry in seen["log"]["entries"]] == [str(n) for n in range(1, seq)]
            assert seq >= last
            last = seq
    stop.set()
    await writer
    states = {event["seq"]: event["document"]["state"]["a"] for event in viewer.of("snapshot")}
    assert last > 20
    assert all(n == seq - 1 for seq, n in states.items())
