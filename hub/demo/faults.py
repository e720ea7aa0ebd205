"""Which rows of a table are errors."""

import re
from dataclasses import dataclass
from typing import Literal

from hub.demo.lines_log import LEVELS
from hub.demo.steps import Steps, spans
from hub.demo.table import Column, Table

Sort = Literal["errors", "server errors", "client errors", "warnings"]
"""What can be asked for; server errors are statuses of 500 and above, client errors 400 to 499."""

_WORDS = re.compile(
    r"\b(?:error|errors|fail|failed|failure|fatal|panic|exception|critical|traceback|refused|denied|timed out|timeout|"
    r"unreachable|segfault|out of memory|aborted)\b|[a-z](?:Error|Exception)\b",
    re.IGNORECASE,
)
_BAD_RESULTS = frozenset(
    ("error", "errors", "fail", "failed", "failure", "fatal", "rejected", "denied", "aborted", "timeout", "critical")
)


@dataclass(frozen=True)
class Rule:
    """How errors are told apart in one table: by the values of a column."""

    sort: Sort
    column: Column
    by: Literal["level", "status", "result", "words"]

    @property
    def text(self) -> str:
        """The rule in words, for people."""
        if self.by == "level":
            return "level warning" if self.sort == "warnings" else "level error or worse"
        if self.by == "status":
            limits = {"server errors": "500 and above", "client errors": "400 to 499"}
            return f"{self.column.name} {limits.get(self.sort, '400 and above')}"
        if self.by == "result":
            return f"{self.column.name} says that it failed"
        return f"{self.column.name} holds a word like error, failed, exception"

    def is_error(self, value: str | float | None) -> bool:
        """Whether a row with this value in the column is one."""
        if not isinstance(value, str):
            return False
        if self.by == "level":
            level = LEVELS.get(value.strip().lower())
            return level == "warning" if self.sort == "warnings" else level in ("error", "fatal")
        if self.by == "status":
            if len(value) != 3 or not (value.isascii() and value.isdigit()):
                return False
            low, high = {"server errors": ("500", "599"), "client errors": ("400", "499")}.get(
                self.sort, ("400", "599")
            )
            return low <= value <= high
        if self.by == "result":
            return value.strip().lower() in _BAD_RESULTS
        return _WORDS.search(value[:2000]) is not None


def rule(table: Table, sort: Sort = "errors") -> Rule | None:
    """How to tell errors in this table, None if it has nothing that says so."""
    level, status, message = table.role("level"), table.role("status"), table.role("message")
    if level is not None and sort in ("errors", "warnings") and _mostly(level, LEVELS):
        return Rule(sort, level, "level")
    if status is not None and sort != "warnings":
        if _is_http(status):
            return Rule(sort, status, "status")
        if sort == "errors" and _BAD_RESULTS & _first_values(status):
            return Rule(sort, status, "result")
    if message is not None and sort == "errors" and table.kind != "table":
        return Rule(sort, message, "words")
    return None


def error_rows(rule: Rule) -> Steps[list[int]]:
    """The rows that are errors by this rule."""
    found: list[int] = []
    known: dict[str | float | None, bool] = {}
    values = rule.column.values
    for start, stop in spans(len(values), 10_000):
        for row, value in enumerate(values[start:stop], start):
            verdict = known.get(value)
            if verdict is None:
                verdict = rule.is_error(value)
                if len(known) < 10_000:
                    known[value] = verdict
            if verdict:
                found.append(row)
        yield
    return found


def _first_values(column: Column) -> set[str]:
    return {value.strip().lower() for value in column.values[:100_000] if isinstance(value, str)}


def _mostly(column: Column, known: dict[str, str]) -> bool:
    values = [value.strip().lower() for value in column.values[:5_000] if isinstance(value, str)]
    return sum(value in known for value in values) > 0.5 * len(values)


def _is_http(column: Column) -> bool:
    values = [value for value in column.values[:5_000] if isinstance(value, str)]
    fits = sum(len(value) == 3 and value.isascii() and value.isdigit() and "100" <= value <= "599" for value in values)
    return bool(values) and fits >= 0.9 * len(values)
