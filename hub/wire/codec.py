"""Socket.IO packets of events, and their WebSocket frames: encoded once for everybody who speaks that variant.

Two variants: the standard JSON parser (text) and the msgpack parser (bytes). An event has one object as its argument.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

import msgspec

_json: Final = msgspec.json.Encoder().encode
_msgpack: Final = msgspec.msgpack.Encoder().encode


class Variant(StrEnum):
    """How a connection's packets are encoded."""

    JSON = "json"
    MSGPACK = "msgpack"


def encode_event(variant: Variant, event: str, payload: dict[str, Any]) -> str | bytes:
    """The Socket.IO packet of an event in the default namespace, without Engine.IO's own framing."""
    if variant is Variant.JSON:
        return "2" + _json([event, payload]).decode()
    return _msgpack({"type": 2, "data": [event, payload], "nsp": "/"})


def encode_frame(variant: Variant, packet: str | bytes) -> bytes:
    """The WebSocket frame (RFC 6455, unmasked and whole) of the Engine.IO message that carries a Socket.IO packet."""
    if variant is Variant.JSON:
        assert isinstance(packet, str)
        return text_frame("4" + packet)
    assert isinstance(packet, bytes)
    return binary_frame(packet)


def binary_frame(data: bytes) -> bytes:
    """The WebSocket frame of bytes."""
    return _frame(0x82, data)


def text_frame(text: str) -> bytes:
    """The WebSocket frame of a text."""
    return _frame(0x81, text.encode())


def _frame(first: int, body: bytes) -> bytes:
    size = len(body)
    if size < 126:
        return bytes((first, size)) + body
    if size < 65_536:
        return bytes((first, 126)) + size.to_bytes(2, "big") + body
    return bytes((first, 127)) + size.to_bytes(8, "big") + body


class Encoded:
    """An event that is encoded at most once per variant, and not before somebody needs it.

    ``payload`` must not change between creation and the last ``get`` or ``frame``.
    """

    __slots__ = ("_by_variant", "_frames", "event", "payload")

    def __init__(self, event: str, payload: dict[str, Any]) -> None:
        self.event = event
        self.payload = payload
        self._by_variant: dict[Variant, str | bytes] = {}
        self._frames: dict[Variant, bytes] = {}

    def encode_now(self, variants: Iterable[Variant] = tuple(Variant)) -> None:
        """Encode for these variants, because the payload is about to change."""
        for variant in variants:
            self.get(variant)

    def frame(self, variant: Variant) -> bytes:
        """The WebSocket frame in a variant."""
        frame = self._frames.get(variant)
        if frame is None:
            frame = self._frames[variant] = encode_frame(variant, self.get(variant))
        return frame

    def get(self, variant: Variant) -> str | bytes:
        """The packet in a variant."""
        packet = self._by_variant.get(variant)
        if packet is None:
            packet = self._by_variant[variant] = encode_event(variant, self.event, self.payload)
        return packet
