"""Answers that count or reckon: how many, which values, averages, in all or by group."""

from array import array
from collections import defaultdict
from collections.abc import Sequence

from hub.demo import clauses, findings, timeline
from hub.demo.grammar import Query
from hub.demo.render import JsonValue, blocks, escape, grid, short
from hub.demo.selection import Answer, every_day, needed, nothing, noun, said
from hub.demo.stats import Summary, count_values, most, percentile, sample, summarise
from hub.demo.steps import Steps, spans
from hub.demo.table import Column, Table, plural, show_number, show_share


def count(table: Table, query: Query, rows: Sequence[int]) -> Answer:
    """How many rows."""
    called = noun(table, query)
    told = f"**{len(rows):,}** {plural(len(rows), called).partition(' ')[2]}{escape(said(table, query), 300)}"
    share = f" ({show_share(len(rows), table.rows)} of {table.rows:,})" if len(rows) != table.rows else ""
    bad = f"{plural(table.bad.count, 'bad row')} not counted." if table.bad.count else ""
    return Answer(plural(len(rows), called), blocks(f"{told}{share}.", bad, every_day(table, query)), len(rows))


def distinct(table: Table, query: Query, rows: Sequence[int]) -> Steps[Answer]:
    """How many different values a column has."""
    column = needed(query)
    counts = yield from count_values(column.values, rows)
    best = [(value, int(count)) for value, count in most(counts.items(), 10)]
    told = f"**{len(counts):,}** different values of {escape(column.name)}{escape(said(table, query), 300)}."
    shown = findings.top_table(table, column, best, sum(counts.values()), len(counts))
    return Answer(f"{len(counts):,} different", blocks(told, shown), len(counts))


def top(table: Table, query: Query, rows: Sequence[int]) -> Steps[Answer]:
    """The most (least) frequent values, or those with the highest sums."""
    column = needed(query)
    heading = f"{'Bottom' if query.least else 'Top'} {query.number}: {column.name}"
    if query.by is not None:
        return (yield from _top_sums(table, query, rows, column, query.by, heading))
    counts = yield from count_values(column.values, rows)
    total = sum(counts.values())
    if not counts:
        return nothing(table, query)
    best = [(value, int(count)) for value, count in most(counts.items(), query.number, least=query.least)]
    shown = findings.top_table(table, column, best, total, len(counts))
    told = f"{plural(len(rows), noun(table, query)).capitalize()}{escape(said(table, query), 300)}:"
    data: JsonValue = [
        {"value": short(findings.show_value(table, column, value)), "count": count} for value, count in best
    ]
    return Answer(heading, blocks(told, shown, every_day(table, query)), data)


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


def aggregate(table: Table, query: Query, rows: Sequence[int]) -> Steps[Answer]:
    """One number, or one a group."""
    column = needed(query)
    name = _name(query)
    if query.by is None:
        values: array[float] = array("d", [column.values[row] for row in rows])  # type: ignore[misc]
        value = yield from _value(query, values)
        have = sum(1 for number in values if number == number)  # a NaN stands where there is no value
        counted = plural(have, table.noun)
        if have < len(rows):
            counted += f" with a value; {plural(len(rows) - have, table.noun)} without"
        told = (
            f"{name.capitalize()} of {escape(column.name)}{escape(said(table, query), 300)}: **{show_number(value)}**"
        )
        return Answer(
            f"{name} of {column.name}: {show_number(value)}",
            blocks(f"{told} ({counted}).", every_day(table, query)),
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
    return Answer(f"{title} by {query.by.name}", blocks(shown or "No rows.", more, every_day(table, query)), data)


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


def describe(table: Table, query: Query, rows: Sequence[int]) -> Steps[Answer]:
    """What can be said about one column."""
    column = needed(query)
    if column.kind == "number":
        if query.by is not None:
            return (yield from aggregate(table, query, rows))
        one = yield from summarise(array("d", [column.values[row] for row in rows]))  # type: ignore[misc]
        return Answer(f"Numbers of {column.name}", findings.number_table([(column, one)]), findings.summary_data(one))
    if column.kind == "time":
        return (yield from histogram(table, query, rows))
    return (yield from top(table, query, rows))


def histogram(table: Table, query: Query, rows: Sequence[int]) -> Steps[Answer]:
    """How many rows over time."""
    time = table.role("time")
    if time is None or time.kind != "time":
        raise clauses.NotUnderstood("There is no column of times.")
    line = yield from timeline.build(time.values, (), rows, query.width)  # type: ignore[arg-type]
    if line is None:
        return nothing(table, query)
    one = noun(table, query)
    many = plural(2, one).partition(" ")[2]
    shown = findings.time_table(table, line, False, many)
    heading = f"{many.capitalize()} per {line.unit}{said(table, query)}"
    told = f"{plural(len(rows), one).capitalize()}{escape(said(table, query), 300)}."
    return Answer(heading, blocks(told, shown, every_day(table, query)), findings.time_data(table, line))
