"""How a connection is taken from aiohttp, which took the request on it.

It alone knows aiohttp's inside. Relied on, and pinned by tests/test_socketio_library_semantics.py: of the request handler
``transport``, ``connection_lost``, ``_message_tail``; of a response ``prepare`` and ``write_eof``.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from aiohttp import web


def take_over(request: web.Request, transport: asyncio.Transport, protocol: asyncio.Protocol) -> None:
    """Let a protocol have the connection of a request. For aiohttp it is lost; the request is answered by ``TAKEN``."""
    handler: Any = request.protocol
    tail = handler._message_tail
    handler.transport = None  # else it would close it
    transport.set_protocol(protocol)
    handler.connection_lost(None)
    if not transport.is_reading():
        transport.resume_reading()
    if tail:
        protocol.data_received(tail)


class _Taken(web.StreamResponse):
    """What aiohttp gets as the answer to a request that was answered, on a connection that is no longer its own."""

    async def prepare(self, request: web.BaseRequest) -> None:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None


TAKEN: Final = _Taken()
