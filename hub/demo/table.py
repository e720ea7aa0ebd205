"""What was read, kept by columns: compact in memory, quick to count."""

from array import array
from dataclasses import dataclass, field
from typing import Literal

from hub.demo import times

Kind = Literal["text", "code", "number", "time"]
"""`code` is a number that names something (a status, a port): it is counted like text, never averaged."""

Cell = str | int | float | bool | None
"""One value as it was read."""

NAN = float("nan")
MAX_ROWS = 2_000_000
"""Rows that are read; what follows is left out, and the report says so."""
MAX_COLUMNS = 100
"""Columns that are kept; more are left out, and the report says so."""
SAMPLES = 20
"""Bad rows that are kept to show them; all are counted."""


@dataclass
class Column:
    """One column. `values` holds floats for `number` and `time` (NaN where there is none), else text or None."""

    name: str
    kind: Kind
    values: "array[float] | list[str | None]"
    odd: int = 0
    """Cells of a number or time column that are neither: they count as missing."""

    @property
    def numeric(self) -> bool:
        """Whether the values are floats."""
        return self.kind in ("number", "time")


@dataclass(frozen=True)
class BadRow:
    """A row that does not fit the format."""

    line: int
    reason: str
    text: str
    """Its beginning, at most 200 characters."""


@dataclass
class BadRows:
    """All bad rows counted by reason; the first `SAMPLES` kept."""

    count: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    samples: list[BadRow] = field(default_factory=list)

    def add(self, line: int, reason: str, text: str) -> None:
        """Count one more; `reason` is one of few texts, not one made for this row."""
        self.count += 1
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        if len(self.samples) < SAMPLES:
            self.samples.append(BadRow(line, reason, text[:200]))


@dataclass
class Table:
    """The rows of one input.

    `roles` says which column plays a part that questions and steps know: time, level, status, message, path, host ...
    `noun` is what a row is called ("request", "row", "entry", "line").
    """

    name: str
    kind: str
    label: str
    noun: str
    columns: list[Column] = field(default_factory=list)
    line_numbers: "array[int]" = field(default_factory=lambda: array("I"))
    bad: BadRows = field(default_factory=BadRows)
    lines: int = 0
    blank: int = 0
    size: int = 0
    dated: bool = True
    yearly: bool = True
    roles: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """How many good rows there are."""
        return len(self.line_numbers)

    def column(self, name: str) -> Column | None:
        """The column of exactly this name."""
        return next((column for column in self.columns if column.name == name), None)

    def role(self, role: str) -> Column | None:
        """The column that plays this part, None if there is none."""
        name = self.roles.get(role)
        return self.column(name) if name is not None else None

    def text(self, column: Column, row: int) -> str:
        """One cell as it is shown; an empty text where there is no value."""
        value = column.values[row]
        if isinstance(value, float):
            if value != value:
                return ""
            return self.show_time(value) if column.kind == "time" else show_number(value)
        return value or ""

    def show_time(self, time: float) -> str:
        """A time with as much of the date as the input has."""
        return times.show(time, dated=self.dated, yearly=self.yearly)

    def weight(self) -> int:
        """About how many bytes of memory this takes, for the bound on kept tables."""
        return 8 * (self.rows + 1) * (len(self.columns) + 1) + 3 * self.size


def show_number(value: float | None) -> str:
    """A number for people: `1,234,567`, `0.25`, `1.5e+20`; a dash if there is none."""
    if value is None or value != value:
        return "–"
    if abs(value) >= 1e15 or (value and abs(value) < 1e-4):
        return f"{value:.4g}"
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.2f}" if abs(value) >= 100 else f"{value:.4g}"


def show_share(part: int, whole: int) -> str:
    """`12.5 %`; a dash if there is no whole."""
    return f"{100 * part / whole:.1f} %" if whole else "–"


def plural(count: int, noun: str) -> str:
    """`1 row`, `2,000 rows`, `3 entries`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1] + 'ies' if noun.endswith('y') else noun + 's'}"
