"""The other end of ``Process.tell``: commands of the bench, read by a load process."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any


class Commands:
    """JSON lines on standard input. Read them when ``select`` says that there is something to read."""

    fd = 0

    def __init__(self) -> None:
        self._buffer = b""

    def read(self) -> Iterator[dict[str, Any]]:
        """The commands that are complete now. Ends the process when the bench is gone."""
        data = os.read(self.fd, 1 << 20)
        if not data:
            sys.exit(0)
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            yield json.loads(line)


def answer(**result: Any) -> None:
    """What came of a command."""
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()
