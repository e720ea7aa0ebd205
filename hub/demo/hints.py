"""What can be asked about a table, with examples that fit its columns."""

import re

from hub.demo.faults import rule
from hub.demo.render import blocks, escape, visible
from hub.demo.table import Column, Table, plural


def help_text(table: Table) -> str:
    """What can be asked, with examples that fit this table, as Markdown."""
    columns = ", ".join(f"`{visible(column.name, 40).replace('`', '')}`" for column in table.columns[:30])
    asked = "\n".join(f"- {escape(example, 120)}" for example in examples(table))
    return blocks(
        f"Columns: {columns}." if columns else "",
        "You can ask, for example:",
        asked,
        "Narrow any of these with *where column = value* (also `!=`, `>`, `<`, *contains*, *starts with*)"
        + (", *after 14:00*, *between 13:00 and 14:00*, *in the last 10 minutes*." if table.role("time") else "."),
    )


def examples(table: Table) -> list[str]:
    """Questions that this table can answer, the most telling first."""
    time, status, path, host = (table.role(role) for role in ("time", "status", "path", "host"))
    named: list[Column] = []
    for column in (status, path, host, table.role("level"), *table.columns):
        if column is not None and column.kind in ("text", "code") and column not in named and _sayable(column):
            named.append(column)
    numbers = [column for column in table.columns if column.kind == "number" and _sayable(column)]
    found: list[str] = []
    if table.kind == "text":
        found += ["top 10 words", "longest lines", "how many lines"]
    else:
        found += [f"top {10 - 5 * (at == 0)} {_said(column)}" for at, column in enumerate(named[:2])]
    if rule(table) is not None:
        clock = _some_time(table)
        found.append(f"errors after {clock}" if clock else "errors")
    if time is not None:
        found.append(f"{plural(2, table.noun)[2:]} per {_unit(table)}")
    if numbers:
        by = f" by {_said(named[0])}" if named else ""
        found += [f"average {_said(numbers[0])}{by}", f"p95 of {_said(numbers[0])}", f"largest 5 {_said(numbers[0])}"]
    if named and table.kind != "text" and (value := _some_value(named[0])):
        found.append(f"count where {_said(named[0])} = {value}")
    found += ["how many rows"] if table.kind != "text" else []
    found += ["show bad rows"] if table.bad.count else []
    return [*found, "columns", "help"]


def _sayable(column: Column) -> bool:
    return re.search(r"[\"'`“”„‘’\x01\s]{2}|[\"'`“”„‘’\x01]", column.name) is None and column.name.isprintable()


def _said(column: Column) -> str:
    """A column as it can stand in a question: in quotes unless it is one plain word."""
    return column.name if re.fullmatch(r"[a-z][a-z_]{3,}", column.name) else f'"{column.name}"'


def _some_value(column: Column) -> str:
    """One of the first values of a column, as it can stand in a question; "" if none of them can."""
    for value in column.values[:100]:
        if isinstance(value, str) and len(value) <= 30 and re.fullmatch(r"[\w ./:@-]*\w[\w ./:@-]*", value):
            return value if re.fullmatch(r"[\w/-]+", value) else f'"{value}"'
    return ""


def _times(table: Table) -> list[float]:
    """Some of the times, in order."""
    time = table.role("time")
    values = [value for value in (time.values[::997] if time is not None else ()) if isinstance(value, float)]
    return sorted(value for value in values if value == value)


def _some_time(table: Table) -> str:
    """An hour in the middle of the data, "" if there are only dates."""
    found = _times(table)
    if not found or all(value % 86_400 == 0 for value in found):
        return ""
    return f"{int(found[len(found) // 2] // 3600 % 24):02d}:00"


def _unit(table: Table) -> str:
    """A unit of time that gives a timeline of sensible length."""
    found = _times(table)
    span = found[-1] - found[0] if found else 0
    return "hour" if span < 5 * 86_400 and _some_time(table) else "day" if span < 200 * 86_400 else "week"
