"""Ends the child processes of an agent that cannot do so itself, since it was killed: ``python -m hub.agent.guard MARK``.

A process of its own, one for each process whose agents start others. Its standard input is a pipe from there: lines ``+ID`` and
``-ID`` say which sessions there are. The end of that pipe, or of the parent, ends what is left.
"""

from __future__ import annotations

import os
import select
import signal
import sys

from hub.agent.family import end_family

GRACE = 1.0
"""Seconds that they have to end when they are asked to."""
LOOK_SECONDS = 0.5
"""How often it looks whether the parent is there: a process that was forked may hold the other end of the pipe."""


def main(mark: str) -> None:
    """Wait for the end of the parent, and end what it left behind."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # meant for the parent, which may take its time
    parent, sessions, rest = os.getppid(), set[int](), b""
    while os.getppid() == parent:
        if not select.select([0], [], [], LOOK_SECONDS)[0]:
            continue
        said = os.read(0, 65_536)
        if not said:
            break
        *lines, rest = (rest + said).split(b"\n")
        for line in lines:
            (sessions.add if line.startswith(b"+") else sessions.discard)(int(line[1:]))
    end_family(mark, sessions, GRACE)


if __name__ == "__main__":
    main(sys.argv[1])
