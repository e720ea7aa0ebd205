"""Load on a hub process, by what the bench loads it with; and what the process costs."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import redis

from hub.record.embedded import socket_url
from scripts.benchmarks.figures import percentile
from scripts.benchmarks.link import Link, LinkError
from scripts.benchmarks.loads import Crowd
from scripts.benchmarks.machine import cpu_seconds, resident_bytes
from scripts.benchmarks.sources import HubSource, stamp
from scripts.benchmarks.viewers import Way
from tests.support import SECONDS, HubProcess, wait_until

JSON = "/socket.io/?EIO=4&transport=websocket"
MSGPACK = "/msgpack/socket.io/?EIO=4&transport=websocket"


class Load:
    """A source of changes on a hub process, and crowds of viewers in processes of their own. Sessions are ``s0, s1 ...``."""

    def __init__(self, hub: HubProcess, scratch: Path, stack: ExitStack) -> None:
        self.hub = hub
        self._scratch = scratch
        self._stack = stack
        self.source = HubSource(self.link(MSGPACK))

    def link(self, path: str = JSON, **auth: str) -> Link:
        """A connection of an operator."""
        connect = json.dumps({"token": self.hub.token, **auth})
        link = Link(Way(self.hub.port, path, connect, None), binary=path == MSGPACK)
        self._stack.callback(link.close)
        return link

    def crowd(self, count: int, session: str = "s0", deliver: str = "patch") -> Crowd:
        """So many viewers that read at once what they are sent."""
        crowd = Crowd(self._scratch)
        self._stack.callback(crowd.end)
        join = json.dumps(["subscribe", {"topic": f"context:{session}", "deliver": deliver}])
        connect = json.dumps({"token": self.hub.token})
        crowd.open({"port": self.hub.port, "path": JSON, "connect": connect, "join": join}, count)
        return crowd

    def silent(self, session: str = "s0", deliver: str = "patch", *, kept: int | None = None) -> Link:
        """A viewer that reads nothing after its subscription. ``kept``: bytes that the system keeps for it; with few it will
        never read at a good pace again."""
        link = self.link()
        if kept is not None:
            link.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, kept)
        subscribe(link, session, deliver)
        return link

    def rounds(self, crowd: Crowd, count: int, texts: int = 1, pad: int = 0, session: int = 0) -> list[float]:
        """Change a session again and again, the next time when all viewers have the last change. Seconds of each round."""
        crowd.reset(burst=texts, nap=0.0)
        times = []
        for _ in range(count):
            began = time.monotonic()
            self.source.say(session, [f"{stamp()}-{n:02d}" + "x" * pad for n in range(texts)])
            for fd in crowd.step_fds:
                assert os.read(fd, 1)
            times.append(time.monotonic() - began)
        return times

    # what it costs

    @property
    def resident(self) -> int:
        """Bytes of the hub in memory."""
        return resident_bytes(self.hub.pid)

    @property
    def cpu(self) -> float:
        """Seconds of CPU that the hub has used."""
        return cpu_seconds(self.hub.pid)

    @property
    def files(self) -> int:
        """Connections of clients that the hub has open, by descriptor: those to the record come and go."""
        tcp = {
            line.split()[9]
            for name in ("tcp", "tcp6")
            for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
        }
        count = 0
        for file in os.listdir(f"/proc/{self.hub.pid}/fd"):
            with contextlib.suppress(OSError):
                count += os.readlink(f"/proc/{self.hub.pid}/fd/{file}").removeprefix("socket:[").rstrip("]") in tcp
        return count

    def to_record(self) -> int:
        """Bytes that the embedded server was sent since it started."""
        with redis.Redis.from_url(socket_url(self.hub.folder)) as client:
            return int(client.info("stats")["total_net_input_bytes"])

    def mirrored(self, session: str, field: str, fits: Any) -> None:
        """Wait until the hashes have what fits in a field of the state."""
        with redis.Redis.from_url(socket_url(self.hub.folder)) as client:
            wait_until(lambda: fits(client.hget(f"hub:ctx:{{{session}}}:state", field)), "the hashes")


@contextmanager
def loaded(hub: HubProcess, scratch: Path) -> Iterator[Load]:
    """Load on a hub that runs."""
    with ExitStack() as stack:
        yield Load(hub, scratch, stack)


def subscribe(link: Link, session: str, deliver: str = "patch") -> dict[str, Any]:
    """Follow a context; the reply."""
    return ask(link, "subscribe", {"topic": f"context:{session}", "deliver": deliver})


def ask(link: Link, name: str, payload: dict[str, Any], id: int = 7) -> dict[str, Any]:
    """A request's answer on a connection of text."""
    link.send(f"42{id}{json.dumps([name, payload])}".encode())
    start = f"43{id}[".encode()
    while not (packet := link.packet()).startswith(start):
        pass
    reply: dict[str, Any] = json.loads(packet[len(start) - 1 :])[0]
    assert reply["ok"], reply
    return reply


def events(link: Link, seconds: float = SECONDS) -> Iterator[tuple[str, dict[str, Any]]]:
    """Events as they come, until the connection ends or none comes for so long."""
    while True:
        try:
            packet = link.packet(seconds)
        except (LinkError, OSError):
            return
        if packet.startswith(b"42"):
            name, payload = json.loads(packet[2:])
            yield name, payload


def p99(times: list[float]) -> float:
    """The 99th percentile."""
    return percentile(times, 0.99)
