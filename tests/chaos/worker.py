"""An agent process of the chaos test, which may be killed at any moment: ``python -m tests.chaos.worker URL FILE NAME``.

It serves the agent ``bot``, and writes on and on into the contexts that it is told on its standard input, one id a line; an
empty line lets it rest. Each entry that the hub confirmed is noted in the file, one line of JSON each, before anything else
is done: what is noted there must be kept. The token is in HUB_TOKEN. It ends with its standard input.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys

import hub
from hub import AgentContext, HubError, UserMessage

CAPACITY = 3
WORDS = 6


class Notes:
    """What was confirmed."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, context: str, entry: str) -> None:
        os.write(self._fd, json.dumps([context, entry]).encode() + b"\n")


async def work(ctx: AgentContext, message: UserMessage, name: str, notes: Notes) -> None:
    """A run: an entry that streams, and a count that goes with it."""
    with ctx.batch():
        entry = ctx.log.log("response", id=f"{name}/{message.id}")
        ctx.state.incr("answers")
    for n in range(WORDS):
        entry.stream(content=f"{n} ")
        await ctx.checkpoint()
        await asyncio.sleep(0.02)
    await ctx.flush()
    notes.add(ctx.id, entry.id)


class Writer:
    """Writes entries into one context, each confirmed before the next, until it is stopped."""

    _numbers = itertools.count(1)

    def __init__(self, client: hub.Client, id: str, name: str, notes: Notes) -> None:
        self._client, self._id, self._name, self._notes = client, id, name, notes
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(self._write())

    async def stop(self) -> None:
        """Write no more; what was begun is confirmed first."""
        self._stop.set()
        await self._task

    async def _write(self) -> None:
        while not self._stop.is_set():
            try:
                ctx = await self._client.open(self._id)
                while not self._stop.is_set():
                    count = next(self._numbers)
                    content = f"{self._name}/{count}"
                    with ctx.batch():
                        ctx.log.log("info", id=content, content=content).stream(content=f" and {count}")
                        ctx.state.incr(self._name)
                    await ctx.flush()
                    self._notes.add(self._id, content)
                    await asyncio.sleep(0.02)
            except HubError as error:
                if not error.retryable:
                    raise


async def write_what_is_told(client: hub.Client, name: str, notes: Notes) -> None:
    """Read ids until the end of standard input."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    writer: Writer | None = None
    while line := await reader.readline():
        if writer is not None:
            await writer.stop()
        id = line.decode().strip()
        writer = Writer(client, id, name, notes) if id else None
        sys.stdout.write("told\n")
        sys.stdout.flush()


async def main(url: str, path: str, name: str) -> None:
    notes = Notes(path)
    async with hub.connect(url, token=os.environ["HUB_TOKEN"], wait=30, leave=2) as client:
        agent = client.agent("bot", capacity=CAPACITY)

        @agent.on_message
        async def handle(ctx: AgentContext, message: UserMessage) -> None:
            await work(ctx, message, name, notes)

        serving = asyncio.create_task(agent.serve())
        try:
            await write_what_is_told(client, name, notes)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
