"""Options that many commands share, and how a command's work is run."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from hub.cli.target import FOLDER
from hub.core.errors import InvalidRequest

T = TypeVar("T")

_HUB = "Which hub"

Url = Annotated[
    str | None,
    typer.Option(
        "--url", envvar="HUB_URL", show_envvar=True, rich_help_panel=_HUB, help="The hub's address, or its printed URL."
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="HUB_TOKEN",
        show_envvar=True,
        rich_help_panel=_HUB,
        help="Token for it. Others can see a command's options; the variable is better.",
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        "-d",
        envvar="HUB_DATA_DIR",
        show_envvar=True,
        rich_help_panel=_HUB,
        help=f"Data folder of a hub that runs here: has its address and token. By default {FOLDER} in the checkout, or here.",
    ),
]
Redis = Annotated[
    str | None,
    typer.Option(
        "--redis",
        metavar="URL",
        rich_help_panel=_HUB,
        help="Read from this Redis or Valkey itself, without a hub: redis://..., or unix://... as in DATA-DIR/valkey/url.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="JSON for scripts instead of a table.")]
Context = Annotated[str, typer.Argument(metavar="ID", help="The session's id.", show_default=False)]


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's work to its end."""
    import asyncio

    return asyncio.run(work)


def files_folder(files: Path | None) -> Path | None:
    """The folder that ``--files`` names. Raises InvalidRequest if there is none."""
    if files is None:
        return None
    folder = files.expanduser().absolute()
    if not folder.is_dir():
        raise InvalidRequest(f"--files {files}: there is no such folder")
    return folder


def examples(*lines: str) -> str:
    """The epilog of a command's help: examples, one a line."""
    return "\n\n".join(["[bold]Examples[/bold]", *("  " + line.replace("[", "\\[") for line in lines)])
