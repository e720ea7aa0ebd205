"""Real servers for the tests of the record: each on a Unix socket in a folder of its own, ended by its pid."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hub.record.valkey import write_settings
from tests.support import wait_until


@contextmanager
def running(binary: Path, *settings: str) -> Iterator[str]:
    """A server with the embedded server's settings and more, by its URL."""
    folder = Path(tempfile.mkdtemp(prefix="hub-test-", dir="/tmp"))
    path = folder / "s"
    config = write_settings(folder, path)
    with config.open("a") as file:
        file.write("\n" + "\n".join(settings) + "\n")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([binary, config], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)
    try:
        wait_until(lambda: _answers(path) or process.poll() is not None, "the server")
        assert process.poll() is None, (folder / "log").read_text()[-2000:]
        yield f"unix://{path}"
    finally:
        process.kill()
        process.wait(10)
        shutil.rmtree(folder, ignore_errors=True)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
            client.sendall(b"PING\r\n")
            return client.recv(16).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False
