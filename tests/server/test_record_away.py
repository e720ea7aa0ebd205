"""The record goes away and comes back: viewers stay, requests wait and are refused in time, nothing answered is lost."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hub.record.connection import Connection
from tests.clients import Follower, People, health, serving
from tests.support import hanging, redis_process, until


def incr() -> list[dict[str, Any]]:
    return [{"op": "state.incr", "path": "/n"}]


@pytest.fixture
async def people(tmp_path: Path) -> AsyncIterator[People]:
    async with serving(tmp_path / "hub", record="embedded") as people:
        yield people


@pytest.fixture
async def on_redis(tmp_path: Path, redis_url: str) -> AsyncIterator[People]:
    async with serving(tmp_path / "hub", redis=redis_url) as people:
        yield people


async def pid_of(url: str) -> int:
    connection = Connection(url)
    info = (await connection.run("INFO", "server")).decode()
    await connection.close()
    return int(info.partition("process_id:")[2].split()[0])


async def status(people: People) -> tuple[int, str]:
    code, body = await health(people.server.url)
    return code, body["status"]


async def test_the_embedded_server_is_killed_again_and_again(people: People) -> None:
    """Writers go on through it; what was answered is there, once; the viewer sees every change."""
    writer, viewer, follower = await people.operator("msgpack"), await people.operator(), Follower("c")
    await writer.ok("context.create", id="c")
    await follower.subscribe(viewer)
    embedded: Any = people.server._home._embedded  # type: ignore[union-attr]
    answered, stop = 0, asyncio.Event()

    async def write() -> None:
        nonlocal answered
        while not stop.is_set():
            reply = await writer.ask("apply", context="c", ops=incr(), key=f"w/{answered + 1}")
            if reply["ok"]:
                answered += 1
            else:
                assert reply["error"]["code"] == "unavailable"
                assert reply["error"]["retryable"]

    task = asyncio.create_task(write())
    try:
        for _ in range(3):
            before, pid = answered, embedded.pid
            await until(lambda: answered > before + 5)  # noqa: B023 - waited for right here
            os.kill(pid, signal.SIGKILL)
            await until(lambda: embedded.pid not in (None, pid))  # noqa: B023
    finally:
        stop.set()
        await task
    got = await writer.ok("context.get", context="c")
    assert got["document"]["state"]["n"] == answered
    await viewer.until(lambda: follower.read(viewer).position.seq == got["seq"])
    assert follower.state.document == got["document"]
    assert not viewer.of("disconnect")
    assert not [event for event in viewer.of("snapshot") if "reason" in event], (
        "nothing was lost, so nobody starts over"
    )


@pytest.mark.redis
async def test_a_redis_that_hangs(on_redis: People, redis_url: str) -> None:
    people, pid = on_redis, await pid_of(redis_url)
    op, viewer = await people.operator(), await people.operator()
    for id in ("c", "asleep"):
        await op.ok("context.create", id=id, agent="nobody")
    people.server.node.contexts.forget(people.server.node.contexts.live["asleep"])
    await viewer.ok("subscribe", topic="context:c")
    end = (await op.ok("apply", context="c", ops=incr()))["seq"]
    with hanging(pid):
        began = time.monotonic()
        waiting: list[tuple[str, dict[str, Any]]] = [
            ("apply", {"context": "c", "ops": incr(), "key": "w/1"}),
            ("apply", {"context": "asleep", "ops": incr(), "key": "w/1"}),
            ("message", {"context": "c", "text": "hello", "key": "w/2"}),
            ("message", {"context": "c", "text": "again", "key": "w/3"}),
            ("context.create", {"id": "new", "key": "w/1"}),
            ("notice.post", {"id": "n", "message": "m"}),
            ("contexts.page", {}),
            ("subscribe", {"topic": "context:asleep"}),
        ]
        asked = [asyncio.create_task(op.ask(name, **payload)) for name, payload in waiting]
        await viewer.next("hub.degraded", lambda event: event["degraded"] is True)
        assert time.monotonic() - began < 4
        assert (await op.ok("context.get", context="c"))["seq"] == end, "reads are answered from what is confirmed"
        assert (await op.ok("subscribe", topic="context:c"))["seq"] == end
        assert await status(people) == (503, "degraded")
        late = await people.operator()
        assert (await late.next("hello"))["degraded"] is True
        for (name, _), task in zip(waiting, asked, strict=True):
            error = (await task)["error"]
            assert (error["code"], error["retryable"]) == ("unavailable", True), name
        assert 4 < time.monotonic() - began < 9, "requests wait for a while, but not for ever"
        assert not viewer.of("snapshot")[1:]
    await viewer.next("hub.degraded", lambda event: event["degraded"] is False)
    for name, payload in waiting:
        await op.ok(name, **payload)
    document = (await op.ok("context.get", context="c"))["document"]
    assert document["state"]["n"] == 2, "the retry found what the first try had done"
    assert [item["text"] for item in document["queue"]] == ["hello", "again"]
    assert await status(people) == (200, "ok")
    await viewer.next("snapshot", lambda event: event["document"]["state"]["n"] == 2)


@pytest.mark.redis
async def test_a_short_hang_is_only_felt_as_waiting(on_redis: People, redis_url: str) -> None:
    op, pid = await on_redis.operator(), await pid_of(redis_url)
    await op.ok("context.create", id="c")
    with hanging(pid):
        asked = [asyncio.create_task(op.ok("apply", context="c", ops=incr(), key=f"w/{n}")) for n in range(1, 51)]
        await op.next("hub.degraded", lambda event: event["degraded"])
    assert sorted(reply["seq"] for reply in await asyncio.gather(*asked)) == list(range(2, 52))
    assert (await op.ok("context.get", context="c"))["document"]["state"]["n"] == 50


@pytest.mark.redis
async def test_it_is_noticed_and_told_though_nobody_writes(on_redis: People, redis_url: str) -> None:
    viewer, pid = await on_redis.operator(), await pid_of(redis_url)
    with hanging(pid):
        await viewer.next("hub.degraded", lambda event: event["degraded"] is True)
    await viewer.next("hub.degraded", lambda event: event["degraded"] is False)
    assert len(viewer.of("hub.degraded")) == 2


@pytest.mark.redis
async def test_a_redis_that_lost_everything(tmp_path: Path) -> None:
    """Flushed under a live hub: it writes its contexts anew; viewers get a snapshot that says so, and go on."""
    folder = tmp_path / "redis"
    folder.mkdir()
    with redis_process(folder) as url:
        async with serving(tmp_path / "hub", redis=url) as people:
            op, viewer, follower = await people.operator(), await people.operator(), Follower("c")
            await op.ok("context.create", id="c", state={"kept": True})
            for key in ("w/1", "another"):
                await op.ok("apply", context="c", ops=[{"op": "log.add", "type": "info", "content": key}], key=key)
            reply = await follower.subscribe(viewer)
            connection = Connection(url)
            await connection.run("FLUSHALL")
            await op.ok("apply", context="c", ops=incr())
            snapshot = await viewer.next("snapshot", lambda event: event.get("recovered") is False)
            assert snapshot["epoch"] != reply["epoch"]
            assert snapshot["reason"]
            assert snapshot["document"]["state"]["kept"] is True
            assert [entry["content"] for entry in snapshot["entries"]] == ["w/1", "another"]
            for key in ("w/1", "another"):
                ops = [{"op": "log.add", "type": "info", "content": key}]
                assert (await op.ok("apply", context="c", ops=ops, key=key))["duplicate"]
            changes = await viewer.until(lambda: [e for e in viewer.of("change") if e["epoch"] == snapshot["epoch"]])
            assert changes[0]["seq"] == snapshot["seq"] + 1
            resumed = await op.ok("subscribe", topic="context:c", from_={"epoch": reply["epoch"], "seq": reply["seq"]})
            assert (resumed["recovered"], resumed["reason"]) == (False, "epoch_changed")
            assert resumed["document"]["state"] == {"kept": True, "n": 1}
            assert await connection.run("HGET", "hub:ctx:{c}", "epoch") == snapshot["epoch"].encode()
            await connection.close()


async def test_workers_keep_their_runs(people: People) -> None:
    """The record is killed under a run: the worker writes on, and the run ends as it should."""
    embedded: Any = people.server._home._embedded  # type: ignore[union-attr]
    op, worker = await people.operator(), await people.operator("msgpack")
    await op.ok("context.create", id="c", agent="bot")
    await worker.ok("agent.serve", agent="bot", capacity=1)
    await op.ok("message", context="c", text="work")
    run = (await worker.next("run.start"))["run"]
    pid = embedded.pid
    os.kill(pid, signal.SIGKILL)

    async def write(n: int, ops: list[dict[str, Any]]) -> None:
        while not (reply := await worker.ask("apply", context="c", ops=ops, run=run, key=f"w/{n}"))["ok"]:
            assert reply["error"]["code"] == "unavailable"

    await write(1, [{"op": "run.set", "status": "running"}, {"op": "log.add", "type": "info", "content": "on"}])
    await write(2, [{"op": "run.set", "status": "finished"}])
    await op.ok("message", context="c", text="more")
    await worker.until(lambda: len(worker.runs) == 2)
    assert worker.runs[1]["messages"][0]["text"] == "more"
