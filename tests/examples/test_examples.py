"""Every example works: as a process of its own, or inside the hub; somebody talks to it, and sees what it says."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.clients import Client
from tests.support import ROOT, SECONDS, HubProcess, environment, required, until

EXAMPLES = ROOT / "hub" / "examples"
memory = pytest.mark.parametrize("hub_process", ["memory"], indirect=True)


@asynccontextmanager
async def operator(hub: HubProcess) -> AsyncIterator[Client]:
    client = await Client(hub.url, hub.token).connect()
    yield client
    await client.close()


@asynccontextmanager
async def running(hub: HubProcess, *command: str | Path, number: int = signal.SIGINT) -> AsyncIterator[None]:
    """A process that is ended by a signal, and ends well."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=ROOT,
        env=environment(HUB_URL=hub.url, HUB_TOKEN=hub.token),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield
        process.send_signal(number)
        async with asyncio.timeout(SECONDS):
            _, err = await process.communicate()
        assert (process.returncode, err.decode()) == (0, "")
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


def module(name: str, *arguments: str) -> Sequence[str]:
    return [sys.executable, "-m", f"hub.examples.{name}", *arguments]


async def told(client: Client, agent: str, text: str) -> str:
    """A new session with a message for an agent."""
    id = f"{agent}-session"
    await client.ok("context.create", id=id, agent=agent)
    await client.ok("subscribe", topic=f"context:{id}")
    await client.ok("message", context=id, text=text)
    return id


async def over(client: Client, id: str, status: str = "finished") -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Document and entries once the run is over."""

    async def ended() -> dict[str, Any] | None:
        found: dict[str, Any] = (await client.ok("context.get", context=id))["document"]
        return found if found["run"] and found["run"]["status"] == status else None

    document: dict[str, Any] = await until(ended, f"a run that is {status}")
    log = document["log"]
    page = await client.ok("log.page", context=id, log=log["id"], before=log["length"])
    return document, page["entries"][::-1]


@memory
async def test_streaming(hub_process: HubProcess) -> None:
    async with operator(hub_process) as client, running(hub_process, *module("streaming")):
        document, entries = await over(client, await told(client, "streaming", "to be or not to be"))
        assert [entry["content"] for entry in entries] == ["to be or not to be", "to be or not to be "]
        assert document["state"]["words"] == {"to": 2, "be": 2, "or": 1, "not": 1}
        assert document["output"] == {"count": 6}
        assert [step["status"] for step in document["session_context"]["plan"]] == ["done"] * 3


@memory
async def test_blocking(hub_process: HubProcess) -> None:
    async with operator(hub_process) as client, running(hub_process, *module("blocking")):
        _, entries = await over(client, await told(client, "blocking", "printf 'one\\ntwo\\n'"))
        assert [entry["content"] for entry in entries[1:]] == ["one\ntwo\n", "0"]
        await client.ok("message", context="blocking-session", text="sh -c 'echo begun; sleep 600'")

        async def begun() -> bool:
            live = (await client.ok("context.get", context="blocking-session"))["document"]["log"]
            page = await client.ok("log.page", context="blocking-session", log=live["id"], before=live["length"])
            return bool(page["entries"][0]["content"] == "begun\n")

        await until(begun)
        await client.ok("control", context="blocking-session", action="stop")
        await over(client, "blocking-session", "stopped")


async def test_inside(tmp_path: Path) -> None:
    hub = HubProcess(tmp_path, record="memory")
    hub.options = ["--app", "hub.examples.inside:setup"]
    with hub:
        async with operator(hub) as client:
            document, entries = await over(client, await told(client, "inside", "hello"))
            assert (entries[1]["content"], document["state"]) == ("HELLO", {"messages": 1})


@memory
@pytest.mark.parametrize(("answer", "heading"), [("go", "Released"), ("not now", "Left alone")])
async def test_asking(hub_process: HubProcess, answer: str, heading: str) -> None:
    async with operator(hub_process) as client, running(hub_process, *module("asking")):
        id = await told(client, "asking", "2.4")

        async def asked() -> str | None:
            asks = (await client.ok("context.get", context=id))["document"]["asks"]
            return next(iter(asks), None)

        ask = await until(asked)
        await client.ok("answer", context=id, ask=ask, value=answer)
        _, entries = await over(client, id)
        assert entries[-1]["heading"] == heading


@memory
async def test_scheduler(hub_process: HubProcess) -> None:
    """Two rounds, and two more by another process: one session."""
    async with operator(hub_process) as client:
        await client.ok("subscribe", topic="notices")
        for rounds in (2, 4):
            async with running(hub_process, *module("scheduler", "--every", "0.05")):

                async def reported(rounds: int = rounds) -> bool:
                    reply = await client.ask("context.get", context="disk-report")
                    return bool(reply["ok"] and len(reply["document"]["state"].get("history", [])) >= rounds)

                await until(reported)
        document, entries = await over(client, "disk-report")
        assert (document["type"], document["state"]["used"]) == ("task", document["state"]["history"][-1])
        assert {entry["heading"] for entry in entries} == {"Disk"}
        notice = await client.next("row", lambda event: event["topic"] == "notices")
        assert (notice["row"]["message"], notice["row"]["context"]) == ("Disk report is ready", "disk-report")


@memory
async def test_javascript(hub_process: HubProcess, tmp_path: Path) -> None:
    node = required("Node", shutil.which("node"), "HUB_REQUIRE_NODE")
    packages = ROOT / "web" / "node_modules"
    required(
        "web/node_modules (scripts/test installs them)",
        str(packages) if (packages / "socket.io-client").is_dir() else None,
        "HUB_REQUIRE_NODE",
    )
    (tmp_path / "node_modules").symlink_to(packages)
    shutil.copy(EXAMPLES / "javascript" / "agent.mjs", tmp_path)
    async with (
        operator(hub_process) as client,
        running(hub_process, node, tmp_path / "agent.mjs", number=signal.SIGTERM),
    ):
        _, entries = await over(client, await told(client, "javascript", "hello from node"))
        assert [entry["content"] for entry in entries] == ["hello from node", "hello from node "]
        await client.ok("message", context="javascript-session", text="word " * 20_000)
        await client.next("snapshot", lambda event: event["document"]["log"]["length"] == 4)
        await client.ok("control", context="javascript-session", action="stop")
        await over(client, "javascript-session", "stopped")


def test_the_table_has_them_all() -> None:
    named = set(re.findall(r"\]\(([\w/]+\.(?:py|mjs))\)", (EXAMPLES / "README.md").read_text()))
    there = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*") if path.suffix in (".py", ".mjs")}
    assert named == there - {"__init__.py"}
