"""The connection to a hub: it comes back by itself, and says so."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import aiohttp
import socketio
from socketio.exceptions import SocketIOError

from hub.agent.waiting import spread
from hub.core.errors import Forbidden, HubError, RateLimited, Removed, Unauthorized, Unavailable, error_from_wire

_log = logging.getLogger(__name__)

ATTEMPT: Final = 10.0
"""Seconds that one attempt to connect may take."""
ANSWER: Final = 30.0
"""Seconds after which a connection that gives no answer is given up."""
SLOWEST: Final = 5.0
"""Seconds between attempts, at most, about."""

Token = str | Callable[[], "str | Awaitable[str]"]
_FOR_GOOD: Final[dict[int, type[HubError]]] = {4500: Unauthorized, 4503: Removed, 4507: Forbidden}


class Socket(aiohttp.ClientWebSocketResponse):
    """A WebSocket that is closed when who waits for its next message is cancelled: a Socket.IO client that is given up before
    the hub's first packet came knows of no socket yet, and leaves it open."""

    async def receive(self, timeout: float | None = None) -> aiohttp.WSMessage:
        try:
            return await super().receive(timeout)
        except asyncio.CancelledError:
            await self.close()
            raise


class Lost(Exception):
    """The connection went before an answer came; the request may have arrived."""


class Connection:
    """One connection after another. ``on_event`` gets each event and gives its acknowledgement; ``on_up`` gets each hello;
    ``on_down`` the reason why it will not come back, or None if it will. All are called on the event loop."""

    def __init__(
        self,
        url: str,
        token: Token,
        *,
        on_event: Callable[[str, dict[str, Any]], dict[str, Any] | None],
        on_up: Callable[[dict[str, Any]], None],
        on_down: Callable[[HubError | None], None],
    ) -> None:
        self.url = url.rstrip("/")
        self.http: aiohttp.ClientSession
        self._token = token
        self._on_event = on_event
        self._on_up = on_up
        self._on_down = on_down
        self._now: _Attempt | None = None
        self._up = False
        self._before: str | None = None  # the hub's name for the last connection
        self._answers: set[asyncio.Future[dict[str, Any]]] = set()
        self._task: asyncio.Task[None] | None = None

    @property
    def up(self) -> bool:
        """Whether requests can be sent now."""
        return self._up

    async def start(self, wait: float) -> None:
        """Connect; ``wait``: seconds to try for. Raises Unavailable, or what the hub refuses with."""
        self.http = aiohttp.ClientSession(ws_response_class=Socket)
        deadline = asyncio.get_running_loop().time() + wait
        attempt = 0
        while True:
            error = await self._attempt()
            if error is None:
                break
            if not error.retryable or asyncio.get_running_loop().time() >= deadline:
                await self.http.close()
                raise error
            attempt += 1
            await asyncio.sleep(_pause(attempt))
        self._task = asyncio.create_task(self._stay(), name="hub connection")

    def leaver(self) -> Callable[[], None]:
        """Ends the connection that there is now, and no later one. Then it comes back, as after any end."""
        return self._now.end if self._now is not None else lambda: None

    async def close(self) -> None:
        """Leave, for good."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._leave()
        await self.http.close()

    async def request(self, name: str, payload: dict[str, Any]) -> dict[str, Any]:
        """A request's answer, ``ok`` included. Who is told to ask later does so. Raises Lost."""
        while (after := _later(reply := await self._request(name, payload))) is not None:
            _log.debug("the hub takes %s in %.1f s", name, after)
            await asyncio.sleep(after / 2 + spread(after))  # not before, and not all at once
        return reply

    async def _request(self, name: str, payload: dict[str, Any]) -> dict[str, Any]:
        now = self._now
        if now is None or not self._up:
            raise Lost
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers.add(answer)

        def acknowledged(reply: Any = None) -> None:
            if not answer.done():
                answer.set_result(reply if isinstance(reply, dict) else {"ok": False, "error": {"code": "internal"}})

        try:
            await now.sio.emit(name, payload, callback=acknowledged)
            return await asyncio.wait_for(answer, ANSWER)
        except TimeoutError:
            _log.warning("the hub gave no answer to %s; connecting again", name)
            now.end()
            raise Lost from None
        except (SocketIOError, ConnectionError) as error:
            raise Lost from error
        finally:
            self._answers.discard(answer)

    async def ask(self, name: str, payload: dict[str, Any]) -> dict[str, Any]:
        """A request's answer. Raises HubError: what refuses it, or Unavailable without a connection."""
        try:
            reply = await self.request(name, payload)
        except Lost:
            raise Unavailable("the connection to the hub was lost") from None
        if not reply.get("ok"):
            raise error_from_wire(reply.get("error") or {})
        return reply

    # one connection

    async def token(self) -> str:
        """The token as it is now."""
        if isinstance(self._token, str):
            return self._token
        token = self._token()
        return token if isinstance(token, str) else await token

    async def _attempt(self) -> HubError | None:
        """Try once. Returns why not."""
        now = self._now = _Attempt(self.http, self._on_event)
        try:
            async with asyncio.timeout(ATTEMPT):
                auth = {"token": await self.token(), **({"previous": self._before} if self._before else {})}
                await now.sio.connect(
                    self.url,
                    auth=auth,
                    transports=["websocket"],
                    socketio_path="msgpack/socket.io",
                    wait_timeout=ATTEMPT,
                )
                hello = await now.hello
        except (SocketIOError, aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
            await self._leave()
            return now.refusal() or Unavailable(f"no hub answers at {self.url}: {error or 'in time'}")
        except BaseException:
            await self._leave()
            raise
        self._before = now.sio.get_sid()
        if isinstance(hello.get("previous"), dict):
            _log.warning("the hub had ended the last connection: %s", hello["previous"].get("reason"))
        self._up = True
        self._on_up(hello)
        return None

    async def _stay(self) -> None:
        while True:
            assert self._now is not None
            await self._now.gone
            now, self._up = self._now, False
            for answer in list(self._answers):
                if not answer.done():
                    answer.set_exception(Lost())
            await self._leave()
            error = now.parting()
            self._on_down(error)
            if error is not None:
                return
            attempt = 0
            await asyncio.sleep(_pause(attempt, now.farewell.get("retry_after_ms")))
            while (refusal := await self._attempt()) is not None:
                if not refusal.retryable:
                    self._on_down(refusal)
                    return
                attempt += 1
                await asyncio.sleep(_pause(attempt))

    async def _leave(self) -> None:
        now, self._now = self._now, None
        self._up = False
        if now is not None:
            await now.close()


class _Attempt:
    """One connection, from the attempt to its end."""

    def __init__(
        self, http: aiohttp.ClientSession, on_event: Callable[[str, dict[str, Any]], dict[str, Any] | None]
    ) -> None:
        loop = asyncio.get_running_loop()
        self.hello: asyncio.Future[dict[str, Any]] = loop.create_future()
        self.gone: asyncio.Future[None] = loop.create_future()
        self.farewell: dict[str, Any] = {}
        self._refused: dict[str, Any] = {}
        self._on_event = on_event
        self.sio = socketio.AsyncClient(
            reconnection=False,
            serializer="msgpack",
            handle_sigint=False,
            http_session=http,
            websocket_extra_options={"max_msg_size": 64 * 1024 * 1024},
        )
        self.sio.on("*", self._event)
        self.sio.on("connect_error", self._connect_error)
        self.sio.on("disconnect", self._disconnected)

    def end(self) -> None:
        """It is over."""
        if not self.hello.done():
            self.hello.set_exception(ConnectionError("the connection was closed"))
            self.hello.exception()  # it counts as seen, whether or not somebody waits
        if not self.gone.done():
            self.gone.set_result(None)

    async def close(self) -> None:
        """Leave."""
        try:
            async with asyncio.timeout(1):
                await self.sio.disconnect()
        except Exception:
            _log.debug("leaving the hub", exc_info=True)
        self.end()

    def refusal(self) -> HubError | None:
        """Why the hub will not have us, if it said so for good."""
        code = self._refused.get("code")
        if not isinstance(code, int) or code < 4500:
            return None
        return _for_good(code, str(self._refused.get("reason") or "refused"))

    def parting(self) -> HubError | None:
        """Why there is no coming back, if the hub said so."""
        code = self.farewell.get("code")
        if not isinstance(code, int) or (code < 4500 and self.farewell.get("reconnect", True)):
            return None
        return _for_good(code, str(self.farewell.get("reason") or "the hub ended the connection"))

    def _event(self, name: str, payload: Any = None, *_: Any) -> dict[str, Any] | None:
        try:
            if not isinstance(payload, dict):
                return None
            if name == "hello":
                if not self.hello.done():
                    self.hello.set_result(payload)
            elif name == "hub.disconnect":
                self.farewell = payload
            else:
                return self._on_event(name, payload)
        except HubError as error:
            return {"ok": False, "error": error.to_wire()}
        except Exception:
            _log.exception("event %s", name)
            return {"ok": False, "error": {"code": "internal", "message": "the agent failed", "retryable": False}}
        return None

    def _connect_error(self, reason: Any = None, *_: Any) -> None:
        if isinstance(reason, dict):
            data = reason.get("data")
            self._refused = data if isinstance(data, dict) else reason

    def _disconnected(self, *_: Any) -> None:
        self.end()


def _later(reply: dict[str, Any]) -> float | None:
    """Seconds after which the hub wants to be asked again, if the answer says so."""
    error = reply.get("error")
    if not isinstance(error, dict) or error.get("code") != RateLimited.code:
        return None
    details = error.get("details")
    after = details.get("retry_after_ms") if isinstance(details, dict) else None
    return after / 1000 if isinstance(after, int | float) else None


def _for_good(code: int, reason: str) -> HubError:
    return _FOR_GOOD.get(code, HubError)(f"{reason} ({code})", code=code)


def _pause(attempt: int, asked_ms: Any = None) -> float:
    """Seconds to wait after so many attempts in vain; ``asked_ms`` is what the hub asked for."""
    return spread(asked_ms / 1000 if isinstance(asked_ms, int | float) else min(SLOWEST, 0.1 * 2.0 ** min(attempt, 10)))
