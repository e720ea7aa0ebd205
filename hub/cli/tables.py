"""Tables of rows, readable in 80 columns."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from hub.cli.text import age, clean, clock_time, durability_text, one_line, option_text, value_text

RUN_STYLES = {
    "starting": "cyan",
    "running": "green",
    "waiting": "yellow",
    "stopping": "yellow",
    "finished": "dim",
    "failed": "red",
    "stopped": "dim",
    "interrupted": "red",
}
NOTICE_STYLES = {"info": "blue", "success": "green", "warning": "yellow", "error": "red", "progress": "cyan"}


def plain_table() -> Table:
    """A table without frames."""
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")


def contexts_table(rows: list[dict[str, Any]]) -> Table:
    """The sessions, one a line. Ids are whole, since people copy them."""
    table = plain_table()
    table.add_column("id", no_wrap=True, overflow="fold")
    table.add_column("name", overflow="ellipsis")
    table.add_column("user", overflow="ellipsis", max_width=14)
    table.add_column("agent", overflow="ellipsis", max_width=12)
    table.add_column("status", no_wrap=True)
    table.add_column("active", no_wrap=True, justify="right")
    for row in rows:
        kind = "" if row["type"] == "user" else f"({row['type']}) "
        table.add_row(
            Text(clean(row["id"]), style="bold"),
            _cell(f"{kind}{row['name']}"),
            _cell(row["user_id"] or ""),
            _cell(row["agent"] or ""),
            status_text(row),
            age(row["last_message"]),
        )
    return table


def _cell(text: object, style: str = "") -> Text:
    """A cell that gives way to others: it is cut where there is no room for all of it."""
    return Text(one_line(text, 200), style=style, no_wrap=True, overflow="ellipsis")


def status_text(document: dict[str, Any]) -> Text:
    """Running, paused or idle, of a row or a document."""
    if document["running"]:
        return Text("paused", style="yellow") if document["paused"] else Text("running", style="green")
    return Text("paused" if document["paused"] else "idle", style="yellow" if document["paused"] else "dim")


def notices_table(rows: list[dict[str, Any]], read: list[str]) -> Table:
    """The notices; those that were read are dim."""
    table = plain_table()
    table.add_column("id", no_wrap=True, overflow="fold")
    table.add_column("type", no_wrap=True)
    table.add_column("message")
    table.add_column("for", overflow="ellipsis", max_width=12)
    table.add_column("posted", no_wrap=True, justify="right")
    table.add_column("ends", no_wrap=True, justify="right")
    for row in rows:
        title = one_line(row["title"])
        message = Text(f"{title}: " if title else "", style="bold")
        message.append(one_line(row["message"]), style="not bold")
        table.add_row(
            Text(clean(row["id"])),
            Text(one_line(row["type"]), style=NOTICE_STYLES.get(row["type"], "")),
            message,
            _cell(row["audience"] or row["context"] or "all"),
            age(row["created_at"]),
            age(row["expires_at"]) if row["expires_at"] else "",
            style="dim" if row["id"] in read else "",
        )
    return table


def nodes_table(rows: list[dict[str, Any]]) -> Table:
    """The nodes, and where each runs, below its name, which is whole, since people copy it. Versions where they differ."""
    table = plain_table()
    table.add_column("node", no_wrap=True, overflow="fold")
    for name in ("beat", "live", "clients", "runs"):
        table.add_column(name, no_wrap=True, justify="right")
    table.add_column("agents", overflow="ellipsis", min_width=8, max_width=14)
    for name in ("load", "lag"):
        table.add_column(name, no_wrap=True, justify="right")
    differ = len({str(row["info"].get("version")) for row in rows}) > 1
    for row in rows:
        info = row["info"]
        place = f"{one_line(info.get('host', '?'), 14)}:{one_line(info.get('pid', '?'), 8)}"
        version = f"\nversion {one_line(info.get('version', '?'), 14)}" if differ else ""
        load = f"{100 * _number(info.get('cpu')):.0f} %, {_number(info.get('loop_lag_ms')):.0f} ms"
        table.add_row(
            Text.assemble((clean(row["name"]), "bold"), (f"\n{place}{version}", "dim")),
            f"{row['age']:.1f} s",
            *(one_line(info.get(name, "?"), 8) for name in ("contexts", "connections", "runs")),
            Text("draining", style="yellow")
            if info.get("draining")
            else _cell(", ".join(map(str, agents)) if isinstance(agents := info.get("agents"), list) else ""),
            load,
            f"{_number(info.get('record_lag')):.1f} s",
        )
    return table


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def health_table(url: str, found: dict[str, Any]) -> Table:
    """How the hub is."""
    table = pairs_table()
    well = found.get("status") == "ok"
    table.add_row("status", Text(one_line(found.get("status", "?")), style="green" if well else "bold red"))
    if found.get("reason"):
        table.add_row("reason", Text(one_line(found["reason"])))
    record = found.get("record") or {}
    ping = f"; {record['ping_ms']} ms away" if "ping_ms" in record else ""
    table.add_row("address", url)
    table.add_row("version", Text(one_line(found.get("version", "?"))))
    table.add_row("node", Text(one_line(found.get("node", "?"))))
    table.add_row("record", Text(one_line(f"{durability_text(record.get('durability', '?'))}{ping}")))
    table.add_row("agents", Text(one_line(", ".join(map(str, found.get("agents") or [])) or "none")))
    live = [_counted(found.get("contexts", "?"), "session"), _counted(found.get("connections", "?"), "connection")]
    table.add_row("live", Text(", ".join(live)))
    return table


def _counted(number: object, noun: str) -> str:
    return one_line(f"{number} {noun}" if number == 1 else f"{number} {noun}s")


def pairs_table() -> Table:
    """Two columns: names and values."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def values_table(values: dict[str, Any], most: int = 30) -> Table:
    """The members of an object, each on one line and shortened."""
    table = pairs_table()
    for key, value in list(values.items())[:most]:
        table.add_row(Text(one_line(key, 30)), Text(value_text(value, 200)))
    if len(values) > most:
        table.add_row("…", f"and {len(values) - most} more (--json has all)")
    return table


def asks_table(asks: dict[str, dict[str, Any]]) -> Table:
    """Questions that wait for an answer, by id."""
    table = plain_table()
    table.add_column("id", no_wrap=True)
    table.add_column("question", overflow="fold")
    table.add_column("options", overflow="fold")
    for id, ask in asks.items():
        options = ", ".join(option_text(option) for option in ask["options"] or [])
        table.add_row(Text(clean(id)), _cell(ask["question"]), _cell(options))
    return table


def queue_table(queue: list[dict[str, Any]]) -> Table:
    """The messages that wait."""
    table = plain_table()
    table.add_column("id", no_wrap=True)
    table.add_column("text", overflow="ellipsis")
    table.add_column("from", overflow="ellipsis", max_width=16)
    table.add_column("sent", no_wrap=True, justify="right")
    for item in queue:
        files = f" [{_counted(len(item['attachments']), 'file')}]" if item["attachments"] else ""
        table.add_row(
            Text(clean(item["id"])),
            _cell(item["text"] + files),
            _cell(item["user_id"] or ""),
            clock_time(item["created_at"]),
        )
    return table
