"""From cells to columns: which kind a column is, and filling it chunk by chunk."""

import json
import math
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from hub.demo import times
from hub.demo.table import NAN, Cell, Column, Kind

_GROUPED = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?", re.ASCII)
_PLAIN = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII)
_COMMA = re.compile(r"[+-]?(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d+)?", re.ASCII)
_CODE_NAME = re.compile(r"(?:^|[\W_])(?:status|code|zip|port|pid|year|id|level|severity)(?:$|[\W_])", re.IGNORECASE)
_TIME_NAME = re.compile(r"time|date|^ts$|^@?timestamp|created|updated|_at$|^at$|^when$", re.IGNORECASE)
MISSING = frozenset({"", "-", "na", "n/a", "nan", "null", "none", "nil", "?", "#n/a"})
"""Texts (in lower case) that stand for no value in a column of numbers or times."""


def number(text: str, *, comma: bool = False) -> float | None:
    """The finite number that `text` is: `12`, `-1.5e3`, `1,234.5`, `12 %`; with `comma` `1.234,5`. Else None."""
    text = text.strip().removesuffix("%").rstrip()
    if comma and _COMMA.fullmatch(text):
        text = text.replace(".", "").replace(",", ".")
    elif _GROUPED.fullmatch(text):
        text = text.replace(",", "")
    elif not _PLAIN.fullmatch(text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def as_text(cell: Cell) -> str | None:
    """A cell of a text column: `true`, `5`, the text itself; None for a missing or empty one."""
    if isinstance(cell, str):
        return cell or None
    if cell is None:
        return None
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float) and math.isfinite(cell) and cell == int(cell) and abs(cell) < 1e15:
        return str(int(cell))
    return json.dumps(cell)


@dataclass(frozen=True)
class Spec:
    """What a column is called and how its cells are read."""

    name: str
    kind: Kind = "text"
    comma: bool = False
    order: times.Order = "ymd"


def infer(name: str, cells: Sequence[Cell], *, comma: bool = False) -> Spec:
    """What the column `name` holds, judged by some of its cells."""
    texts = [text for text in map(as_text, cells) if text is not None and text.strip().lower() not in MISSING]
    if not texts:
        return Spec(name)
    enough = 0.9 * len(texts)
    if sum(number(text, comma=comma) is not None for text in texts) >= enough:
        if _TIME_NAME.search(name) and times.guess_order(texts) == "epoch":
            return Spec(name, "time", order="epoch")
        whole = all(text.strip().lstrip("+-").isdigit() for text in texts)
        if whole and _CODE_NAME.search(name):
            return Spec(name, "code")
        # Digits with a leading zero name something: a postal code, an article number.
        if whole and any(len(text) > 1 and text.startswith("0") for text in texts):
            return Spec(name, "code")
        return Spec(name, "number", comma=comma)
    if order := times.guess_order(texts):
        return Spec(name, "time", order=order)
    return Spec(name)


class Filler:
    """A column that grows. Cells that do not fit its kind are counted as odd and become missing."""

    def __init__(self, spec: Spec, missing: int = 0) -> None:
        self.spec = spec
        self.odd = 0
        self.filled = 0
        self.floats: array[float] = array("d")
        self.texts: list[str | None] = []
        self._same: dict[str, str] = {}
        self._dates: dict[str, float | None] = {}
        if missing:
            self.extend([None] * missing)

    def extend(self, cells: Sequence[Cell]) -> None:
        """Add cells, one a row."""
        if self.spec.kind == "number":
            self._extend_numbers(cells)
        elif self.spec.kind == "time":
            self.floats.extend([self._time(cell) for cell in cells])
        else:
            self._extend_texts(cells)

    def column(self) -> Column:
        """The column as it is now."""
        numeric = self.spec.kind in ("number", "time")
        return Column(self.spec.name, self.spec.kind, self.floats if numeric else self.texts, self.odd)

    @property
    def wrong(self) -> bool:
        """Whether the kind was a wrong guess: more than 1 of 10 cells are odd."""
        return self.odd > 0.1 * (self.odd + self.filled)

    def _extend_texts(self, cells: Sequence[Cell]) -> None:
        same = self._same
        if len(same) > 50_000:  # hardly a value comes twice: not worth remembering them
            self.texts.extend([as_text(cell) for cell in cells])
            return
        # Equal texts become one object, which saves most of the memory of a log.
        for cell in cells:
            text = as_text(cell)
            self.texts.append(None if text is None else same.setdefault(text, text))

    def _extend_numbers(self, cells: Sequence[Cell]) -> None:
        try:
            if self.spec.comma:
                raise ValueError  # the quick way reads points only
            quick = array("d", map(float, cells))  # type: ignore[arg-type]
            if math.isfinite(math.fsum(quick)):
                self.filled += len(quick)
                self.floats.extend(quick)
                return
        except (ValueError, TypeError, OverflowError):
            pass  # some cell is missing or odd: look at each
        self.floats.extend([self._number(cell) for cell in cells])

    def _number(self, cell: Cell) -> float:
        if cell is None or cell != cell:
            return NAN
        if isinstance(cell, (int, float)) and not isinstance(cell, bool):
            try:
                value: float | None = float(cell)
            except OverflowError:
                value = None
        else:
            text = str(cell).strip()
            if text.lower() in MISSING:
                return NAN
            value = number(text, comma=self.spec.comma)
        if value is None or not math.isfinite(value):
            self.odd += 1
            return NAN
        self.filled += 1
        return value

    def _time(self, cell: Cell) -> float:
        if cell is None:
            return NAN
        if isinstance(cell, float) and self.spec.order != "epoch":  # read already, by a reader of a log
            self.filled += 1
            return cell
        text = as_text(cell) or ""
        if text in self._dates:
            value = self._dates[text]
        else:
            value = times.read(text, self.spec.order)
            if len(self._dates) < 50_000:
                self._dates[text] = value
        if value is not None:
            self.filled += 1
            return value
        if text.strip().lower() not in MISSING:
            self.odd += 1
        return NAN
