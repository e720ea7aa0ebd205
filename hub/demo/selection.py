"""What every answer begins with: which rows a query is about, and how that is said."""

from collections.abc import Sequence
from dataclasses import dataclass

from hub.demo import analysis, clauses, faults
from hub.demo.grammar import Query
from hub.demo.render import JsonValue, blocks, escape
from hub.demo.steps import Steps, spans
from hub.demo.table import Column, Table, plural


@dataclass(frozen=True)
class Answer:
    """The answer to a question, as a heading, Markdown and JSON values."""

    heading: str
    markdown: str
    data: JsonValue
    understood: bool = True


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


def noun(table: Table, query: Query) -> str:
    """What a row of the query is called: error, request, row."""
    return query.sort[:-1] if query.sort else table.noun


def every_day(table: Table, query: Query) -> str:
    """A hint where `after 14:00` means that time on several days."""
    span = analysis.time_span(table) if any(window.clock for window in query.windows) and table.dated else None
    if span and span[0].rpartition(" ")[0] != span[1].rpartition(" ")[0]:
        return "The times are taken on every day of the data; put a date before a time to mean one day."
    return ""


def nothing(table: Table, query: Query) -> Answer:
    """The answer when no row is left."""
    told = f"No {plural(2, noun(table, query)).partition(' ')[2]}{said(table, query)}."
    return Answer(told[:100], blocks(escape(told, 300), every_day(table, query)), {"count": 0})


def needed(query: Query) -> Column:
    """The column of a query that cannot do without."""
    if query.column is None:
        raise clauses.NotUnderstood("Which column is meant?")
    return query.column
