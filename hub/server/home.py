"""A data folder in use: its lock, its tokens, and a Valkey of the hub's own in it, unless the record is elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hub.core.errors import StartError
from hub.record.embedded import EmbeddedServer
from hub.record.folder import FolderLock
from hub.server.auth import Tokens, folder_tokens


class Home:
    """What one hub has of its own on this machine, whether its nodes are one process or several."""

    def __init__(
        self, folder: Path, *, record: str, redis: str | None, progress: Callable[[str], None] | None = None
    ) -> None:
        """Take the folder. ``record`` is ``embedded`` or ``memory``, unless ``redis`` has a URL. Raises StartError."""
        if redis is None and record not in ("embedded", "memory"):
            raise StartError(f"there is no record {record!r}: embedded, memory, or the URL of a Redis")
        self._lock = FolderLock(folder)
        self.folder = self._lock.folder
        self.redis = redis
        """The URL of the record's server, once there is one; None: the record is in memory."""
        self.tokens: Tokens
        self.token: str
        """An operator's token, also in ``DIR/token``."""
        self._embedded: EmbeddedServer | None = None
        if redis is None and record == "embedded":
            self._embedded = EmbeddedServer(self.folder, lock=self._lock, progress=progress)

    async def start(self) -> None:
        """Read the secret, and start the record's server if it is our own. Raises StartError."""
        self.tokens, self.token = folder_tokens(self.folder)
        if self._embedded is not None:
            self.redis = await self._embedded.start()

    def tell(self, url: str) -> None:
        """Write the hub's address into ``DIR/url``, where commands find it. Raises StartError."""
        try:
            (self.folder / "url").write_text(url + "\n")
        except OSError as error:
            raise StartError(f"cannot write {self.folder / 'url'}: {error.strerror}") from error

    async def stop(self) -> None:
        """End the record's server, after everything is written, and let the folder go."""
        try:
            if self._embedded is not None:
                await self._embedded.stop()
        finally:
            try:
                (self.folder / "url").unlink(missing_ok=True)
            finally:
                self._lock.release()
