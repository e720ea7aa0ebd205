"""The command line's own connection to a hub: requests, and events in the order in which they came."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import aiohttp
import socketio

from hub.cli.target import NotRunning, Target, how_to_start
from hub.core.errors import Forbidden, HubError, Internal, Unauthorized, Unavailable, error_from_wire

CONNECT_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 30.0
RETRY_SECONDS: Final = 15.0
"""How long a change is tried again while the hub is away."""
_EVENT_BYTES: Final = 64 * 1_048_576
_HUB_EVENTS: Final = (
    "hello",
    "change",
    "snapshot",
    "log",
    "row",
    "hub.lagged",
    "hub.degraded",
    "hub.drain",
    "hub.disconnect",
)


class Event(NamedTuple):
    """What the hub says by itself. The last of a connection is ``lost``."""

    name: str
    payload: dict[str, Any]


class Connection:
    """One connection, from ``connect`` until it is lost; it does not come back by itself."""

    def __init__(self, socket: socketio.AsyncClient, url: str) -> None:
        self.url = url
        self.hello: dict[str, Any] = {}
        """What the hub said of itself: node, role, limits."""
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self._socket = socket
        self._lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._greeted = asyncio.Event()
        self._farewell = ""
        self._refusal: object = None
        # Handlers are plain functions: they run where the packet is read, so events stay in order.
        for name in _HUB_EVENTS:
            socket.on(name, self._handler(name))
        socket.on("connect_error", self._refused)
        socket.on("disconnect", self._disconnected)

    def _handler(self, name: str) -> Any:
        def handle(payload: Any = None) -> None:
            body = payload if isinstance(payload, dict) else {}
            if name == "hello":
                self.hello = body
                self._greeted.set()
            elif name == "hub.disconnect":
                self._farewell = str(body.get("reason", ""))
            self.events.put_nowait(Event(name, body))

        return handle

    def _refused(self, data: Any = None) -> None:
        self._refusal = data

    def _disconnected(self, reason: Any = None) -> None:
        if not self._lost.done():
            why = self._farewell or "the connection was lost"
            self._lost.set_result(why)
            self.events.put_nowait(Event("lost", {"reason": why}))

    async def greet(self, token: str) -> None:
        """Connect and wait for the hub's hello. Raises HubError."""
        try:
            await self._socket.connect(
                self.url,
                auth={"token": token},
                transports=["websocket"],
                socketio_path="msgpack/socket.io",
                wait_timeout=CONNECT_SECONDS,
            )
            await asyncio.wait_for(self._greeted.wait(), CONNECT_SECONDS)
        except (socketio.exceptions.SocketIOError, aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._why_not(error) from error
        except Exception as error:  # whatever answers there does not speak as a hub does
            raise NotRunning(f"what answers at {self.url} is not a hub ({type(error).__name__})") from error

    def _why_not(self, error: Exception) -> HubError:
        refusal = self._refusal if isinstance(self._refusal, dict) else {}
        data = refusal.get("data")
        code = data.get("code") if isinstance(data, dict) else refusal.get("code")
        message = str(refusal.get("message") or refusal.get("reason") or "")
        if code == 4500:
            return Unauthorized(message or "the token is not one of this hub")
        if isinstance(code, int):
            return Forbidden(message) if code >= 4500 else Unavailable(message)
        if isinstance(error, TimeoutError):
            return Unavailable(f"the hub at {self.url} takes the connection, but does not answer")
        return NotRunning(f"no hub answers at {self.url}; {how_to_start()}")

    async def request(self, name: str, payload: dict[str, Any], *, timeout: float = ANSWER_SECONDS) -> dict[str, Any]:
        """The hub's answer. Raises the HubError that it stands for; Unavailable when the connection goes meanwhile."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def answered(*args: Any) -> None:
            if not answer.done():
                answer.set_result(args[0] if args else None)

        try:
            await self._socket.emit(name, payload, callback=answered)
        except socketio.exceptions.SocketIOError:
            raise Unavailable("the connection to the hub was lost") from None
        await asyncio.wait({answer, self._lost}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            lost = self._lost.done()
            answer.cancel()
            raise Unavailable(self._lost.result() if lost else f"no answer to {name} within {timeout:g} s")
        reply = answer.result()
        if not isinstance(reply, dict):
            raise Internal(f"the answer to {name} is not an object")
        if reply.get("ok") is not True:
            error = reply.get("error")
            raise error_from_wire(error if isinstance(error, dict) else {"message": f"{name} was refused"})
        return {key: value for key, value in reply.items() if key != "ok"}


@asynccontextmanager
async def connect(target: Target) -> AsyncIterator[Connection]:
    """A connection to a hub, closed at the end of the block. Raises HubError if there is none."""
    async with aiohttp.ClientSession() as http:
        socket = socketio.AsyncClient(
            serializer="msgpack",
            reconnection=False,
            handle_sigint=False,
            http_session=http,
            websocket_extra_options={"max_msg_size": _EVENT_BYTES},
        )
        connection = Connection(socket, target.url)
        try:
            await connection.greet(target.token)
            yield connection
        finally:
            with contextlib.suppress(TimeoutError, socketio.exceptions.SocketIOError, OSError):
                await asyncio.wait_for(socket.disconnect(), 2.0)


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
    ends = loop.time() + RETRY_SECONDS
    reached = False
    while True:
        try:
            async with connect(target) as connection:
                reached = True
                return await connection.request(name, payload)
        except (NotRunning, Unavailable) as error:
            if not reached or loop.time() >= ends:
                raise error
        await asyncio.sleep(0.3)


async def upload(target: Target, name: str, data: bytes) -> dict[str, Any]:
    """Keep a file at the hub; returns its upload ``{id, name, size, type, expires_at}``. Raises HubError."""
    return (await _http(target, "POST", "/api/v1/uploads", params={"name": name}, data=data))["upload"]  # type: ignore[no-any-return]


async def health(target: Target) -> dict[str, Any]:
    """What ``/healthz`` says; a hub that says ``degraded`` answers too. Raises HubError."""
    return await _http(target, "GET", "/healthz", accept=(200, 503))


async def _http(
    target: Target, method: str, path: str, *, accept: tuple[int, ...] = (200,), **options: Any
) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {target.token}"} if target.token else {}
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=120, connect=CONNECT_SECONDS)) as http,
            http.request(method, target.url + path, headers=headers, **options) as response,
        ):
            body = await response.json(content_type=None)
            status = response.status
    except aiohttp.ClientConnectionError as error:
        raise NotRunning(f"no hub answers at {target.url}; {how_to_start()}") from error
    except TimeoutError as error:
        raise Unavailable(f"the hub at {target.url} does not answer") from error
    except (aiohttp.ClientError, ValueError) as error:
        raise NotRunning(f"what answers at {target.url} is not a hub") from error
    if not isinstance(body, dict):
        raise NotRunning(f"what answers at {target.url} is not a hub")
    if status not in accept:
        wire = body.get("error")
        raise error_from_wire(wire if isinstance(wire, dict) else {"message": f"the hub answered {status} to {path}"})
    return body
