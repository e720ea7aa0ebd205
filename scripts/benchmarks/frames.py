"""WebSocket frames by hand, as cheap as Python can: what the load clients and the bare peer are made of.

Only what the servers of the bench send is understood: whole frames (no fragments), no extensions.
"""

from __future__ import annotations

from typing import Final

TEXT: Final = 1
BINARY: Final = 2
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10

_NO_MASK: Final = b"\0\0\0\0"
"""A client must mask; with this key masking changes nothing, so it costs nothing."""


def client_frame(payload: bytes, opcode: int = TEXT) -> bytes:
    """A frame as a client sends it."""
    return _head(len(payload), opcode, 0x80) + _NO_MASK + payload


def server_frame(payload: bytes, opcode: int = TEXT) -> bytes:
    """A frame as a server sends it."""
    return _head(len(payload), opcode, 0) + payload


def _head(size: int, opcode: int, mask: int) -> bytes:
    if size < 126:
        return bytes((0x80 | opcode, mask | size))
    if size < 65_536:
        return bytes((0x80 | opcode, mask | 126)) + size.to_bytes(2)
    return bytes((0x80 | opcode, mask | 127)) + size.to_bytes(8)


def bounds(data: bytes, at: int) -> tuple[int, int] | None:
    """Where the payload of a server's frame that begins at ``at`` starts and ends; None if its head is not all there.

    The end may be beyond the data.
    """
    have = len(data) - at
    if have < 2:
        return None
    size = data[at + 1]
    if size < 126:
        return at + 2, at + 2 + size
    if size == 126:
        return None if have < 4 else (at + 4, at + 4 + (data[at + 2] << 8 | data[at + 3]))
    return None if have < 10 else (at + 10, at + 10 + int.from_bytes(data[at + 2 : at + 10]))


def split(data: bytes) -> tuple[list[tuple[int, bytes]], bytes]:
    """The whole frames in some bytes, as (opcode, payload), and the bytes of one that is not complete yet."""
    frames: list[tuple[int, bytes]] = []
    at = 0
    while (found := bounds(data, at)) is not None and found[1] <= len(data):
        start, end = found
        frames.append((data[at] & 15, data[start:end]))
        at = end
    return frames, data[at:]
