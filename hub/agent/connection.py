"""The connection to a hub: it comes back by itself, and says so."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import aiohttp

from hub.agent.socket import Refused, Socket
from hub.agent.waiting import spread
from hub.core.errors import (
    Forbidden,
    HubError,
    InvalidRequest,
    RateLimited,
    Removed,
    Unauthorized,
    Unavailable,
    error_from_wire,
)

_log = logging.getLogger(__name__)

ATTEMPT: Final = 10.0
"""Seconds that one attempt to connect may take."""
ANSWER: Final = 30.0
"""Seconds after which a connection that gives no answer is given up."""
SLOWEST: Final = 5.0
"""Seconds between attempts, at most, about."""

Token = str | Callable[[], "str | Awaitable[str]"]
_FOR_GOOD: Final[dict[int, type[HubError]]] = {4500: Unauthorized, 4503: Removed, 4507: Forbidden}


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
        self.url = hub_address(url)
        if not isinstance(token, str) and not callable(token):
            raise InvalidRequest(f"a token is text, or a function that gives it, not {type(token).__name__}")
        self.http: aiohttp.ClientSession
        self._token = token
        self._on_event = on_event
        self._on_up = on_up
        self._on_down = on_down
        self._now: _Attempt | None = None
        self._up = False
        self._before: str | None = None  # the hub's name for the last connection
        self._task: asyncio.Task[None] | None = None

    @property
    def up(self) -> bool:
        """Whether requests can be sent now."""
        return self._up and self._now is not None and not self._now.gone.done()

    async def start(self, wait: float) -> None:
        """Connect; ``wait``: seconds to try for. Raises Unavailable, or what the hub refuses with."""
        self.http = aiohttp.ClientSession()
        deadline = asyncio.get_running_loop().time() + wait
        attempt = 0
        try:
            while (error := await self._attempt()) is not None:
                if not error.retryable or asyncio.get_running_loop().time() >= deadline:
                    raise error
                attempt += 1
                await asyncio.sleep(_pause(attempt))
        except BaseException:
            await self.http.close()
            raise
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
        if now is None or not self.up:
            raise Lost
        try:
            async with asyncio.timeout(ANSWER):
                return await now.request(name, payload)
        except TimeoutError:
            _log.warning("the hub gave no answer to %s; connecting again", name)
            now.end()
            raise Lost from None
        except ConnectionError as error:
            raise Lost from error

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
        now = self._now = _Attempt(self._on_event)
        try:
            async with asyncio.timeout(ATTEMPT):
                auth = {"token": await self.token(), **({"previous": self._before} if self._before else {})}
                await now.open(self.http, f"{self.url}/msgpack/socket.io", auth)
                hello = await now.hello
        except (Refused, aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
            await self._leave()
            return now.refusal() or Unavailable(f"no hub answers at {self.url}: {str(error) or 'in time'}")
        except BaseException:
            await self._leave()
            raise
        self._before = now.sid
        if isinstance(hello.get("previous"), dict):
            _log.warning("the hub had ended the last connection: %s", hello["previous"].get("reason"))
        self._up = True
        self._on_up(hello)
        return None

    async def _again(self) -> HubError | None:
        """``_attempt`` for who has nobody to tell."""
        try:
            return await self._attempt()
        except Exception as error:  # of the function that gives the token, or of those that hear of the connection
            _log.exception("connecting again")
            await self._leave()
            return Unavailable(f"connecting to {self.url} failed: {error}")

    async def _stay(self) -> None:
        loop = asyncio.get_running_loop()
        attempt = 0
        while True:
            assert self._now is not None
            since = loop.time()
            await self._now.gone
            lasted = loop.time() - since > SLOWEST
            attempt = 0 if lasted else min(attempt + 1, 3)  # one that does not last is hardly one
            now, self._up = self._now, False
            await self._leave()
            error = now.parting()
            self._on_down(error)
            if error is not None:
                return
            await asyncio.sleep(_pause(attempt, now.farewell.get("retry_after_ms")))
            while (refusal := await self._again()) is not None:
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

    def __init__(self, on_event: Callable[[str, dict[str, Any]], dict[str, Any] | None]) -> None:
        loop = asyncio.get_running_loop()
        self.hello: asyncio.Future[dict[str, Any]] = loop.create_future()
        self.gone: asyncio.Future[None] = loop.create_future()
        self.farewell: dict[str, Any] = {}
        self.sid = ""
        """The hub's name for the connection."""
        self._refused: dict[str, Any] = {}
        self._on_event = on_event
        self._socket: Socket | None = None
        self._reader: asyncio.Task[None] | None = None
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}

    async def open(self, http: aiohttp.ClientSession, url: str, auth: dict[str, Any]) -> None:
        """Connect, and take what comes from then on. Raises what ``Socket.connect`` raises."""
        try:
            self._socket = await Socket.connect(http, url, auth)
        except Refused as refused:
            data = refused.data.get("data")
            self._refused = data if isinstance(data, dict) else refused.data
            raise
        self.sid = self._socket.sid
        self._reader = asyncio.create_task(self._socket.run(self._event, self._answered), name="packets of the hub")
        self._reader.add_done_callback(self._ended)

    async def request(self, name: str, payload: dict[str, Any]) -> dict[str, Any]:
        """A request's answer. Raises ConnectionError if the connection ends before it comes."""
        assert self._socket is not None
        id = next(self._ids)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[id] = answer
        try:
            await self._socket.emit(name, payload, id)
            return await answer
        finally:
            self._answers.pop(id, None)

    def end(self) -> None:
        """It is over."""
        for waiting in (self.hello, *self._answers.values()):
            if not waiting.done():
                waiting.set_exception(ConnectionError("the connection was closed"))
                waiting.exception()  # it counts as seen, whether or not somebody waits
        if not self.gone.done():
            self.gone.set_result(None)

    async def close(self) -> None:
        """Leave."""
        self.end()
        if self._reader is not None:
            self._reader.remove_done_callback(self._ended)
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        if self._socket is not None:
            try:
                async with asyncio.timeout(1):
                    await self._socket.close()
            except Exception:
                _log.debug("leaving the hub", exc_info=True)

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

    def _event(self, name: str, payload: Any) -> dict[str, Any] | None:
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

    def _answered(self, id: int, reply: Any) -> None:
        answer = self._answers.pop(id, None)
        if answer is not None and not answer.done():
            answer.set_result(reply if isinstance(reply, dict) else {"ok": False, "error": {"code": "internal"}})

    def _ended(self, reader: asyncio.Task[None]) -> None:
        if not reader.cancelled() and (error := reader.exception()) is not None:
            _log.error("in the connection to the hub", exc_info=error)
        self.end()


def hub_address(url: str) -> str:
    """A hub's address without what an address that people open has besides: its fragment, which has a token, and a query.
    Raises InvalidRequest."""
    needed = InvalidRequest("the address of a hub is needed, like http://127.0.0.1:8765")
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https", "ws", "wss") or not parts.hostname or parts.port == 0:
            raise needed
    except ValueError:  # of its port
        raise needed from None
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))


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
