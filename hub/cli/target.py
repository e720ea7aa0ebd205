"""Which hub a command is for: by address and token, or by the data folder of one that runs here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit, urlunsplit

from hub.core.errors import HubError, InvalidRequest, Unauthorized

FOLDER: Final = ".session-hub"


class NotRunning(HubError):
    """No hub answers where one was looked for."""

    code = "not_running"
    retryable = True


@dataclass(frozen=True, slots=True)
class Target:
    """A hub's address, and the token for it."""

    url: str
    token: str
    folder: Path | None = None
    """The data folder in which it was found."""


def default_folder() -> Path:
    """The data folder that is used when none is named: ``.session-hub`` in the current checkout, or where we are."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / ".git").exists():
            return folder / FOLDER
    return here / FOLDER


def folder_of(data_dir: Path | None) -> Path:
    """The data folder that is meant, as an absolute path without ``..``. Raises InvalidRequest for a file."""
    folder = (data_dir or default_folder()).expanduser()
    if folder.is_file():
        raise InvalidRequest(f"{folder} is a file; --data-dir takes a folder")
    return folder.resolve()


def find_target(url: str | None, token: str | None, data_dir: Path | None, *, need_token: bool = True) -> Target:
    """The hub that the options name. Raises HubError that says what is missing.

    A folder's token is only ever given to the folder's own hub.
    """
    folder = folder_of(data_dir)
    own = _read(folder / "url")
    if url is None:
        if own is None:
            raise NotRunning(f"no hub runs on the data folder {folder}; {how_to_start(folder if data_dir else None)}")
        target = Target(_address(own)[0], token or "", folder)
    else:
        address, in_url = _address(url)
        target = Target(address, token or in_url or "")
        if own is not None and _address(own)[0] == address:
            target = replace(target, folder=folder)
    if not target.token and target.folder is not None:
        target = replace(target, token=_read(target.folder / "token") or "")
    if need_token and not target.token:
        raise Unauthorized(f"a token for {target.url} is needed: give --token, or set HUB_TOKEN")
    return target


def how_to_start(folder: Path | None = None) -> str:
    """What to type to get a hub."""
    option = f" --data-dir {folder}" if folder else ""
    return f"start one with 'session-hub up{option}', or name one with --url and --token"


def _address(url: str) -> tuple[str, str]:
    """The address without path, and the token of a printed URL (``http://host:port/#token=...``)."""
    try:
        parts = urlsplit(url.strip() if "://" in url else f"http://{url.strip()}")
        port = parts.port
    except ValueError as error:
        raise InvalidRequest(f"{url[:100]!r} is not a URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidRequest(f"{url[:100]!r} is not the URL of a hub: it looks like http://127.0.0.1:8765")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    address = urlunsplit((parts.scheme, f"{host}:{port}" if port else host, "", "", ""))
    return address, parse_qs(parts.fragment).get("token", [""])[0]


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
