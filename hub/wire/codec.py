"""Socket.IO packets of events, encoded once for everybody who speaks that variant.

Two variants: the standard JSON parser (text) and the msgpack parser (bytes). An event has one object as its argument.
"""

from __future__ import annotations

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


class Encoded:
    """An event that is encoded at most once per variant, and not before somebody needs it.

    ``payload`` must not change between creation and the last ``get``.
    """

    __slots__ = ("_by_variant", "event", "payload")

    def __init__(self, event: str, payload: dict[str, Any]) -> None:
        self.event = event
        self.payload = payload
        self._by_variant: dict[Variant, str | bytes] = {}

    def encode_now(self) -> None:
        """Encode for every variant, because the payload is about to change."""
        for variant in Variant:
            self.get(variant)

    def get(self, variant: Variant) -> str | bytes:
        """The packet in a variant."""
        packet = self._by_variant.get(variant)
        if packet is None:
            packet = self._by_variant[variant] = encode_event(variant, self.event, self.payload)
        return packet
