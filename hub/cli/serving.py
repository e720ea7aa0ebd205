"""Commands that run a hub: serve, up."""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hub.cli.options import files_folder
from hub.cli.target import FOLDER, folder_of

if TYPE_CHECKING:
    from hub.cli.running import Beside, Hub
    from hub.server.server import HubServer, Options

SAMPLE_LINES = 20_000
AGENT_SECONDS = 10.0
"""How long the hub's address waits for the demo agent to be there."""


class RecordKind(enum.StrEnum):
    """Where sessions are kept."""

    EMBEDDED = "embedded"
    MEMORY = "memory"


Host = Annotated[str, typer.Option("--host", help="Address to listen on; others than loopback need HUB_SECRET.")]
Port = Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="Port to listen on; 0: any free one.")]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        "-d",
        envvar="HUB_DATA_DIR",
        show_envvar=True,
        help=f"Folder for everything that is kept. By default {FOLDER} in the checkout, or here.",
    ),
]
Redis = Annotated[
    str | None,
    typer.Option(
        "--redis", envvar="HUB_REDIS_URL", show_envvar=True, metavar="URL", help="A Redis or Valkey instead of our own."
    ),
]
Record = Annotated[
    RecordKind, typer.Option("--record", help="embedded: a Valkey of its own; memory: nothing outlives the hub.")
]
Origins = Annotated[
    list[str] | None,
    typer.Option("--origin", metavar="URL", help="A web origin that may use the hub; may be given again."),
]
App = Annotated[
    str | None,
    typer.Option("--app", metavar="MODULE:FUNCTION", help="Called with the hub, to set up agents inside it."),
]
Nodes = Annotated[
    int,
    typer.Option(
        "--nodes",
        min=1,
        max=64,
        help="So many processes share the work on one port. Clients need WebSocket, not polling.",
    ),
]
WebsocketOnly = Annotated[
    bool,
    typer.Option(
        "--websocket-only",
        envvar="HUB_WEBSOCKET_ONLY",
        show_envvar=True,
        help="Refuse clients that poll: needed where requests of one may come to several hubs. With --nodes always.",
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log more, to standard error.")]


def serve(
    context: typer.Context,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    data_dir: Folder = None,
    redis: Redis = None,
    record: Record = RecordKind.EMBEDDED,
    nodes: Nodes = 1,
    websocket_only: WebsocketOnly = False,
    origin: Origins = None,
    app: App = None,
    verbose: Verbose = False,
) -> None:
    """Run a hub, without agents. Prints the address of its page; the operator's token is also in DATA-DIR/token.

    Hubs on several machines that are given the same --redis and the same HUB_SECRET are one hub; so are the --nodes of one
    machine.

    Bounds are set by environment variables, such as HUB_UPLOAD_BYTES or HUB_LIMITS_CONTENT.
    """
    _check_record(record, redis, nodes)
    options = _options(host, port, data_dir, redis, record, origin, websocket_only)
    _tell_unknown(context)
    _run(options, nodes, app, [], verbose, "Session Hub is ready.")


def up(
    context: typer.Context,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    data_dir: Folder = None,
    redis: Redis = None,
    record: Record = RecordKind.EMBEDDED,
    nodes: Nodes = 1,
    websocket_only: WebsocketOnly = False,
    origin: Origins = None,
    app: App = None,
    files: Annotated[
        Path | None,
        typer.Option("--files", help="Folder whose files may be named to the agent. By default DATA-DIR/files."),
    ] = None,
    pace: Annotated[float, typer.Option("--pace", min=0, help="Seconds that the agent pauses, to be watched.")] = 0.0,
    verbose: Verbose = False,
) -> None:
    """Run a hub and the demo agent beside it, as a process of its own. scripts/run does this."""
    folder = files_folder(files)
    _check_record(record, redis, nodes)
    options = _options(host, port, data_dir, redis, record, origin, websocket_only)
    _tell_unknown(context)
    tell, hint = "Session Hub and its demo agent are ready.", ""
    if folder is None:
        hint = "To begin with, say “analyse access.log” in a session: a sample that the agent may read."
    _run(options, nodes, app, [_with_demo_agent(options.data_dir, folder, pace)], verbose, tell, hint)


def node(data_dir: Folder = None, origin: Origins = None, redis: Redis = None, verbose: Verbose = False) -> None:
    """Run one node of several, for its parent."""
    from dataclasses import replace

    from hub.cli.running import run_loop, run_node, set_up_logging

    set_up_logging(verbose, several=True)
    options = _options("", 0, data_dir, redis, RecordKind.EMBEDDED, origin, True)
    run_loop(run_node(replace(options, progress=None)))


def _options(
    host: str,
    port: int,
    data_dir: Path | None,
    redis: str | None,
    record: RecordKind,
    origins: list[str] | None,
    websocket_only: bool,
) -> Options:
    from hub.cli.console import say
    from hub.cli.settings import settings_from
    from hub.server.server import Options

    return Options(
        host=host,
        port=port,
        data_dir=folder_of(data_dir),
        record=str(record),
        redis=redis or None,
        origins=origins or None,
        websocket_only=websocket_only,
        settings=settings_from(),
        progress=say,
    )


def _check_record(record: RecordKind, redis: str | None, nodes: int) -> None:
    from hub.core.errors import InvalidRequest

    if record is not RecordKind.MEMORY:
        return
    if nodes > 1:
        raise InvalidRequest(
            "--nodes share what they keep, and --record memory is one process's own: leave --record memory out"
        )
    if redis:
        raise InvalidRequest(
            "--record memory keeps nothing, --redis (HUB_REDIS_URL) keeps everything there: leave one of them out"
        )


def _tell_unknown(context: typer.Context) -> None:
    """Say which variables look like the hub's and are none: misspelt, they would do nothing without a word."""
    from hub.cli.console import say
    from hub.cli.settings import unknown_variables

    for line in unknown_variables(_variables(context.find_root().command)):
        say(line, "yellow")


def _variables(command: Any) -> set[str]:
    """The environment variables of a command's options, and of the commands below it."""
    found = {parameter.envvar for parameter in command.params if parameter.envvar}
    return found.union(*map(_variables, getattr(command, "commands", {}).values()))


def _run(
    options: Options, nodes: int, app: str | None, beside: list[Beside[Hub]], verbose: bool, tell: str, hint: str = ""
) -> None:
    from hub.cli.running import load_app, run_loop, set_up_logging

    set_up_logging(verbose)
    if nodes > 1:
        _check_several(app)
        run_loop(_run_several(options, nodes, beside, verbose, tell, hint))
        return
    inside = [] if app is None else [_with_app(app, load_app(app))]
    run_loop(_run_one(options, inside, beside, tell, hint))


def _check_several(app: str | None) -> None:
    from hub.core.errors import InvalidRequest

    if app is not None:
        raise InvalidRequest(
            "--app sets agents up inside one process, and each of the --nodes would have its own: let them run as "
            "processes of their own, with hub.connect, or leave --nodes out"
        )


async def _run_one(
    options: Options, inside: list[Beside[HubServer]], beside: list[Beside[Hub]], tell: str, hint: str
) -> None:
    from hub.cli.running import print_ready, run_hub
    from hub.server.server import HubServer

    hub = HubServer(options)
    ended = "drained by an operator; the hub ends"
    await run_hub(hub, lambda: print_ready(hub, options, tell, hint), ended, inside=inside, beside=beside)


async def _run_several(
    options: Options, nodes: int, beside: list[Beside[Hub]], verbose: bool, tell: str, hint: str
) -> None:
    from hub.cli.parent import ManyNodes
    from hub.cli.running import print_ready, run_hub

    hub = ManyNodes(options, nodes, verbose=verbose)
    ended = "all nodes were drained; the hub ends"
    await run_hub(hub, lambda: print_ready(hub, options, tell, hint, nodes), ended, beside=beside)


def _with_demo_agent(folder: Path, files: Path | None, pace: float) -> Beside[Hub]:
    @asynccontextmanager
    async def beside(hub: Hub) -> AsyncIterator[None]:
        import asyncio

        from hub.cli.companion import Companion, own_command
        from hub.cli.console import say

        named = files if files is not None else await asyncio.to_thread(_sample_folder, folder)
        command = own_command("agent", "demo", "--data-dir", str(folder), "--files", str(named), "--end-with-stdin")
        async with Companion("the demo agent", [*command, "--pace", str(pace)]):
            if not await _serves(hub.url, "demo"):
                say("The demo agent is not there yet; messages wait until it comes.", "yellow")
            yield

    return beside


async def _serves(url: str, agent: str) -> bool:
    """Wait until a node says that it has an agent; each request comes to another one."""
    import asyncio

    from hub.cli.client import health
    from hub.cli.target import Target

    for _ in range(int(AGENT_SECONDS / 0.05)):
        if agent in (await health(Target(url, ""))).get("agents", []):
            return True
        await asyncio.sleep(0.05)
    return False


def _sample_folder(folder: Path) -> Path:
    """The folder that the demo agent may read by default; there is a sample in it, to begin with."""
    from hub.core.errors import StartError
    from hub.demo.sample import write_sample

    files = folder / "files"
    try:
        if not files.exists():
            files.mkdir(mode=0o700)
            write_sample(files / "access.log", SAMPLE_LINES)
    except OSError as error:
        raise StartError(f"cannot write into {files}: {error.strerror}") from error
    return files


def _with_app(name: str, setup: Any) -> Beside[HubServer]:
    """Agent code inside the hub. A plain function sets agents up, which are served when it has returned; a coroutine function
    runs as long as the hub.

    ``setup`` gets an InsideHub. Raises StartError if it fails at once.
    """

    @asynccontextmanager
    async def beside(hub: HubServer) -> AsyncIterator[None]:
        import asyncio
        import inspect
        import logging

        from hub.core.errors import StartError
        from hub.server.inside import InsideHub

        log = logging.getLogger("hub.app")
        inside = InsideHub(hub)
        task: asyncio.Future[Any] | None = None
        try:
            try:
                result = setup(inside)
            except Exception as error:
                log.exception("%s", name)
                raise StartError(f"--app {name} failed: {type(error).__name__}: {error}") from error
            if inspect.isawaitable(result):
                task = asyncio.ensure_future(result)
                task.add_done_callback(lambda done: _tell_failure(log, name, done))
            else:
                inside.serve()
            yield
        finally:
            if task is not None:
                task.cancel()
                await asyncio.wait({task}, timeout=5.0)
            await inside.close()

    return beside


def _tell_failure(log: Any, name: str, done: Any) -> None:
    if not done.cancelled() and done.exception() is not None:
        log.error("%s ended with an error", name, exc_info=done.exception())
