"""A source's connection: one blocking socket, by hand like the viewers'."""

from __future__ import annotations

import select
import socket
import time
from typing import Any

import msgspec

from scripts.benchmarks.frames import BINARY, TEXT, client_frame, split
from scripts.benchmarks.viewers import PONG_PACKET, Way

_ALLOWED_SECONDS = 30.0


class Packet(msgspec.Struct):
    """A Socket.IO packet of the msgpack parser; ``data`` is decoded by who needs it."""

    type: int
    id: int | None = None
    data: msgspec.Raw = msgspec.Raw(b"")


_packet = msgspec.msgpack.Decoder(Packet)


class LinkError(RuntimeError):
    """The other side did not do what it should."""


class Link:
    """A Socket.IO connection that is let in. ``binary``: it speaks the msgpack parser."""

    def __init__(self, way: Way, *, binary: bool) -> None:
        self._binary = binary
        self._buffer = b""
        self._packets: list[bytes] = []
        self.sock = socket.create_connection(("127.0.0.1", way.port), _ALLOWED_SECONDS)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.sendall(way.upgrade())
        while b"\r\n\r\n" not in self._buffer:
            self._read(_ALLOWED_SECONDS)
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        if b" 101 " not in head.split(b"\r\n", 1)[0]:
            raise LinkError(head.decode(errors="replace")[:200])
        self._sort_out()
        self._expect(b"0")
        if binary:
            self.send(msgspec.msgpack.encode({"type": 0, "data": msgspec.json.decode(way.connect), "nsp": "/"}))
            entered = _packet.decode(self.packet())
            if entered.type != 0:
                raise LinkError(f"not let in: {bytes(entered.data)!r}")
        else:
            self.send(f"40{way.connect}".encode())
            self._expect(b"40")

    def send(self, *packets: bytes) -> None:
        """Send packets as they stand in their frames, together."""
        opcode = BINARY if self._binary else TEXT
        self.sock.sendall(b"".join(client_frame(packet, opcode) for packet in packets))

    def packet(self, seconds: float = _ALLOWED_SECONDS) -> bytes:
        """The next packet that is no ping. Raises LinkError if none comes for so long."""
        until = time.monotonic() + seconds
        while not self._packets:
            left = until - time.monotonic()
            if left <= 0:
                raise LinkError(f"nothing came for {seconds:g} s")
            self._read(left)
            self._sort_out()
        return self._packets.pop(0)

    def packets(self) -> list[bytes]:
        """What has come by now, without waiting."""
        while select.select([self.sock], [], [], 0)[0]:
            self._read(0.1)
        self._sort_out()
        packets, self._packets = self._packets, []
        return packets

    def acknowledgement(self, seconds: float = _ALLOWED_SECONDS) -> tuple[int, msgspec.Raw]:
        """The next acknowledgement on a msgpack connection: its id and its arguments."""
        while True:
            packet = _packet.decode(self.packet(seconds))
            if packet.type == 3 and packet.id is not None:
                return packet.id, packet.data

    def acknowledgements(self) -> list[tuple[int, msgspec.Raw]]:
        """The acknowledgements that have come by now."""
        packets = map(_packet.decode, self.packets())
        return [(packet.id, packet.data) for packet in packets if packet.type == 3 and packet.id is not None]

    def close(self) -> None:
        self.sock.close()

    def _expect(self, start: bytes) -> None:
        packet = self.packet()
        if not packet.startswith(start):
            raise LinkError(f"{packet[:200]!r} in place of {start!r}")

    def _read(self, seconds: float) -> None:
        if not select.select([self.sock], [], [], seconds)[0]:
            return
        data = self.sock.recv(1 << 18)
        if not data:
            raise LinkError("the connection ended")
        self._buffer += data

    def _sort_out(self) -> None:
        frames, self._buffer = split(self._buffer)
        for _, payload in frames:
            if payload == b"2":
                self.sock.sendall(PONG_PACKET)
            else:
                self._packets.append(payload)


def way_from(command: dict[str, Any]) -> Way:
    """The way in that a command names."""
    return Way(command["port"], command["path"], command["connect"], command.get("join"))
