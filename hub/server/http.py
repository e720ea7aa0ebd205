"""The HTTP side: health, nodes, uploads, the page."""

from __future__ import annotations

import asyncio
import logging
import mimetypes
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from aiohttp import web

from hub import __version__
from hub.core.errors import (
    Forbidden,
    HubError,
    Internal,
    InvalidRequest,
    NotFound,
    TooLarge,
    Unauthorized,
    Unavailable,
)
from hub.core.requests import Role
from hub.core.times import iso
from hub.core.values import clean_text
from hub.node.node import Node
from hub.node.rights import Identity
from hub.record.port import Upload
from hub.server.auth import Tokens
from hub.server.draining import Drain

_log = logging.getLogger(__name__)

STATIC = Path(__file__).parent / "static"
UPLOAD_SECONDS = 24 * 3600.0
"""How long an upload is kept."""
LONGEST_DRAIN = 3600.0
"""Seconds that a node may have to drain, at most."""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; connect-src 'self' ws: wss:; img-src 'self' data:; style-src 'self'; script-src 'self'; "
        "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

_STATUS: dict[type[HubError], int] = {
    Unauthorized: 401,
    Forbidden: 403,
    NotFound: 404,
    TooLarge: 413,
    Unavailable: 503,
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Errors as JSON with their code."""
    try:
        return await handler(request)
    except HubError as error:
        status = next((number for kind, number in _STATUS.items() if isinstance(error, kind)), 400)
        return _error(status, error)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        kind = NotFound if error.status == 404 else InvalidRequest
        return _error(
            error.status, kind(f"{request.method} {request.path}: {error.reason}"), error.headers.get("Allow")
        )
    except (ConnectionError, asyncio.CancelledError):
        raise
    except Exception:
        _log.exception("%s %s", request.method, request.path)
        return _error(500, Internal("the hub failed at this request; it is in the hub's log"))


def _error(status: int, error: HubError, allow: str | None = None) -> web.Response:
    headers = {"Allow": allow} if allow else None
    return web.json_response({"ok": False, "error": error.to_wire()}, status=status, headers=headers)


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Security headers on everything."""
    response.headers.update(HEADERS)


class Http:
    """Routes beside the Socket.IO endpoints."""

    def __init__(self, node: Node, tokens: Tokens, connections: Callable[[], int], drain: Drain) -> None:
        self._node = node
        self._tokens = tokens
        self._connections = connections
        self._drain = drain

    def add_to(self, app: web.Application) -> None:
        app.router.add_get("/healthz", self.health)
        app.router.add_get("/api/v1/nodes", self.nodes)
        app.router.add_post("/api/v1/drain", self.drain)
        app.router.add_post("/api/v1/uploads", self.upload)
        app.router.add_get("/api/v1/uploads/{id}", self.download)
        app.router.add_get("/", self.page)
        app.router.add_get("/c/{id}", self.page)
        if (STATIC / "assets").is_dir():
            app.router.add_static("/assets", STATIC / "assets")
        for file in STATIC.glob("*.*") if STATIC.is_dir() else ():
            if file.name != "index.html":
                app.router.add_get(f"/{file.name}", _file_handler(file))

    async def health(self, request: web.Request) -> web.Response:
        """Whether this node serves. 503 while the record cannot be reached or takes no writes, while it does not hear other
        nodes, and while it drains."""
        body: dict[str, Any] = {
            "status": "ok",
            "version": __version__,
            "node": self._node.name,
            "record": {"durability": self._node.record.durability},
            "contexts": sum(1 for _ in self._node.contexts),
            "connections": self._connections(),
            "agents": self._node.agents,
        }
        try:
            if self._node.degraded:
                raise Unavailable("the record is away")
            body["record"]["ping_ms"] = round(await self._node.record.ping() * 1000, 3)
            if self._node.presence.refused is not None:
                raise Unavailable(f"the record takes no writes: {self._node.presence.refused}")
            if self._node.deaf:
                raise Unavailable("this node does not hear the others; what they do shows late")
        except Unavailable as error:
            body |= {"status": "degraded", "reason": error.message}
        if self._drain.begun:
            body |= {"status": "draining", "reason": "this node ends; others go on"}
        return web.json_response(body, status=200 if body["status"] == "ok" else 503)

    async def nodes(self, request: web.Request) -> web.Response:
        """All nodes of the hub, for operators: ``{nodes: [{name, age, info}]}``, ``age`` in seconds since its last beat."""
        self._operator(request)
        return web.json_response({"ok": True, "nodes": await self._node.presence.look()})

    async def drain(self, request: web.Request) -> web.Response:
        """Let a node end in order, for operators: ``POST {node?, seconds?}``, by default the node that is asked."""
        self._operator(request)
        name, seconds = await _drain_order(request)
        if name is None or name == self._node.name:
            self._drain.ask(seconds)
            return web.json_response({"ok": True, "node": self._node.name})
        there = [row["name"] for row in await self._node.presence.look()]
        if name not in there:
            raise NotFound(f"there is no node {name!r}; there are: {', '.join(there)}")
        await self._node.orders.drain(name, seconds)
        return web.json_response({"ok": True, "node": name})

    async def upload(self, request: web.Request) -> web.Response:
        """Keep a file for a day: ``POST /api/v1/uploads?name=FILE`` with the file as the body."""
        identity = self._identity(request)
        if identity.role is Role.VIEWER:
            raise Forbidden("viewers cannot upload")
        name = _file_name(request.query.get("name", ""))
        if not name:
            raise InvalidRequest("an upload names its file: /api/v1/uploads?name=FILE")
        limit = self._node.settings.upload_bytes
        if request.content_length is not None and request.content_length > limit:
            raise TooLarge(f"the file has {request.content_length:,} bytes; at most {limit:,} are taken", limit=limit)
        kind = request.content_type
        if kind == "application/octet-stream":
            kind = mimetypes.guess_type(name)[0] or kind
        expires_at = iso(self._node.clock() + UPLOAD_SECONDS)
        new = Upload(secrets.token_urlsafe(16), name, kind, 0, identity.sub, expires_at)
        kept = await self._node.record.put_upload(new, _within(request, limit))
        return web.json_response(
            {
                "ok": True,
                "upload": {
                    "id": kept.id,
                    "name": kept.name,
                    "size": kept.size,
                    "type": kept.type,
                    "expires_at": kept.expires_at,
                },
            }
        )

    async def download(self, request: web.Request) -> web.StreamResponse:
        """The file of an upload, for its owner, agents and operators."""
        identity = self._identity(request)
        upload = await self._node.record.get_upload(request.match_info["id"])
        if upload is None or not (identity.role in (Role.OPERATOR, Role.AGENT) or upload.owner == identity.sub):
            raise NotFound("no such upload; it may have expired")
        response = web.StreamResponse(
            headers={
                "Content-Type": "application/octet-stream",
                "Content-Length": str(upload.size),
                "Content-Disposition": f"attachment; filename*=UTF-8''{quote(upload.name)}",
            }
        )
        await response.prepare(request)
        try:
            async for chunk in self._node.record.read_upload(upload.id):
                await response.write(chunk)
        except HubError as error:  # an answer is under way: that it broke off is all that can be said
            _log.warning("download of %s broke off: %s", upload.id, error.message)
            if request.transport is not None:
                request.transport.abort()
        else:
            await response.write_eof()
        return response

    async def page(self, request: web.Request) -> web.StreamResponse:
        """The web page; it finds its context in the address."""
        index = STATIC / "index.html"
        if not index.is_file():
            return web.Response(status=503, text="The web page is not built here; scripts/run builds it.\n")
        return web.FileResponse(index, headers={"Cache-Control": "no-cache"})

    def _operator(self, request: web.Request) -> None:
        if self._identity(request).role is not Role.OPERATOR:
            raise Forbidden("operators look after nodes")

    def _identity(self, request: web.Request) -> Identity:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        identity = self._tokens.read(token if scheme.lower() == "bearer" else None)
        identity.check_alive(self._node.clock())
        return identity


async def _drain_order(request: web.Request) -> tuple[str | None, float | None]:
    try:
        body = await request.json() if request.can_read_body else {}
        name, seconds = body.get("node"), body.get("seconds")
    except (ValueError, AttributeError):
        raise InvalidRequest("drain takes an object: {node?, seconds?}") from None
    if not isinstance(name, str | None):
        raise InvalidRequest("a node is named by text")
    if seconds is not None and not (type(seconds) in (int, float) and 0 <= seconds <= LONGEST_DRAIN):
        raise InvalidRequest(f"seconds is a number from 0 to {LONGEST_DRAIN:g}")
    return name, None if seconds is None else float(seconds)


def _file_name(text: str) -> str:
    """A file's name without folders and control characters, or ""."""
    name = "".join(c for c in clean_text(text) if c.isprintable()).replace("\\", "/").rsplit("/", 1)[-1].strip()[:200]
    return "" if name in (".", "..") else name


def _file_handler(file: Path) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.FileResponse(file)

    return handler


async def _within(request: web.Request, limit: int) -> AsyncIterator[bytes]:
    size = 0
    async for chunk in request.content.iter_chunked(262_144):
        size += len(chunk)
        if size > limit:
            raise TooLarge(f"the file has more than the {limit:,} bytes that are taken", limit=limit)
        yield chunk
