"""Requests that were answered not long ago, of all contexts: what the record loses is appended again from them.

They are kept as bytes, those of one append together: hundreds of thousands of objects would cost the collector of cycles more
than the appends themselves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from hub.core.position import Position
from hub.core.requests import AnyBody, Author, Request, Role

SECONDS: Final = 30.0
"""How long they are kept (RECORD.md, "The record lost something")."""
_OVERHEAD: Final = 200
"""About what those of an append take besides their bytes."""


class _Kept(Struct, array_like=True, gc=False):
    """A request, and the seq of its change."""

    seq: int
    sub: str
    role: Role
    now: str
    nonce: str
    no: int
    node: str
    body: bytes


_pack: Final = msgspec.msgpack.Encoder().encode
_unpack: Final = msgspec.msgpack.Decoder(tuple[str, list[_Kept]]).decode
_body: Final = msgspec.json.Decoder(AnyBody).decode


def packed(epoch: str, answered: Iterable[tuple[int, Request]]) -> bytes:
    """Requests with the seqs of their changes."""
    kept = [
        _Kept(seq, one.author.sub, one.author.role, one.now, one.nonce, one.no, one.node, one.encoded)
        for seq, one in answered
    ]
    return _pack((epoch, kept))


def unpacked(raw: bytes) -> Iterator[tuple[Position, Request]]:
    """What ``packed`` was given."""
    epoch, kept = _unpack(raw)
    for one in kept:
        request = Request(_body(one.body), Author(one.sub, one.role), one.now, one.nonce, one.no, one.node)
        yield Position(epoch, one.seq), request


class Recent:
    """Keeps them in the contexts' own lists, oldest first, within one budget: past that the oldest go early."""

    def __init__(self, most_bytes: int) -> None:
        """``most_bytes``: of all of them together; 0 keeps none."""
        self._most = most_bytes
        self._bytes = 0
        self._order: deque[tuple[float, list[bytes], int]] = deque()  # since when, where, bytes

    def add(self, there: list[bytes], raw: bytes, now: float) -> None:
        """Keep those of one append in a context's list. ``now`` in seconds of any steady clock."""
        there.append(raw)
        size = len(raw) + _OVERHEAD
        self._order.append((now, there, size))
        self._bytes += size
        self.expire(now)

    def expire(self, now: float) -> None:
        """Forget what is too old, or too much."""
        order = self._order
        while order and (order[0][0] < now - SECONDS or self._bytes > self._most):
            _, there, size = order.popleft()
            self._bytes -= size
            if there:  # who appended them again has none left
                del there[0]
