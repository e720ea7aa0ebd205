"""Where an input comes from: an upload, a file on the agent's side, or text pasted into a message.

A source is kept in the context's private data, so that an agent process that starts anew can read it again.
"""

import asyncio
import hashlib
import os
import stat
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hub.core.errors import HubError
from hub.demo.errors import MAX_BYTES, SourceGone
from hub.demo.parse import check_size
from hub.demo.render import visible

Download = Callable[[str], Awaitable[bytes]]
"""Fetches an upload by its id; raises `HubError` if it is gone or the hub cannot be reached."""


KEPT = 100_000
"""Characters of pasted text that are kept with the context; longer text is only in memory."""


@dataclass(frozen=True)
class Source:
    """An input. `ref` is the id of an upload, the path of a file as it was named, or the pasted text."""

    kind: Literal["upload", "file", "paste"]
    name: str
    ref: str
    size: int = 0
    digest: str = ""
    """Of pasted text, which is not kept if it is very long."""

    @property
    def identity(self) -> str:
        """The same for two sources of the same thing."""
        return f"{self.kind} {self.digest or self.ref}"

    def to_data(self) -> dict[str, Any]:
        """As it is kept in the context's data."""
        ref = self.ref if len(self.ref) <= KEPT else ""
        return {"kind": self.kind, "name": self.name, "ref": ref, "size": self.size, "digest": self.digest}

    @staticmethod
    def from_data(data: Any) -> "Source | None":
        """What `to_data` made, None for anything else."""
        if not isinstance(data, dict) or data.get("kind") not in ("upload", "file", "paste"):
            return None
        name, ref, size, digest = (data.get(key) for key in ("name", "ref", "size", "digest"))
        if isinstance(name, str) and isinstance(ref, str) and isinstance(size, int) and isinstance(digest, str):
            return Source(data["kind"], name, ref, size, digest)
        return None


def attached(attachment: dict[str, Any]) -> Source:
    """The source of a message's attachment (`id`, `name`, `size`, `type`)."""
    size = attachment.get("size")
    name = visible(str(attachment.get("name") or "the upload"), 100)
    return Source("upload", name, str(attachment.get("id") or ""), size if isinstance(size, int) else 0)


def pasted(text: str) -> Source:
    """The source of text in a message."""
    data = text.encode("utf-8", "replace")
    return Source("paste", "the pasted text", text, len(data), hashlib.sha256(data).hexdigest()[:32])


async def fetch(source: Source, download: Download, files: Path | None) -> bytes:
    """The bytes of `source`. Raises `SourceGone` or `TooLarge`."""
    if source.kind == "paste":
        if source.size and not source.ref:
            raise SourceGone("The pasted text was too long to be kept.", "Paste it again, or upload it as a file.")
        return source.ref.encode("utf-8", "replace")
    if source.kind == "file":
        return await asyncio.to_thread(read_file, source.ref, files)
    check_size(source.size)
    try:
        data = await download(source.ref)
    except TimeoutError:
        raise SourceGone(f"{source.name} takes too long to come.", "Try again in a moment: “analyse again”.") from None
    except HubError as error:
        if error.retryable:
            raise SourceGone(
                f"{source.name} cannot be fetched just now: {error.message}", "Try again in a moment: “analyse again”."
            ) from error
        raise SourceGone(
            f"{source.name} is not there any more: uploads are kept for a limited time.", "Upload the file again."
        ) from error
    check_size(len(data))
    return data


def read_file(name: str, files: Path | None) -> bytes:
    """The content of a file under the directory `files`.

    Raises `SourceGone` if there is none, if it lies outside (links are followed before that is decided), or if no
    directory was given; `TooLarge` if it is.
    """
    if files is None:
        raise SourceGone(
            "I may not read any files here.",
            "Upload the file, or start the agent with --files DIRECTORY to let it read the files in there.",
        )
    shown = visible(name, 100)
    try:
        root = files.resolve(strict=True)
        path = (root / name).resolve()
    except (OSError, ValueError, RuntimeError):
        raise _no_file(shown, files) from None
    if not path.is_relative_to(root):
        raise SourceGone(
            f"{shown} lies outside the directory that I may read.",
            "Name a file inside it, or upload the file.",
        )
    try:
        # The path is resolved: a link that is there now was put there since. A pipe must not make us wait.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
    except PermissionError:
        raise SourceGone(f"I may not read {shown}.", "Make the file readable for the agent, or upload it.") from None
    except (OSError, ValueError):
        raise _no_file(shown, root) from None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise SourceGone(f"{shown} is not a file.", "Name a file.")
        check_size(found.st_size)
        with os.fdopen(handle, "rb", closefd=False) as file:
            data = file.read(MAX_BYTES + 1)
    finally:
        os.close(handle)
    check_size(len(data))
    return data


def is_file(name: str, files: Path | None) -> bool:
    """Whether `name` is a file that may be read."""
    try:
        root = files.resolve(strict=True) if files is not None else None
        path = (root / name).resolve() if root is not None else None
        return path is not None and root is not None and path.is_relative_to(root) and path.is_file()
    except (OSError, ValueError, RuntimeError):
        return False


def _no_file(shown: str, root: Path) -> SourceGone:
    try:
        names = [name for name in sorted(os.listdir(root)) if not name.startswith(".") and is_file(name, root)]
    except OSError:
        names = []
    there = ", ".join(visible(name, 60) for name in names[:10]) + (" …" if len(names) > 10 else "")
    advice = f"There are: {there}." if names else "There are no files in the directory that I may read: upload one."
    return SourceGone(f"There is no file {shown}.", advice)
