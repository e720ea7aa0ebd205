"""A private Valkey in the data folder, for a hub without a Redis of its own.

    server = EmbeddedServer(folder)
    url = await server.start()        # unix:///.../valkey.sock
    ...
    await server.stop()

Layout of the folder: ``lock`` (this hub), ``valkey/`` with the append-only files, ``server.lock``, ``valkey.conf``
(written at every start), ``valkey.log``, and ``url``, where other processes of this user find it (``socket_url``).

The server is run by a guard (guard.py) in a session of its own. Both inherit the lock on ``server.lock``: a new server
must not start while an old one ends, or it would lose its socket file.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final
from urllib.parse import quote

from hub.core.errors import StartError, Unavailable
from hub.record import guard
from hub.record.connection import Connection
from hub.record.folder import FolderLock, make_folder, try_lock
from hub.record.server_check import Progress, parse_info
from hub.record.valkey import explain_failure, remove_private, server_binary, socket_path, write_settings

log = logging.getLogger(__name__)

_OLD_SERVER_SECONDS: Final = 15.0
_SILENT_SECONDS: Final = 30.0
"""A server that says nothing for so long while it starts is given up; one that loads data answers all the time."""
_GRACE_SECONDS: Final = 10.0
_LARGEST_LOG: Final = 1_048_576


class EmbeddedServer:
    """A Valkey that lives as long as this process, or until ``stop``."""

    def __init__(self, folder: Path, *, lock: FolderLock | None = None, progress: Progress | None = None) -> None:
        """``lock`` if the caller holds the folder's already; ``progress`` is told how far loading is."""
        self.folder = folder
        self.pid: int | None = None
        """The server's process id, while there is one."""
        self._own_lock = lock is None
        self._lock = lock
        self._progress = progress
        self._guard: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._watch: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._failure: str | None = None
        self._log_from = 0
        self._socket = Path()

    @property
    def guard_pid(self) -> int | None:
        """The guard's process id, while there is one."""
        return self._guard.pid if self._guard else None

    @property
    def url(self) -> str:
        """The server's URL for RedisRecord and MirrorReader."""
        return "unix://" + quote(str(self._socket))

    async def start(self) -> str:
        """Start the server and wait until it has loaded its data. Returns its URL. Raises StartError."""
        self.folder = make_folder(self.folder)
        if self._lock is None:
            self._lock = FolderLock(self.folder)
        try:
            await self._launch()
            await self._wait_until_ready()
        except BaseException:
            await self.stop()
            raise
        self._watch = asyncio.create_task(self._keep(), name="embedded server")
        return self.url

    async def stop(self) -> None:
        """End the server, after it has written everything; then its folder is free."""
        if self._watch is not None:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch
            self._watch = None
        await self._end_guard()
        remove_private(self._data)
        self._socket = Path()
        if self._own_lock and self._lock is not None:
            self._lock.release()
            self._lock = None

    @property
    def _data(self) -> Path:
        return self.folder / "valkey"

    async def _launch(self) -> None:
        """Wait for the old server's end, and start a guard."""
        data = make_folder(self._data)
        try:
            fd = os.open(data / "server.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StartError(f"cannot write into the data folder {data}: {error.strerror}") from error
        try:
            await self._wait_for_old(fd)
            if not self._socket.name:  # whoever uses the server knows where it is
                remove_private(data)
                self._socket = socket_path(data)
            try:
                self._spawn(fd, write_settings(data, self._socket))
            except OSError as error:
                raise StartError(f"cannot start the embedded server in {data}: {error.strerror}") from error
        finally:
            os.close(fd)  # guard and server have theirs

    async def _wait_for_old(self, fd: int) -> None:
        asked = False
        for turn in range(round(_OLD_SERVER_SECONDS / 0.02)):
            if try_lock(fd):
                return
            if turn > 100 and not asked:
                asked = True
                await self._shut_down_old()
            await asyncio.sleep(0.02)
        raise StartError(
            f"the last hub's server in {self._data} does not end: end the valkey-server that uses this folder"
        )

    async def _shut_down_old(self) -> None:
        """Nobody guards it any more: its guard was killed too."""
        with contextlib.suppress(Unavailable, OSError):
            old = Connection(socket_url(self.folder), timeout=1.0)
            try:
                await old.run("SHUTDOWN", "NOSAVE")
            finally:
                await old.close()

    def _spawn(self, lock_fd: int, settings: Path) -> None:
        binary = server_binary()
        log_path = self._data / "valkey.log"
        if log_path.exists() and log_path.stat().st_size > _LARGEST_LOG:
            log_path.replace(log_path.with_suffix(".log.old"))
        ours, theirs = socket.socketpair()
        with theirs, open(log_path, "ab", opener=_private) as out:
            self._log_from = out.tell()
            self._guard = subprocess.Popen(
                [
                    # Isolated and without site packages: a guard is small, and nothing around it can change it.
                    *(sys.executable, "-I", "-S", guard.__file__, str(os.getpid()), str(lock_fd), str(_GRACE_SECONDS)),
                    *(str(binary), str(settings)),
                ],
                stdin=theirs.fileno(),
                stdout=out,
                stderr=out,
                pass_fds=(lock_fd,),
                start_new_session=True,
                cwd=self._data,
                umask=0o077,
            )
        ours.setblocking(False)
        os.register_at_fork(after_in_child=ours.close)  # a child that outlives the hub must not keep the line open
        self._line, self._failure, self.pid = ours, None, None

    async def _wait_until_ready(self) -> None:
        connection = Connection(self.url, timeout=2.0, connections=1)
        clock = asyncio.get_running_loop()
        heard = clock.time()
        try:
            while True:
                self._listen()
                if self._failure is not None:
                    raise StartError(explain_failure(self.folder, self._failure, self._log_from))
                try:
                    info = parse_info(await connection.run("INFO", "persistence"))
                except Unavailable:
                    if clock.time() - heard > _SILENT_SECONDS:
                        raise StartError(
                            f"the embedded server does not answer; see {self._data / 'valkey.log'}"
                        ) from None
                    await asyncio.sleep(0.01)
                    continue
                heard = clock.time()
                if info.get("loading") == "0":
                    return
                if self._progress is not None:
                    self._progress(f"loading the record: {info.get('loading_loaded_perc', '?')} %")
                await asyncio.sleep(0.1)
        finally:
            await connection.close()

    def _listen(self) -> bool:
        """Take in what the guard says. False when it is gone."""
        assert self._line is not None
        try:
            said = self._line.recv(4096)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return self._heard(said)

    def _heard(self, said: bytes) -> bool:
        for line in said.decode().splitlines():
            what, _, detail = line.partition(" ")
            if what == "started":
                self.pid = int(detail)
            else:
                self.pid, self._failure = None, f"{what} {detail}"
                log.log(logging.ERROR if self._watch else logging.DEBUG, "the embedded server %s", self._failure)
        if not said and self._failure is None:
            self._failure = "its guard ended"
        return bool(said)

    async def _keep(self) -> None:
        """Listen to the guard; start another one should it be killed."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                if self._line is None:
                    await self._launch()
                    continue
                said = await loop.sock_recv(self._line, 4096)
            except StartError as error:
                log.error("%s", error)
                await asyncio.sleep(1.0)
                continue
            except OSError:
                said = b""
            if not self._heard(said):
                log.error("the guard of the embedded server ended; another one is started")
                await self._end_guard()

    async def _end_guard(self) -> None:
        """Ask the guard to end the server, and wait for both."""
        line, self._line = self._line, None
        process, self._guard = self._guard, None
        if line is not None:
            with contextlib.suppress(OSError):
                line.send(b"end\n")
        if process is not None:
            try:
                await asyncio.to_thread(process.wait, _GRACE_SECONDS + 5)
            except subprocess.TimeoutExpired:
                process.kill()
                await asyncio.to_thread(process.wait)
        if line is not None:
            line.close()
        self.pid = None


def socket_url(folder: Path) -> str:
    """The URL of the embedded server in a data folder, for other processes. Raises StartError if there is none."""
    try:
        return (folder.expanduser() / "valkey" / "url").read_text().strip()
    except OSError as error:
        raise StartError(f"no embedded server in {folder}: no hub runs there, or it uses a Redis of its own") from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
