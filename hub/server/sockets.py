"""Socket.IO handlers. They only translate: connections to sessions, events to requests."""

from __future__ import annotations

import logging
from typing import Any

from socketio.exceptions import ConnectionRefusedError as Refused
from socketio.exceptions import TimeoutError as AckTimeout

from hub.core.errors import HubError, InvalidRequest, TooLarge, Unavailable
from hub.core.times import iso
from hub.node.node import Node
from hub.node.session import Session
from hub.server.auth import Tokens
from hub.server.engine import BAD_EVENT, TOO_LARGE, HubSocketServer, SocketOutbox
from hub.wire.codec import Encoded, Variant
from hub.wire.messages import PROTOCOL_VERSION

_log = logging.getLogger(__name__)

ACK_SECONDS = 10.0
"""How long a worker has to acknowledge what the hub sends it."""
BAD_TOKEN = 4500
TOO_MANY = 4504
RESTART = 4001


class Sockets:
    """Both endpoints and the sessions of everybody who is connected to them."""

    def __init__(self, node: Node, tokens: Tokens, origins: list[str] | None) -> None:
        self._node = node
        self._tokens = tokens
        self._sessions: dict[str, tuple[Session, SocketOutbox]] = {}
        self.servers = {
            "/socket.io": self._server(Variant.JSON, origins),
            "/msgpack/socket.io": self._server(Variant.MSGPACK, origins),
        }
        node.on_degraded = self._degraded

    @property
    def count(self) -> int:
        """Connections now."""
        return len(self._sessions)

    def _server(self, variant: Variant, origins: list[str] | None) -> HubSocketServer:
        server = HubSocketServer(variant, message_bytes=self._node.settings.message_bytes, origins=origins)

        async def connect(sid: str, environ: dict[str, Any], auth: Any) -> None:
            self._connect(server, sid, auth)

        async def connected(sid: str) -> None:
            self._greet(sid)

        async def disconnect(sid: str, reason: str) -> None:
            self._disconnect(sid)

        async def event(name: str, sid: str, *args: Any) -> dict[str, Any]:
            return await self._event(name, sid, args)

        server.on("connect", connect)
        server.on("connected", connected)
        server.on("disconnect", disconnect)
        server.on("*", event)
        return server

    def _connect(self, server: HubSocketServer, sid: str, auth: Any) -> None:
        try:
            identity = self._tokens.read(auth.get("token") if isinstance(auth, dict) else None)
        except HubError as error:
            raise Refused(error.message, {"code": BAD_TOKEN, "reason": error.message, "reconnect": False}) from None
        if len(self._sessions) >= self._node.settings.connections:
            reason = "this hub has as many connections as it takes"
            raise Refused(reason, {"code": TOO_MANY, "reason": reason, "reconnect": False})
        outbox = SocketOutbox(server, sid, self._node.settings.outbox_bytes)

        async def call(event: str, payload: dict[str, Any]) -> dict[str, Any]:
            try:
                reply = await server.call(event, payload, to=sid, timeout=ACK_SECONDS)
            except AckTimeout:
                raise Unavailable(f"the worker did not acknowledge {event}") from None
            return reply if isinstance(reply, dict) else {"ok": True}

        self._sessions[sid] = (Session(self._node, identity, outbox, call), outbox)

    def _greet(self, sid: str) -> None:
        if sid not in self._sessions:
            return
        session, outbox = self._sessions[sid]
        settings = self._node.settings
        hello = {
            "protocol": PROTOCOL_VERSION,
            "node": self._node.name,
            "server_time": iso(self._node.clock()),
            "role": str(session.identity.role),
            "sub": session.identity.sub,
            "agents": self._node.dispatch.agents,
            "degraded": self._node.degraded,
            "limits": {
                "message_bytes": settings.message_bytes,
                "upload_bytes": settings.upload_bytes,
                "message_characters": settings.limits.message,
                "document_bytes": settings.limits.document,
                "subscriptions": settings.subscriptions,
            },
        }
        outbox.send(Encoded("hello", hello))

    def _disconnect(self, sid: str) -> None:
        there = self._sessions.pop(sid, None)
        if there is not None:
            there[0].close()

    async def _event(self, name: str, sid: str, args: tuple[Any, ...]) -> dict[str, Any]:
        there = self._sessions.get(sid)
        if there is None:
            return _refusal(Unavailable("the connection is closing"))
        if name == TOO_LARGE:
            limit = self._node.settings.message_bytes
            return _refusal(TooLarge(f"the message has {args[0]:,} bytes; at most {limit:,} are taken", limit=limit))
        if name == BAD_EVENT:
            return _refusal(InvalidRequest("an event is a name and one object"))
        if len(args) > 1:
            return _refusal(InvalidRequest(f"{name[:60]!r} takes one object, not {len(args)} arguments"))
        return await there[0].request(name, args[0] if args else {})

    def _degraded(self, degraded: bool) -> None:
        self._tell_all(Encoded("hub.degraded", {"degraded": degraded}))

    def _tell_all(self, event: Encoded) -> None:
        for _, outbox in list(self._sessions.values()):
            outbox.send(event)

    def say_goodbye(self, reason: str) -> None:
        """Tell everybody that this hub ends, and to come back."""
        farewell = {"code": RESTART, "reason": reason, "reconnect": True, "retry_after_ms": 500}
        self._tell_all(Encoded("hub.disconnect", farewell))

    async def close(self) -> None:
        """Close every connection."""
        for _, outbox in list(self._sessions.values()):
            outbox.close()
        for server in self.servers.values():
            await server.shutdown()


def _refusal(error: HubError) -> dict[str, Any]:
    return {"ok": False, "error": error.to_wire()}
