"""Log entries on a terminal."""

from __future__ import annotations

from typing import Any, Final

from rich.console import Group, RenderableType
from rich.markdown import Markdown
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hub.cli.text import clean, clock_time, one_line, value_text

STYLES: Final = {
    "agent": "blue",
    "browser": "cyan",
    "code_exe": "magenta",
    "subagent": "blue",
    "error": "bold red",
    "hint": "yellow",
    "info": "cyan",
    "progress": "dim",
    "response": "bold green",
    "tool": "magenta",
    "mcp": "magenta",
    "input": "yellow",
    "user": "bold white",
    "util": "dim",
    "warning": "bold yellow",
}
_MARKDOWN: Final = frozenset({"agent", "subagent", "hint", "info", "response", "warning"})
"""Types whose content is written for people; the others' is shown as it is."""


def entry_head(entry: Any, *, mark: str = "") -> Text:
    """One line: number, time, type, heading."""
    line = Text.assemble((f"#{entry['no']} {clock_time(entry['timestamp'])} ", "dim"))
    line.append(one_line(entry["type"]), style=STYLES.get(entry["type"], ""))
    if mark:
        line.append(f" {mark}", style="dim")
    if entry["heading"]:
        line.append(f" {one_line(entry['heading'])}", style="bold")
    return line


def entry_body(type: str, content: str) -> RenderableType:
    """An entry's text. What other people wrote never becomes markup, links or control sequences."""
    text = clean(content).rstrip()
    if type in _MARKDOWN:
        return Markdown(text, hyperlinks=False)
    return Text(text)


def kvps_table(kvps: dict[str, Any], most: int = 12) -> Table:
    """An entry's pairs."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(style="dim", overflow="fold")
    for key, value in list(kvps.items())[:most]:
        table.add_row(Text(one_line(key, 30)), Text(value_text(value, 300)))
    if len(kvps) > most:
        table.add_row("…", f"and {len(kvps) - most} more")
    return table


def entry_view(entry: Any, *, mark: str = "") -> RenderableType:
    """A whole entry."""
    parts: list[RenderableType] = [entry_head(entry, mark=mark)]
    if entry["content"].strip():
        parts.append(Padding(entry_body(entry["type"], entry["content"]), (0, 0, 0, 2)))
    if entry["kvps"]:
        parts.append(Padding(kvps_table(entry["kvps"]), (0, 0, 0, 2)))
    if entry.get("cut"):
        parts.append(Text(f"  … {entry['cut']:,} characters more were cut", style="dim"))
    return Group(*parts)
