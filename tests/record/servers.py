"""Real servers for tests: each on a Unix socket in a folder of its own, ended by its pid."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from hub.record.connection import Connection
from hub.record.valkey import write_settings
from tests.support import SECONDS, wait_until


class Server:
    """A server with the embedded server's settings and more, through all its starts."""

    def __init__(self, binary: Path, *settings: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hub-test-", dir="/tmp"))
        self.url = f"unix://{self.folder / 's'}"
        self.settings = list(settings)
        """For the next start."""
        self._binary = binary
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> Self:
        """Start it, and wait until it has loaded its data."""
        config = write_settings(self.folder, self.folder / "s")
        with config.open("a") as file:
            file.write("\n" + "\n".join(self.settings) + "\n")
        with (self.folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [self._binary, config], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )
        self._process = process
        wait_until(lambda: self._answers() or process.poll() is not None, "the server")
        assert process.poll() is None, (self.folder / "log").read_text()[-2000:]
        return self

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Ask it to end, or kill it."""
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(SECONDS)

    def kill(self) -> None:
        """SIGKILL."""
        self.stop(signal.SIGKILL)

    def keep_data(self, folder: Path) -> None:
        """Copy what it has on disk, as a backup would; it must not run."""
        shutil.copytree(self.folder / "appendonlydir", folder)

    def put_data_back(self, folder: Path | None) -> None:
        """Start from a backup next time; None: from nothing. It must not run."""
        shutil.rmtree(self.folder / "appendonlydir")
        if folder is not None:
            shutil.copytree(folder, self.folder / "appendonlydir")

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(str(self.folder / "s"))
                client.sendall(b"PING\r\n")
                return client.recv(16).startswith((b"+PONG", b"-NOAUTH"))
            except OSError:
                return False

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *args: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


async def subscribers(connection: Connection, channel: str) -> int:
    """How many hear a channel."""
    return int((await connection.run("PUBSUB", "NUMSUB", channel))[1])


async def lasting_keys(connection: Connection) -> list[str]:
    """Keys without an expiry, but for those of nodes, in order."""
    found: list[str] = []
    cursor = b"0"
    while True:
        cursor, keys = await connection.run("SCAN", cursor, "COUNT", 1000)
        ends = await connection.many([("TTL", key) for key in keys])
        found += [key.decode() for key, seconds in zip(keys, ends, strict=True) if seconds == -1]
        if cursor == b"0":
            return sorted({key for key in found if not key.startswith("hub:node")})


async def empty(url: str) -> None:
    """Take all data away from a server that runs."""
    connection = Connection(url)
    await connection.run("FLUSHALL")
    await connection.close()


@contextmanager
def running(binary: Path, *settings: str) -> Iterator[str]:
    """A server that runs, by its URL."""
    with Server(binary, *settings) as server:
        yield server.url
