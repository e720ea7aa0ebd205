"""A process with descendants of all kinds, for tests of what ends them."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support import alive, until

KINDS = 4


def family_of(file: Path, *, stubborn: bool = False) -> list[str]:
    """A command: a shell, a child of its session, one in a session of its own, and one without its environment. Each writes
    its id into the file. ``stubborn``: none ends when it is asked to."""
    python = (
        f"import os, time; os.setsid(); print(os.getpid(), file=open({str(file)!r}, 'a'), flush=True); time.sleep(600)"
    )
    return [
        "sh",
        "-c",
        f"""{"trap '' TERM" if stubborn else ""}
        echo $$ >> "{file}"
        sh -c 'echo $$ >> "{file}"; exec sleep 600' &
        {sys.executable} -c "{python}" &
        env -i sh -c 'echo $$ >> "{file}"; exec sleep 600' &
        wait""",
    ]


async def begun(file: Path) -> list[int]:
    """The ids of all of them, once they are there."""

    def ids() -> list[int]:
        lines = file.read_text().split() if file.exists() else []
        return [int(line) for line in lines] if len(lines) == KINDS else []

    found: list[int] = await until(ids, "a family")
    assert all(alive(id) for id in found)
    return found


async def ended(ids: list[int], seconds: float) -> None:
    """Wait for the end of all."""
    await until(lambda: not any(alive(id) for id in ids), f"the end of {ids}", seconds)
