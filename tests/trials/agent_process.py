"""An agent process of trials, which may be killed at any moment: ``python -m tests.trials.agent_process URL KIND``.

It serves the agent named KIND, and does what it is told on its standard input, one word a line, each with one line of JSON
as the answer. The token is in HUB_TOKEN. It ends with its standard input.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, Self

import hub
from hub import AgentConfig, AgentContext, HubError, RunStopped, UserMessage
from tests.support import ROOT, SECONDS, environment, until

THREADS, ENTRIES = 8, 1_000
SILENCE = 4.0
"""Seconds that a long run says nothing."""
PIECES = ("task", "task of a task", "run_task coroutine", "run_task function", "run_task of a run_task")
STOP_GRACE = 0.05
LATE = 20
"""How often one that ignores its stop writes while the next run goes on."""


class Work:
    """What is at work in this process, and how each piece would go on to write."""

    def __init__(self) -> None:
        self.alive: list[str] = []
        self.ways: dict[str, contextvars.Context] = {}
        self.refused: dict[str, list[str]] = {}
        self.newest = -1
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def piece(self, name: str) -> Iterator[None]:
        with self._lock:
            self.alive.append(name)
            self.ways[name] = contextvars.copy_context()
        try:
            yield
        finally:
            with self._lock:
                self.alive.remove(name)

    def note(self, name: str, error: Exception) -> None:
        """A write of somebody was refused."""
        with self._lock:
            self.refused.setdefault(name, []).append(code_of(error))


def code_of(error: Exception) -> str:
    return error.code if isinstance(error, HubError) else type(error).__name__


WORK = Work()


# ------------------------------------------------------------------------------------------------------- the agents


async def five(ctx: AgentContext, message: UserMessage) -> None:
    """Five pieces of work, each writing on and on until it is ended."""

    async def write(name: str) -> None:
        with WORK.piece(name):
            while True:
                ctx.log.log("info", name)
                await asyncio.sleep(0.005)

    def write_in_thread(name: str) -> None:
        with WORK.piece(name):
            while True:
                ctx.log.log("info", name)
                ctx.wait_checkpoint()
                time.sleep(0.005)

    async def with_a_task() -> None:
        child = asyncio.create_task(write("task of a task"))
        await write("task")
        await child

    async def with_a_run_task() -> None:
        ctx.run_task(write_in_thread, "run_task of a run_task")
        await write("run_task coroutine")

    created = asyncio.create_task(with_a_task())
    ctx.run_task(with_a_run_task)
    ctx.run_task(write_in_thread, "run_task function")
    await asyncio.Event().wait()
    await created


async def silent(ctx: AgentContext, message: UserMessage) -> None:
    """A long run that says nothing meanwhile."""
    ctx.log.log("info", "begun")
    await asyncio.sleep(SILENCE)
    ctx.log.log("info", "done")


async def obeys(ctx: AgentContext, message: UserMessage) -> None:
    """A run that streams until it is ended."""
    text = message.message
    entry = ctx.log.log("response", text)
    while True:
        entry.stream(f"{text} ")
        ctx.log.log("info", text)
        await asyncio.sleep(0.001)


def ignores(ctx: AgentContext, message: UserMessage) -> None:
    """The same in a thread, which goes on whatever it is told: until the next run writes, and a while longer."""
    text, late = message.message, 0
    entry = ctx.log.log("response", text)
    WORK.newest = int(text)
    with WORK.piece(text):
        while late < LATE:
            late += int(text) < WORK.newest
            try:
                entry.stream(f"{text} ")
                ctx.log.log("info", text)
                if late == LATE:
                    ctx.wait_flush()
            except (HubError, RunStopped) as error:
                WORK.note(text, error)
            time.sleep(0.001)


async def threads(ctx: AgentContext, message: UserMessage) -> None:
    """Eight threads write at once."""
    tasks = [ctx.run_task(write_all, ctx, number) for number in range(THREADS)]
    for task in tasks:
        await task.result()


def write_all(ctx: AgentContext, thread: int) -> None:
    for number in range(ENTRIES):
        ctx.log.log("info", str(thread), str(number))


HANDLERS: dict[str, Callable[[AgentContext, UserMessage], Awaitable[None] | None]] = {
    "five": five,
    "dies": obeys,
    "silent": silent,
    "obeys": obeys,
    "ignores": ignores,
    "threads": threads,
}


# ------------------------------------------------------------------------------------------------------ the process


async def alive() -> list[str]:
    """What is at work here, by its own account and by what Python knows of."""
    names = {"write", "with_a_task", "with_a_run_task", "five"}
    running = [getattr(task.get_coro(), "__name__", "") for task in asyncio.all_tasks()]
    found = [name for name in running if name in names]
    found += [thread.name for thread in threading.enumerate() if thread.name.startswith("task ")]
    return sorted(WORK.alive) + found


async def write_late() -> dict[str, str]:
    """Each piece that was at work writes once more; what it gets for that."""
    ctx = AgentContext.all()[0]
    outcomes = {}
    for name, way in WORK.ways.items():
        try:
            way.run(ctx.log.log, "info", f"late: {name}")
            await asyncio.create_task(ctx.flush(), context=way)
            outcomes[name] = "written"
        except (HubError, RunStopped) as error:
            outcomes[name] = code_of(error)
    return outcomes


async def end() -> dict[str, list[str]]:
    """Whoever ignored the stop may end; what each got for its late writes."""
    WORK.newest = sys.maxsize
    await until(lambda: not WORK.alive, "the end of all threads")
    return WORK.refused


COMMANDS: dict[str, Callable[[], Awaitable[Any]]] = {"alive": alive, "late": write_late, "end": end}


async def main(url: str, kind: str) -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    config = AgentConfig(stop_grace=STOP_GRACE if kind == "ignores" else 2.0)
    async with hub.connect(url, token=os.environ["HUB_TOKEN"], config=config) as client:
        agent = client.agent(kind, capacity=4)
        agent.on_message(HANDLERS[kind])
        serving = asyncio.create_task(agent.serve())
        while line := await reader.readline():
            sys.stdout.write(json.dumps(await COMMANDS[line.decode().strip()]()) + "\n")
            sys.stdout.flush()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


def plain(url: str) -> None:
    """A program without an event loop: eight threads of its own write at once."""
    with hub.connect_sync(url, token=os.environ["HUB_TOKEN"]) as client:
        ctx = client.create(id="c")
        sys.stdin.readline()
        writers = [threading.Thread(target=write_all, args=(ctx, number)) for number in range(THREADS)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        ctx.wait_flush()
        sys.stdout.write("true\n")


# ------------------------------------------------------------------------------------------------- for who tests it


class AgentProcess:
    """Such a process, and what it answers."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def ask(self, what: str) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{what}\n".encode())
        async with asyncio.timeout(SECONDS):
            line = await self.process.stdout.readline()
        assert line, "the agent process has ended"
        return json.loads(line)

    @classmethod
    @asynccontextmanager
    async def begun(cls, url: str, token: str, kind: str) -> AsyncIterator[Self]:
        """One that lives as long as the block at most, and must then end well unless it was killed."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.trials.agent_process", url, kind),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
            env=environment(HUB_TOKEN=token),
        )
        assert process.stdin is not None
        try:
            yield cls(process)
        finally:
            process.stdin.close()
            try:
                async with asyncio.timeout(SECONDS):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
                raise
        assert process.returncode in (0, -9), process.returncode


if __name__ == "__main__":
    if sys.argv[2] == "plain":
        plain(sys.argv[1])
    else:
        asyncio.run(main(*sys.argv[1:]))
