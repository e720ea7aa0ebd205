"""Run by tests as a hub that has nothing but an embedded server: ``hub_process.py DIR``; prints a line of JSON when it is up.

Each line on its standard input that says ``fork`` leaves a child that outlives it; the end of the input stops the server.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path

from hub.core.errors import StartError
from hub.record.embedded import EmbeddedServer


async def main() -> None:
    server = EmbeddedServer(Path(sys.argv[1]))
    try:
        url = await server.start()
    except StartError as error:
        sys.stdout.write(json.dumps({"error": error.message}) + "\n")
        return
    sys.stdout.write(
        json.dumps({"url": url, "hub": os.getpid(), "guard": server.guard_pid, "server": server.pid}) + "\n"
    )
    sys.stdout.flush()
    while line := await asyncio.to_thread(sys.stdin.readline):
        if line == "fork\n":
            sys.stdout.write(json.dumps({"child": leave_child()}) + "\n")
            sys.stdout.flush()
    await server.stop()


def leave_child() -> int:
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    return child


asyncio.run(main())
