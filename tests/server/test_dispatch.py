"""Runs: which worker gets which message, stop, pause, reset, nudge, and what becomes of runs whose worker is gone."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hub.node import dispatch as dispatch_module
from hub.node.settings import Settings
from hub.record import memory_extras
from tests.clients import Client, People, serving
from tests.support import until

GRACE = 0.4


@pytest.fixture(params=["memory", "embedded"])
async def people(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[People]:
    settings = Settings(run_grace=GRACE, stop_grace=GRACE)
    async with serving(tmp_path / "hub", record=request.param, settings=settings) as people:
        yield people


@pytest.fixture
async def op(people: People) -> Client:
    op = await people.operator()
    await op.ok("context.create", id="c", agent="bot")
    return op


async def worker_of(people: People, capacity: int = 1, agent: str = "bot", **more: Any) -> Client:
    worker = await people.operator("msgpack")
    await worker.ok("agent.serve", agent=agent, capacity=capacity, **more)
    return worker


async def run_set(worker: Client, run: dict[str, Any], status: str, *ops: dict[str, Any], context: str = "c") -> Any:
    ops = (*ops, {"op": "run.set", "status": status})
    return await worker.ok("apply", context=context, ops=list(ops), run=run)


async def document(op: Client, context: str = "c") -> dict[str, Any]:
    got: dict[str, Any] = (await op.ok("context.get", context=context))["document"]
    return got


async def ended(op: Client, status: str, context: str = "c") -> dict[str, Any]:
    """The context's document once its run has this status."""

    async def fits() -> dict[str, Any] | None:
        got = await document(op, context)
        return got if got["run"] and got["run"]["status"] == status else None

    found: dict[str, Any] = await until(fits, f"a run that is {status}")
    return found


async def test_from_message_to_finish(people: People, op: Client) -> None:
    sent = await op.ok("message", context="c", text="hello")
    worker = await worker_of(people)
    start = await worker.next("run.start")
    assert start["context"] == "c"
    assert start["attempt"] == 1
    assert [(item["id"], item["text"]) for item in start["messages"]] == [(sent["id"], "hello")]
    got = await document(op)
    assert (got["running"], got["queue"], got["run"]["status"]) == (True, [], "starting")
    assert got["run"]["worker"] == (await worker.ok("agent.serve", agent="bot", capacity=1))["worker"]
    at = start["position"]
    reply = await worker.ok("subscribe", topic="context:c", deliver="patch", from_=at)
    assert reply["recovered"], "a run starts at a position that the worker can go on from"
    await run_set(worker, start["run"], "running")
    await run_set(worker, start["run"], "finished", {"op": "log.add", "type": "response", "content": "done"})
    got = await document(op)
    assert (got["running"], got["run"]["status"], got["run"]["messages"]) == (False, "finished", [])
    entries = (await op.ok("subscribe", topic="context:c"))["entries"]
    assert [(entry["type"], entry["content"]) for entry in entries] == [("user", "hello"), ("response", "done")]
    assert worker.controls == []


async def test_a_message_is_offered_before_it_is_kept(people: People, op: Client) -> None:
    """What must be found later is written first: a crash in between leaves an item too many, not a message unheard."""
    record: Any = people.server.node.record
    offer, append, written = record.offer, record.append, list[str]()

    async def offering(agent: str, context: str) -> None:
        await offer(agent, context)
        written.append(f"{context} for {agent}")

    async def appending(appends: Any) -> Any:
        written.extend(one.context for one in appends)
        return await append(appends)

    record.offer, record.append = offering, appending
    await op.ok("message", context="c", text="hello")
    assert written == ["c for bot", "c"]


async def test_capacity(people: People, op: Client) -> None:
    for n in range(5):
        await op.ok("context.create", id=f"c{n}", agent="bot")
        await op.ok("message", context=f"c{n}", text=str(n))
    worker = await worker_of(people, 2)
    await worker.until(lambda: len(worker.runs) == 2)
    for done in range(3):
        start = worker.runs[done]
        assert sum([(await document(op, f"c{n}"))["running"] for n in range(5)]) == 2
        await run_set(worker, start["run"], "finished", context=start["context"])
        await worker.until(lambda: len(worker.runs) == done + 3)  # noqa: B023 - waited for right here
    assert Counter(run["context"] for run in worker.runs) == Counter(f"c{n}" for n in range(5))


async def test_two_workers_share(people: People, op: Client) -> None:
    first, second = await worker_of(people, 3), await worker_of(people, 3)
    for n in range(6):
        await op.ok("context.create", id=f"c{n}", agent="bot")
        await op.ok("message", context=f"c{n}", text=str(n))
    await until(lambda: len(first.runs) + len(second.runs) == 6)
    assert len(first.runs) == 3
    contexts = [run["context"] for run in first.runs + second.runs]
    assert sorted(contexts) == [f"c{n}" for n in range(6)]


async def test_serving_again_changes_the_capacity(people: People, op: Client) -> None:
    worker = await worker_of(people, 0)
    await op.ok("message", context="c", text="hello")
    assert (await people.operator()).kind
    await op.ok("contexts.page")
    assert worker.runs == []
    for _ in range(3):
        await worker.ok("agent.serve", agent="bot", capacity=1)
    await worker.next("run.start")
    dispatch: Any = people.server.node.dispatch
    assert len(dispatch._workers._serving["bot"]) == 1
    await worker.close()
    await until(lambda: dispatch.agents == [])
    assert not dispatch._workers._serving


async def test_a_worker_without_room_says_busy(people: People, op: Client) -> None:
    worker = await worker_of(people)
    refusals = [{"ok": False, "error": {"code": "busy", "message": "no room", "retryable": True}}]
    worker.answer_run = lambda run: refusals.pop() if refusals else {"ok": True}
    await op.ok("message", context="c", text="hello")
    await worker.until(lambda: len(worker.runs) == 2)
    assert [run["attempt"] for run in worker.runs] == [1, 2]
    assert worker.runs[0]["messages"][0]["id"] == worker.runs[1]["messages"][0]["id"]
    assert worker.runs[0]["run"]["fence"] < worker.runs[1]["run"]["fence"]
    await run_set(worker, worker.runs[1]["run"], "finished")
    await worker.refused("apply", "run_lost", context="c", ops=[], run=worker.runs[0]["run"])
    entries = (await op.ok("subscribe", topic="context:c"))["entries"]
    assert [entry["content"] for entry in entries] == ["hello"], "the message shows once"
    assert worker.controls == []


async def test_a_run_that_is_refused_for_good(people: People, op: Client) -> None:
    worker = await worker_of(people)
    error = {"code": "invalid_request", "message": "cannot do that", "retryable": False}
    worker.answer_run = lambda run: {"ok": False, "error": error}
    await op.ok("message", context="c", text="hello")
    got = await ended(op, "failed")
    assert got["run"]["error"] == "cannot do that"
    assert got["running"] is False
    assert len(worker.runs) == 1


async def test_stop_is_told_once_and_obeyed(people: People, op: Client) -> None:
    worker = await worker_of(people)
    await op.ok("message", context="c", text="hello")
    run = (await worker.next("run.start"))["run"]
    await run_set(worker, run, "running")
    await asyncio.gather(*(op.ok("control", context="c", action="stop") for _ in range(3)))
    order = await worker.next("run.control")
    assert order == {"context": "c", "run": run, "action": "stop"}
    assert (await document(op))["run"]["status"] == "stopping"
    await run_set(worker, run, "stopped")
    await ended(op, "stopped")
    await op.ok("message", context="c", text="next")
    await worker.until(lambda: len(worker.runs) == 2)
    assert len(worker.controls) == 1


async def test_a_stop_that_is_not_obeyed(people: People, op: Client) -> None:
    worker = await worker_of(people)
    await op.ok("message", context="c", text="hello")
    run = (await worker.next("run.start"))["run"]
    await op.ok("control", context="c", action="stop")
    got = await ended(op, "stopped")
    assert "did not stop in time" in got["run"]["error"]
    assert len(worker.controls) == 1
    await worker.refused("apply", "run_lost", context="c", ops=[{"op": "state.incr", "path": "/n"}], run=run)


async def test_reset_while_it_runs(people: People, op: Client) -> None:
    worker = await worker_of(people)
    await op.ok("apply", context="c", ops=[{"op": "state.merge", "value": {"kept": 1}}])
    await op.ok("message", context="c", text="hello")
    run = (await worker.next("run.start"))["run"]
    await op.ok("message", context="c", text="waits")
    await run_set(worker, run, "running", {"op": "log.add", "type": "info", "content": "old"})
    await op.ok("control", context="c", action="reset")
    await worker.refused(
        "apply", "run_lost", context="c", ops=[{"op": "log.add", "type": "info", "content": "late"}], run=run
    )
    assert (await worker.next("run.control"))["action"] == "stop"
    await worker.until(lambda: len(worker.runs) == 2)
    got = await document(op)
    assert got["state"] == {"kept": 1}
    entries = (await op.ok("subscribe", topic="context:c"))["entries"]
    assert [entry["content"] for entry in entries] == ["waits"], "of the old run nothing shows any more"


async def test_pause_keeps_the_queue(people: People, op: Client) -> None:
    worker = await worker_of(people)
    await op.ok("control", context="c", action="pause")
    await op.ok("message", context="c", text="one")
    await op.ok("message", context="c", text="two")
    await op.ok("context.create", id="d", agent="bot")
    await op.ok("message", context="d", text="unpaused")
    assert (await worker.next("run.start"))["context"] == "d"
    got = await document(op)
    assert [item["text"] for item in got["queue"]] == ["one", "two"]
    assert got["run"] is None
    await run_set(worker, worker.runs[0]["run"], "finished", context="d")
    await op.ok("control", context="c", action="resume")
    await worker.until(lambda: len(worker.runs) == 2)
    assert worker.runs[1]["messages"][0]["text"] == "one"


async def test_messages_are_handled_in_their_order(people: People, op: Client) -> None:
    worker = await worker_of(people)
    for n in range(10):
        await op.send("message", {"context": "c", "text": str(n)})
    for n in range(10):
        await worker.until(lambda: len(worker.runs) == n + 1)  # noqa: B023 - waited for right here
        await run_set(worker, worker.runs[n]["run"], "finished")
    assert [run["messages"][0]["text"] for run in worker.runs] == [str(n) for n in range(10)]
    fences = [run["run"]["fence"] for run in worker.runs]
    assert fences == sorted(set(fences))


async def test_a_hundred_contexts(people: People, op: Client) -> None:
    """Each message handled once, whoever gets it."""
    workers = [await worker_of(people, 7) for _ in range(3)]

    async def work(worker: Client, run: dict[str, Any]) -> dict[str, Any]:
        asyncio.get_running_loop().call_soon(asyncio.ensure_future, finish(worker, run))
        return {"ok": True}

    async def finish(worker: Client, run: dict[str, Any]) -> None:
        await run_set(worker, run["run"], "finished", context=run["context"])

    for worker in workers:
        worker.answer_run = lambda run, worker=worker: work(worker, run)  # type: ignore[misc]
    await asyncio.gather(*(op.ok("context.create", id=f"c{n}", agent="bot") for n in range(100)))
    sent = await asyncio.gather(
        *(op.ok("message", context=f"c{n}", text=f"{n} {m}") for n in range(100) for m in range(2))
    )
    await until(lambda: sum(len(worker.runs) for worker in workers) >= 200, "all runs")
    handled = Counter(run["messages"][0]["id"] for worker in workers for run in worker.runs)
    assert handled == Counter(reply["id"] for reply in sent)

    async def idle() -> bool:
        rows = (await op.ok("contexts.page", limit=500))["rows"]
        return not any(row["running"] for row in rows)

    await until(idle)
    assert sum(len(worker.runs) for worker in workers) == 200
    dispatch: Any = people.server.node.dispatch
    runs = dispatch._runs
    assert (dispatch.runs, len(runs.ends), len(runs._coming)) == (0, 0, 0)
    assert not dispatch._workers._held
    await until(lambda: not runs.notes._noted, "notes of runs")
    assert not dispatch._offers._made


async def test_a_worker_that_goes_away(people: People, op: Client) -> None:
    worker = await worker_of(people)
    await op.ok("message", context="c", text="hello")
    first = await worker.next("run.start")
    await run_set(worker, first["run"], "running", {"op": "log.add", "type": "info", "content": "half"})
    worker.drop()
    got = await ended(op, "interrupted")
    assert "went away" in got["run"]["error"]
    assert got["queue"] == []
    again = await worker_of(people)
    await op.ok("control", context="c", action="nudge")
    second = await again.next("run.start")
    assert second["attempt"] == 2
    assert [item["id"] for item in second["messages"]] == [item["id"] for item in first["messages"]]
    lost = await people.operator()
    runs = [{"context": "c", "run": first["run"]}]
    assert (await lost.ok("agent.serve", agent="bot", capacity=0, runs=runs))["lost"] == runs


async def test_a_worker_that_comes_back_in_time(people: People, op: Client) -> None:
    worker = await worker_of(people)
    await op.ok("message", context="c", text="hello")
    run = (await worker.next("run.start"))["run"]
    await run_set(worker, run, "running")
    worker.drop()
    held = [{"context": "c", "run": run}, {"context": "gone", "run": run}]
    back = await people.operator()
    assert (await back.ok("agent.serve", agent="bot", capacity=1, runs=held))["lost"] == [held[1]]
    await asyncio.sleep(2 * GRACE)  # the grace must be over without an effect
    assert (await document(op))["run"]["status"] == "running"
    await op.ok("control", context="c", action="stop")
    assert (await back.next("run.control"))["run"] == run
    await run_set(back, run, "stopped")
    assert not worker.controls


async def test_a_stop_while_its_worker_is_away(people: People, op: Client) -> None:
    worker = await worker_of(people)
    await op.ok("message", context="c", text="hello")
    run = (await worker.next("run.start"))["run"]
    worker.drop()
    await until(lambda: people.server.sockets.count == 1)
    await op.ok("control", context="c", action="stop")
    await ended(op, "stopped")
    back = await people.operator()
    runs = [{"context": "c", "run": run}]
    assert (await back.ok("agent.serve", agent="bot", capacity=1, runs=runs))["lost"] == runs


async def test_a_run_whose_acknowledgement_was_lost(people: People, op: Client) -> None:
    """The worker has the run, and drops before it says so; it comes back with it, and keeps it."""
    worker, gate = await worker_of(people), asyncio.Event()

    async def silent(run: dict[str, Any]) -> dict[str, Any]:
        await gate.wait()
        return {"ok": True}

    worker.answer_run = silent
    await op.ok("message", context="c", text="hello")
    run = (await worker.next("run.start"))["run"]
    worker.drop()
    back = await worker_of(people, runs=[{"context": "c", "run": run}])
    await asyncio.sleep(2 * GRACE)
    await run_set(back, run, "running")
    await run_set(back, run, "finished")
    gate.set()
    await op.ok("message", context="c", text="next")
    await back.until(lambda: len(back.runs) == 1)
    assert back.runs[0]["attempt"] == 1


async def test_removal_while_it_runs(people: People, op: Client) -> None:
    worker = await worker_of(people)
    await op.ok("message", context="c", text="hello")
    run = (await worker.next("run.start"))["run"]
    await op.ok("context.remove", context="c")
    assert await worker.next("run.control") == {"context": "c", "run": run, "action": "stop"}
    reply = await worker.ask("apply", context="c", ops=[{"op": "log.add", "type": "info"}], run=run)
    assert reply["error"]["code"] in ("removed", "not_found")
    await op.ok("context.create", id="d", agent="bot")
    await op.ok("message", context="d", text="next")
    await worker.until(lambda: len(worker.runs) == 2)


async def test_a_context_that_gets_another_agent(people: People, op: Client) -> None:
    await op.ok("message", context="c", text="hello")
    await op.ok("context.update", context="c", agent="other")
    old, new = await worker_of(people), await worker_of(people, agent="other")
    assert (await new.next("run.start"))["context"] == "c"
    await op.ok("context.create", id="d", agent="bot")
    await op.ok("message", context="d", text="mine")
    assert (await old.next("run.start"))["context"] == "d"
    assert len(old.runs) == len(new.runs) == 1


@pytest.mark.parametrize("people", ["memory"], indirect=True)
async def test_work_goes_only_to_workers_whose_token_covers_it(
    people: People, op: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_extras, "AGAIN_SECONDS", 0.3)  # until an item that nobody could take comes again
    await op.ok("context.create", id="proj-1", agent="bot")
    stranger = await people.agent("else-*")
    await stranger.ok("agent.serve", agent="bot", capacity=5)
    await op.ok("message", context="proj-1", text="secret")
    await op.ok("context.create", id="else-1", agent="bot")
    await op.ok("message", context="else-1", text="open")
    assert (await stranger.next("run.start"))["context"] == "else-1"
    covering = await people.agent("proj-*")
    await covering.ok("agent.serve", agent="bot", capacity=5)
    assert (await covering.next("run.start"))["context"] == "proj-1"
    assert "secret" not in str(stranger.events)
    held = [{"context": "proj-1", "run": covering.runs[0]["run"]}]
    assert (await stranger.ok("agent.serve", agent="bot", capacity=5, runs=held))["lost"] == held


async def test_a_run_of_ones_own(people: People, op: Client) -> None:
    agent = await people.agent("c")
    opened = await agent.ok("run.open", context="c", key="w/1")
    await agent.refused("apply", "run_required", context="c", ops=[{"op": "state.incr", "path": "/n"}])
    await agent.refused("run.open", "invalid_request", context="c")
    await agent.ok("apply", context="c", ops=[{"op": "state.incr", "path": "/n"}], run=opened["run"])
    await op.ok("control", context="c", action="stop")
    assert (await agent.next("run.control"))["run"] == opened["run"]
    await run_set(agent, opened["run"], "stopped")
    second = await agent.ok("run.open", context="c")
    agent.drop()
    got = await ended(op, "interrupted")
    assert got["run"]["id"] == second["run"]["id"]


@pytest.mark.parametrize("people", ["memory"], indirect=True)
async def test_agents_that_nobody_serves_any_more_leave_nothing(
    people: People, op: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch_module, "TAKE_SECONDS", 0.2)
    dispatch: Any = people.server.node.dispatch
    worker = await people.operator()
    for n in range(20):
        await worker.ok("agent.serve", agent=f"agent{n}", capacity=1)
    assert len(dispatch.agents) == 20
    await worker.close()
    await until(lambda: not dispatch._loops and not dispatch._room and not dispatch.agents, "the loops' ends")
    back = await worker_of(people, agent="agent3")
    await op.ok("context.create", id="late", agent="agent3")
    await op.ok("message", context="late", text="hello")
    assert (await back.next("run.start"))["context"] == "late"
