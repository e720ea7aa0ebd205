"""The command line's way to a hub: requests, and events in the order in which they came."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import aiohttp

from hub.agent.connection import Connection as AgentConnection
from hub.agent.files import upload
from hub.cli.target import NotRunning, Target, how_to_start
from hub.core.errors import HubError, Unavailable, error_from_wire

CONNECT_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 120.0
PAUSE_SECONDS: Final = 0.2
"""Between two attempts at a change."""
RETRY_SECONDS: Final = 15.0
"""How long a change is tried again while the hub is away."""


class Event(NamedTuple):
    """What the hub says by itself; also ``down`` and ``up`` of the connection, in order with the rest."""

    name: str
    payload: dict[str, Any]


class Connection:
    """A connection that comes back by itself."""

    def __init__(self, target: Target) -> None:
        self.url = target.url
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        """Bounded by the hub: who does not read is cut off by it, and resumes."""
        self._refused: HubError | None = None
        self._line = AgentConnection(
            target.url, target.token, on_event=self._heard, on_up=self._came_up, on_down=self._went_down
        )

    @property
    def up(self) -> bool:
        """Whether requests can be sent now."""
        return self._line.up

    async def start(self) -> None:
        """Connect; one attempt. Raises HubError."""
        try:
            await self._line.start(0)
        except Unavailable as error:
            raise NotRunning(f"no hub answers at {self.url}; {how_to_start()}") from error
        except HubError:
            raise
        except Exception as error:  # whatever answers there does not speak as a hub does
            raise NotRunning(f"what answers at {self.url} is not a hub ({type(error).__name__})") from error

    async def hello(self) -> dict[str, Any]:
        """What the hub said about itself when this connection began: to be asked first, before its events are read."""
        while True:
            event = await self.events.get()
            if event.name == "up":
                return event.payload

    async def close(self) -> None:
        """Leave."""
        await self._line.close()

    async def request(self, name: str, payload: dict[str, Any]) -> dict[str, Any]:
        """The hub's answer. Raises the HubError that it stands for; Unavailable when the connection goes meanwhile."""
        if self._refused is not None:
            raise self._refused
        reply = await self._line.ask(name, payload)
        return {key: value for key, value in reply.items() if key != "ok"}

    async def upload(self, name: str, data: bytes) -> dict[str, Any]:
        """Keep a file at the hub; returns its upload ``{id, name, size, type, expires_at}``. Raises HubError."""
        return await upload(self._line, name, data, "application/octet-stream")

    def _heard(self, name: str, payload: dict[str, Any]) -> None:
        self.events.put_nowait(Event(name, payload))

    def _came_up(self, hello: dict[str, Any]) -> None:
        self.events.put_nowait(Event("up", hello))

    def _went_down(self, error: HubError | None) -> None:
        self._refused = error
        self.events.put_nowait(Event("down", {"error": error}))


@asynccontextmanager
async def connect(target: Target) -> AsyncIterator[Connection]:
    """A connection to a hub, closed at the end of the block. Raises HubError if there is none."""
    connection = Connection(target)
    await connection.start()
    try:
        yield connection
    finally:
        await connection.close()


async def ask(target: Target, name: str, payload: dict[str, Any]) -> dict[str, Any]:
    """One request on a connection of its own. Raises HubError."""
    async with connect(target) as connection:
        return await connection.request(name, payload)


async def change(target: Target, name: str, payload: dict[str, Any]) -> dict[str, Any]:
    """One request that changes something: it has a key, so it is tried again while the hub is away, and applies once.

    Raises HubError; a hub that is not there at the first try is an error at once.
    """
    payload = {**payload, "key": f"cli-{secrets.token_hex(8)}"}
    loop = asyncio.get_running_loop()
    async with connect(target) as connection:
        ends = loop.time() + RETRY_SECONDS
        while True:
            try:
                return await connection.request(name, payload)
            except Unavailable:
                if loop.time() >= ends:
                    raise
            await asyncio.sleep(PAUSE_SECONDS)


async def health(target: Target) -> dict[str, Any]:
    """What ``/healthz`` says; a hub that is not well answers too. Raises HubError."""
    return await call(target, "GET", "/healthz", 503)


async def call(target: Target, method: str, path: str, *passing: int, body: object = None) -> dict[str, Any]:
    """The answer of the HTTP API; ``passing`` are further statuses that are no error. Raises HubError."""
    headers = {"Authorization": f"Bearer {target.token}"} if target.token else {}
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS, connect=CONNECT_SECONDS)) as http,
            http.request(method, f"{target.url}{path}", headers=headers, json=body) as response,
        ):
            answer = await response.json(content_type=None)
            status = response.status
    except aiohttp.ClientConnectionError as error:
        raise NotRunning(f"no hub answers at {target.url}; {how_to_start()}") from error
    except TimeoutError as error:
        raise Unavailable(f"the hub at {target.url} does not answer") from error
    except (aiohttp.ClientError, ValueError) as error:
        raise NotRunning(f"what answers at {target.url} is not a hub") from error
    if not isinstance(answer, dict):
        raise NotRunning(f"what answers at {target.url} is not a hub")
    if status not in (200, *passing):
        wire = answer.get("error")
        raise error_from_wire(wire if isinstance(wire, dict) else {"message": f"the hub answered {status}"})
    return answer
