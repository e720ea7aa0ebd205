"""Socket.IO packets: as they come in, where what is wrong with an event is named in it, so that it can be answered; and as
they go out.

It alone knows python-socketio's inside: relied on, and pinned by tests/test_socketio_library_semantics.py, is how its packets
are decoded.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Any, Final, Literal

import msgspec
from socketio.msgpack_packet import MsgPackPacket
from socketio.packet import Packet

from hub.core.values import clean_text
from hub.wire.codec import Packed, Variant, read_msgpack

CONNECT: Final = 0
DISCONNECT: Final = 1
EVENT: Final = 2
ACK: Final = 3
CONNECT_ERROR: Final = 4
BINARY_EVENT: Final = 5
BINARY_ACK: Final = 6


class Odd(Enum):
    """What stands in the place of an event's name, with one argument, where the event cannot be handed on."""

    TOO_LARGE = "its size in bytes"
    BAD_EVENT = "why it is none"


MOST_IGNORED: Final = 16
"""Binary frames that are let pass after an event was refused for its attachments."""
_TAKEN: Final = frozenset({CONNECT, DISCONNECT, EVENT, ACK})


class NotAPacket(Exception):
    """A message that is no Socket.IO packet, or one that a client does not send."""


class _Json:
    """The standard module, for incoming packets: numbers of any length are read, so that it is their size that is refused."""

    dumps = staticmethod(json.dumps)

    @staticmethod
    def loads(text: str) -> Any:
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            raise
        except ValueError:  # more digits than Python turns into an integer
            return json.loads(text, parse_int=lambda digits: int(digits[:400]))


class _Envelope(msgspec.Struct):
    """A msgpack packet but for its data."""

    type: int
    nsp: str
    id: int | None = None


class _Event(msgspec.Struct):
    """A msgpack packet that is an event with one argument."""

    type: Literal[2]
    nsp: str
    data: tuple[str, msgspec.Raw]
    id: int | None = None


_open_event: Final = msgspec.msgpack.Decoder(_Event).decode
_open_envelope: Final = msgspec.msgpack.Decoder(_Envelope).decode


def packet_class(variant: Variant, limit: int) -> type[Packet]:
    """The packets of a variant; events of more than ``limit`` bytes are marked."""

    class JsonPacket(Packet):  # type: ignore[misc]
        uses_binary_events = False  # what goes out is plain JSON: it need not be looked through
        json = _Json
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
                self.packet_type, self.data = EVENT, [Odd.BAD_EVENT, str(error)[:200]]
                return 0
            if attachments > MOST_IGNORED:
                raise NotAPacket(f"it has {attachments:,} binary attachments")
            if self.packet_type in (BINARY_EVENT, BINARY_ACK) or attachments:
                self.packet_type = EVENT if self.packet_type == BINARY_EVENT else self.packet_type
                self.data = [Odd.BAD_EVENT, "it has binary attachments, and values here are JSON"]
            _check(self, limit, _bytes(encoded_packet))
            return 0

    class BinaryPacket(MsgPackPacket):  # type: ignore[misc]
        def decode(self, encoded_packet: bytes) -> None:
            if len(encoded_packet) <= limit and self._open_event(encoded_packet):
                return
            try:
                packet = read_msgpack(encoded_packet)
                self.packet_type, self.namespace = packet["type"], packet["nsp"]
                self.data, self.id = packet.get("data"), packet.get("id")
            except Exception as error:  # msgpack's own, and whatever a map of odd shape leads to
                self._read_envelope(encoded_packet, f"{type(error).__name__}: {error}"[:200])
            if not _is_text(self.namespace) or not isinstance(self.id, int | None):
                raise NotAPacket("its namespace is no text, or its id no number")
            _check(self, limit, len(encoded_packet))

        def _open_event(self, encoded_packet: bytes) -> bool:
            """An event as nearly all are: its payload stays packed, for the schema of its request to read. False for others."""
            try:
                event = _open_event(encoded_packet)
            except (msgspec.MsgspecError, RecursionError):
                return False
            name, payload = event.data
            self.packet_type, self.namespace, self.id = EVENT, event.nsp, event.id
            self.data = [name, Packed(payload)]
            return True

        def _read_envelope(self, encoded_packet: bytes, wrong: str) -> None:
            """Of an event whose data cannot be read, so that it can be answered."""
            try:
                envelope = _open_envelope(encoded_packet)
            except (msgspec.MsgspecError, RecursionError, TypeError):
                raise NotAPacket(wrong) from None
            if envelope.type != EVENT or envelope.id is None:
                raise NotAPacket(wrong)
            self.packet_type, self.namespace, self.id = EVENT, envelope.nsp, envelope.id
            self.data = [Odd.BAD_EVENT, wrong]

    return BinaryPacket if variant is Variant.MSGPACK else JsonPacket


def _check(packet: Any, limit: int, size: int) -> None:
    if packet.packet_type not in _TAKEN:
        raise NotAPacket(f"clients do not send packets of type {packet.packet_type!r}"[:200])
    if packet.packet_type != EVENT:
        return
    data = packet.data
    if size > limit:
        packet.data = [Odd.TOO_LARGE, size]
    elif not isinstance(data, list) or not data:
        packet.data = [Odd.BAD_EVENT, "it has no name"]
    elif not isinstance(data[0], str | Odd):
        packet.data = [Odd.BAD_EVENT, "its name is no text"]


def _is_text(value: Any) -> bool:
    """Also that it can be sent: half a character cannot."""
    return isinstance(value, str) and clean_text(value) == value


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def encode_packet(variant: Variant, kind: int, data: Any, namespace: str = "/", id: int | None = None) -> str | bytes:
    """The packet of a variant that says this, without Engine.IO's own framing."""
    if variant is Variant.MSGPACK:
        packet = {"type": kind, "data": data, "nsp": namespace}
        return _msgpack(packet if id is None else {**packet, "id": id})
    place = "" if namespace == "/" else f"{namespace},"
    return f"{kind}{place}{'' if id is None else id}{_json(data).decode()}"


_json: Final = msgspec.json.Encoder().encode
_msgpack: Final = msgspec.msgpack.Encoder().encode
