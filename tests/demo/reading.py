"""Reading inputs in tests: all at once."""

from typing import Any

from hub.demo import faults, formats, parse, questions
from hub.demo.formats import Format
from hub.demo.selection import Answer
from hub.demo.steps import drain
from hub.demo.table import Table


def load(data: str | bytes, name: str = "", *, rows_at_once: int = 2_000) -> tuple[Table, Format]:
    """The table of an input."""
    raw = data.encode() if isinstance(data, str) else data
    form = formats.detect(raw, name)
    return drain(parse.parse(raw, form, name, year=2024, rows_at_once=rows_at_once)), form


def ask(table: Table, question: str) -> Answer:
    """The answer to a question."""
    return drain(questions.ask(table, question))


def errors(table: Table) -> list[int]:
    """The rows that are errors by the table's own rule."""
    rule = faults.rule(table)
    assert rule is not None
    return drain(faults.error_rows(rule))


def column(table: Table, name: str) -> list[Any]:
    """The values of a column, NaN as None."""
    found = table.column(name)
    assert found is not None, [one.name for one in table.columns]
    return [None if value != value else value for value in found.values]
