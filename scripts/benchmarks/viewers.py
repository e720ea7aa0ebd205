"""One viewer's connection, from the TCP handshake to the answer of its subscription, without blocking."""

from __future__ import annotations

import enum
import socket
import struct
from dataclasses import dataclass
from typing import Final

from scripts.benchmarks.frames import CLOSE, client_frame, server_frame, split

_NO_LINGER: Final = struct.pack("ii", 1, 0)
PONG_PACKET: Final = client_frame(b"3")
READ_BYTES: Final = 32_768


class Stage(enum.IntEnum):
    """How far a connection is."""

    CONNECTING = 0
    UPGRADING = 1
    OPENING = 2
    """The WebSocket is there; Engine.IO has not greeted yet."""
    ENTERING = 3
    """Asked to be let in."""
    JOINING = 4
    READY = 5
    LOST = 6


@dataclass(frozen=True, slots=True)
class Way:
    """How viewers get in. ``$N`` in ``join`` stands for a viewer's number; without ``join`` they only connect."""

    port: int
    path: str
    connect: str
    join: str | None

    def join_for(self, number: int) -> str | None:
        """What a viewer subscribes with."""
        return self.join and self.join.replace("$N", str(number))

    def upgrade(self) -> bytes:
        """The HTTP request that opens a WebSocket, without any extension."""
        lines = [
            f"GET {self.path} HTTP/1.1",
            f"Host: 127.0.0.1:{self.port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: c2Vzc2lvbi1odWItbG9hZA==",
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


class Refused(Exception):
    """A viewer was not let in; the message says what it was told."""


class Viewer:
    """A connection. ``advance`` takes what came until it is ready; after that its bytes belong to whoever reads them."""

    __slots__ = ("number", "rest", "skip", "sock", "stage", "told")

    def __init__(self, number: int, port: int) -> None:
        self.number = number
        self.rest = b""
        self.skip = 0
        """Bytes of a large frame that are still to come."""
        self.told = ""
        """The answer to its subscription."""
        self.stage = Stage.CONNECTING
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.sock.setblocking(False)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Closing sends a reset: tens of thousands of connections would use up the ports otherwise.
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.sock.connect_ex(("127.0.0.1", port))

    def connected(self, way: Way) -> None:
        """The TCP connection is there, or could not be had (OSError)."""
        error = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, "cannot connect")
        self.sock.send(way.upgrade())
        self.stage = Stage.UPGRADING

    def advance(self, data: bytes, way: Way) -> bytes:
        """Go on with what came. Returns what came after the end of the handshake. Raises Refused."""
        data = self.rest + data
        if self.stage is Stage.UPGRADING:
            head, end, data = data.partition(b"\r\n\r\n")
            if not end:
                self.rest = head
                return b""
            if b" 101 " not in head.split(b"\r\n", 1)[0]:
                raise Refused(head.decode(errors="replace")[:200])
            self.stage = Stage.OPENING
        frames, self.rest = split(data)
        for index, (opcode, payload) in enumerate(frames):
            if opcode == CLOSE:
                raise Refused(f"closed: {payload!r}")
            self._packet(payload, way)
            if self.stage is Stage.READY:
                after = b"".join(server_frame(later, kind) for kind, later in frames[index + 1 :])
                rest, self.rest = self.rest, b""
                return after + rest
        return b""

    def _packet(self, payload: bytes, way: Way) -> None:
        if payload == b"2":
            self.sock.send(PONG_PACKET)
        elif self.stage is Stage.OPENING and payload[:1] == b"0":
            self.sock.send(client_frame(f"40{way.connect}".encode()))
            self.stage = Stage.ENTERING
        elif payload[:2] == b"44":
            raise Refused(payload.decode(errors="replace")[:200])
        elif self.stage is Stage.ENTERING and payload[:2] == b"40":
            join = way.join_for(self.number)
            if join is None:
                self.stage = Stage.READY
            else:
                self.sock.send(client_frame(f"420{join}".encode()))
                self.stage = Stage.JOINING
        elif self.stage is Stage.JOINING and payload[:3] == b"430":
            self.told = payload.decode(errors="replace")
            if '"ok":true' not in self.told[:20].replace(" ", ""):
                raise Refused(self.told[:200])
            self.stage = Stage.READY

    def close(self) -> None:
        self.stage = Stage.LOST
        self.sock.close()
