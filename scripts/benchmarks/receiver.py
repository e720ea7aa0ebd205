"""A process of viewers: thousands of WebSockets in one epoll loop, which counts what comes and answers pings.

It costs little because it looks at little: bytes that equal those of the viewer before are not looked at again (in a
room everybody gets the same), and of the others only the frame heads are read. The times in a payload, ``@t`` with 16
digits of microseconds of the monotonic clock, are read in every n-th frame only. And it may nap between two looks, so
that what comes meanwhile costs one wake-up: of this process, and of the server's time that waking takes.
"""

from __future__ import annotations

import os
import select
import sys
import time
from typing import Any

from scripts.benchmarks.control import Commands, answer
from scripts.benchmarks.figures import percentile
from scripts.benchmarks.frames import bounds
from scripts.benchmarks.machine import raise_file_limit
from scripts.benchmarks.viewers import PONG_PACKET, READ_BYTES, Refused, Stage, Viewer, Way

LARGE = 4_096
"""Bytes of a frame beyond which its rest is skipped instead of kept."""


class Receiver:
    """Opens viewers, counts what they get."""

    comes_back = False
    """Whether viewers that lose their connection try again."""

    def __init__(self, step_fd: int | None) -> None:
        self.epoll = select.epoll()
        self.viewers: dict[int, Viewer] = {}
        self.way = Way(0, "/", "", None)
        self.frames = 0
        self.bytes = 0
        self.lost = 0
        self.ready = 0
        self.refusal = ""
        self.latencies: list[int] = []
        self._every = 0
        self._nap = 0.0
        self._shared = True
        self._memo = b""
        self._memo_frames = 0
        self._step_fd = step_fd
        self._step = 0
        self._next_step = 0
        self._awaited: tuple[int, float] | None = None
        self._to_open: list[int] = []
        self._opening = 0
        self._most_opening = 0
        self._wanted = 0
        self._open_from = 0.0
        self._open_until: float | None = None
        self._commands = Commands()

    def run(self) -> None:
        """Serve commands and viewers until the bench is gone."""
        self.epoll.register(self._commands.fd, select.EPOLLIN)
        while True:
            for fd, event in self.epoll.poll(0.05 if self._busy() else 1.0):
                viewer = self.viewers.get(fd)
                if viewer is not None:
                    self._readable(viewer, event)
                elif fd == self._commands.fd:
                    for command in self._commands.read():
                        self.command(command)
            self._after()
            if self._nap:
                time.sleep(self._nap)

    # what viewers get

    def _readable(self, viewer: Viewer, event: int) -> None:
        if viewer.stage is Stage.CONNECTING:
            try:
                viewer.connected(self.way)
            except OSError as error:
                self.gone(viewer, str(error))
            else:
                self.epoll.modify(viewer.sock, select.EPOLLIN)
            return
        try:
            data = viewer.sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data == self._memo and data and not viewer.rest and not viewer.skip and viewer.stage is Stage.READY:
            self.frames += self._memo_frames
            self.bytes += len(data)
        elif not data:
            self.gone(viewer, "the connection ended")
        elif viewer.stage is Stage.READY:
            self.take(viewer, data)
        else:
            self._handshake(viewer, data)

    def take(self, viewer: Viewer, data: bytes) -> None:
        """Count the frames that end in what came, read times, answer pings."""
        self.bytes += len(data)
        clean = not viewer.rest and not viewer.skip
        at = 0
        if viewer.skip:
            if viewer.skip > len(data):
                viewer.skip -= len(data)
                return
            at, viewer.skip = viewer.skip, 0
            self.frames += 1
        elif viewer.rest:
            data = viewer.rest + data
            viewer.rest = b""
        size, frames = len(data), 0
        while at < size:
            found = bounds(data, at)
            if found is None or found[1] > size:
                if found is not None and found[1] - found[0] > LARGE:
                    viewer.skip = found[1] - size
                else:
                    viewer.rest = data[at:]
                clean = False
                break
            start, end = found
            if end - start == 1 and data[start] == 0x32:
                viewer.sock.send(PONG_PACKET)
                clean = False
            else:
                frames += 1
                if self._every and (self.frames + frames) % self._every == 0:
                    self._read_times(data, start, end)
            at = end
        self.frames += frames
        if clean and self._shared:
            self._memo, self._memo_frames = data, frames

    def _read_times(self, data: bytes, start: int, end: int) -> None:
        """One for each change in the frame."""
        now = time.monotonic_ns() // 1000
        while (start := data.find(b"@t", start, end) + 2) > 1:
            self.latencies.append(now - int(data[start : start + 16]))

    # how they come and go

    def _handshake(self, viewer: Viewer, data: bytes) -> None:
        try:
            after = viewer.advance(data, self.way)
        except (Refused, OSError) as error:
            self.gone(viewer, str(error))
            return
        if viewer.stage is Stage.READY:
            self._opening -= 1
            self.ready += 1
            self.entered(viewer)
            if after:
                self.take(viewer, after)

    def entered(self, viewer: Viewer) -> None:
        """A viewer is in."""

    def gone(self, viewer: Viewer, why: str) -> None:
        """A viewer's connection ended, or was never there."""
        if viewer.stage is Stage.READY:
            self.ready -= 1
        else:
            self._opening -= 1
        self.refusal = why
        self.lost += 1
        self.forget(viewer)

    def forget(self, viewer: Viewer) -> None:
        """Close a connection."""
        self.viewers.pop(viewer.sock.fileno(), None)
        viewer.close()

    def open(self, number: int) -> None:
        """Begin a viewer's connection."""
        viewer = Viewer(number, self.way.port)
        self.viewers[viewer.sock.fileno()] = viewer
        self.epoll.register(viewer.sock, select.EPOLLIN | select.EPOLLOUT)
        self._opening += 1

    def open_soon(self, number: int) -> None:
        """Begin it as soon as not too many are being opened."""
        self._to_open.append(number)

    # between two looks at the sockets

    def _busy(self) -> bool:
        return bool(self._awaited or self._open_until or self._to_open)

    def _after(self) -> None:
        while self._to_open and self._opening < self._most_opening:
            self.open(self._to_open.pop())
        while self._step and self.frames >= self._next_step and self._step_fd is not None:
            self._next_step += self._step
            os.write(self._step_fd, b".")
        now = time.monotonic()
        settled = not self._to_open and not self._opening and not self.comes_back
        if self._open_until is not None and (self.ready >= self._wanted or settled or now > self._open_until):
            self._open_until = None
            answer(ready=self.ready, lost=self.lost, seconds=now - self._open_from, refusal=self.refusal)
        if self._awaited is not None and (self.frames >= self._awaited[0] or now > self._awaited[1]):
            self._awaited = None
            answer(frames=self.frames, at_us=time.monotonic_ns() // 1000)

    # what the bench asks

    def command(self, command: dict[str, Any]) -> None:
        """Do what the bench asks."""
        match command["command"]:
            case "open":
                self.way = Way(command["port"], command["path"], command["connect"], command["join"])
                numbers = range(command["first"], command["first"] + command["count"])
                self._to_open = [*self._to_open, *reversed(numbers)]
                self._most_opening = command["concurrency"]
                self._wanted = self.ready + command["count"]
                self._open_from = time.monotonic()
                self._open_until = self._open_from + command["seconds"]
            case "reset":
                self.frames = self.bytes = self.lost = 0
                self.latencies = []
                self._every = command.get("every", 0)
                self._shared = command.get("shared", True)
                self._nap = command.get("nap", 0.0)
                self._memo = b""
                self._step = self._next_step = command.get("step", 0)
                answer()
            case "await":
                self._awaited = (command["frames"], time.monotonic() + command["seconds"])
            case "report":
                answer(frames=self.frames, bytes=self.bytes, lost=self.lost, ready=self.ready, **self._times())
            case "close":
                for viewer in list(self.viewers.values()):
                    self.forget(viewer)
                self.ready = self._opening = 0
                self._to_open = []
                answer()
            case other:
                answer(error=f"there is no command {other}")

    def _times(self) -> dict[str, Any]:
        """Microseconds from the time in a payload to its receipt."""
        times = self.latencies
        if not times:
            return {}
        quarter = max(1, len(times) // 4)
        return {
            "samples": len(times),
            "p50": percentile(times, 0.5),
            "p99": percentile(times, 0.99),
            "first_quarter": percentile(times[:quarter], 0.5),
            "last_quarter": percentile(times[-quarter:], 0.5),
        }


def step_fd() -> int | None:
    """Where steps are told, if anybody wants to know."""
    return int(sys.argv[1]) if len(sys.argv) > 1 else None


if __name__ == "__main__":
    raise_file_limit()
    Receiver(step_fd()).run()
