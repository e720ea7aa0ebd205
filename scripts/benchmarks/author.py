"""A process that streams text as an author of agents would: with the hub's library, or with python-socketio's client.

Everything goes through the event loop of one process, a token at a time, with a checkpoint after each.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, Protocol

import socketio

import hub
from scripts.benchmarks.control import answer
from scripts.benchmarks.sources import append_to_relay, stamp

WORD: Final = "word "
ENTRY_TOKENS: Final = 10_000
"""Appends to an entry before another one is begun, so that none is cut."""
_UNANSWERED: Final = 64
"""Events of python-socketio's client that may be without an acknowledgement."""
_SILENCE_SECONDS: Final = 10.0
_TICK: Final = 0.001
"""Seconds between two looks at which tokens are due."""


class Session(Protocol):
    """Where tokens go."""

    async def token(self, text: str) -> None:
        """Append a token; a good place to let others run."""

    async def flush(self) -> None:
        """Return once everything has arrived."""


class HubSession:
    """A context of the hub."""

    def __init__(self, context: hub.AgentContext) -> None:
        self._context = context
        self._entry = context.log.log("response")
        self._tokens = 0

    async def token(self, text: str) -> None:
        if self._tokens == ENTRY_TOKENS:
            self._entry, self._tokens = self._context.log.log("response"), 0
        self._entry.stream(text)
        self._tokens += 1
        await self._context.checkpoint()

    async def flush(self) -> None:
        await self._context.flush()


class RelaySession:
    """A room of a peer that relays."""

    def __init__(self, client: socketio.AsyncClient, name: str) -> None:
        self._client = client
        self._name = name
        self._seq = 0
        self._unanswered = 0
        self._answered = asyncio.Event()

    async def token(self, text: str) -> None:
        while self._unanswered >= _UNANSWERED:
            await self._wait()
        self._seq += 1
        self._unanswered += 1
        change = append_to_relay(self._name, self._seq, text)
        await self._client.emit("relay", (self._name, change), callback=self._acknowledged)

    async def flush(self) -> None:
        while self._unanswered:
            await self._wait()

    async def _wait(self) -> None:
        self._answered.clear()
        try:
            async with asyncio.timeout(_SILENCE_SECONDS):
                await self._answered.wait()
        except TimeoutError:
            raise ConnectionError(f"{self._unanswered} events had no answer for {_SILENCE_SECONDS:g} s") from None

    def _acknowledged(self, *_: Any) -> None:
        self._unanswered -= 1
        self._answered.set()


async def flat_out(sessions: Sequence[Session], seconds: float) -> int:
    """Stream into all of them at the same time as fast as it goes. Returns how many tokens that were."""
    until = time.monotonic() + seconds

    async def one(session: Session) -> int:
        tokens = 0
        while time.monotonic() < until:
            await session.token(WORD)
            tokens += 1
        return tokens

    return sum(await asyncio.gather(*map(one, sessions)))


async def paced(sessions: Sequence[Session], seconds: float, rate: float) -> int:
    """Stream so many tokens a second in all, to one session after the other, each stamped with the time at which it was due.
    Returns how many they were."""
    began = time.monotonic()
    tokens = 0
    while (now := time.monotonic()) < began + seconds:
        while tokens < (now - began) * rate:
            due = stamp(int((began + tokens / rate) * 1e6))
            await sessions[tokens % len(sessions)].token(f"{due} {WORD}")
            tokens += 1
        await asyncio.sleep(_TICK)
    return tokens


class Author:
    """Does what the bench asks."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._sessions: list[Session] = []

    async def do(self, command: dict[str, Any]) -> dict[str, Any]:
        """One command, and what came of it."""
        match command["command"]:
            case "connect":
                await self._connect(command)
                return {}
            case "stream":
                return await self._stream(command)
            case other:
                raise hub.InvalidRequest(f"there is no command {other}")

    async def _connect(self, command: dict[str, Any]) -> None:
        url, token = f"http://127.0.0.1:{command['port']}", json.loads(command["connect"])["token"]
        names = [f"{command['name']}{number}" for number in range(command["sessions"])]
        if command["kind"] == "hub":
            client = await self._stack.enter_async_context(hub.connect(url, token=token))
            self._sessions = [HubSession(await client.create(id=name)) for name in names]
            return
        relay = socketio.AsyncClient()
        await relay.connect(url, transports=["websocket"])
        self._stack.push_async_callback(relay.disconnect)
        self._sessions = [RelaySession(relay, name) for name in names]

    async def _stream(self, command: dict[str, Any]) -> dict[str, Any]:
        seconds, rate = command["seconds"], command["rate"]
        began = time.monotonic()
        streamed = flat_out(self._sessions, seconds) if rate is None else paced(self._sessions, seconds, rate)
        tokens = await streamed
        waiting: list[Awaitable[None]] = [session.flush() for session in self._sessions]
        await asyncio.gather(*waiting)
        return {"tokens": tokens, "seconds": time.monotonic() - began}


async def main() -> None:
    """Serve commands until the bench is gone."""
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    async with AsyncExitStack() as stack:
        author = Author(stack)
        while line := await commands.readline():
            try:
                answer(**await author.do(json.loads(line)))
            except (hub.HubError, socketio.exceptions.SocketIOError, OSError) as error:
                answer(error=str(error))


if __name__ == "__main__":
    asyncio.run(main())
