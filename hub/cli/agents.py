"""Commands for agents: agent demo."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hub.cli import options
from hub.cli.console import say
from hub.cli.options import DataDir, Token, Url
from hub.cli.target import Target, find_target
from hub.core.errors import InvalidRequest

if TYPE_CHECKING:
    from hub.agent.connect import Client
    from hub.agent.serving import Agent

OUTLIVE_SECONDS = 30.0
"""How long an agent that is tied to a hub waits for it to come back, if it has runs of it: 20 s, its start, and the pause until
the next attempt to connect."""

agent = typer.Typer(no_args_is_help=True, help="Run agents that come with the hub.")


@agent.callback()
def _group() -> None:
    """Keeps `demo` a command of a group while it is the only one."""


@agent.command(
    epilog=options.examples(
        "session-hub agent demo --files ~/logs",
        "session-hub agent demo --sample access.log --lines 100000",
        "HUB_URL=https://hub.example.com HUB_TOKEN=... session-hub agent demo",
    )
)
def demo(
    files: Annotated[
        Path | None, typer.Option("--files", help="Folder whose files people may name to the agent.")
    ] = None,
    name: Annotated[str, typer.Option("--name", help="The agent's name.")] = "demo",
    capacity: Annotated[int, typer.Option("--capacity", min=1, max=1000, help="So many sessions at a time.")] = 4,
    pace: Annotated[float, typer.Option("--pace", min=0, help="Seconds of pause a step, to be watched.")] = 0.0,
    sample: Annotated[
        Path | None, typer.Option("--sample", metavar="FILE", help="Only write a sample log to this file.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Let --sample replace a file that is there.")] = False,
    lines: Annotated[int, typer.Option("--lines", min=1, max=10_000_000, help="Lines of the sample.")] = 100_000,
    end_with_stdin: Annotated[bool, typer.Option("--end-with-stdin", hidden=True)] = False,
    url: Url = None,
    token: Token = None,
    data_dir: DataDir = None,
) -> None:
    """Serve as the demo agent: looks into logs, tables and texts that people paste, upload or name. Needs no model."""
    if sample is not None:
        _write_sample(sample.expanduser(), lines, force)
        return
    folder = options.files_folder(files)
    from hub.cli.running import run_loop, set_up_logging

    set_up_logging(verbose=False)
    run_loop(_serve(find_target(url, token, data_dir), folder, name, capacity, pace, end_with_stdin))


async def _serve(
    target: Target, files: Path | None, name: str, capacity: int, pace: float, end_with_stdin: bool
) -> None:
    import asyncio
    import contextlib
    import signal

    from hub.cli.companion import end_with_parent
    from hub.demo.agent import finish_runs, run_demo

    served: list[tuple[Client, Agent]] = []

    async def outlive() -> None:
        for client, agent in served:
            await finish_runs(client, agent, OUTLIVE_SECONDS)

    task = asyncio.create_task(
        run_demo(
            *(target.url, target.token, files),
            name=name,
            capacity=capacity,
            pace=pace,
            on_serving=lambda client, agent: served.append((client, agent)),
        )
    )
    loop = asyncio.get_running_loop()

    def end() -> None:  # once: what is cancelled again does not finish what it has to do at its end
        if not task.cancelling():
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    if end_with_stdin:
        end_with_parent(end, outlive)
    else:
        say(f"The agent {name!r} serves {target.url}. Ctrl-C ends it.")
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _write_sample(file: Path, lines: int, force: bool) -> None:
    from hub.demo.sample import write_sample

    if file.exists() and not force:
        raise InvalidRequest(f"--sample {file}: there is such a file already; --force replaces it")
    try:
        write_sample(file, lines)
    except OSError as error:
        raise InvalidRequest(f"cannot write {file}: {error.strerror}") from error
    say(f"wrote {lines:,} lines to {file}")
