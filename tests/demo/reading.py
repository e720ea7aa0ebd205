"""Reading inputs in tests: all at once."""

from collections.abc import Generator
from typing import Any, TypeVar

from hub.demo import formats, parse, questions
from hub.demo.formats import Format
from hub.demo.selection import Answer
from hub.demo.steps import drain
from hub.demo.table import Table

T = TypeVar("T")


def finish(steps: Generator[Any, None, T]) -> T:
    """The result of a generator, whatever it yields."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def load(data: str | bytes, name: str = "", *, rows_at_once: int = 2_000) -> tuple[Table, Format]:
    """The table of an input."""
    raw = data.encode() if isinstance(data, str) else data
    form = formats.detect(raw, name)
    return finish(parse.parse(raw, form, name, year=2024, rows_at_once=rows_at_once)), form


def ask(table: Table, question: str) -> Answer:
    """The answer to a question."""
    return drain(questions.ask(table, question))


def column(table: Table, name: str) -> list[Any]:
    """The values of a column, NaN as None."""
    found = table.column(name)
    assert found is not None, [one.name for one in table.columns]
    return [None if value != value else value for value in found.values]
