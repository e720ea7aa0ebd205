"""The data folder: one hub at a time uses it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from hub.core.errors import StartError


class FolderLock:
    """The lock of a data folder, ``DIR/lock``: held as long as this process lives, and gone with it however it ends.

    Nothing else inherits it, so a child that outlives the hub does not keep the folder.
    """

    def __init__(self, folder: Path) -> None:
        """Make the folder if it is not there, and take its lock. Raises StartError."""
        self.folder = make_folder(folder)
        path = self.folder / "lock"
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StartError(f"cannot write into the data folder {self.folder}: {error.strerror}") from error
        if not try_lock(self._fd):
            pid = os.read(self._fd, 20).decode(errors="replace").strip()
            os.close(self._fd)
            who = f" (pid {pid})" if pid else ""
            raise StartError(
                f"the data folder {self.folder} is in use by another hub{who}: end that one, or take another --data-dir"
            )
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            os.close(self._fd)
            raise StartError(f"cannot write into the data folder {self.folder}: {error.strerror}") from error
        os.register_at_fork(after_in_child=self.release)

    def release(self) -> None:
        """Let the folder go. A forked child only closes its copy. Harmless when done twice."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def make_folder(folder: Path) -> Path:
    """The folder's absolute path; it is made, for its owner alone, if it is not there. Raises StartError."""
    try:
        folder = folder.expanduser().absolute()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:
        raise StartError(
            f"cannot make the data folder {folder}: {getattr(error, 'strerror', None) or error}"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StartError(f"cannot write into the data folder {folder}: it belongs to somebody else, or is read-only")
    return folder


def try_lock(fd: int) -> bool:
    """Take the lock of an open file, if nobody has it. It goes when every copy of ``fd`` is closed."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise StartError(
            f"the data folder's file system has no locks ({error.strerror}): take a local folder"
        ) from error
    return True
