"""Runs that are stopped, cleared or left behind, and threads that write at once: agents in processes of their own, a real
hub, stock clients that look on."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.clients import Client, Follower, Talk
from tests.support import HubProcess, until
from tests.trials.agent_process import ENTRIES, PIECES, SILENCE, THREADS, AgentProcess
from tests.trials.stock import stock

memory = pytest.mark.parametrize("hub_process", ["memory"], indirect=True)


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


async def join(stack: AsyncExitStack, server: HubProcess, kind: str = "websocket") -> Client:
    client = Client(server.url, server.token, kind)
    stack.push_async_callback(client.close)
    return await client.connect()


async def process(stack: AsyncExitStack, server: HubProcess, kind: str) -> AgentProcess:
    return await stack.enter_async_context(AgentProcess.begun(server.url, server.token, kind))


async def run_of(op: Client, id: str) -> dict[str, Any]:
    run: dict[str, Any] = (await op.ok("context.get", context=id))["document"]["run"]
    return run


def parts_of(viewer: Talk, id: str) -> list[dict[str, Any]]:
    """All that a viewer was sent of the log and, in patch mode, of the document, in order."""
    events = [event for event in viewer.of("change", "log") if event["topic"] == f"context:{id}"]
    return [part for event in events for part in event["parts"]]


def added(parts: list[dict[str, Any]]) -> list[str]:
    return [part["entry"]["heading"] for part in parts if part["kind"] == "log.add"]


# -------------------------------------------------------------------------------------------- T6: five tasks, one stop


def is_told(part: dict[str, Any], status: str) -> bool:
    """Whether a part of a change says that the run has come to a status."""
    operations: list[dict[str, Any]] = part["ops"] if part["kind"] == "patch" else []
    return {"/run/status": status}.items() <= {op["path"]: op.get("value") for op in operations}.items()


@memory
async def test_five_tasks_and_one_stop(hub_process: HubProcess, stack: AsyncExitStack) -> None:
    """Trial T6: all five end, and nothing that they write comes after the end of the run."""
    agent = await process(stack, hub_process, "five")
    op, viewer = await join(stack, hub_process), await join(stack, hub_process, "msgpack")
    await op.ok("context.create", id="c", agent="five")
    await viewer.ok("subscribe", topic="context:c", deliver="patch")
    await op.ok("message", context="c", text="go")
    await viewer.until(lambda: set(PIECES) <= set(added(parts_of(viewer, "c"))))
    run = await run_of(op, "c")
    assert set(PIECES) <= set(await agent.ask("alive")), "all five are at work"

    await viewer.ok("control", context="c", action="stop")
    await viewer.until(lambda: any(is_told(part, "stopped") for part in parts_of(viewer, "c")))
    ended = await run_of(op, "c")
    assert (ended["id"], ended["status"], ended.get("error")) == (run["id"], "stopped", None)

    async def none_left() -> bool:
        return not await agent.ask("alive")

    await until(none_left, "the end of all five", 5)
    assert await agent.ask("late") == dict.fromkeys(PIECES, "run_lost")
    held = {"id": run["id"], "fence": run["fence"]}
    await op.refused("apply", "run_lost", context="c", ops=[{"op": "log.add", "type": "info"}], run=held)

    end = await op.ok("context.get", context="c")
    await viewer.ok("apply", context="c", ops=[{"op": "log.add", "type": "info", "heading": "the last"}])
    await viewer.until(lambda: "the last" in added(parts_of(viewer, "c")))
    parts = parts_of(viewer, "c")
    at = next(n for n, part in enumerate(parts) if is_told(part, "stopped"))
    assert added(parts[at:]) == ["the last"], "no entry after the end of the run"
    assert len(added(parts[:at])) == end["document"]["log"]["length"]


# --------------------------------------------------------------------------------------- T7: kill -9 of an agent process

GRACE = 1.5


async def test_an_agent_process_is_killed(tmp_path: Path, stack: AsyncExitStack) -> None:
    """Trial T7: its run is interrupted within the time-out; another process's, silent for much longer, goes on and finishes."""
    assert SILENCE > 2 * GRACE
    server = stack.enter_context(HubProcess(tmp_path, HUB_RUN_GRACE=str(GRACE)))
    dies, lives = await process(stack, server, "dies"), await process(stack, server, "silent")
    op = await join(stack, server)
    viewers = [await join(stack, server, kind) for kind in ("websocket", "msgpack", "polling")]
    for id, agent in (("dead", "dies"), ("long", "silent")):
        await op.ok("context.create", id=id, agent=agent)
        for viewer in viewers:
            await viewer.ok("subscribe", topic=f"context:{id}", deliver="patch")
    await op.ok("message", context="dead", text="work")
    for viewer in viewers:
        await viewer.until(lambda: len(added(parts_of(viewer, "dead"))) > 3)  # noqa: B023 - waited for right here
    await op.ok("message", context="long", text="work")
    await viewers[0].until(lambda: "begun" in added(parts_of(viewers[0], "long")))

    dies.process.kill()
    killed = time.monotonic()
    for viewer in viewers:
        await viewer.until(lambda: any(is_told(part, "interrupted") for part in parts_of(viewer, "dead")))  # noqa: B023
    took = time.monotonic() - killed
    assert GRACE - 0.1 < took < GRACE + 2, f"{took:.2f} s"
    dead = (await op.ok("context.get", context="dead"))["document"]
    assert (dead["running"], dead["run"]["status"]) == (False, "interrupted")
    assert "went away" in dead["run"]["error"]

    for viewer in viewers:
        await viewer.until(lambda: any(is_told(part, "finished") for part in parts_of(viewer, "long")))  # noqa: B023
        assert not any(is_told(part, "interrupted") for part in parts_of(viewer, "long"))
        assert added(parts_of(viewer, "long"))[-1] == "done"
    assert time.monotonic() - killed > 2 * GRACE
    assert (await run_of(op, "long"))["attempt"] == 1
    assert lives.process.returncode is None


# ------------------------------------------------------------------------------------------------ T8: clear in mid-run

RESETS = 100


class Onlooker:
    """Somebody who looks on, and what of the log it was shown: each entry is of the run that its heading or text numbers."""

    def __init__(self, viewer: Talk) -> None:
        self.viewer = viewer
        self.resets = self.entries = self.appends = 0
        self._ids: set[str] = set()
        self._read = 0

    def read(self) -> None:
        """Take what came since. After so many resets everything is of the run of that number."""
        while self._read < len(self.viewer.events):
            name, event = self.viewer.events[self._read]
            self._read += 1
            if name in ("change", "log", "snapshot"):
                assert event.get("recovered") is not False, "it was let begin anew, so it did not see everything"
            if name in ("change", "log"):
                for part in event["parts"]:
                    self._see(part)

    def _see(self, part: dict[str, Any]) -> None:
        if part["kind"] == "log.reset":
            self.resets += 1
            self.entries = self.appends = 0
            self._ids.clear()
        elif part["kind"] == "log.add":
            entry = part["entry"]
            number = entry["heading"] or entry["content"].split()[0]
            assert entry["type"] in ("user", "response", "info", "warning"), entry
            assert number == str(self.resets), f"after {self.resets} resets: {entry}"
            self._ids.add(entry["id"])
            self.entries += entry["type"] == "info"
        elif part["kind"] in ("log.append", "log.update"):
            assert part["id"] in self._ids, f"after {self.resets} resets: {part}"
            assert set(part.get("text", "").split()) <= {str(self.resets)}, f"after {self.resets} resets: {part}"
            self.appends += part["kind"] == "log.append"

    async def saw(self, resets: int, entries: int = 0, appends: int = 0) -> None:
        """Wait until it was shown so much."""

        def has() -> bool:
            self.read()
            return self.resets == resets and self.entries >= entries and self.appends >= appends

        await self.viewer.until(has)


@memory
@pytest.mark.parametrize("kind", ["obeys", pytest.param("ignores", marks=pytest.mark.long)])
async def test_clear_in_mid_run(hub_process: HubProcess, stack: AsyncExitStack, kind: str) -> None:
    """Trial T8: 100 times, each followed by a new run; also with a thread that ignores its stop and writes on into the next
    run's time."""
    agent = await process(stack, hub_process, kind)
    op = await join(stack, hub_process)
    await op.ok("context.create", id="c", agent=kind)
    onlookers = []
    ways = (("asyncio", "json", "snapshot"), ("asyncio", "msgpack", "patch"), ("threads", "json", "patch"))
    for name, endpoint, deliver in (*ways, ("node", "msgpack", "patch")):
        viewer = await stack.enter_async_context(stock(name))
        await viewer.open(hub_process.url, hub_process.token, endpoint, "websocket")
        await viewer.ok("subscribe", topic="context:c", deliver=deliver)
        onlookers.append(Onlooker(viewer))

    runs = set()
    for number in range(RESETS):
        await op.ok("message", context="c", text=str(number))
        for onlooker in onlookers:
            await onlooker.saw(number, 2, 2)
        runs.add((await run_of(op, "c"))["id"])
        await op.ok("control", context="c", action="reset")
        document = (await op.ok("context.get", context="c"))["document"]
        assert (document["log"]["length"], document["run"]["status"]) == (0, "stopped")
    assert len(runs) == RESETS

    if kind == "ignores":
        refused = await agent.ask("end")
        assert refused.keys() == {str(number) for number in range(RESETS)}, "each of them tried to go on"
        assert {code for codes in refused.values() for code in codes} <= {"run_lost", "not_found"}
    await op.ok("apply", context="c", ops=[{"op": "log.add", "type": "info", "heading": str(RESETS)}])
    for onlooker in onlookers:
        await onlooker.saw(RESETS, 1)
    assert (await op.ok("context.get", context="c"))["document"]["log"]["length"] == 1


# ---------------------------------------------------------------------------------------- T10: eight threads write at once

APP = """
import threading
from hub import AgentContext
from tests.trials.agent_process import THREADS, write_all

def setup(inside):
    agent = inside.agent("inside")

    @agent.on_message
    def handle(ctx, message):
        for task in [ctx.run_task(write_all, ctx, number) for number in range(THREADS)]:
            task.result_sync()
"""


def in_order(entries: list[tuple[str, str]]) -> None:
    """Each thread's entries are whole and in its order."""
    wanted = [str(number) for number in range(ENTRIES)]
    for thread in range(THREADS):
        assert [content for heading, content in entries if heading == str(thread)] == wanted


async def pages(viewer: Client, before: int) -> list[tuple[str, str]]:
    """All entries with a smaller number, by the log's pages."""
    log = (await viewer.ok("context.get", context="c"))["document"]["log"]["id"]
    entries: list[dict[str, Any]] = []
    for end in range(before, 0, -500):
        entries += (await viewer.ok("log.page", context="c", log=log, before=end, limit=500))["entries"]
    assert [entry["no"] for entry in entries] == list(range(before - 1, -1, -1))
    return [(entry["heading"], entry["content"]) for entry in reversed(entries)]


@pytest.mark.parametrize("kind", ["plain", "threads", "inside"])
async def test_eight_threads_write(tmp_path: Path, stack: AsyncExitStack, kind: str) -> None:
    """Trial T10: 1,000 entries each, by threads of a program without an event loop, by run_task in an agent process, and by
    run_task inside the hub: all arrive, in order per thread, in the record and at stock viewers."""
    server = HubProcess(tmp_path)
    if kind == "inside":
        (tmp_path / "runs").mkdir()
        (tmp_path / "runs" / "eight_for_test.py").write_text(APP)
        server.options = ["--app", "eight_for_test:setup"]
    stack.enter_context(server)
    agent = await process(stack, server, kind) if kind != "inside" else None
    op = await join(stack, server)
    if kind == "plain":

        async def there() -> bool:
            return bool((await op.ask("context.get", context="c"))["ok"])

        await until(there, "the program's context")
    else:
        await op.ok("context.create", id="c", agent=kind)
    viewers = [
        (await join(stack, server, "msgpack"), Follower("c")),
        (await join(stack, server, "websocket"), Follower("c", "snapshot")),
    ]
    for viewer, follower in viewers:
        await follower.subscribe(viewer)
    if kind == "plain":
        assert agent is not None
        assert await agent.ask("go") is True
    else:
        await op.ok("message", context="c", text="go")
    count = THREADS * ENTRIES + (kind != "plain")
    for viewer, follower in viewers:
        await viewer.until(lambda: follower.read(viewer).log.length == count, 60)  # noqa: B023 - waited for right here
        log = follower.state.log  # one that lagged begins anew, with the newest, and asks for pages of what was before
        in_order(await pages(viewer, log.first) + [(entry.heading, entry.content) for entry in log.entries])
    in_order(await pages(op, count))
