"""The usage example of the seed, as written but for the import line; and once more with an id that exists (7)."""

from __future__ import annotations

import pytest

from hub import AgentContext

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
