"""Rows whose cells carry their names: JSON lines, a JSON document, and `key=value` lines (logfmt)."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from hub.demo.builder import Builder
from hub.demo.table import MAX_COLUMNS, Cell, Table

_DEPTH = 3  # objects inside objects become columns "a.b.c" down to here; what is deeper stays JSON text
_PAIR = re.compile(r'(?<![\w.@/-])([A-Za-z_@][\w.@/-]{0,80})=("[^"\\]*(?:\\.[^"\\]*)*"|[^\s"]*)(?=\s|$)')
_SKIP = re.compile(r"[\s,]*")


def _no_constant(_: str) -> None:
    return None  # NaN and Infinity are no JSON; they count as missing


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def decode(line: str) -> Any:
    """The JSON value that `line` is. Raises ValueError for anything else, nested too deeply included."""
    try:
        return _DECODER.decode(line)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def flatten(value: dict[str, Any]) -> dict[str, Cell]:
    """One row: objects inside become names with dots, lists JSON text."""
    row: dict[str, Cell] = {}
    _flatten(value, "", 1, row)
    return row


def _flatten(value: dict[str, Any], prefix: str, depth: int, row: dict[str, Cell]) -> None:
    for key, item in value.items():
        name = " ".join(_clean(prefix + (key or "(no name)")).split())[:80] or "(no name)"
        if isinstance(item, dict) and item and depth < _DEPTH:
            _flatten(item, name + ".", depth + 1, row)
        elif len(row) >= 4 * MAX_COLUMNS:
            return
        elif isinstance(item, (dict, list)):
            row[name] = _clean(_brief(item))
        else:
            row[name] = _clean(item) if isinstance(item, str) else item


def _inside(value: Any) -> list[Any]:
    """The rows in a document of one object: its only list of objects, such as `{"items": [{...}, ...]}`, or itself."""
    if isinstance(value, dict):
        lists = [
            item
            for item in value.values()
            if isinstance(item, list) and item and all(isinstance(one, dict) for one in item)
        ]
        if len(lists) == 1:
            return lists[0]
    return [value]


def _brief(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)[:2000]
    except RecursionError:
        return "(nested too deeply)"


def _clean(text: str) -> str:
    """`text` without halves of surrogate pairs, which no encoding can carry."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def pairs(line: str) -> dict[str, Cell]:
    """The `key=value` pairs of a line; quoted values without their quotes."""
    found: dict[str, Cell] = {}
    for key, value in _PAIR.findall(line):
        if value.startswith('"'):
            value = value[1:-1].replace('\\"', '"').replace("\\\\", "\\")
        found[key] = value
    return found


class NamedReader:
    """Reads lines that each are one row: JSON objects, or `key=value` pairs."""

    def __init__(self, table: Table, form: str, text_only: frozenset[str] = frozenset()) -> None:
        self.builder = Builder(table, (), text_only)
        self._json = form == "json"

    def feed(self, lines: list[str], first: int) -> None:
        """Read lines; `first` is the number of the first of them."""
        rows: list[dict[str, Cell]] = []
        numbers: list[int] = []
        for number, line in enumerate(lines, first):
            if not line or line.isspace():
                self.builder.table.blank += 1
            elif row := self._row(line, number):
                rows.append(row)
                numbers.append(number)
        self.builder.extend_named(rows, numbers)

    def finish(self) -> Table:
        """What was read."""
        return self.builder.finish()

    def _row(self, line: str, number: int) -> dict[str, Cell] | None:
        if not self._json:
            found = pairs(line)
            if not found:
                self.builder.bad.add(number, "no key=value pairs", line)
            return found
        try:
            value = decode(line)
        except ValueError:
            self.builder.bad.add(number, "not valid JSON", line)
            return None
        if not isinstance(value, dict):
            self.builder.bad.add(number, "JSON, but not an object", line)
            return None
        row = flatten(value)
        if not row:
            self.builder.bad.add(number, "an empty object", line)
        return row


class DocumentReader:
    """Reads one JSON text that holds many objects: an array of them, or one after the other over several lines."""

    def __init__(self, table: Table, text_only: frozenset[str] = frozenset()) -> None:
        self.builder = Builder(table, (), text_only)
        self._pieces: list[str] = []

    def feed(self, lines: list[str], first: int) -> None:
        """Keep lines; what they hold is read by `values`, since objects go over line ends."""
        self._pieces.extend(lines)

    def values(self, rows_at_once: int) -> Iterator[int]:
        """Read all objects; stops after every `rows_at_once` of them with the number of characters read."""
        text = "\n".join(self._pieces)
        self._pieces = []
        rows: list[dict[str, Cell]] = []
        numbers: list[int] = []
        line, counted = 1, 0
        start = len(text) - len(text.lstrip())
        at = start + 1 if text[start : start + 1] == "[" else start
        while True:
            skipped = _SKIP.match(text, at)
            at = skipped.end() if skipped else at
            if at >= len(text) or text[at] == "]":
                break
            line, counted = line + text.count("\n", counted, at), at
            try:
                value, at = _DECODER.raw_decode(text, at)
            except (ValueError, RecursionError):
                self.builder.bad.add(line, "not valid JSON: reading ends here", text[at : at + 200])
                break
            whole = counted == start and not text[at:].strip()
            for item in _inside(value) if whole else [value]:
                row = flatten(item) if isinstance(item, dict) else {}
                if row:
                    rows.append(row)
                    numbers.append(line)
                else:
                    self.builder.bad.add(line, "JSON, but not an object with values", _brief(item))
            if len(rows) >= rows_at_once:
                self._extend(rows, numbers)
                rows, numbers = [], []
                yield at
        self._extend(rows, numbers)

    def _extend(self, rows: Sequence[dict[str, Cell]], numbers: Sequence[int]) -> None:
        self.builder.extend_named(rows, numbers)

    def finish(self) -> Table:
        """What was read."""
        return self.builder.finish()
