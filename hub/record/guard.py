"""Keeps an embedded Valkey alive exactly as long as its hub: ``guard.py HUB_PID LOCK_FD GRACE SERVER ARGUMENT...``.

A process of its own, since a hub that gets SIGKILL cannot clean up. Its standard input is a socket to the hub: the end
of that, or of the hub itself, ends the server; a server that ends by itself is started again. It tells the hub what
happens in lines on the same socket: ``started PID``, ``ended CODE``. Uses the standard library only and is run as a
file, so that it starts in a moment and stays small.
"""

import contextlib
import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable

KILL_SECONDS = 0.6
"""A server that has not ended by itself this long after its hub is killed. What it answered is on the disk."""
LOOK_SECONDS = 0.25
LONGEST_PAUSE = 2.0
_PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> int:
    """Run until the hub or the server is gone for good. Returns the exit code."""
    hub, lock_fd, grace, command = int(argv[0]), int(argv[1]), float(argv[2]), argv[3:]
    # The hub decides when the server ends; a signal to all processes of a terminal or a service must not come first.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    guard = _Guard(hub, lock_fd, grace, command)
    try:
        return guard.run()
    finally:
        guard.end_server()


class _Guard:
    def __init__(self, hub: int, lock_fd: int, grace: float, command: list[str]) -> None:
        self._hub, self._lock_fd, self._grace, self._command = hub, lock_fd, grace, command
        self._line = socket.socket(fileno=0)
        self._server: subprocess.Popen[bytes] | None = None
        self._asked = False  # the hub asked for the end, and waits for it
        self._die_with_me = _parent_death_signal()

    def run(self) -> int:
        """Start the server, and start it again whenever it ends, a little later each time. Returns the exit code."""
        pause, started = 0.05, 0.0
        while self._hub_lives():
            started = time.monotonic()
            try:
                self._server = subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    pass_fds=(self._lock_fd,),
                    start_new_session=True,
                    preexec_fn=self._die_with_me,
                )
            except OSError as error:
                self._tell(f"failed {error.strerror}")
                return 1
            self._tell(f"started {self._server.pid}")
            code = self._wait()
            if code is None:
                return 0
            self._tell(f"ended {code}")
            pause = 0.05 if time.monotonic() - started > 10 else min(2 * pause, LONGEST_PAUSE)
            if not self._pause(pause):
                return 0
        return 0

    def end_server(self) -> None:
        """End the server and all of its children (one may be rewriting the append-only file)."""
        server = self._server
        if server is None:
            return
        until = time.monotonic() + (self._grace if self._asked else KILL_SECONDS)
        while server.poll() is None and time.monotonic() < until:
            server.terminate()  # again: a server that is just starting does not hear it yet
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(0.1)
        with contextlib.suppress(OSError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()

    def _wait(self) -> int | None:
        """Wait for the server's end (its code) or the hub's (None)."""
        assert self._server is not None
        watched: list[int] = [0]
        with contextlib.ExitStack() as stack:
            for pid in (self._hub, self._server.pid):
                with contextlib.suppress(AttributeError, OSError):  # not every system can watch a process
                    fd = os.pidfd_open(pid)
                    stack.callback(os.close, fd)
                    watched.append(fd)
            while True:
                code = self._server.poll()
                if code is not None:
                    return code
                ready, _, _ = select.select(watched, [], [], LOOK_SECONDS if len(watched) < 3 else 10 * LOOK_SECONDS)
                if (0 in ready and not self._listen()) or not self._hub_lives():
                    return None

    def _pause(self, seconds: float) -> bool:
        """False if the hub went meanwhile."""
        ready, _, _ = select.select([0], [], [], seconds)
        return not (ready and not self._listen()) and self._hub_lives()

    def _hub_lives(self) -> bool:
        return os.getppid() == self._hub

    def _listen(self) -> bool:
        """Read what the hub says. False at its end, or when it asks for the server's."""
        try:
            said = self._line.recv(64)
        except OSError:
            return False
        self._asked = self._asked or said == b"end\n"
        return bool(said) and not self._asked

    def _tell(self, line: str) -> None:
        with contextlib.suppress(OSError):
            self._line.send(line.encode() + b"\n", socket.MSG_DONTWAIT)


def _parent_death_signal() -> Callable[[], None] | None:
    """Linux: the kernel ends the server with its guard, should that be killed."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) and None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
