"""The demo agent against a real hub: an upload, a follow-up, a stop, and two readers who see the same."""

import asyncio
from collections.abc import AsyncIterator
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import socketio

from hub.demo.agent import finish_runs, run_demo
from hub.demo.sample import sample_lines
from hub.server.server import HubServer
from tests.support import until

LOG = "\n".join(sample_lines(20_000)).encode()
KEYS = count()


class Reader:
    """A stock Socket.IO client that follows one context."""

    def __init__(self, hub: HubServer) -> None:
        self.hub = hub
        self.client = socketio.AsyncClient(reconnection=False)
        self.entries: list[dict[str, Any]] = []
        self.document: dict[str, Any] = {}
        self.client.on("snapshot", self._snapshot)
        self.client.on("log", self._log)

    async def open(self) -> None:
        await self.client.connect(self.hub.url, auth={"token": self.hub.token}, transports=["websocket"])

    async def follow(self, context: str) -> None:
        reply = await self.ask("subscribe", topic=f"context:{context}")
        self.document, self.entries = reply["document"], reply["entries"]

    async def ask(self, event: str, **request: Any) -> dict[str, Any]:
        reply: dict[str, Any] = await self.client.call(event, request)
        assert reply["ok"], reply
        return reply

    async def change(self, event: str, **request: Any) -> dict[str, Any]:
        return await self.ask(event, key=f"test-{next(KEYS)}", **request)

    async def _snapshot(self, event: dict[str, Any]) -> None:
        self.document = event["document"]

    async def _log(self, event: dict[str, Any]) -> None:
        for part in event["parts"]:
            if part["kind"] == "log.add":
                self.entries.append(dict(part["entry"]))
                continue
            entry = next(entry for entry in self.entries if entry["id"] == part["id"])
            if part["kind"] == "log.append":
                entry["content"] += part["text"]
            else:
                entry["kvps"] = {**entry["kvps"], **part.get("kvps", {})}
                entry.update({key: part[key] for key in ("heading", "content", "type") if key in part})


@pytest.fixture
async def readers(hub: HubServer) -> AsyncIterator[list[Reader]]:
    found = [Reader(hub), Reader(hub)]
    for reader in found:
        await reader.open()
    yield found
    for reader in found:
        await reader.client.disconnect()


@pytest.fixture
async def serving(hub: HubServer, tmp_path: Path) -> AsyncIterator[list[asyncio.Future[None]]]:
    """A demo agent that is connected; others that the test adds are ended as well."""
    (tmp_path / "t.csv").write_text("a,b\n1,x\n5,y\n")
    agents: list[asyncio.Future[None]] = []
    agents.append(asyncio.ensure_future(run_demo(hub.url, hub.token, tmp_path, pace=0.005)))
    await until(lambda: agents[0].done() or hub.node.dispatch.agents, "the agent to be there")
    yield agents
    for agent in agents:
        agent.cancel()
    await asyncio.gather(*agents, return_exceptions=True)


@pytest.fixture
async def context(readers: list[Reader], serving: list[asyncio.Future[None]]) -> str:
    """A context of the demo agent, followed by both readers."""
    reply = await readers[0].change("context.create", agent="demo")
    for reader in readers:
        await reader.follow(reply["id"])
    return str(reply["id"])


async def upload(hub: HubServer, name: str, data: bytes) -> dict[str, Any]:
    url, head = f"{hub.url}/api/v1/uploads?name={name}", {"Authorization": f"Bearer {hub.token}"}
    async with aiohttp.ClientSession() as session, session.post(url, data=BytesIO(data), headers=head) as answer:
        reply = await answer.json()
    assert reply["ok"], reply
    found: dict[str, Any] = reply["upload"]
    return {key: found[key] for key in ("id", "name", "size", "type")}


async def done(reader: Reader, heading: str) -> None:
    """Until an entry of that heading is there and the run is over."""
    await until(
        lambda: not reader.document["running"] and any(entry["heading"] == heading for entry in reader.entries), heading
    )


async def test_two_readers_see_an_analysis_and_a_follow_up(hub: HubServer, readers: list[Reader], context: str) -> None:
    attached = await upload(hub, "access.log", LOG)
    await readers[0].change("message", context=context, text="", attachments=[attached])
    for reader in readers:
        await done(reader, "Analysis of access.log")
        assert reader.document["state"]["rows"] == 19_980
        assert {step["status"] for step in reader.document["session_context"]["plan"]} == {"done"}
        assert reader.document["output"]["analysis"]["bad_rows"] == 20
        assert reader.document["progress"]["active"] is False
    await readers[1].change("message", context=context, text="top 5 status codes")
    for reader in readers:
        await done(reader, "Top 5: status")
    assert readers[0].entries == readers[1].entries
    assert len(next(entry for entry in readers[0].entries if entry["type"] == "progress")["content"].splitlines()) > 9


async def test_stop_ends_the_run_and_says_so(hub: HubServer, readers: list[Reader], context: str) -> None:
    attached = await upload(hub, "access.log", LOG * 4)
    await readers[0].change("message", context=context, text="", attachments=[attached])
    await until(lambda: readers[0].document["state"].get("rows", 0) > 0, "the first rows")
    await readers[1].change("control", context=context, action="stop")
    await done(readers[0], "Stopped")
    assert readers[0].document["run"]["status"] == "stopped"
    assert "analysis" not in readers[0].document["output"]


async def test_files_and_wrong_uploads(hub: HubServer, readers: list[Reader], context: str) -> None:
    reader = readers[0]
    await reader.change("message", context=context, text="analyse t.csv")
    await done(reader, "Analysis of t.csv")
    await reader.change(
        "message", context=context, text="", attachments=[await upload(hub, "x.png", b"\x89PNG\r\n\x1a\n")]
    )
    await done(reader, "This is a PNG image, not text.")
    assert reader.document["run"]["status"] == "finished"


async def test_another_process_takes_the_run_up_again(
    hub: HubServer, readers: list[Reader], context: str, serving: list[asyncio.Future[None]], tmp_path: Path
) -> None:
    reader = readers[0]
    attached = await upload(hub, "access.log", LOG)
    await reader.change("message", context=context, text="", attachments=[attached])
    await until(lambda: reader.document["state"].get("rows", 0) > 0, "the first rows")
    serving[0].cancel()
    await until(lambda: not reader.document["running"], "the end of the run")
    assert reader.document["run"]["status"] == "interrupted"
    assert reader.entries[-1]["heading"] == "Interrupted"
    assert "“Go on” takes the analysis up again." in reader.entries[-1]["content"]
    serving.append(asyncio.ensure_future(run_demo(hub.url, hub.token, tmp_path)))
    await until(lambda: serving[0].done() and hub.node.dispatch.agents, "the agent to be back")
    await reader.change("control", context=context, action="nudge")
    await done(reader, "Analysis of access.log")
    assert "Taken up again" in [entry["heading"] for entry in reader.entries]
    assert reader.document["state"]["rows"] == 19_980
    await reader.change("message", context=context, text="how many rows")
    await done(reader, "19,980 requests")


async def test_runs_are_finished_but_a_hub_that_stays_away_is_not_waited_for() -> None:
    class Here:
        up, error, runs, capacity = True, None, [object()], 4

        @property
        def connection(self) -> "Here":
            return self

    here: Any = Here()
    finishing = asyncio.create_task(finish_runs(here, here, 0.2))
    await asyncio.sleep(0.4)
    assert not finishing.done()
    assert here.capacity == 0
    here.up = False
    await asyncio.wait_for(finishing, 5)
    here.up, here.runs = True, []
    await asyncio.wait_for(finish_runs(here, here, 60), 5)
