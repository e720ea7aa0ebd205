"""Keep what comes before the damage in an embedded server's files: ``python -m hub.record.repair DATA_DIR``.

The files are copied first. Everything after the first damaged place is lost to the hub; the copy still has it.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from hub.core.errors import StartError
from hub.record.folder import FolderLock
from hub.record.valkey import server_binary


def repair(folder: Path) -> list[str]:
    """Repair the record in a data folder. Returns what was done, a line each. Raises StartError if it cannot be."""
    files = folder / "valkey" / "appendonlydir"
    manifest = files / "appendonly.aof.manifest"
    if not manifest.exists():
        raise StartError(f"no record in {folder}: {manifest} is not there")
    lock = FolderLock(folder)
    try:
        copy = next(
            path for n in range(1, 1000) if not (path := files.with_name(f"appendonlydir.damaged-{n}")).exists()
        )
        shutil.copytree(files, copy)
        done = [f"copied {files} to {copy}"]
        parts = [line.split() for line in manifest.read_text().splitlines() if line.strip()]
        grown = [files / part[1] for part in parts if part[0] == "file" and part[-1] == "i"]
        cut = False
        for path in grown:
            if cut:  # it continues what is lost
                path.write_bytes(b"")
                done.append(f"emptied {path.name}")
                continue
            before = path.stat().st_size
            _fix(path)
            cut = path.stat().st_size < before
            if cut:
                done.append(f"cut {path.name} from {before:,} to {path.stat().st_size:,} bytes")
        if not cut:
            done.append("no damage in what was appended; if the hub still does not start, restore a backup")
        return done
    finally:
        lock.release()


def _fix(path: Path) -> None:
    """Valkey's own checker; the server becomes it when it is called by that name."""
    run = subprocess.run(
        ["valkey-check-aof", "--fix", str(path)],
        executable=server_binary(),
        input=b"y\n",
        capture_output=True,
        check=False,
    )
    if run.returncode:
        raise StartError(f"{path} cannot be repaired: {run.stdout.decode(errors='replace').strip()[-500:]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m hub.record.repair", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("folder", metavar="DATA_DIR", type=Path, help="the data folder of a hub that does not run")
    try:
        sys.stdout.write("\n".join(repair(parser.parse_args().folder)) + "\n")
    except StartError as problem:
        sys.exit(problem.message)
