"""Tables in text: fields between delimiters, quoted or not, with or without a line of names."""

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from hub.demo.builder import Builder
from hub.demo.columns import MISSING, Spec, infer, number
from hub.demo.table import Cell, Table
from hub.demo.times import guess_order

DELIMITERS = (",", ";", "\t", "|")
_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", "": "nothing"}
_QUOTED_LINES = 200  # a quoted field may go over so many lines ...
_QUOTED_SIZE = 100_000  # ... and characters; more means that a quote is missing


@dataclass(frozen=True)
class Layout:
    """How a table is written: the delimiter ("" for one number a line) and the names of the columns."""

    delimiter: str
    names: tuple[str, ...]
    header: bool
    specs: tuple[Spec, ...]

    @property
    def label(self) -> str:
        """The delimiter in words."""
        return _NAMES[self.delimiter]


def split(line: str, delimiter: str) -> list[str]:
    """The fields of one record (which may hold line ends inside quotes)."""
    if '"' not in line:
        return line.split(delimiter) if delimiter else [line]
    try:
        return next(csv.reader([line], delimiter=delimiter or "\0"))
    except (csv.Error, StopIteration):
        return line.split(delimiter) if delimiter else [line]


def opens(line: str, delimiter: str) -> bool:
    """Whether `line` ends inside a quoted field. A quote in the middle of a field (`5" pipe`) is only a character."""
    if line.count('"') % 2 == 0:
        return False
    edge = re.escape(delimiter) or "$"
    rest = re.sub(rf'(^|{edge})"[^"]*(?:""[^"]*)*"(?={edge}|$)', r"\1", line)
    return re.search(rf'(?:^|{edge})"', rest) is not None


def records(lines: Sequence[str], delimiter: str) -> list[str]:
    """`lines` with those joined that a quoted field goes over."""
    found: list[str] = []
    begun: list[str] = []
    for line in lines:
        if begun:
            begun.append(line)
            if line.count('"') % 2 or len(begun) > 20:
                found.append("\n".join(begun))
                begun = []
        elif opens(line, delimiter):
            begun = [line]
        else:
            found.append(line)
    return found + begun


def guess(lines: Sequence[str], *, surely: bool = False) -> tuple[Layout, float] | None:
    """The layout of the table that these lines seem to be, and the share of them that fit; None if they are none.

    `surely`: something else (the name of the file) says that it is a table, so a weaker likeness is enough.
    """
    best: tuple[float, int, str] | None = None
    for delimiter in DELIMITERS:
        sample = records(lines, delimiter)
        counts = Counter(len(split(line, delimiter)) for line in sample)
        width, fits = max(counts.items(), key=lambda item: (item[0] > 1, item[1], item[0]))
        share = fits / len(sample)
        if width > 1 and (best is None or (share, width) > best[:2]):
            best = (share, width, delimiter)
    if best is None or best[0] < (0.5 if surely else 0.8) or (len(lines) < 2 and not surely):
        return _numbers(lines)
    share, width, delimiter = best
    fields = [row for row in (split(line, delimiter) for line in records(lines, delimiter)) if len(row) == width]
    if not surely and _is_prose(fields, delimiter):
        return None
    return _layout(delimiter, fields), share


def _is_prose(fields: list[list[str]], delimiter: str) -> bool:
    """Sentences with commas: long pieces that begin with a space, with hardly a number among them."""
    if delimiter == "\t":
        return False
    cells = [cell for row in fields for cell in row]
    later = [cell for row in fields for cell in row[1:]]
    spaced = sum(cell.startswith(" ") for cell in later) > 0.7 * len(later)
    wordy = sum(cell.count(" ") for cell in cells) > 1.5 * len(cells)
    numbers = sum(number(cell) is not None for cell in cells)
    return spaced and numbers < 0.2 * len(cells) and (wordy or delimiter == ",") and len(fields[0]) < 4


def _numbers(lines: Sequence[str]) -> tuple[Layout, float] | None:
    """A number a line is a table of one column."""
    good = sum(number(line) is not None for line in lines)
    if len(lines) < 2 or good < 0.9 * (len(lines) - 1) or good < 2:
        return None
    return _layout("", [[line] for line in lines]), good / len(lines)


def _layout(delimiter: str, fields: list[list[str]]) -> Layout:
    header = _has_header(fields)
    body = fields[1:] if header else fields
    comma = delimiter == ";" and any("," in cell for row in body[:50] for cell in row)
    names = _unique(fields[0]) if header else _numbered(len(fields[0]), delimiter)
    specs = tuple(infer(name, cells, comma=comma) for name, cells in zip(names, zip(*body, strict=True), strict=False))
    if len(specs) < len(names):  # no line but the header
        specs = tuple(Spec(name) for name in names)
    return Layout(delimiter, names, header, specs)


def _has_header(fields: list[list[str]]) -> bool:
    first, body = [cell.strip() for cell in fields[0]], fields[1:]
    if len({cell.lower() for cell in first}) < len(first) or sum(not cell for cell in first) > 1:
        return False
    if any(number(cell) is not None or (cell and guess_order([cell])) for cell in first):
        return False
    if any(len(cell) > 60 or cell.lower() in MISSING - {""} for cell in first):
        return False
    # A name does not turn up again as a value of its own column.
    return not any(cell and cell == row[at].strip() for row in body for at, cell in enumerate(first))


def _numbered(width: int, delimiter: str) -> tuple[str, ...]:
    return tuple(f"column {at}" for at in range(1, width + 1)) if delimiter else ("value",)


def _unique(names: Sequence[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for at, raw in enumerate(names, 1):
        name = base = " ".join(raw.split())[:60] or f"column {at}"
        again = 1
        while name in found:
            again += 1
            name = f"{base} {again}"
        found[name] = None
    return tuple(found)


class DelimitedReader:
    """Reads the lines of a table into a builder."""

    def __init__(self, table: Table, layout: Layout, text_only: frozenset[str] = frozenset()) -> None:
        self.builder = Builder(table, layout.specs, text_only)
        self._layout = layout
        self._awaits_header = layout.header
        self._begun: list[str] = []  # the lines of a record whose quote is not closed yet
        self._begun_at = 0
        self._rows: list[Sequence[Cell]] = []
        self._numbers: list[int] = []

    def feed(self, lines: list[str], first: int) -> None:
        """Read lines; `first` is the number of the first of them."""
        for at, line in enumerate(lines, first):
            self._line(line, at)
        self.builder.extend(self._rows, self._numbers)
        self._rows, self._numbers = [], []

    def finish(self) -> Table:
        """What was read."""
        while self._begun:
            self._unclosed()
        self.builder.extend(self._rows, self._numbers)
        return self.builder.finish()

    def _line(self, line: str, at: int) -> None:
        if not self._begun:
            if not line or line.isspace():
                self.builder.table.blank += 1
            elif opens(line, self._layout.delimiter):
                self._begun, self._begun_at = [line], at
            else:
                self._record(line, at)
            return
        self._begun.append(line)
        if line.count('"') % 2:
            begun, self._begun = self._begun, []
            self._record("\n".join(begun), self._begun_at)
        elif len(self._begun) > _QUOTED_LINES or sum(map(len, self._begun)) > _QUOTED_SIZE:
            self._unclosed()

    def _unclosed(self) -> None:
        """Only the line with the quote is bad: read those after it on their own."""
        begun, at = self._begun, self._begun_at
        self._begun = []
        self.builder.bad.add(at, "a quote is not closed", begun[0])
        for later, line in enumerate(begun[1:], at + 1):
            self._line(line, later)

    def _record(self, text: str, at: int) -> None:
        fields = split(text, self._layout.delimiter)
        if len(fields) != len(self._layout.names):
            if len(fields) < len(self._layout.names):
                self.builder.bad.add(at, "too few fields", text)
            else:
                self.builder.bad.add(at, "too many fields", text)
        elif self._awaits_header:
            self._awaits_header = False
        else:
            self._rows.append(fields)
            self._numbers.append(at)
