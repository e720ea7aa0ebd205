"""Where commands print to, and how what went wrong is said."""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from hub.cli.text import as_json, clean, one_line
from hub.core.errors import HubError

if TYPE_CHECKING:
    from rich.console import Console

_WHAT_TO_DO: Final = {
    "unauthorized": "Give a token that this hub made, with --token or HUB_TOKEN; the operator's is in the data folder.",
    "forbidden": "An operator's token may.",
    "overloaded": "Wait a moment and try again.",
    "rate_limited": "Wait a moment and try again.",
    "unavailable": "Try again; 'session-hub health' tells how the hub is.",
    "internal": "The hub's own log tells more.",
}
"""For people, by an error's code; most messages say it themselves."""


@cache
def out() -> Console:
    """Standard output. Markup is off, so texts of others are just texts."""
    from rich.console import Console

    return Console(markup=False, emoji=False, highlight=False)


@cache
def err() -> Console:
    """Standard error."""
    from rich.console import Console

    return Console(markup=False, emoji=False, highlight=False, stderr=True)


def print_json(value: Any) -> None:
    """A value for scripts: one line of JSON, out at once."""
    print(as_json(value), flush=True)


def say(text: str, style: str = "") -> None:
    """A remark for people, on standard error, so that it never mixes with results."""
    err().print(clean(text), style=style, soft_wrap=True)


def print_error(error: HubError) -> None:
    """One line in red: what is wrong, its code, and what to do."""
    what_to_do = _WHAT_TO_DO.get(error.code, "")
    if error.code == "not_found" and "context" in error.message:
        what_to_do = "'session-hub contexts' lists them."
    line = f"error: {one_line(error.message)} [{one_line(error.code)}]"
    err().print(f"{line} {what_to_do}".rstrip(), style="bold red", soft_wrap=True)


def prepare_output() -> None:
    """What a terminal's encoding does not have is shown as a question mark, and is no error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
