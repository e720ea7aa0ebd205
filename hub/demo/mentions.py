"""Values that a question mentions without saying of which column: "errors from app.db", "total amount in DE"."""

import re
from collections.abc import Iterator

from hub.demo import names
from hub.demo.clauses import NOUNS, Condition
from hub.demo.table import Table

DISTINCT = 2_000
"""Columns with more different values than this are not looked through."""

_BEFORE = r"(?:\b(?:in|from|of|for|with|on|at|is|are|was|were|by|to|as)\s+)?"
_EDGE = r"[\s,?]"


def mentioned(table: Table, text: str) -> Iterator[tuple[Condition, str]]:
    """The conditions that words of `text` (in lower case) can stand for, longer ones first, each with the rest of it."""
    words = text.split()[:40]
    known: dict[str, list[int]] | None = None
    for length in (3, 2, 1):
        for start in range(len(words) - length + 1):
            said = " ".join(words[start : start + length])
            if not _telling(table, said):
                continue
            if known is None:
                known = _values(table)
            for at in known.get(said, []):
                rest = re.sub(rf"(?:^|(?<={_EDGE})){_BEFORE}{re.escape(said)}(?={_EDGE}|$)", " ", text, count=1)
                yield Condition(table.columns[at], "=", (said,)), " ".join(rest.split())


def _telling(table: Table, said: str) -> bool:
    """Whether these words can be meant as a value: not a number, a column, or a word for rows."""
    if len(said) < 2 or "\x01" in said or said.replace(".", "").isdigit() or re.fullmatch(NOUNS, said):
        return False
    return not any(names.normal(column.name) == names.normal(said) for column in table.columns)


def _values(table: Table) -> dict[str, list[int]]:
    """For each value in lower case the places of the columns that have it."""
    found: dict[str, list[int]] = {}
    for at, column in enumerate(table.columns):
        if column.numeric:
            continue
        values = {value for value in column.values if isinstance(value, str)}
        if len(values) <= DISTINCT:
            for value in {value.lower() for value in values if len(value) < 100}:
                found.setdefault(value, []).append(at)
    return found
