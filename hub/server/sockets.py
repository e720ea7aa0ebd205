"""Socket.IO handlers. They only translate: connections to sessions, events to requests."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from functools import partial
from typing import Any

from hub.core.errors import HubError, Internal, InvalidRequest, RateLimited, Unavailable
from hub.core.times import iso
from hub.node.node import Node
from hub.node.rates import FAR, Admissions
from hub.node.session import Session
from hub.server.auth import Tokens
from hub.server.engine import HubSocketServer, Refused, Reply, refusal
from hub.server.outbox import SocketOutbox
from hub.server.partings import Partings
from hub.wire.codec import Encoded, Variant
from hub.wire.messages import PROTOCOL_VERSION

_log = logging.getLogger(__name__)

WEBSOCKET_NEEDED = "this hub takes WebSockets only, no polling: connect with transports: ['websocket']"
ACK_SECONDS = 10.0
"""How long a worker has to acknowledge what the hub sends it."""
BAD_TOKEN = 4500
TOO_MANY = 4504
NO_POLLING = 4506
RESTART = 4001
EXPIRED = 4005
TOO_FAST = 4013
FIRST_BURST = 4.0
"""Seconds' worth of new connections that may come at once."""
BACK_SECONDS = 0.5
"""How long who is told to come back waits at least, about: another node may still be starting."""
BACK_PER_CLIENT = 0.001
"""Seconds over which each client more spreads their coming back."""
FAREWELLS = 32
"""Moments at which clients are told to come back: one event each, so that none is encoded for one client."""


class Sockets:
    """Both endpoints and the sessions of everybody who is connected to them."""

    def __init__(self, node: Node, tokens: Tokens, origins: list[str] | None, *, websocket_only: bool = False) -> None:
        """``websocket_only``: connections that poll are refused, since their requests may come to several nodes."""
        self._node = node
        self._tokens = tokens
        self._sessions: dict[str, tuple[Session, SocketOutbox]] = {}
        self._expiry: dict[str, asyncio.TimerHandle] = {}
        self._partings = Partings()
        settings = node.settings
        self._admissions = Admissions(settings.connects_per_second, FIRST_BURST)
        self._per_request = 1 / settings.requests_per_second if settings.requests_per_second else 0.0
        self._per_byte = 1 / settings.bytes_per_second if settings.bytes_per_second else 0.0
        self._burst = settings.rate_burst
        self.servers = {
            "/socket.io": self._server(Variant.JSON, origins, websocket_only),
            "/msgpack/socket.io": self._server(Variant.MSGPACK, origins, websocket_only),
        }
        node.on_degraded = self._degraded

    @property
    def count(self) -> int:
        """Connections now."""
        return len(self._sessions)

    def _server(self, variant: Variant, origins: list[str] | None, websocket_only: bool) -> HubSocketServer:
        settings = self._node.settings
        return HubSocketServer(
            variant,
            self,
            message_bytes=settings.message_bytes,
            outbox_bytes=settings.outbox_bytes,
            origins=origins,
            ping=(settings.ping_seconds, settings.ping_timeout),
            admissions=self._admissions,
            no_polling=_refused(NO_POLLING, WEBSOCKET_NEEDED) if websocket_only else None,
        )

    # the handler of both servers

    def connect(self, server: HubSocketServer, sid: str, outbox: SocketOutbox, auth: Any) -> None:
        """Let somebody in. Raises Refused."""
        try:
            identity = self._tokens.read(auth.get("token") if isinstance(auth, dict) else None)
        except HubError as error:
            raise _refused(BAD_TOKEN, error.message) from None
        except Exception:
            _log.exception("reading a token")
            raise _refused(BAD_TOKEN, "the hub failed at this token; it is in the hub's log") from None
        if len(self._sessions) >= self._node.settings.connections:
            raise _refused(TOO_MANY, "this hub has as many connections as it takes")
        call = partial(server.request, outbox, seconds=ACK_SECONDS)
        self._sessions[sid] = (Session(self._node, identity, outbox, call), outbox)
        previous = auth.get("previous") if isinstance(auth, dict) else None
        outbox.before = self._partings.take(previous, identity, self._node.clock())

    def greeting(self, sid: str) -> Encoded:
        """What somebody is told who was let in."""
        session, outbox = self._sessions[sid]
        settings = self._node.settings
        hello = {
            "protocol": PROTOCOL_VERSION,
            "node": self._node.name,
            "server_time": iso(self._node.clock()),
            "role": str(session.identity.role),
            "sub": session.identity.sub,
            "agents": self._node.agents,
            "degraded": self._node.degraded,
            "limits": {
                "message_bytes": settings.message_bytes,
                "upload_bytes": settings.upload_bytes,
                "message_characters": settings.limits.message,
                "document_bytes": settings.limits.document,
                "subscriptions": settings.subscriptions,
            },
        }
        if outbox.before is not None:
            hello["previous"], outbox.before = outbox.before, None
        if session.identity.expires_at is not None:
            left = max(0.0, session.identity.expires_at - self._node.clock())
            self._expiry[sid] = asyncio.get_running_loop().call_later(left, self._expired, sid, outbox)
        return Encoded("hello", hello)

    def event(self, sid: str, name: str, args: list[Any], reply: Reply) -> None:
        """Let the session answer a request."""
        there = self._sessions.get(sid)
        try:
            if there is None:
                reply(refusal(Unavailable("the connection is closing")))
            elif wait := self._wait(there[1]):
                reply(refusal(self._too_fast(there[1], wait)))
            elif len(args) > 1:
                reply(refusal(InvalidRequest(f"{name[:60]!r} takes one object, not {len(args)} arguments")))
            else:
                there[0].request(name, args[0] if args else {}, reply)
        except Exception:
            _log.exception("request %s", name[:60])
            reply(refusal(Internal("the hub failed at this request; it is in the hub's log")))

    def _wait(self, outbox: SocketOutbox) -> float:
        """0.0 if one more request may come now; else in how many seconds."""
        cost = self._per_request + outbox.incoming * self._per_byte
        wait = outbox.rate.take(time.monotonic(), cost, self._burst)
        if wait:
            outbox.owed += cost / 2  # of what is refused no more is read than twice the rate
        return wait

    def _too_fast(self, outbox: SocketOutbox, wait: float) -> RateLimited:
        text = "this connection asks too much at a time; ask again later, with the same key"
        if wait > FAR and outbox.parting is None:
            outbox.parting = (TOO_FAST, "it asked far more than its rate allows")
            self._part(outbox, *outbox.parting, reconnect=True, seconds=min(wait, 60.0))
        return RateLimited(text, retry_after_ms=max(1, round(wait * 1000)))

    def disconnected(self, sid: str) -> None:
        """A connection is gone."""
        there = self._sessions.pop(sid, None)
        if there is not None and there[1].parting is not None:
            self._partings.keep(sid, there[0].identity, self._node.clock(), there[1].parting)
        expiry = self._expiry.pop(sid, None)
        if expiry is not None:
            expiry.cancel()
        if there is not None:
            there[0].close()

    # what everybody is told

    def _expired(self, sid: str, outbox: SocketOutbox) -> None:
        """The token's time is over while its connection lives: it comes back with a new one."""
        if self._sessions.get(sid, (None, None))[1] is outbox:
            self._part(outbox, EXPIRED, "the token has expired", reconnect=True)

    def _part(self, outbox: SocketOutbox, code: int, reason: str, *, reconnect: bool, seconds: float = 0.5) -> None:
        """Say why, then close: after the farewell had a moment to leave."""
        after = round(seconds * 1000)
        farewell = {"code": code, "reason": reason, "reconnect": reconnect, "retry_after_ms": after}
        outbox.send(Encoded("hub.disconnect", farewell))
        asyncio.get_running_loop().call_later(0.1, outbox.close)

    def _degraded(self, degraded: bool) -> None:
        self._tell_all(Encoded("hub.degraded", {"degraded": degraded}))

    def _tell_all(self, event: Encoded) -> None:
        for _, outbox in list(self._sessions.values()):
            outbox.send(event)

    def drain(self, deadline: float | None) -> None:
        """Take no new connections; with a ``deadline``, in seconds since 1970, tell those that are there to go on elsewhere
        until then."""
        for server in self.servers.values():
            server.take_no_more()
        if deadline is not None:
            seconds = round(max(0.0, deadline - self._node.clock()), 3)
            self._tell_all(Encoded("hub.drain", {"deadline": iso(deadline), "seconds": seconds}))

    def say_goodbye(self, reason: str) -> None:
        """Tell everybody that this hub ends, and to come back, each at a moment of its own."""
        spread = BACK_SECONDS + BACK_PER_CLIENT * len(self._sessions)
        farewells = [
            Encoded("hub.disconnect", {"code": RESTART, "reason": reason, "reconnect": True, "retry_after_ms": after})
            for after in (round(1000 * (BACK_SECONDS + spread * n / FAREWELLS)) for n in range(FAREWELLS))
        ]
        for _, outbox in list(self._sessions.values()):
            outbox.send(random.choice(farewells))

    def close(self) -> None:
        """Close every connection, and take no more."""
        for server in self.servers.values():
            server.shutdown()


def _refused(code: int, reason: str) -> Refused:
    return Refused(reason, {"code": code, "reason": reason, "reconnect": False})
