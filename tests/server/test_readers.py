"""Readers of one context while several write it: each shows the same at the same position, and only what really was."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import hub
from hub import AgentContext
from hub.record.reader import MirrorReader
from tests.clients import Client, Follower, People, serving
from tests.registries import own_registry
from tests.support import until


@pytest.fixture
async def people(tmp_path: Path) -> AsyncIterator[People]:
    async with serving(tmp_path / "hub", record="embedded") as people:
        yield people


def happenings(chance: random.Random, op: Client, ctx: AgentContext) -> list[Callable[[], Any]]:
    """Things that happen to context ``c``, by an agent process and by others."""

    def apply(**operation: Any) -> Callable[[], Any]:
        return lambda: op.ok("apply", context="c", ops=[operation])

    return [
        apply(op="state.merge", value={"a": [1, {"b": None}]}),
        apply(op="output.set", key="name", value="hidden by the core"),
        apply(op="data.set", key="d", value={"ä": [1, None, True]}),
        apply(op="session_context.save", value={"goal": "g", "x": 1}),
        apply(op="metadata.set", key="m", value=1.5),
        apply(op="progress.set", text="half", entry="e"),
        apply(op="log.append", id="e", text="😀é"),
        lambda: op.ok("context.update", context="c", name=f"name {chance.randrange(99)}"),
        lambda: op.ok("message", context="c", text="hello"),
        lambda: op.ok("queue.clear", context="c"),
        lambda: op.ok("control", context="c", action=chance.choice(["pause", "resume", "nudge"])),
        lambda: ctx.set_output_data("result", {"rows": [1, 2.5, "ü"]}),
        lambda: ctx.log.log("info", "Heading", "content " * chance.randrange(300), kvps={"k": "v"}),
        lambda: ctx.state.incr("n"),
        lambda: ctx.set_data("private", chance.random()),
        lambda: ctx.set_progress("working", active=True),
    ]


async def test_an_agent_process_and_others_write(people: People) -> None:
    chance = random.Random(7)
    with own_registry():
        async with (
            hub.connect(people.server.url, token=people.server.token) as client,
            MirrorReader(people.server.options.data_dir) as mirror,
        ):
            ctx = await client.create(id="c", name="first", state={"n": 0})
            op, patches, simple = await people.operator(), await people.operator("msgpack"), await people.operator()
            follower = Follower("c")
            await op.ok("apply", context="c", ops=[{"op": "log.add", "type": "response", "id": "e", "content": "x"}])
            await follower.subscribe(patches)
            await simple.ok("subscribe", topic="context:c")
            happen = happenings(chance, op, ctx)
            for round in range(30):
                for change in chance.choices(happen, k=chance.randrange(1, 5)) if round else happen:
                    asked = change()
                    if asyncio.iscoroutine(asked):
                        await asked
                await ctx.flush()
                got = await op.ok("context.get", context="c")
                document, at = got["document"], (got["epoch"], got["seq"])
                await patches.until(lambda: follower.read(patches).position == at)  # noqa: B023 - waited for right here
                assert (follower.state.document, follower.state.data) == (document, got["data"])
                await simple.until(lambda: simple.of("snapshot")[-1]["document"] == document)  # noqa: B023
                mirrored = await mirror.get("c")
                assert mirrored == {
                    "epoch": at[0],
                    "seq": at[1],
                    "document": document,
                    "data": got["data"],
                    "log": follower.state.log.to_json(),
                }
                await until(lambda: ctx.version == f"{at[0]}:{at[1]}")  # noqa: B023
                assert ctx.document() == document


async def test_a_reader_in_another_process_sees_what_really_was(people: People) -> None:
    """Read at any moment while it changes: each time one state that was, and never an older one than before."""
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
    assert last > 20
    for event in viewer.of("snapshot"):
        assert event["document"]["state"]["a"] == event["seq"] - 1
