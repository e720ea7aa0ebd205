"""Of a log the newest entries are kept: readers of every kind follow, and nothing goes that is being written to."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hub.core.errors import NotFound
from hub.core.requests import Apply, LogAdd, LogAppend, LogReset, ProgressSet, RunOpen, RunSet
from hub.core.state import ContextState
from hub.fanout.room import Viewer
from hub.node import trimming
from hub.node.live import LiveContext
from hub.node.node import Node
from hub.node.rights import HUB
from hub.record.memory import MemoryRecord
from tests.core.making import whole
from tests.node.support import KeptOutbox, ask, create, node_on, ok
from tests.node.test_sleeping import SOON, asleep
from tests.support import until


def add(n: int, content: str = "") -> Apply:
    return Apply(context="c", ops=[LogAdd(type="info", content=content, id=f"e{n}")])


def stream(n: int, text: str = "x") -> Apply:
    return Apply(context="c", ops=[LogAppend(id=f"e{n}", text=text)])


def log_of(node: Node) -> Any:
    return node.contexts.live["c"].replica.state.log


async def trimmed(node: Node, begin: int) -> None:
    await until(lambda: log_of(node).begin == begin, f"the log to begin at {begin}")


async def test_the_newest_entries_are_kept_and_a_tenth_more() -> None:
    async with node_on(MemoryRecord(), keep_entries=20) as node:
        await create(node)
        for n in range(100):
            await ok(node, add(n))
            assert log_of(node).length == n + 1
            await until(lambda: log_of(node).length - log_of(node).begin <= 22)
            assert log_of(node).length - log_of(node).begin >= min(n + 1, 20)
        log = log_of(node)
        assert [entry.id for entry in log.entries] == [f"e{n}" for n in range(log.begin, 100)]
        live = node.contexts.live["c"]
        assert live.replica.state.document["log"] == {"id": log.id, "length": 100, "first": log.begin}
        seq = live.replica.position.seq
        assert seq - 101 == log.begin // 3, "one trim for each three entries"
        assert isinstance(await ask(node, stream(3)), NotFound)
        await ok(node, stream(99))


async def test_by_default_all_are_kept() -> None:
    async with node_on(MemoryRecord()) as node:
        await create(node)
        await ok(node, Apply(context="c", ops=[LogAdd(type="info") for _ in range(3_000)]))
        await ok(node, add(1))
        assert (log_of(node).begin, len(log_of(node).entries)) == (0, 3_001)


@pytest.mark.parametrize("patch", [True, False])
async def test_viewers_follow(patch: bool) -> None:
    async with node_on(MemoryRecord(), keep_entries=10) as node:
        await create(node)
        live, outbox = node.contexts.live["c"], KeptOutbox()
        reader = ContextState.from_snapshot(live.replica.state.snapshot() | {"document": dict(_document(live))})
        live.audience.join(outbox, Viewer(patch=patch, private=True, sees=lambda user: True))
        for n in range(60):
            await ok(node, add(n))
        await ok(node, stream(59))
        await until(lambda: len(log_of(node).entries) <= 11)
        for name, event in outbox.events:
            if name == "snapshot":
                assert event["document"]["log"] == reader.document["log"], "the log's parts came before"
                continue
            for part in event["parts"]:
                reader.apply_part(part)
        assert whole(reader)["log"] == whole(live.replica.state)["log"]
        assert reader.document["log"] == _document(live)["log"]
        assert {part["kind"] for _, event in outbox.events for part in event.get("parts", ())} >= {"log.trim"}


def _document(live: LiveContext) -> dict[str, Any]:
    document: dict[str, Any] = live.replica.state.document
    return {**document, "log": dict(document["log"])}


async def test_an_entry_that_streams_stays_with_all_that_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trimming, "STREAMS", 0.4)
    monkeypatch.setattr(trimming, "_AGAIN", 0.01)
    async with node_on(MemoryRecord(), keep_entries=10) as node:
        await create(node)
        n = 0

        async def streams() -> bool:
            nonlocal n
            await ok(node, add(n))
            await ok(node, stream(min(n, 4), "text "))
            n += 1
            return n > 60 and log_of(node).begin == 4

        await until(streams)
        assert log_of(node).find("e4").content == "text " * (n - 4)

        async def is_quiet() -> bool:
            nonlocal n
            await ok(node, add(n))
            n += 1
            return bool(log_of(node).begin > 4)

        await until(is_quiet)
        await until(lambda: len(log_of(node).entries) <= 12)


async def test_the_entry_that_progress_names_stays_while_a_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trimming, "_AGAIN", 0.0)
    async with node_on(MemoryRecord(), keep_entries=10) as node:
        await create(node)
        await ok(node, add(0))
        await ok(node, RunOpen(context="c"), HUB)
        await ok(node, Apply(context="c", ops=[ProgressSet(text="at it", entry="e0")]))
        for n in range(1, 30):
            await ok(node, add(n))
        assert (log_of(node).begin, log_of(node).length) == (0, 30)
        await ok(node, Apply(context="c", ops=[RunSet(status="finished")]))
        await trimmed(node, 20)
        progress = node.contexts.live["c"].replica.state.document["progress"]
        assert progress == {"text": "at it", "active": False, "entry": None}


async def test_what_is_far_too_long_is_trimmed_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after the setting was made smaller. What was written to before it was loaded is not known, so it has to wait."""
    monkeypatch.setattr(trimming, "STREAMS", 0.3)
    record = MemoryRecord()
    async with node_on(record) as node:
        await create(node)
        await ok(node, Apply(context="c", ops=[LogAdd(type="info") for _ in range(2_300)]))
    async with node_on(record, keep_entries=100) as node:
        live = await node.contexts.open("c")
        seq = live.replica.position.seq
        await ok(node, add(0))
        assert log_of(node).begin == 0
        added = 1

        async def began() -> bool:
            nonlocal added
            await ok(node, add(added))
            added += 1
            return bool(log_of(node).begin)

        await until(began)
        await until(lambda: len(log_of(node).entries) <= 110)
        assert live.replica.position.seq - seq - added == 5, "500 at a time, and the rest"


async def test_two_nodes_trim_a_log_once() -> None:
    record = MemoryRecord()
    async with node_on(record, keep_entries=10) as first, node_on(record, keep_entries=10) as second:
        await create(first)
        await second.contexts.open("c")
        second.trimming._writes["c"].look_at = 0.0
        for n in range(200):
            await ok((first, second)[n % 2], add(n))
        for node in (first, second):
            await until(lambda node=node: len(log_of(node).entries) <= 11)  # type: ignore[misc]
            await until(lambda node=node: log_of(node).length == 200)  # type: ignore[misc]
        states = [whole(node.contexts.live["c"].replica.state) for node in (first, second)]
        await until(lambda: first.contexts.live["c"].replica.position == second.contexts.live["c"].replica.position)
        states = [whole(node.contexts.live["c"].replica.state) for node in (first, second)]
        assert states[0] == states[1]


async def test_a_reset_while_a_trim_is_on_its_way() -> None:
    async with node_on(MemoryRecord(), keep_entries=10) as node:
        await create(node)
        for n in range(40):
            answers = [ask(node, add(n)), ask(node, Apply(context="c", ops=[LogReset()]))] if n % 13 == 12 else []
            await asyncio.gather(ask(node, add(100 + n)), *answers)
        await ok(node, add(99))
        log = log_of(node)
        assert log.find("e99").no == log.length - 1
        assert len(log.entries) <= 12


async def test_what_could_not_be_trimmed_is_before_it_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trimming, "STREAMS", 0.2)
    record = MemoryRecord()
    async with node_on(record, keep_entries=10, **SOON) as node:
        await create(node)
        for n in range(50):
            await ok(node, add(n))
            await ok(node, stream(0))
        assert log_of(node).begin == 0
        await until(lambda: asleep(node, "c"))
        live = await node.contexts.open("c")
        assert (log_of(node).begin, len(log_of(node).entries)) == (40, 10)
        assert live.replica.state.document["log"]["first"] == 40


async def test_a_trimmed_log_sleeps_and_wakes() -> None:
    record = MemoryRecord()
    async with node_on(record, keep_entries=10, **SOON) as node:
        await create(node)
        for n in range(50):
            await ok(node, add(n))
        await until(lambda: len(log_of(node).entries) <= 11)
        before = whole(node.contexts.live["c"].replica.state)
        await until(lambda: asleep(node, "c"))
        live = await node.contexts.open("c")
        after = whole(live.replica.state)
        assert after == before
        await ok(node, add(50))
        assert log_of(node).length == 51
