"""An agent process without an event loop: plain functions, each run in a thread of its own, which may block.

HUB_TOKEN=$(cat .session-hub/token) python -m hub.examples.blocking
session-hub send $(session-hub new --agent blocking) "ls -l" --wait
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess

import hub


def run(ctx: hub.AgentContext, message: hub.UserMessage) -> None:
    """Run a program, and stream what it says."""
    command = shlex.split(message.message)
    entry = ctx.log.log("code_exe", shlex.join(command))
    with ctx.popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:  # a stop ends the program, and all that it started
            entry.stream(line)
            ctx.wait_checkpoint()
    ctx.log.log("response", "Exit code", str(process.returncode))


def main() -> None:
    url = os.environ.get("HUB_URL", "http://127.0.0.1:8765")
    with hub.connect_sync(url, token=os.environ["HUB_TOKEN"]) as client:
        agent = client.agent("blocking", capacity=4)
        agent.on_message(run)
        agent.serve()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
