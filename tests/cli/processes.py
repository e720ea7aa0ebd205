"""Looking at processes, to see that none is left over."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support import alive


def children(pid: int) -> list[int]:
    """All processes below one."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            child = int(stat.parent.name)
            found += [child, *children(child)]
    return found


def command_line(pid: int) -> str:
    """What a process was started with; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def node_pids(parent: int) -> list[int]:
    """The nodes that ``serve --nodes`` runs, in the order in which they were started."""
    return [pid for pid in sorted(children(parent)) if " hub node " in command_line(pid) and alive(pid)]


def processes_naming(text: str) -> list[int]:
    """Processes whose command line has a text, but for this one."""
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if pid != os.getpid() and text in command_line(pid) and alive(pid)]
