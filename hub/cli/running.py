"""Running a hub until somebody ends it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeVar

from hub import __version__
from hub.cli.console import out
from hub.cli.text import clean
from hub.core.errors import StartError
from hub.server.http import STATIC
from hub.server.server import HubServer, Options

T = TypeVar("T")

_GC_THRESHOLDS: Final = (50_000, 20, 20)
"""A batch of changes makes thousands of objects that live for a moment and are in no cycle; Python's own thresholds (700, 10,
10) would search them again and again, a fifth of the hub's time."""

Beside = Callable[[HubServer], AbstractAsyncContextManager[Any]]
"""What runs as long as the hub does: entered when the hub is up, left before it ends."""


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


def set_up_logging(verbose: bool) -> None:
    """Log to standard error: warnings, or everything of the hub's own with ``verbose``."""
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    if verbose:
        logging.getLogger("hub").setLevel(logging.INFO)


async def run_hub(options: Options, beside: list[Beside], tell: str, hint: str = "") -> None:
    """Start a hub, say where it is, and run it until SIGINT, SIGTERM or SIGHUP. Raises StartError.

    ``tell`` goes above the address, ``hint`` below it. A second signal does not wait for the clean end.
    """
    stop = _stop_event()
    hub = HubServer(options)
    try:
        starting = asyncio.create_task(hub.start())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():  # told to end while it was starting
            starting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await starting
            return
        stopping.cancel()
        await starting
        async with contextlib.AsyncExitStack() as stack:
            for enter in beside:
                await stack.enter_async_context(enter(hub))
            if not stop.is_set():
                print_ready(hub, tell, hint)
            await stop.wait()
    finally:
        await hub.stop()


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


def print_ready(hub: HubServer, tell: str, hint: str) -> None:
    """Where to open the hub. The address stands on a line of its own, unbroken, so that it can be clicked and copied."""
    console = out()
    folder = clean(hub.options.data_dir)
    console.print(f"\n{tell} Open this address:\n", style="bold green")
    console.print(f"    {hub.url}/#token={hub.token}\n", style="bold", soft_wrap=True)
    if hint:
        console.print(f"{hint}\n", soft_wrap=True)
    if not (STATIC / "index.html").is_file():
        console.print("The web page is not built here; scripts/run builds it.\n", style="yellow", soft_wrap=True)
    console.print(f"Version {__version__}, record: {hub.node.record.durability}, data in {folder}", soft_wrap=True)
    console.print("The address holds the operator's token: keep it to yourself. Ctrl-C ends the hub.", soft_wrap=True)
    sys.stdout.flush()


def load_app(name: str) -> Callable[[HubServer], Any]:
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
