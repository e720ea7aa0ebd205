"""Socket.IO packets of events, and their WebSocket frames: encoded once for everybody who speaks that variant.

Two variants: the standard JSON parser (text) and the msgpack parser (bytes). An event has one object as its argument.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from enum import StrEnum
from functools import partial
from typing import Any, Final, NamedTuple

import msgpack
import msgspec

from hub.core.errors import InvalidRequest

_json: Final = msgspec.json.Encoder().encode
_msgpack: Final = msgspec.msgpack.Encoder().encode


class Variant(StrEnum):
    """How a connection's packets are encoded."""

    JSON = "json"
    MSGPACK = "msgpack"


def encode_event(variant: Variant, event: str, payload: dict[str, Any]) -> bytes:
    """The WebSocket frame of the Engine.IO message that carries the Socket.IO packet of an event, in the default namespace."""
    if variant is Variant.JSON:
        return _frame(0x81, b"42" + _json([event, payload]))
    return _frame(0x82, _msgpack({"type": 2, "data": [event, payload], "nsp": "/"}))


def read_msgpack(packed: bytes) -> Any:
    """What a client sent, also what is outside JSON, so that a refusal can say where it is: keys that are no text, and types
    of somebody's own as bytes. Lone surrogates are read as such, and replaced like those of JSON."""
    read = partial(
        msgpack.unpackb, packed, strict_map_key=False, unicode_errors="surrogatepass", ext_hook=lambda code, data: data
    )
    try:
        return read()
    except TypeError:  # an array as a key: a tuple can be one
        return read(use_list=False)


class Packed(NamedTuple):
    """A request's payload in msgpack that was not looked into yet."""

    raw: msgspec.Raw

    def read(self) -> Any:
        """The payload, in plain values. Raises InvalidRequest if it is no msgpack."""
        try:
            return read_msgpack(bytes(self.raw))
        except Exception as error:  # msgpack's own, and whatever a map of odd shape leads to
            raise InvalidRequest(f"an event is a name and one object: {type(error).__name__}: {error}"[:300]) from None


def encoded_value(variant: Variant, value: Any) -> msgspec.Raw:
    """A value as it is now, to be put into a payload of that variant."""
    return msgspec.Raw(_json(value) if variant is Variant.JSON else _msgpack(value))


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
        return _head_16(first, 126, size) + body
    return _head_64(first, 127, size) + body


_head_16: Final = struct.Struct(">BBH").pack
_head_64: Final = struct.Struct(">BBQ").pack


def packet_in(variant: Variant, frame: bytes) -> str | bytes:
    """The Socket.IO packet in a frame of ``encode_event``."""
    head = 2 if frame[1] < 126 else 4 if frame[1] == 126 else 10
    return str(frame[head + 1 :], "utf-8") if variant is Variant.JSON else frame[head:]


class Encoded:
    """An event that is encoded at most once per variant, and not before somebody needs it.

    ``payload`` must not change between creation and the last ``get`` or ``frame``.
    """

    __slots__ = ("_frames", "_packets", "event", "payload")

    def __init__(self, event: str, payload: dict[str, Any]) -> None:
        self.event = event
        self.payload = payload
        self._frames: dict[Variant, bytes] = {}
        self._packets: dict[Variant, str | bytes] | None = None  # of who polls only

    def encode_now(self, variants: Iterable[Variant] = tuple(Variant)) -> None:
        """Encode for these variants, because the payload is about to change."""
        for variant in variants:
            self.frame(variant)

    def frame(self, variant: Variant) -> bytes:
        """The WebSocket frame in a variant."""
        frame = self._frames.get(variant)
        if frame is None:
            frame = self._frames[variant] = encode_event(variant, self.event, self.payload)
        return frame

    def get(self, variant: Variant) -> str | bytes:
        """The packet in a variant, without Engine.IO's own framing."""
        packets = self._packets = self._packets or {}
        packet = packets.get(variant)
        if packet is None:
            packet = packets[variant] = packet_in(variant, self.frame(variant))
        return packet
