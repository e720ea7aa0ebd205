"""Requests that were answered not long ago, of all contexts: what the record loses is appended again from them.

They are kept as bytes, those of one append together: hundreds of thousands of objects would cost the collector of cycles more
than the appends themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from hub.core.position import Position
from hub.core.requests import AnyBody, Author, Request, Role

SECONDS: Final = 30.0
"""How long they are kept (RECORD.md, "The record lost something")."""
_OVERHEAD: Final = 150
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
    """Keeps them by context, within one budget: past that those go early whose context was not written to for longest."""

    def __init__(self, most_bytes: int) -> None:
        """``most_bytes``: of all of them together; 0 keeps none."""
        self._most = most_bytes
        self._bytes = 0
        self._of: dict[
            str, list[tuple[float, bytes]]
        ] = {}  # since when, oldest first; the context written last is last

    def __contains__(self, context: str) -> bool:
        """Whether anything of a context is kept."""
        return context in self._of

    def add(self, context: str, raw: bytes, now: float) -> None:
        """Keep those of one append. ``now`` in seconds of any steady clock."""
        kept = self._of.pop(context, None)
        if kept is None:
            kept = []
        kept.append((now, raw))
        self._of[context] = kept
        self._bytes += len(raw) + _OVERHEAD
        if kept[0][0] < now - SECONDS:
            self._drop(context, kept, now)
        while self._bytes > self._most and self._of:
            first, oldest = next(iter(self._of.items()))
            self._drop(first, oldest, oldest[0][0] + SECONDS + 1)

    def expire(self, now: float) -> None:
        """Forget what is too old."""
        for context, kept in list(self._of.items()):
            self._drop(context, kept, now)

    def take(self, context: str) -> list[bytes]:
        """What is kept of a context, oldest first; it is not kept any more."""
        kept = self._of.pop(context, [])
        self._bytes -= sum(len(raw) + _OVERHEAD for _, raw in kept)
        return [raw for _, raw in kept]

    def _drop(self, context: str, kept: list[tuple[float, bytes]], now: float) -> None:
        while kept and kept[0][0] < now - SECONDS:
            self._bytes -= len(kept.pop(0)[1]) + _OVERHEAD
        if not kept:
            del self._of[context]
