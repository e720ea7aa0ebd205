"""A whole context on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from hub.cli.entries import entry_view
from hub.cli.tables import RUN_STYLES, asks_table, pairs_table, queue_table, status_text, values_table
from hub.cli.text import age, clock_time, one_line, open_asks

MARKS: Final = {"done": ("✓", "green"), "active": ("▶", "bold cyan"), "pending": ("·", "dim")}


def context_page(document: dict[str, Any], entries: list[Any], version: str) -> Iterator[RenderableType]:
    """The parts of ``show``, one after the other."""
    yield head_table(document, version)
    about = document["session_context"]
    if about.get("goal") or about.get("summary") or about.get("plan"):
        yield section("Plan")
        for name in ("goal", "summary"):
            if about.get(name):
                yield indented(Text.assemble((f"{name}: ", "bold"), one_line(about[name])))
        for step in about.get("plan") or []:
            yield indented(step_line(step))
    for title, values in (("State", document["state"]), ("Output", document["output"])):
        if values:
            yield section(title)
            yield indented(values_table(values))
    asks = open_asks(document)
    if asks:
        yield section("Questions that wait for 'session-hub answer'")
        yield indented(asks_table(asks))
    if document["queue"]:
        yield section(f"Waiting messages ({len(document['queue'])})")
        yield indented(queue_table(document["queue"]))
    if entries:
        length, trimmed = document["log"]["length"], document["log"].get("first", 0)
        kept = f", {length - trimmed} of which are kept" if trimmed else ""
        yield section(f"Log (the last {len(entries)} of {length} entries{kept})" if len(entries) < length else "Log")
        for entry in entries:
            yield entry_view(entry)


def head_table(document: dict[str, Any], version: str) -> RenderableType:
    """Who and what the context is, and how it is going."""
    table = pairs_table()
    table.add_row("session", Text.assemble((one_line(document["id"]), "bold"), "  ", one_line(document["name"])))
    waiting = len(document["queue"])
    waits = f", {waiting} message{' waits' if waiting == 1 else 's wait'}" if waiting else ""
    table.add_row("status", Text.assemble(status_text(document), waits))
    table.add_row("type", Text(one_line(document["type"])))
    for name in ("user_id", "agent"):
        if document[name]:
            table.add_row(name.removesuffix("_id"), Text(one_line(document[name])))
    last = age(document["last_message"])
    last = "now" if last == "now" else f"{last} ago"
    table.add_row("opened", f"{clock_time(document['created_at'])} (last message {last})")
    if document["run"]:
        table.add_row("run", run_line(document["run"]))
    if document["progress"]["text"]:
        table.add_row("progress", Text(one_line(document["progress"]["text"])))
    table.add_row("version", Text(one_line(version), style="dim"))
    return table


def run_line(run: dict[str, Any]) -> Text:
    """A run in one line."""
    line = Text(one_line(run["status"]), style=RUN_STYLES.get(run["status"], ""))
    line.append(f"  by {one_line(run['agent'])}, since {clock_time(run['started_at'])}", style="not bold not dim")
    if run.get("attempt", 1) > 1:
        line.append(f", attempt {run['attempt']}")
    if run.get("error"):
        line.append(f": {one_line(run['error'], 200)}", style="red")
    return line


def step_line(step: dict[str, Any]) -> Text:
    """A step of the plan with its mark."""
    mark, style = MARKS.get(step["status"], MARKS["pending"])
    return Text.assemble((f"{mark} ", style), (one_line(step["text"]), style if step["status"] == "active" else ""))


def section(title: str) -> RenderableType:
    """A heading with a line of space above."""
    return Text(f"\n{title}", style="bold underline")


def indented(part: RenderableType) -> RenderableType:
    """A part of a section."""
    return Padding(part, (0, 0, 0, 2))
