"""WebSockets as a server sees them (RFC 6455): the handshake, and frames as they come in. It knows no transport; what goes
out is in hub/wire/codec.py.

Nothing is compressed: frames are made once for many connections, and go straight to their transports.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from hashlib import sha1
from typing import Final

# In C where it was built: what a loop here would need for each byte is more than the rest of a change costs.
from aiohttp._websocket.helpers import websocket_mask

TEXT: Final = 1
BINARY: Final = 2
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10
PART: Final = 0
"""A part of a message that goes on: there is nothing to handle yet."""
_OPCODES: Final = frozenset({PART, TEXT, BINARY, CLOSE, PING, PONG})

BROKEN: Final = 1002
NOT_TEXT: Final = 1007
TOO_BIG: Final = 1009
_CLOSE_CODES: Final = frozenset({1000, 1001, 1002, 1003, *range(1007, 1015)})
"""Codes of the standard that go over the wire; those from 3000 to 4999 are applications'."""

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

Frame = tuple[int, str | bytes]
"""A whole message, a control frame or a part: its opcode, and text or bytes."""
_PART_FRAME: Final[Frame] = (PART, b"")


class FrameError(Exception):
    """What came is no WebSocket frame that a client may send. ``code`` goes into the close frame."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def switch(headers: Mapping[str, str]) -> bytes | None:
    """The head of the answer to a request that asks for a WebSocket; None if it does not, or not properly."""
    options = {option.strip() for option in headers.get("Connection", "").lower().split(",")}
    key = headers.get("Sec-WebSocket-Key", "")
    if (
        headers.get("Upgrade", "").strip().lower() != "websocket"
        or "upgrade" not in options
        or headers.get("Sec-WebSocket-Version") != "13"
        or not _is_key(key)
    ):
        return None
    accept = b64encode(sha1(key.encode() + _GUID, usedforsecurity=False).digest())
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: "
        + accept
        + b"\r\n\r\n"
    )


def _is_key(key: str) -> bool:
    try:
        return len(b64decode(key, validate=True)) == 16
    except ValueError:  # no base64, or not even ASCII
        return False


def close_frame(code: int) -> bytes:
    """The frame with which a server closes."""
    return b"\x88\x02" + code.to_bytes(2, "big")


class FrameReader:
    """Takes what came, gives one frame after the other: whole messages, control frames, and of a message in several frames
    its last one; those before are parts. ``limit``: bytes of a message."""

    __slots__ = ("_at", "_data", "_kind", "_limit", "_needed", "_parts")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data: bytes | bytearray = b""
        self._at = 0
        self._needed = 2  # nothing can be said of the next frame before so many bytes of it are there
        self._kind = 0
        self._parts: bytearray | None = None
        """Of a message that comes in parts, what there is so far."""

    def feed(self, data: bytes) -> None:
        """More has come."""
        if not self._data:
            self._data = data
            return
        if isinstance(self._data, bytes):
            self._data = bytearray(self._data)
        if self._at:
            del self._data[: self._at]
            self._at = 0
        self._data += data

    @property
    def has_more(self) -> bool:
        """Whether bytes are left that were not given yet."""
        return bool(self._data)

    def next(self) -> Frame | None:
        """The next message, control frame or part, if it is here whole. Raises FrameError."""
        data, at = self._data, self._at
        there = len(data) - at
        if there < self._needed:
            return None
        first, size = data[at], data[at + 1]
        head = 6
        if not size & 0x80:
            raise FrameError(BROKEN, "a frame without a mask")
        size &= 0x7F
        if size > 125:
            head = 8 if size == 126 else 14
        if there < head:
            self._needed = head
            return None
        if head > 6:
            size = int.from_bytes(data[at + 2 : at + head - 4], "big")
        self._check(first, size)
        if there < head + size:
            self._needed = head + size
            return None
        start = at + head
        frame = self._take(first, _unmask(data[start - 4 : start], data[start : start + size]))
        self._needed = 2
        self._at = start + size
        if self._at == len(data):
            self._data, self._at = b"", 0
        return frame

    def _check(self, first: int, size: int) -> None:
        """Before the frame is waited for: what is too large is never kept."""
        opcode = first & 0x0F
        if first & 0x70 or opcode not in _OPCODES:
            raise FrameError(BROKEN, "a frame of an unknown kind")
        if opcode >= CLOSE:
            if size > 125 or not first & 0x80:
                raise FrameError(BROKEN, "a control frame that is long, or comes in parts")
        elif (opcode == PART) is (self._parts is None):
            raise FrameError(BROKEN, "parts of messages out of order")
        elif size + (0 if self._parts is None else len(self._parts)) > self._limit:
            raise FrameError(TOO_BIG, f"a message of more than {self._limit:,} bytes")

    def _take(self, first: int, payload: bytes) -> Frame:
        opcode, last = first & 0x0F, first & 0x80
        if opcode >= CLOSE:
            if opcode == CLOSE:
                _check_close(payload)
            return opcode, payload
        if opcode == PART:
            assert self._parts is not None
            self._parts += payload
            if not last:
                return _PART_FRAME
            opcode, payload, self._parts = self._kind, bytes(self._parts), None
        elif not last:
            self._kind, self._parts = opcode, bytearray(payload)
            return _PART_FRAME
        return opcode, payload if opcode == BINARY else _text(payload)


def _check_close(payload: bytes) -> None:
    """Nothing, or a code that may be sent and a reason in UTF-8."""
    code = int.from_bytes(payload[:2], "big")
    if payload and not (3000 <= code < 5000 or code in _CLOSE_CODES):
        raise FrameError(BROKEN, "a close frame without a proper code")
    _text(payload[2:])


def _text(payload: bytes) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        raise FrameError(NOT_TEXT, "text that is not UTF-8") from None


def _unmask(mask: bytes | bytearray, payload: bytes | bytearray) -> bytes:
    unmasked = bytearray(payload)
    websocket_mask(bytes(mask), unmasked)
    return bytes(unmasked)
