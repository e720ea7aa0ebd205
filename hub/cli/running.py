"""Running a hub until somebody ends it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar

from hub import __version__
from hub.cli.companion import END_SECONDS
from hub.cli.console import out
from hub.cli.text import clean, durability_text
from hub.core.errors import StartError
from hub.record.connection import address_of
from hub.server.handing import Parent
from hub.server.http import STATIC
from hub.server.server import HubServer, Options

T = TypeVar("T")

_log = logging.getLogger(__name__)

_GC_THRESHOLDS: Final = (50_000, 20, 20)
"""A batch of changes makes thousands of objects that live for a moment and are in no cycle; Python's own thresholds (700, 10,
10) would search them again and again, a fifth of the hub's time."""


class Hub(Protocol):
    """A hub that this process runs: one node, or a parent of several."""

    @property
    def url(self) -> str:
        """Where people and agents reach it."""

    @property
    def token(self) -> str:
        """An operator's."""

    @property
    def durability(self) -> str:
        """What an answered change survives."""

    async def start(self) -> None:
        """Bring it up. Raises StartError, with nothing left behind."""

    async def asked_to_end(self) -> None:
        """Wait until somebody else than this process's user wants it to end."""

    async def drain(self) -> None:
        """Take nobody new, and let what is under way go on elsewhere, for a bounded time."""

    async def stop(self) -> None:
        """End it. Harmless when it never started."""


H = TypeVar("H", bound=Hub)
Beside = Callable[[H], AbstractAsyncContextManager[Any]]
"""What runs while the hub does: entered when the hub is up, left before it ends."""


def run_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run work to its end, on uvloop where there is one."""
    try:
        factory = importlib.import_module("uvloop").new_event_loop
    except ImportError:
        factory = None
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.freeze()  # what was imported stays
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work)


def set_up_logging(verbose: bool, *, several: bool = False) -> None:
    """Log to standard error: warnings, or everything of the hub's own with ``verbose``. ``several`` processes say which."""
    who = "%(process)d " if several else ""
    logging.basicConfig(
        level=logging.WARNING, format=f"%(asctime)s {who}%(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    if verbose:
        logging.getLogger("hub").setLevel(logging.INFO)


async def run_hub(
    hub: H,
    ready: Callable[[], None],
    ended: str = "",
    *,
    inside: Sequence[Beside[H]] = (),
    beside: Sequence[Beside[H]] = (),
) -> None:
    """Start a hub, call ``ready``, and run it until SIGINT, SIGTERM or SIGHUP, or until it is asked to end, which is logged as
    ``ended``. Raises StartError.

    What is ``beside`` the hub ends first; what is ``inside``, after the hub has drained. A second signal does not wait for
    the clean end.
    """
    stop = _stop_event()
    try:
        if not await _done_before(asyncio.create_task(hub.start()), stop):
            return
        async with contextlib.AsyncExitStack() as stack:
            for enter in inside:
                await stack.enter_async_context(enter(hub))
            stack.push_async_callback(_drain, hub, stop)
            for enter in beside:
                await stack.enter_async_context(enter(hub))
            if not stop.is_set():
                ready()
            if await _done_before(asyncio.create_task(hub.asked_to_end()), stop) and ended:
                _log.warning(ended)
    finally:
        await hub.stop()


async def _drain(hub: Hub, stop: asyncio.Event) -> None:
    """An operator may have given it more time than a signal does, which may come later."""
    if stop.is_set() or not await _done_before(asyncio.create_task(hub.drain()), stop):
        await hub.drain()


async def run_node(options: Options) -> None:
    """Run one node of several. Standard input leads to its parent, which is told when it serves, or why it cannot."""
    try:
        stdin = socket.socket(fileno=os.dup(0))
    except OSError:
        raise StartError("a node is run by its parent: session-hub serve --nodes 2") from None
    loop = asyncio.get_running_loop()

    def orphaned() -> None:
        loop.call_later(END_SECONDS, os._exit, 1)
        hub.end_soon()

    parent = Parent(stdin, orphaned)
    hub = HubServer(replace(options, parent=parent))
    try:
        await run_hub(hub, lambda: parent.tell("ready", {"node": hub.node.name, "durability": hub.durability}))
    except StartError as error:
        parent.tell("failed", error.message)
        sys.exit(1)


async def _done_before(work: asyncio.Task[None], stop: asyncio.Event) -> bool:
    """Whether some work ended before there was a stop, which ends it. Raises what it raised."""
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
    done = work.done()
    for task in (work, stopping):
        task.cancel()
    await asyncio.wait({work, stopping})
    if not work.cancelled():
        work.result()
    return done


def _stop_event() -> asyncio.Event:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores it
        numbers.append(signal.SIGHUP)

    def told() -> None:
        stop.set()
        for number in numbers:
            loop.remove_signal_handler(number)

    for number in numbers:
        loop.add_signal_handler(number, told)
    return stop


def print_ready(hub: Hub, options: Options, tell: str, hint: str = "", nodes: int = 1) -> None:
    """Where to open the hub: ``tell`` above the address, ``hint`` below it. The address stands on a line of its own, unbroken, so
    that it can be clicked and copied."""
    console = out()
    console.print(f"\n{tell} Open this address:\n", style="bold green")
    console.print(f"    {hub.url}/#token={hub.token}\n", style="bold", soft_wrap=True)
    if hint:
        console.print(f"{hint}\n", soft_wrap=True)
    if not (STATIC / "index.html").is_file():
        console.print("The web page is not built here; scripts/run builds it.\n", style="yellow", soft_wrap=True)
    several = f", {nodes} nodes" if nodes > 1 else ""
    record = f"record: {hub.durability}, data in"
    if options.redis is not None:
        record = f"record: {address_of(options.redis)} ({durability_text(hub.durability)}), the hub's own files in"
    console.print(f"Version {__version__}{several}, {clean(record)} {clean(options.data_dir)}", soft_wrap=True)
    console.print("The address holds the operator's token: keep it to yourself. Ctrl-C ends the hub.", soft_wrap=True)
    sys.stdout.flush()


def load_app(name: str) -> Callable[[Any], Any]:
    """The function ``module:function`` that sets up agents inside the hub. Raises StartError."""
    module_name, colon, function_name = name.partition(":")
    if not colon or not module_name or not function_name:
        raise StartError(f"--app takes module:function, not {name[:80]!r}")
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise StartError(f"--app {name}: cannot import {module_name}: {error}") from error
    for part in function_name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise StartError(f"--app {name}: there is no function {function_name} in {module_name}")
    return found  # type: ignore[no-any-return]
