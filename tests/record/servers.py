"""Real servers for the tests of the record: each on a Unix socket in a folder of its own, ended by its pid."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hub.record.valkey import server_binary, write_settings


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
        _wait_until_up(path, process, folder / "log")
        yield f"unix://{path}"
    finally:
        process.kill()
        process.wait(10)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_up(path: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until and process.poll() is None:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(str(path))
                client.sendall(b"PING\r\n")
                if client.recv(16).startswith((b"+PONG", b"-NOAUTH")):
                    return
            except OSError:
                pass
        time.sleep(0.01)
    raise AssertionError(f"the server did not come up:\n{log.read_text()[-2000:]}")


def valkey_binary() -> Path:
    return server_binary()


def redis_binary() -> Path:
    """Debian's redis-server, or whatever HUB_TEST_REDIS names. Without one the test is left out, loudly."""
    found = os.environ.get("HUB_TEST_REDIS") or shutil.which("redis-server")
    if found is None:
        reason = "no redis-server here: what the record does with Redis is NOT TESTED"
        if os.environ.get("HUB_REQUIRE_REDIS") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return Path(found)
