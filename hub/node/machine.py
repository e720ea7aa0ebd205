"""Whether a process of this machine still runs: a node that was killed here need not be waited for until it is missed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final


def this_process() -> dict[str, Any]:
    """What others on this machine know this process by. ``machine`` is empty where that cannot be told for sure."""
    return {"machine": _MACHINE, "pid": os.getpid(), "started": _started(os.getpid())}


def has_ended(process: Any) -> bool:
    """Whether a process that described itself so has ended. False if it is another machine's, or nobody can tell."""
    match process:
        case {"machine": str(machine), "pid": int(pid), "started": started} if (
            machine and machine == _MACHINE and pid > 0
        ):
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return True
            except OSError:  # it is there, and somebody else's
                return False
            return _started(pid) not in (None, started)
    return False


def _machine() -> str:
    """The running system and its space of process ids: containers have one of their own each."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """When a process began, in the system's ticks: its id may be another's by now. ``ended`` if only its parent has not looked
    yet; None if that cannot be read."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return "ended" if fields[0] in ("Z", "X") else fields[19]


_MACHINE: Final = _machine()
