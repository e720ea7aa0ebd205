"""Working out the answer to a `Query`."""

from collections.abc import Sequence

from hub.demo import analysis, clauses, faults, findings, reckoning, text
from hub.demo.clusters import cluster
from hub.demo.grammar import Query
from hub.demo.render import JsonValue, blocks, escape, grid, short
from hub.demo.selection import Answer, every_day, needed, nothing, noun, said, select
from hub.demo.stats import count_values, most
from hub.demo.steps import Steps, spans
from hub.demo.table import Column, Table, plural

WIDE = 8
"""Columns of a row that are shown."""


def answer(table: Table, query: Query) -> Steps[Answer]:
    """Work the answer out. Raises `NotUnderstood` if it makes no sense for this table after all."""
    rows = yield from select(table, query)
    match query.action:
        case "bad":
            found = yield from findings.bad_rows(table)
            return Answer(found.heading, found.markdown or "Every row could be read.", found.data)
        case "columns":
            return (yield from _columns(table))
        case "report":
            return (yield from _report(table))
        case "words":
            return (yield from _words(table, query.number))
        case "longest":
            return (yield from _longest(table, query.number))
        case "count":
            return reckoning.count(table, query, rows)
        case "distinct":
            return (yield from reckoning.distinct(table, query, rows))
        case "top":
            return (yield from reckoning.top(table, query, rows))
        case "aggregate":
            return (yield from reckoning.aggregate(table, query, rows))
        case "describe":
            return (yield from reckoning.describe(table, query, rows))
        case "histogram":
            return (yield from reckoning.histogram(table, query, rows))
        case "errors" | "groups":
            return (yield from _errors(table, query, rows))
        case "extremes":
            return (yield from _extremes(table, query, rows))
        case _:
            return _rows(table, query, rows)


def _columns(table: Table) -> Steps[Answer]:
    rows: list[tuple[str, str, str, str]] = []
    for column in table.columns:
        counts = yield from count_values(column.values)
        best = ", ".join(findings.show_value(table, column, value) for value, _ in most(counts.items(), 3))
        rows.append((column.name, column.kind, f"{len(counts):,}", best))
    data: JsonValue = [{"name": short(column.name), "kind": column.kind} for column in table.columns]
    shown = grid(("column", "kind", "different values", "most frequent"), rows, ["different values"]).markdown()
    return Answer(plural(len(rows), "column"), shown or "There are no columns.", data)


def _report(table: Table) -> Steps[Answer]:
    found: list[findings.Finding] = []
    for step in analysis.steps_for(table.kind):
        one = yield from step.work(table)
        if one is not None:
            found.append(one)
    return Answer("Report", analysis.report(table, found), None)


def _words(table: Table, number: int) -> Steps[Answer]:
    column = table.role("message")
    if column is None or column.numeric:
        raise clauses.NotUnderstood("There is no text to count words in.")
    counted = yield from text.count_words(column.values)  # type: ignore[arg-type]
    best = counted.top(number)
    shown = grid(("word", "count"), [(word, f"{count:,}") for word, count in best], ["count"]).markdown()
    told = f"{plural(counted.total, 'word')}, {len(counted.words):,} different."
    data: JsonValue = {"words": counted.total, "top": [{"value": short(word), "count": count} for word, count in best]}
    return Answer(plural(counted.total, "word"), blocks(told, shown), data)


def _longest(table: Table, number: int) -> Steps[Answer]:
    lines = table.columns[0].values if table.columns else []
    found = yield from text.longest(lines, number)  # type: ignore[arg-type]
    rows = [(f"{length:,}", f"{table.line_numbers[row]:,}", str(lines[row])) for length, row in found]
    shown = grid(("characters", "line", "text"), rows, ("characters", "line")).markdown(120)
    data: JsonValue = [{"line": table.line_numbers[row], "characters": length} for length, row in found]
    return Answer("Longest lines", shown, data)


def _errors(table: Table, query: Query, rows: Sequence[int]) -> Steps[Answer]:
    if not rows:
        return nothing(table, query)
    grouped = yield from cluster(table, rows, query.number)
    called = noun(table, query)
    rule = faults.rule(table, query.sort) if query.sort else None
    how = f" ({escape(rule.text)})" if rule else ""
    told = f"{plural(len(rows), called).capitalize()}{escape(said(table, query), 300)}{how}:"
    shown = findings.cluster_table(table, grouped, query.number) if grouped else ""
    some = "" if query.action == "groups" and shown else _row_table(table, rows[:5])
    first = f"The first {min(5, len(rows))}:" if some and shown else ""
    data: dict[str, JsonValue] = {"count": len(rows)}
    if grouped is not None:
        data["clusters"] = findings.cluster_data(table, grouped)
    return Answer(plural(len(rows), called), blocks(told, shown, first, some, every_day(table, query)), data)


def _extremes(table: Table, query: Query, rows: Sequence[int]) -> Steps[Answer]:
    column = needed(query)
    sign = 1 if query.least else -1
    best: list[tuple[float, int]] = []
    for start, stop in spans(len(rows)):
        values = ((column.values[row], row) for row in rows[start:stop])
        best.extend((sign * value, row) for value, row in values if isinstance(value, float) and value == value)
        best = sorted(best)[: query.number]
        yield
    if not best:
        return nothing(table, query)
    heading = f"{'Lowest' if query.least else 'Highest'} {column.name}"
    shown = _row_table(table, [row for _, row in best], column)
    data: JsonValue = [{"line": table.line_numbers[row], "value": sign * value} for value, row in best]
    return Answer(heading, blocks(shown, every_day(table, query)), data)


def _rows(table: Table, query: Query, rows: Sequence[int]) -> Answer:
    if not rows:
        return nothing(table, query)
    chosen = rows[-query.number :] if query.least else rows[: query.number]
    which = "last" if query.least else "first"
    called = noun(table, query)
    told = f"{plural(len(rows), called).capitalize()}{escape(said(table, query), 300)}"
    told += f"; the {which} {len(chosen)}:" if len(rows) > len(chosen) else ":"
    data: JsonValue = {
        "count": len(rows),
        "rows": [
            {short(column.name): short(table.text(column, row)) for column in table.columns[:WIDE]} for row in chosen
        ],
    }
    shown = _row_table(table, chosen)
    return Answer(plural(len(rows), called), blocks(told, shown, every_day(table, query)), data)


def _row_table(table: Table, rows: Sequence[int], first: Column | None = None) -> str:
    roles = ("time", "level", "host", "method", "path", "status", "bytes", "source", "message")
    main = (
        [column for role in roles if (column := table.role(role)) is not None]
        if table.kind in ("access", "log")
        else []
    )
    columns = ([first] if first is not None else []) + [
        column for column in main or table.columns if column is not first
    ]
    columns = columns[:WIDE]
    shown = [(f"{table.line_numbers[row]:,}", *(table.text(column, row) for column in columns)) for row in rows]
    right = ("line", *(column.name for column in columns if column.kind == "number"))
    return grid(("line", *(column.name for column in columns)), shown, right).markdown(60)
