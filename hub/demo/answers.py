"""Working out the answer to a `Query`."""

from array import array
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from hub.demo import analysis, clauses, faults, findings, text, timeline
from hub.demo.clusters import cluster
from hub.demo.grammar import Query
from hub.demo.render import JsonValue, blocks, escape, grid, short
from hub.demo.stats import Summary, count_values, most, percentile, sample, summarise
from hub.demo.steps import Steps, spans
from hub.demo.table import Column, Table, plural, show_number, show_share

WIDE = 8
"""Columns of a row that are shown."""


@dataclass(frozen=True)
class Answer:
    """The answer to a question, as a heading, Markdown and JSON values."""

    heading: str
    markdown: str
    data: JsonValue
    understood: bool = True


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
            return _count(table, query, rows)
        case "distinct":
            return (yield from _distinct(table, query, rows))
        case "top":
            return (yield from _top(table, query, rows))
        case "aggregate":
            return (yield from _aggregate(table, query, rows))
        case "describe":
            return (yield from _describe(table, query, rows))
        case "histogram":
            return (yield from _histogram(table, query, rows))
        case "errors" | "groups":
            return (yield from _errors(table, query, rows))
        case "extremes":
            return (yield from _extremes(table, query, rows))
        case _:
            return _rows(table, query, rows)


def said(table: Table, query: Query) -> str:
    """The narrowing of a query in words: ` where status = 404, after 14:00`; "" if there is none."""
    parts = [", ".join(one.text for one in query.windows)] if query.windows else []
    if query.conditions:
        parts.insert(0, "where " + " and ".join(one.text for one in query.conditions))
    return (" " + ", ".join(parts)) if parts else ""


def select(table: Table, query: Query) -> Steps[Sequence[int]]:
    """The rows that a query is about."""
    rows: Sequence[int] = range(table.rows)
    if query.sort is not None:
        rule = faults.rule(table, query.sort)
        if rule is None:
            raise clauses.NotUnderstood(f"Nothing in this data says which rows are {query.sort}.")
        rows = yield from faults.error_rows(rule)
    for condition in query.conditions:
        test = clauses.predicate(condition)
        columns = (
            [condition.column] if condition.column is not None else [one for one in table.columns if not one.numeric]
        )
        kept: list[int] = []
        for start, stop in spans(len(rows), 10_000):
            kept.extend([row for row in rows[start:stop] if any(test(column.values[row]) for column in columns)])
            yield
        rows = kept
    time = table.role("time")
    if query.windows and time is not None:
        for window in query.windows:
            kept = []
            for start, stop in spans(len(rows), 10_000):
                kept.extend([row for row in rows[start:stop] if window.holds(time.values[row])])  # type: ignore[arg-type]
                yield
            rows = kept
    return rows


def _noun(table: Table, query: Query) -> str:
    return query.sort[:-1] if query.sort else table.noun


def _every_day(table: Table, query: Query) -> str:
    """A hint where `after 14:00` means that time on several days."""
    span = analysis.time_span(table) if any(window.clock for window in query.windows) and table.dated else None
    if span and span[0].rpartition(" ")[0] != span[1].rpartition(" ")[0]:
        return "The times are taken on every day of the data; put a date before a time to mean one day."
    return ""


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


def _count(table: Table, query: Query, rows: Sequence[int]) -> Answer:
    noun = _noun(table, query)
    told = f"**{len(rows):,}** {plural(len(rows), noun).partition(' ')[2]}{escape(said(table, query), 300)}"
    share = f" ({show_share(len(rows), table.rows)} of {table.rows:,})" if len(rows) != table.rows else ""
    bad = f"{plural(table.bad.count, 'bad row')} not counted." if table.bad.count else ""
    return Answer(plural(len(rows), noun), blocks(f"{told}{share}.", bad, _every_day(table, query)), len(rows))


def _distinct(table: Table, query: Query, rows: Sequence[int]) -> Steps[Answer]:
    column = _needed(query)
    counts = yield from count_values(column.values, rows)
    best = [(value, int(count)) for value, count in most(counts.items(), 10)]
    told = f"**{len(counts):,}** different values of {escape(column.name)}{escape(said(table, query), 300)}."
    shown = findings.top_table(table, column, best, sum(counts.values()), len(counts))
    return Answer(f"{len(counts):,} different", blocks(told, shown), len(counts))


def _top(table: Table, query: Query, rows: Sequence[int]) -> Steps[Answer]:
    column = _needed(query)
    heading = f"{'Bottom' if query.least else 'Top'} {query.number}: {column.name}"
    if query.by is not None:
        return (yield from _top_sums(table, query, rows, column, query.by, heading))
    counts = yield from count_values(column.values, rows)
    total = sum(counts.values())
    if not counts:
        return _nothing(table, query)
    best = [(value, int(count)) for value, count in most(counts.items(), query.number, least=query.least)]
    shown = findings.top_table(table, column, best, total, len(counts))
    told = f"{plural(len(rows), _noun(table, query)).capitalize()}{escape(said(table, query), 300)}:"
    data: JsonValue = [
        {"value": short(findings.show_value(table, column, value)), "count": count} for value, count in best
    ]
    return Answer(heading, blocks(told, shown, _every_day(table, query)), data)


def _top_sums(
    table: Table, query: Query, rows: Sequence[int], column: Column, by: Column, heading: str
) -> Steps[Answer]:
    groups = yield from _grouped(table, column, by, rows)
    sums = {key: sum(values) for key, values in groups.items()}
    best = most(sums.items(), query.number, least=query.least)
    name = f"sum of {by.name}"
    shown = grid(
        (column.name, name, "count"),
        [(findings.show_value(table, column, key), show_number(total), f"{len(groups[key]):,}") for key, total in best],
        (name, "count"),
    ).markdown()
    data: JsonValue = [{"value": short(findings.show_value(table, column, key)), "sum": total} for key, total in best]
    return Answer(f"{heading} by {by.name}", shown or "No rows.", data)


def _grouped(
    table: Table, keys: Column, numbers: Column, rows: Sequence[int]
) -> Steps[dict[str | float, "array[float]"]]:
    groups: dict[str | float, array[float]] = defaultdict(lambda: array("d"))
    for start, stop in spans(len(rows), 10_000):
        for row in rows[start:stop]:
            key, value = keys.values[row], numbers.values[row]
            if key is not None and key == key and isinstance(value, float) and value == value:
                groups[key].append(value)
        yield
    return groups


def _aggregate(table: Table, query: Query, rows: Sequence[int]) -> Steps[Answer]:
    column = _needed(query)
    name = _name(query)
    if query.by is None:
        value = yield from _value(query, array("d", [column.values[row] for row in rows]))  # type: ignore[misc]
        told = (
            f"{name.capitalize()} of {escape(column.name)}{escape(said(table, query), 300)}: **{show_number(value)}**"
        )
        return Answer(
            f"{name} of {column.name}: {show_number(value)}",
            blocks(f"{told} ({plural(len(rows), table.noun)}).", _every_day(table, query)),
            value,
        )
    groups = yield from _grouped(table, query.by, column, rows)
    keys = most(((key, len(values)) for key, values in groups.items()), 50)
    shown_rows: list[tuple[str, str, str]] = []
    data: list[JsonValue] = []
    for key, count in keys:
        value = yield from _value(query, groups[key])
        key_text = findings.show_value(table, query.by, key)
        shown_rows.append((key_text, show_number(value), f"{int(count):,}"))
        data.append({"value": short(key_text), "result": value, "count": int(count)})
    title = f"{name} of {column.name}"
    shown = grid((query.by.name, title, "count"), shown_rows, (title, "count")).markdown()
    more = f"Only the {len(keys)} most frequent of {len(groups):,} values are shown." if len(groups) > len(keys) else ""
    return Answer(f"{title} by {query.by.name}", blocks(shown or "No rows.", more, _every_day(table, query)), data)


def _name(query: Query) -> str:
    names = {"mean": "average", "min": "minimum", "max": "maximum", "stddev": "standard deviation"}
    if query.function == "percentile":
        return f"p{round(query.part * 100)}"
    return names.get(query.function, query.function)


def _value(query: Query, values: "array[float]") -> Steps[float | None]:
    if query.function == "percentile":
        ordered, _ = yield from sample(values)
        return percentile(ordered, query.part)
    one: Summary = yield from summarise(values)
    return {
        "mean": one.mean, "median": one.median, "min": one.minimum, "max": one.maximum, "sum": one.total,
        "stddev": one.stddev,
    }[query.function]  # fmt: skip


def _describe(table: Table, query: Query, rows: Sequence[int]) -> Steps[Answer]:
    column = _needed(query)
    if column.kind == "number":
        if query.by is not None:
            return (yield from _aggregate(table, query, rows))
        one = yield from summarise(array("d", [column.values[row] for row in rows]))  # type: ignore[misc]
        return Answer(f"Numbers of {column.name}", findings.number_table([(column, one)]), findings.summary_data(one))
    if column.kind == "time":
        return (yield from _histogram(table, query, rows))
    return (yield from _top(table, query, rows))


def _histogram(table: Table, query: Query, rows: Sequence[int]) -> Steps[Answer]:
    time = table.role("time")
    if time is None or time.kind != "time":
        raise clauses.NotUnderstood("There is no column of times.")
    line = yield from timeline.build(time.values, (), rows, query.width)  # type: ignore[arg-type]
    if line is None:
        return _nothing(table, query)
    noun_of_one = _noun(table, query)
    noun = plural(2, noun_of_one).partition(" ")[2]
    shown = findings.time_table(table, line, False, noun)
    heading = f"{noun.capitalize()} per {line.unit}{said(table, query)}"
    told = f"{plural(len(rows), noun_of_one).capitalize()}{escape(said(table, query), 300)}."
    return Answer(heading, blocks(told, shown, _every_day(table, query)), findings.time_data(table, line))


def _errors(table: Table, query: Query, rows: Sequence[int]) -> Steps[Answer]:
    if not rows:
        return _nothing(table, query)
    grouped = yield from cluster(table, rows, query.number)
    noun = _noun(table, query)
    rule = faults.rule(table, query.sort) if query.sort else None
    how = f" ({escape(rule.text)})" if rule else ""
    told = f"{plural(len(rows), noun).capitalize()}{escape(said(table, query), 300)}{how}:"
    shown = findings.cluster_table(table, grouped, query.number) if grouped else ""
    some = "" if query.action == "groups" and shown else _row_table(table, rows[:5])
    first = f"The first {min(5, len(rows))}:" if some and shown else ""
    data: dict[str, JsonValue] = {"count": len(rows)}
    if grouped is not None:
        data["clusters"] = findings.cluster_data(table, grouped)
    return Answer(plural(len(rows), noun), blocks(told, shown, first, some, _every_day(table, query)), data)


def _extremes(table: Table, query: Query, rows: Sequence[int]) -> Steps[Answer]:
    column = _needed(query)
    sign = 1 if query.least else -1
    best: list[tuple[float, int]] = []
    for start, stop in spans(len(rows)):
        values = ((column.values[row], row) for row in rows[start:stop])
        best.extend((sign * value, row) for value, row in values if isinstance(value, float) and value == value)
        best = sorted(best)[: query.number]
        yield
    if not best:
        return _nothing(table, query)
    heading = f"{'Lowest' if query.least else 'Highest'} {column.name}"
    shown = _row_table(table, [row for _, row in best], column)
    data: JsonValue = [{"line": table.line_numbers[row], "value": sign * value} for value, row in best]
    return Answer(heading, blocks(shown, _every_day(table, query)), data)


def _rows(table: Table, query: Query, rows: Sequence[int]) -> Answer:
    if not rows:
        return _nothing(table, query)
    chosen = rows[-query.number :] if query.least else rows[: query.number]
    which = "last" if query.least else "first"
    told = f"{plural(len(rows), table.noun).capitalize()}{escape(said(table, query), 300)}"
    told += f"; the {which} {len(chosen)}:" if len(rows) > len(chosen) else ":"
    data: JsonValue = {
        "count": len(rows),
        "rows": [
            {short(column.name): short(table.text(column, row)) for column in table.columns[:WIDE]} for row in chosen
        ],
    }
    shown = _row_table(table, chosen)
    return Answer(plural(len(rows), table.noun), blocks(told, shown, _every_day(table, query)), data)


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


def _nothing(table: Table, query: Query) -> Answer:
    told = f"No {plural(2, _noun(table, query)).partition(' ')[2]}{said(table, query)}."
    return Answer(told[:100], blocks(escape(told, 300), _every_day(table, query)), {"count": 0})


def _needed(query: Query) -> Column:
    if query.column is None:
        raise clauses.NotUnderstood("Which column is meant?")
    return query.column
