"""The usage example of the seed, as written but for the import line: without a hub, in an agent process that is connected to
one, and inside one; and once more with an id that exists (7)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hub import AgentContext
from tests.support import HubProcess, environment, wait_until

EXAMPLE = """
from hub import AgentContext, AgentConfig

# Create a new context with automatic ID generation

cfg = AgentConfig()
ctx = AgentContext(config=cfg)
print("New context ID:", ctx.id)

# Store and retrieve session-specific data

ctx.set_data("project", "agent-zero-deployment")
print("Active project:", ctx.get_data("project"))

# Switch the current execution context

AgentContext.use(ctx.id)
assert AgentContext.current() == ctx

# Access scoped logging

ctx.log.log(type="info", heading="Initialization", content="Context ready")

# Broadcast to all active contexts

AgentContext.log_to_all(
    type="warning",
    heading="Maintenance",
    content="Scheduled cleanup starting"
)

# Retrieve context from anywhere by ID

target_ctx = AgentContext.get("aB3d9XqZ")
if target_ctx:
    print(f"Found context created at {target_ctx.created}")

# List all active sessions

for context in AgentContext.all():
    print(f"{context.id}: {context.type.value}, running={context.is_running()}")
"""


def test_07_seed_example(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, AgentContext] = {}
    exec(EXAMPLE, names)
    ctx = names["ctx"]
    assert capsys.readouterr().out == (
        f"New context ID: {ctx.id}\nActive project: agent-zero-deployment\n{ctx.id}: user, running=False\n"
    )
    assert [(entry.type, entry.heading) for entry in ctx.log.entries()] == [
        ("info", "Initialization"),
        ("warning", "Maintenance"),
    ]


def test_07_seed_example_with_an_id_that_exists(capsys: pytest.CaptureFixture[str]) -> None:
    there = AgentContext(id="there", created_at="2026-01-02T03:04:05Z")
    names: dict[str, AgentContext] = {}
    exec(EXAMPLE.replace("aB3d9XqZ", there.id), names)
    out = capsys.readouterr().out
    assert "Found context created at 2026-01-02 03:04:05+00:00\n" in out
    assert f"there: user, running=False\n{names['ctx'].id}: user, running=False\n" in out
    assert there.created == there.created_at


WITH_ASYNCIO = """
import asyncio, os, sys
import hub

async def main():
    async with hub.connect(sys.argv[1], token=os.environ["HUB_TOKEN"]):
        exec(sys.argv[2], {})

asyncio.run(main())
"""
WITHOUT = """
import os, sys
import hub

with hub.connect_sync(sys.argv[1], token=os.environ["HUB_TOKEN"]):
    exec(sys.argv[2], {})
"""
INSIDE = """
from pathlib import Path

def setup(inside):
    exec(Path(__file__).with_name("example.txt").read_text(), {})
"""
SAID = r"New context ID: (\S+)\nActive project: agent-zero-deployment\n\1: user, running=False\n"


def at_the_hub(hub_process: HubProcess, out: str) -> None:
    """What the example printed, and what the hub has of it."""
    said = re.search(SAID, out)
    assert said, out
    assert [row["id"] for row in hub_process.json("contexts")["contexts"]] == [said[1]]
    shown = hub_process.json("show", said[1])
    assert shown["data"] == {"project": "agent-zero-deployment"}
    entries = [(entry["type"], entry["heading"], entry["content"]) for entry in shown["entries"]]
    assert entries == [
        ("info", "Initialization", "Context ready"),
        ("warning", "Maintenance", "Scheduled cleanup starting"),
    ]


@pytest.mark.parametrize("program", [WITH_ASYNCIO, WITHOUT], ids=["connect", "connect_sync"])
def test_07_seed_example_in_an_agent_process(hub_process: HubProcess, program: str) -> None:
    """When the process has ended the hub has everything, and in the example's order."""
    done = subprocess.run(
        [sys.executable, "-c", program, hub_process.url, EXAMPLE],
        capture_output=True,
        text=True,
        timeout=30,
        env=environment(HUB_TOKEN=hub_process.token),
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    at_the_hub(hub_process, done.stdout)


def test_07_seed_example_inside_the_hub(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "example_for_test.py").write_text(INSIDE)
    (tmp_path / "runs" / "example.txt").write_text(EXAMPLE)
    hub_process = HubProcess(tmp_path)
    hub_process.options = ["--app", "example_for_test:setup"]
    with hub_process:
        running = hub_process.running
        assert running is not None
        wait_until(lambda: re.search(SAID, running.out), "what the example prints")
        at_the_hub(hub_process, running.out)
