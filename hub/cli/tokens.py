"""The command ``token``: makes tokens with a hub's secret."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from hub.cli.console import print_json, say
from hub.cli.options import DataDir, Json, Url
from hub.cli.target import NotRunning, find_target, folder_of
from hub.cli.text import seconds_of
from hub.core.enums import Role
from hub.core.errors import HubError, InvalidRequest, StartError


def token(
    sub: Annotated[str, typer.Option("--sub", metavar="NAME", help="Who it is for.", show_default=False)],
    role: Annotated[Role, typer.Option("--role", help="What they may do.", show_default=False)],
    ctx: Annotated[
        list[str] | None,
        typer.Option("--ctx", metavar="PATTERN", help="Ids of sessions it covers, with * and ?; may be given again."),
    ] = None,
    ttl: Annotated[
        str | None, typer.Option("--ttl", metavar="TIME", help="How long it is good: 8h, 30d. By default for ever.")
    ] = None,
    link: Annotated[
        bool, typer.Option("--link", help="Print the address that opens the page with it, not the token.")
    ] = False,
    url: Url = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Make a token for somebody. Signed with HUB_SECRET, or else with the secret of the data folder.

    Whoever opens the address that --link prints has the page with that token.

    JSON: {"token", "sub", "role", "ctx", "ttl": seconds or null, "link": address or null}.
    """
    from hub.server.auth import Tokens

    seconds = seconds_of(ttl) if ttl else None
    if seconds == 0:
        raise InvalidRequest("--ttl 0: such a token has expired already")
    patterns = tuple(ctx or ())
    if role in (Role.AGENT, Role.VIEWER) and not patterns:
        raise InvalidRequest(f"a token of the role {role} covers no session without --ctx; --ctx '*' covers all")
    made = Tokens(_secret(data_dir)).make(sub, role, ctx=patterns, ttl=seconds)
    address = _address(url, data_dir)
    opens = f"{address}/#token={made}" if address else None
    if json:
        told = {"token": made, "sub": sub, "role": str(role), "ctx": list(patterns), "ttl": seconds, "link": opens}
        print_json(told)
    elif link:
        if opens is None:
            raise InvalidRequest("--link: no hub runs on the data folder; give the hub's address with --url")
        print(opens)
    else:
        print(made)
        if opens is not None:
            say(f"The page opens with it at {opens}")


def _address(url: str | None, data_dir: Path | None) -> str | None:
    try:
        return find_target(url, None, data_dir, need_token=False).url
    except NotRunning:
        return None


def _secret(data_dir: Path | None) -> str:
    if secret := os.environ.get("HUB_SECRET"):
        return secret
    folder = folder_of(data_dir)
    secret = _read(folder / "secret")
    if _read(folder / "url") and not _signed_with(secret, _read(folder / "token")):
        raise StartError(f"the hub of {folder} has its secret from HUB_SECRET: set the same here")
    if not secret:
        raise StartError(f"no hub has used the data folder {folder} yet: start one, or set HUB_SECRET to its secret")
    return secret


def _signed_with(secret: str, token: str) -> bool:
    """Whether the token of a running hub is of this secret."""
    from hub.server.auth import Tokens

    try:
        Tokens(secret).read(token)
    except HubError:
        return False
    return True


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise StartError(f"cannot read {file}: {error.strerror}") from error
