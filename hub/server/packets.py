"""Socket.IO packets as they come in: what is wrong with an event is named in it, so that it can be answered.

Part of what engine.py knows of python-socketio.
"""

from __future__ import annotations

from typing import Any, Final

import msgpack
from socketio.msgpack_packet import MsgPackPacket
from socketio.packet import ACK, BINARY_ACK, BINARY_EVENT, CONNECT, DISCONNECT, EVENT, Packet

from hub.wire.codec import Variant

TOO_LARGE: Final = "\0too large"
"""The event name that stands for a message over the limit; its argument is the size in bytes."""
BAD_EVENT: Final = "\0bad event"
"""The event name that stands for one that is none; its argument says why."""
MOST_IGNORED: Final = 16
"""Binary frames that are let pass after an event was refused for its attachments."""
_RESERVED: Final = frozenset({"connect", "disconnect"})
_TAKEN: Final = frozenset({CONNECT, DISCONNECT, EVENT, ACK})


class NotAPacket(Exception):
    """A message that is no Socket.IO packet, or one that a client does not send."""


def packet_class(variant: Variant, limit: int) -> type[Packet]:
    """The packets of a variant; events of more than ``limit`` bytes are marked."""

    class JsonPacket(Packet):  # type: ignore[misc]
        uses_binary_events = False  # what goes out is plain JSON: it need not be looked through
        packet_type: int
        id: int | None
        data: Any

        def decode(self, encoded_packet: str) -> int:
            try:
                attachments = super().decode(encoded_packet)
            except (ValueError, TypeError, RecursionError) as error:
                # The packet's data is read last: if the type and the id were there before it failed, it can be answered.
                if self.packet_type not in (EVENT, BINARY_EVENT) or self.id is None:
                    raise NotAPacket(str(error)[:200]) from None
                self.packet_type, self.data = EVENT, [BAD_EVENT, str(error)[:200]]
                return 0
            if attachments > MOST_IGNORED:
                raise NotAPacket(f"it has {attachments:,} binary attachments")
            if self.packet_type in (BINARY_EVENT, BINARY_ACK) or attachments:
                self.packet_type = EVENT if self.packet_type == BINARY_EVENT else self.packet_type
                self.data = [BAD_EVENT, "it has binary attachments, and values here are JSON"]
            _check(self, limit, _bytes(encoded_packet))
            return 0

    class BinaryPacket(MsgPackPacket):  # type: ignore[misc]
        def decode(self, encoded_packet: bytes) -> None:
            try:
                # Keys that are no text are let in here, so that the refusal can say where they are.
                packet = msgpack.unpackb(encoded_packet, strict_map_key=False)
                self.packet_type, self.namespace = packet["type"], packet["nsp"]
                self.data, self.id = packet.get("data"), packet.get("id")
            except Exception as error:  # msgpack's own, and whatever a map of odd shape leads to
                raise NotAPacket(f"{type(error).__name__}: {error}"[:200]) from None
            if not isinstance(self.namespace, str) or not isinstance(self.id, int | None):
                raise NotAPacket("its namespace is no text, or its id no number")
            _check(self, limit, len(encoded_packet))

    return BinaryPacket if variant is Variant.MSGPACK else JsonPacket


def _check(packet: Any, limit: int, size: int) -> None:
    if packet.packet_type not in _TAKEN:
        raise NotAPacket(f"clients do not send packets of type {packet.packet_type!r}"[:200])
    if packet.packet_type != EVENT:
        return
    data = packet.data
    if size > limit:
        packet.data = [TOO_LARGE, size]
    elif not isinstance(data, list) or not data:
        packet.data = [BAD_EVENT, "it has no name"]
    elif not isinstance(data[0], str):
        packet.data = [BAD_EVENT, "its name is no text"]
    elif data[0] == BAD_EVENT:
        packet.data = data[:2] if len(data) > 1 and isinstance(data[1], str) else [BAD_EVENT, ""]
    elif data[0] in _RESERVED or data[0].startswith("\0"):
        packet.data = ["?" + data[0].lstrip("\0"), *data[1:]]  # names that stand for something else inside


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
