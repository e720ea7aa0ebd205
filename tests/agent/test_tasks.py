"""Tasks and controls: semantics 19 to 25 and 30."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from hub import AgentConfig, AgentContext, DeferredTask, InvalidRequest, NotFound, RunLost, RunStopped, UserMessage
from hub.agent.current import run_of
from tests.support import until, wait_until

QUICK = AgentConfig(stop_grace=0.3)


async def test_19_coroutines_and_plain_functions() -> None:
    ctx = AgentContext()
    assert not ctx.task
    assert not ctx.is_running()

    async def add(a: int, b: int) -> int:
        await asyncio.sleep(0)
        assert AgentContext.current() is ctx
        assert ctx.is_running()
        return a + b

    task = ctx.run_task(add, 1, b=2)
    assert isinstance(task, DeferredTask)
    assert ctx.task == task
    assert await task.result() == 3
    assert not task.is_alive()
    assert not ctx.is_running()
    assert await ctx.run_task(lambda: threading.current_thread().name).result() == f"task {ctx.id}"
    assert await ctx.run_task(add(3, 4)).result() == 7
    assert ctx.document()["run"]["status"] == "finished"
    assert ctx.document()["run"]["fence"] == 3


def test_19_the_run_shows_at_once() -> None:
    ctx, go = AgentContext(), threading.Event()
    task = ctx.run_task(go.wait)
    assert ctx.is_running()
    assert ctx.document()["run"]["status"] == "running"
    with pytest.raises(InvalidRequest):
        ctx.run_task(go.wait)
    go.set()
    assert task.result_sync(5) is True
    assert ctx.output()["running"] is False


def test_20_a_blocking_one_delays_nobody() -> None:
    go = threading.Event()

    async def blocks() -> None:
        go.wait()

    blocked = [AgentContext().run_task(work) for work in (blocks, go.wait)]
    begun = time.monotonic()
    assert AgentContext().run_task(asyncio.sleep, 0).result_sync(5) is None
    assert time.monotonic() - begun < 2
    assert all(task.is_alive() for task in blocked)
    go.set()
    for task in blocked:
        task.result_sync(5)


def test_21_a_coroutine_is_cancelled_and_awaited() -> None:
    ctx, other, order = AgentContext(), AgentContext(), []
    go = threading.Event()

    async def work(name: str) -> None:
        order.append(f"{name} begins")
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            order.append(f"{name} cleaned up")

    bystander = other.run_task(go.wait)
    first = ctx.run_task(work, "first")
    wait_until(lambda: order)
    ctx.kill_process()
    assert not first.is_alive()
    assert not ctx.is_running()
    assert ctx.document()["run"]["status"] == "stopped"
    second = ctx.run_task(work, "second")
    wait_until(lambda: len(order) == 3)
    assert order == ["first begins", "first cleaned up", "second begins"]
    second.kill()
    with pytest.raises(RunStopped):
        first.result_sync(1)
    assert bystander.is_alive()
    go.set()
    bystander.result_sync(5)


async def test_21_on_an_event_loop_nothing_blocks() -> None:
    ctx, order = AgentContext(), []

    async def work(name: str) -> None:
        order.append(name)
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            order.append(f"{name} ended")

    task = ctx.run_task(work, "one")
    await until(lambda: order)
    ended = ctx.kill_process()
    next_one = ctx.run_task(work, "two")  # waits for the end of the first
    await ended
    assert not task.is_alive()
    await until(lambda: len(order) == 3)
    assert order == ["one", "one ended", "two"]
    await next_one.kill()
    assert not ctx.is_running()


def test_21_a_plain_function_that_ignores_it_is_reported_and_fenced() -> None:
    ctx, go, late = AgentContext(QUICK), threading.Event(), []

    def work() -> None:
        ctx.log.log("info", "before")
        go.wait()
        try:
            ctx.log.log("info", "late")
        except RunLost as error:
            late.append(error)

    task = ctx.run_task(work)
    wait_until(lambda: len(ctx.log) == 1)
    ctx.kill_process()
    assert not task.is_alive()
    assert not ctx.is_running()
    assert ctx.log.entries()[-1].type == "warning"
    run = ctx.document()["run"]
    assert run["status"] == "stopped"
    assert "did not end" in run["error"]
    with pytest.raises(RunStopped):
        task.result_sync(1)
    ctx.run_task(lambda: ctx.log.log("info", "next")).result_sync(5)
    go.set()
    wait_until(lambda: late)
    assert [entry.heading for entry in ctx.log.entries()] == ["before", "Task did not stop", "next"]


def test_21_a_plain_function_that_obeys() -> None:
    ctx = AgentContext()

    def at_checkpoints() -> None:
        while True:
            ctx.wait_checkpoint()
            time.sleep(0.001)

    task = ctx.run_task(at_checkpoints)
    ctx.kill_process()
    assert not task.is_alive()
    run = ctx.document()["run"]
    assert (run["status"], run.get("error")) == ("stopped", None)
    assert len(ctx.log) == 0


def test_21_all_tasks_of_the_run_end() -> None:
    ctx, alive = AgentContext(), []

    async def child(number: int) -> None:
        alive.append(number)
        try:
            await asyncio.sleep(60)
        finally:
            alive.remove(number)

    async def work() -> None:
        assert ctx.run_task(child, 0).shared
        loose = [asyncio.create_task(child(number)) for number in range(1, 5)]
        await asyncio.gather(*loose)

    ctx.run_task(work)
    wait_until(lambda: len(alive) == 5)
    ctx.kill_process()
    assert alive == []
    assert not ctx.is_running()


def test_22_an_exception_becomes_an_entry_and_ends_the_run() -> None:
    ctx = AgentContext()

    async def fails() -> None:
        raise ValueError("no good")

    task = ctx.run_task(fails)
    with pytest.raises(ValueError, match="no good"):
        task.result_sync(5)
    entry = ctx.log.entries()[-1]
    assert (entry.type, entry.heading, entry.kvps) == ("error", "ValueError: no good", {"error": "ValueError"})
    run = ctx.document()["run"]
    assert (run["status"], run["error"]) == ("failed", "ValueError: no good")
    assert not ctx.is_running()


def test_22_an_exception_that_nobody_takes() -> None:
    ctx = AgentContext()

    async def background() -> None:
        raise ValueError("in the background")

    async def work() -> None:
        asyncio.get_running_loop().call_soon(lambda: _leave(background()))
        await asyncio.sleep(60)

    with pytest.raises(ValueError, match="in the background"):
        ctx.run_task(work).result_sync(5)
    assert [entry.type for entry in ctx.log.entries()] == ["error"]
    assert ctx.document()["run"]["status"] == "failed"


def _leave(coroutine: object) -> None:
    asyncio.get_running_loop().create_task(coroutine)  # type: ignore[arg-type]


def test_22_an_exception_in_a_task_of_a_task() -> None:
    ctx = AgentContext()

    def child() -> None:
        raise ValueError("child")

    async def work() -> None:
        ctx.run_task(child)
        await asyncio.sleep(60)

    with pytest.raises(RunStopped):
        ctx.run_task(work).result_sync(5)
    assert [entry.heading for entry in ctx.log.entries()] == ["ValueError: child"]
    assert ctx.document()["run"]["status"] == "failed"


def test_23_messages_queue_up() -> None:
    ctx = AgentContext(user_id="anna")
    go = threading.Event()
    task = ctx.run_task(go.wait)
    ids = [ctx.communicate(UserMessage(f"m{n}", [{"id": "u1", "name": "a.csv", "size": 3}])) for n in range(3)]
    queue = ctx.message_queue
    assert [item["text"] for item in queue] == ["m0", "m1", "m2"]
    assert [item["id"] for item in queue] == ids
    assert queue[0]["attachments"] == [{"id": "u1", "name": "a.csv", "size": 3, "type": ""}]
    queue.edit(ids[1], "edited")
    queue.remove(ids[0])
    assert [item["text"] for item in queue] == ["edited", "m2"]
    queue.send_next(ids[2])
    assert queue[0]["text"] == "m2"
    queue.send_all()
    assert [item["text"] for item in queue] == ["m2\n\nedited"]
    queue[0]["text"] = "changed"
    assert queue[0]["text"] == "m2\n\nedited"
    with pytest.raises(NotFound):
        queue.edit("unknown", "x")
    with pytest.raises(InvalidRequest):
        queue.add("  ")
    with pytest.raises(InvalidRequest):
        queue.add("x", [{"no": "id"}])
    queue.clear()
    assert len(queue) == 0
    go.set()
    task.result_sync(5)


def test_24_reset() -> None:
    ctx = AgentContext(name="N", data={"a": 1}, output_data={"b": 2}, state={"c": 3})
    ctx.session_context.save(goal="g")
    ctx.message_queue.add("m")
    ctx.log.log("info", "x")
    before = ctx.document()
    task = ctx.run_task(asyncio.sleep, 60)
    ctx.reset()
    assert not task.is_alive()
    assert not ctx.is_running()
    after = ctx.document()
    kept = ("id", "name", "output", "state", "session_context", "queue", "created_at", "user_id")
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert ctx.data == {"a": 1}
    assert len(ctx.log) == 0
    assert after["progress"] == {"text": "", "entry": None, "active": False}


def test_24_clear_in_mid_run_leaves_nothing_of_the_old_run() -> None:
    ctx = AgentContext()

    async def work(number: int) -> None:
        while True:
            ctx.log.log("info", str(number))
            await asyncio.sleep(0)

    for number in range(30):
        ctx.run_task(work, number)
        wait_until(lambda: len(ctx.log) > 1)
        ctx.reset()
        assert len(ctx.log) == 0


def test_a_coroutine_that_is_stopped_before_it_began_is_closed() -> None:
    ctx, made = AgentContext(), list[Coroutine[Any, Any, None]]()

    async def work() -> None:
        made.clear()

    def begin() -> Coroutine[Any, Any, None]:
        assert ctx.task is not None
        ctx.task.ask_to_stop()
        made.append(work())
        return made[0]

    task = ctx.run_task(begin)
    with pytest.raises(RunStopped):
        task.result_sync(5)
    assert inspect.getcoroutinestate(made[0]) == inspect.CORO_CLOSED


def test_25_pausing_takes_effect_at_the_next_checkpoint() -> None:
    ctx, steps = AgentContext(), []

    async def work() -> None:
        for number in range(1000):
            await ctx.checkpoint()
            steps.append(number)
            if number == 3:
                ctx.pause()

    task = ctx.run_task(work)
    wait_until(lambda: ctx.paused and steps == [0, 1, 2, 3])
    assert ctx.output()["paused"] is True
    assert steps == [0, 1, 2, 3]
    ctx.paused = False
    assert task.result_sync(5) is None
    assert len(steps) == 1000


def test_25_a_plain_function_pauses_and_is_stopped_meanwhile() -> None:
    ctx, reached = AgentContext(paused=True), threading.Event()

    def work() -> None:
        reached.set()
        ctx.wait_checkpoint()

    task = ctx.run_task(work)
    reached.wait(5)
    ctx.kill_process()
    assert not task.is_alive()
    assert ctx.document()["run"]["status"] == "stopped"


def test_25_nudge() -> None:
    ctx = AgentContext(paused=True)
    ctx.nudge()
    assert not ctx.paused


def test_30_a_process_of_its_own() -> None:
    ctx = AgentContext(type="task")

    def job() -> str:
        run = run_of(ctx.id)
        assert run is not None
        ctx.log.log("info", "at work")
        return run.id

    assert ctx.run_task(job).result_sync(5) == ctx.document()["run"]["id"]
    assert [entry.heading for entry in ctx.log.entries()] == ["at work"]
    assert AgentContext.remove(ctx.id) is ctx


async def test_waits_of_threads_are_refused_at_once_on_an_event_loop() -> None:
    ctx = AgentContext(paused=True)
    task = ctx.run_task(asyncio.sleep, 0)
    for wait, twin in (
        (lambda: ctx.wait_flush(), "await flush()"),
        (lambda: ctx.wait_checkpoint(), "await checkpoint()"),
        (lambda: task.result_sync(), "await result()"),
        (lambda: task.kill().wait(), "await what kill()"),
    ):
        with pytest.raises(InvalidRequest, match=re.escape(twin)):
            wait()
    await asyncio.to_thread(ctx.wait_flush, 5)
