"""All ways to read a context agree while it changes: ``output()``, the document, both modes of viewers, MirrorReader, the
command line. (Contexts are not read over HTTP.)"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hub import AgentContext, MirrorReader
from hub.agent.registry import Registry
from hub.core.contexts import ROW_FIELDS
from hub.node.inprocess import NodeLink
from tests.clients import Client, Follower, People, serving
from tests.registries import own_registry
from tests.support import run_command, until

PRIVATE = "for agents and operators"
CORE = {*ROW_FIELDS, "metadata", "progress", "log", "run"}
CHANGES: list[tuple[str, Callable[[AgentContext], object]]] = [
    ("output data", lambda ctx: ctx.set_output_data("result", {"rows": 3})),
    ("output data that is called like a core field", lambda ctx: ctx.set_output_data("name", "not the name")),
    ("the name", lambda ctx: setattr(ctx, "name", "renamed")),
    ("metadata", lambda ctx: ctx.metadata.update({"color": "blue"})),
    ("state", lambda ctx: ctx.state.update({"n": 1, "deep": {"x": [1, None, "ü"]}})),
    ("session context", lambda ctx: ctx.session_context.save(goal="to agree", plan=["compare"])),
    ("an entry", lambda ctx: ctx.log.log("info", "Heading", "text", rows=3)),
    ("text of an entry", lambda ctx: ctx.log.entries()[-1].stream("more")),
    ("progress", lambda ctx: ctx.set_progress("half way")),
    ("pause", lambda ctx: ctx.pause()),
    ("resume", lambda ctx: ctx.resume()),
    ("a message", lambda ctx: ctx.communicate("it waits")),
    ("private data", lambda ctx: ctx.set_data("note", PRIVATE)),
    ("an emptied log", lambda ctx: ctx.log.reset()),
    ("no message any more", lambda ctx: ctx.message_queue.clear()),
]


@pytest.fixture
def registry() -> Iterator[Registry]:
    with own_registry() as fresh:
        yield fresh


@pytest.fixture
async def people(tmp_path: Path, registry: Registry) -> AsyncIterator[People]:
    """People at a hub with an embedded server; contexts that are made here are its own."""
    async with serving(tmp_path / "hub", record="embedded") as people:
        registry.bind(NodeLink(people.server.node))
        yield people


class Readers:
    """A context, and everybody who reads it."""

    def __init__(self, ctx: AgentContext, people: People) -> None:
        self.ctx = ctx
        self.people = people
        self.folder = people.server.options.data_dir
        self.mirror = MirrorReader(self.folder)
        self.follower = Follower(ctx.id)
        self.op: Client
        self.simple: Client
        self.patching: Client

    async def begin(self) -> None:
        await self.ctx.flush()
        self.op = await self.people.operator()
        self.simple = await self.people.viewer(self.ctx.id)
        self.patching = await self.people.viewer(self.ctx.id)
        await self.simple.ok("subscribe", topic=f"context:{self.ctx.id}")
        await self.follower.subscribe(self.patching)

    async def compare(self, what: str) -> dict[str, Any]:
        """All of them show the same. Returns the document."""
        ctx = self.ctx
        await ctx.flush()
        there = await self.op.ok("context.get", context=ctx.id)
        document, version = there["document"], f"{there['epoch']}:{there['seq']}"
        await until(lambda: ctx.version == version, what)
        assert ctx.document() == document, what
        output = ctx.output()
        assert {name: output[name] for name in CORE} == {name: document[name] for name in CORE}, what
        assert {name: output[name] for name in output.keys() - CORE} == {
            name: value for name, value in document["output"].items() if name not in CORE
        }, what
        json.dumps(output)

        state = await self.patching.until(lambda: self._reached(there["seq"]))
        assert state.document == document, what
        entries = [entry.output() for entry in ctx.log.entries()]
        assert state.log.to_json()["entries"] == entries, what

        mirrored = await self.mirror.get(ctx.id)
        assert mirrored is not None, what
        assert (mirrored["document"], mirrored["log"]["entries"]) == (document, entries), what
        assert mirrored["data"] == there["data"] == ctx.data.copy(), what
        return dict(document)

    def _reached(self, seq: int) -> Any:
        state = self.follower.read(self.patching)
        return state if state.position.seq == seq else None

    async def compare_snapshot(self, seq: int, document: dict[str, Any]) -> None:
        snapshot = await self.simple.next("snapshot", lambda event: event["seq"] == seq)
        assert snapshot["document"] == document

    async def compare_command(self, document: dict[str, Any]) -> None:
        arguments = ("show", self.ctx.id, "--json", "--entries", "100")
        done = await asyncio.to_thread(run_command, *arguments, HUB_DATA_DIR=str(self.folder))
        assert done.returncode == 0, done.stderr
        shown = json.loads(done.stdout)
        assert shown["document"] == document
        assert shown["entries"] == [entry.output() for entry in self.ctx.log.entries()]


@pytest.fixture
async def readers(people: People) -> AsyncIterator[Readers]:
    readers = Readers(AgentContext(id="c", name="first", output_data={"begun": True}), people)
    await readers.begin()
    yield readers
    await readers.mirror.close()


async def test_09_all_readers_agree_while_it_changes(readers: Readers) -> None:
    await readers.compare("the beginning")
    for n, (what, change) in enumerate(CHANGES):
        change(readers.ctx)
        document = await readers.compare(what)
        seq = readers.follower.state.position.seq
        if what != "text of an entry":  # a bare append makes no snapshot
            await readers.compare_snapshot(seq, document)
        if n % 5 == 4:
            await readers.compare_command(document)
    assert readers.ctx.output()["name"] == "renamed"
    assert readers.ctx.get_output_data("name") == "not the name"


async def test_10_every_change_reaches_viewers_and_the_mirror(readers: Readers) -> None:
    ctx = readers.ctx
    for what, change in CHANGES:
        before = readers.follower.state.position.seq
        change(ctx)
        await readers.compare(what)
        assert readers.follower.state.position.seq == before + 1, what
    for client in (readers.simple, readers.patching):
        assert PRIVATE not in json.dumps(client.events), "viewers get the position of private data, not its content"

    go = threading.Event()
    task = ctx.run_task(go.wait, 10)
    await until(lambda: ctx.document()["running"])
    assert (await readers.compare("a run"))["running"] is True
    go.set()
    assert await task.result(10) is True
    assert (await readers.compare("no run"))["running"] is False

    AgentContext.remove(ctx.id)
    closed = await readers.patching.next(
        "change", lambda event: any(part["kind"] == "closed" for part in event["parts"])
    )
    assert closed["parts"][-1]["reason"] == "removed"
    assert (await readers.simple.next("snapshot", lambda event: "closed" in event))["closed"] == "removed"
    assert await readers.mirror.get(ctx.id) is None
    assert await readers.mirror.contexts() == []
