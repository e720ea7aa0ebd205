"""The parts of a question that narrow down the rows: `where ...`, `after 14:00`, `404s`, `from 10.0.0.1`."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from hub.demo import names, times
from hub.demo.columns import number
from hub.demo.table import Column, Table

Op = Literal["=", "!=", ">", ">=", "<", "<=", "contains", "starts with", "ends with"]


NOUNS = r"(?:requests?|rows?|lines?|entr(?:y|ies)|records?|hits?|events?|calls?|visits?|log lines?|messages?|everything|data)"
"""What rows may be called."""


class NotUnderstood(Exception):
    """The question, or a part of it, means nothing here; the text says which part."""


@dataclass(frozen=True)
class Condition:
    """A column compared with a value; any of `values` is enough. Without a column: any text of the row."""

    column: Column | None
    op: Op
    values: tuple[str, ...]

    @property
    def text(self) -> str:
        """The condition in words."""
        name = self.column.name if self.column is not None else "a text"
        return f"{name} {self.op} {' or '.join(self.values)}"


@dataclass(frozen=True)
class Window:
    """A part of the time: `start` included, `stop` not. A `clock` window is one of every day, in seconds of the day."""

    start: float | None
    stop: float | None
    clock: bool
    text: str

    def holds(self, time: float) -> bool:
        """Whether a time lies in it; a clock window may go over midnight."""
        if time != time:
            return False
        at = times.clock_of(time) if self.clock else time
        if self.clock and self.start is not None and self.stop is not None and self.start > self.stop:
            return at >= self.start or at < self.stop
        return (self.start is None or at >= self.start) and (self.stop is None or at < self.stop)


_OPS: dict[str, Op] = {
    "=": "=", "==": "=", "is": "=", "equals": "=", "equal to": "=", "are": "=", "was": "=",
    "!=": "!=", "<>": "!=", "is not": "!=", "isn't": "!=", "not": "!=", "are not": "!=",
    ">": ">", "over": ">", "above": ">", "more than": ">", "greater than": ">", "larger than": ">", "is over": ">",
    "is above": ">", "is more than": ">", "is greater than": ">", "bigger than": ">",
    ">=": ">=", "at least": ">=", "<=": "<=", "at most": "<=",
    "<": "<", "under": "<", "below": "<", "less than": "<", "smaller than": "<", "is under": "<", "is below": "<",
    "is less than": "<",
    "contains": "contains", "containing": "contains", "contain": "contains", "includes": "contains",
    "like": "contains", "starts with": "starts with", "begins with": "starts with", "ends with": "ends with",
}  # fmt: skip
SIGNS = re.compile(r"(.+?)\s*(>=|<=|!=|<>|==|=|>|<)\s*(.+)")
_WORDED = re.compile(
    r"(.+?)\s+(" + "|".join(sorted((op for op in _OPS if op[0].isalpha()), key=len, reverse=True)) + r")\s+(.+)"
)
WHERE = re.compile(
    r"\b(?:where|with|having|whose|which have|that have)\s+(.+?)"
    r"(?=\s+(?:by|per|grouped by|group by|for each)\s|$)"
)
_TIME = (
    r"(?:\d{4}-\d{1,2}-\d{1,2}(?:[t ]\d{1,2}:\d\d(?::\d\d)?)?|\d{1,2}:\d\d(?::\d\d)?(?:\s?[ap]m)?|\d{1,2}\s?[ap]m\b"
    r"|\d{1,2}\s?(?:h|o'clock)\b|noon\b|midnight\b)"
)
_BETWEEN = re.compile(rf"\b(?:between|from)\s+({_TIME})\s+(?:and|to|until|till|-)\s+({_TIME})")
_AFTER = re.compile(rf"\b(?:after|since|from|later than|starting at)\s+({_TIME}|\d{{1,2}}$)")
_BEFORE = re.compile(rf"\b(?:before|until|till|up to|earlier than)\s+({_TIME}|\d{{1,2}}$)")
_ON = re.compile(r"\b(?:on|at|during)\s+(\d{4}-\d{1,2}-\d{1,2})\b")
_LAST = re.compile(r"\b(?:in|during|of|from|for)?\s*(?:the )?(first|last)\s+(\d{1,6} )?(minute|hour|day|week)s?\b")
_STATUS = re.compile(
    r"(?<!top )(?<!first )(?<!last )(?<!show )\b(?:"
    r"([1-5])xx(?:s|es)?(?: status(?:es)?| codes?)?|([1-5]\d\d)'?s\b|([45]\d\d)(?= (?:errors?|responses?|requests?)\b)"
    r"|status(?: codes?)? ([1-5]\d\d))\b"
)
_ADDRESS = re.compile(r"\b(?:from|of|by)\s+((?:\d{1,3}\.){3}\d{1,3}|[0-9a-f]*:[0-9a-f:]*:[0-9a-f:]*)(?=\s|$)")
_PATH = re.compile(r"(?:^|\s)(?:(?:for|to|of|on)\s+)(/\S*)")
_LENGTHS = {"minute": 60, "hour": 3600, "day": times.DAY, "week": 7 * times.DAY}

Quoted = Callable[[str], str]
"""Puts the quoted texts of a question back in."""


def column(table: Table, said: str) -> Column:
    """The one column that is meant. Raises `NotUnderstood` if there is none, or more than one."""
    said = re.sub(r"^(?:the|each|every|all|any|a|an)\s+", "", said.strip())
    said = re.sub(rf"\s+(?:of|for|in|per)\s+(?:all\s+|the\s+)*{NOUNS}$", "", said)
    found = names.match(table, said)
    if len(found) == 1:
        return found[0]
    if found:
        raise NotUnderstood(f"“{said}” may be {' or '.join(one.name for one in found[:6])}: which one?")
    raise NotUnderstood(f"There is no column “{said}”.")


def windows(table: Table, text: str) -> tuple[list[Window], str]:
    """The times that a question names, and the question without them."""
    time = table.role("time")
    found: list[Window] = []

    def take(match: "re.Match[str]", start: str | None, stop: str | None) -> str:
        if time is None or time.kind != "time":
            raise NotUnderstood(f"There is no column of times, so “{match[0].strip()}” means nothing here.")
        found.append(_window(start, stop, " ".join(match[0].split())))
        return " "

    text = _BETWEEN.sub(lambda match: take(match, match[1], match[2]), text)
    if "where" in text or "with" in text:  # "where bytes after 14" is no time
        after, before = (re.compile(one.pattern.replace(r"|\d{1,2}$", "")) for one in (_AFTER, _BEFORE))
    else:
        after, before = _AFTER, _BEFORE
    text = after.sub(lambda match: take(match, match[1], None), text)
    text = before.sub(lambda match: take(match, None, match[1]), text)
    text = _ON.sub(lambda match: take(match, match[1], "+day"), text)
    if (match := _LAST.search(text)) and time is not None and time.kind == "time":
        found.append(_edge(time, match))
        text = text[: match.start()] + " " + text[match.end() :]
    return found, " ".join(text.split())


def _edge(time: Column, match: "re.Match[str]") -> Window:
    """`in the last 10 minutes`: counted from the end of the data, not from now."""
    length = int(match[2] or 1) * _LENGTHS[match[3]]
    values = [value for value in time.values if isinstance(value, float) and value == value]
    text = " ".join(match[0].split())
    if not values:
        return Window(None, None, False, text)
    if match[1] == "last":
        return Window(max(values) - length, None, False, text)
    return Window(None, min(values) + length, False, text)


def _window(start: str | None, stop: str | None, text: str) -> Window:
    if stop == "+day" and start is not None:
        day = _read(start)[0]
        return Window(day, day + times.DAY, False, text)
    first = _read(start) if start is not None else None
    last = _read(stop) if stop is not None else None
    if first and last and first[1] != last[1]:
        # "between 2024-01-02 13:00 and 14:00" means the same day
        base = first[0] - first[0] % times.DAY
        if not first[1]:
            last = (base + last[0], False)
        else:
            raise NotUnderstood(f"“{text}” needs a date for both times or for none.")
    clock = (first or last or (0.0, False))[1]
    return Window(first[0] if first else None, last[0] if last else None, clock, text)


def _read(said: str) -> tuple[float, bool]:
    """A time as it is said, and whether it is one of the clock only."""
    said = said.strip().upper()
    if said in ("NOON", "MIDNIGHT"):
        return (12 * 3600.0 if said == "NOON" else 0.0), True
    if "-" in said:
        value = times.read(said)
        if value is None:
            raise NotUnderstood(f"“{said.lower()}” is no date.")
        return value, False
    plain = re.sub(r"\s?(?:H|O'CLOCK)$", "", said)
    half = plain[-2:] if plain[-2:] in ("AM", "PM") else ""
    clock = plain.removesuffix(half).strip()
    full = f"1970-01-01 {clock if ':' in clock else clock + ':00'}{' ' + half if half else ''}"
    if clock == "24" or clock.startswith("24:00"):
        return float(times.DAY), True
    value = times.read(full)
    if value is None:
        raise NotUnderstood(f"“{said.lower()}” is no time of the day.")
    return value, True


def conditions(table: Table, text: str, quoted: Quoted) -> tuple[list[Condition], str]:
    """The conditions that a question names, and the question without them."""
    found: list[Condition] = []
    if match := WHERE.search(text):
        for piece in re.split(r"\s+and\s+|\s*,\s*", match[1]):
            found.append(condition(table, piece, quoted))
        text = text[: match.start()] + " " + text[match.end() :]
    for pattern, role in ((_ADDRESS, "host"), (_PATH, "path")):
        one = table.role(role)
        if one is not None and (match := pattern.search(text)):
            value = match[1]
            if value.endswith("*"):
                found.append(Condition(one, "starts with", (value.rstrip("*"),)))
            else:
                found.append(Condition(one, "=", (value,)))
            text = text[: match.start()] + " " + text[match.end() :]
    status = table.role("status")
    if status is not None and (match := _STATUS.search(text)):
        said = next(group for group in match.groups() if group)
        found.append(Condition(status, "=", (said + "xx" if len(said) == 1 else said,)))
        text = text[: match.start()] + " " + text[match.end() :]
        text = re.sub(r"^(.*)\berrors?\b", r"\1 rows", text)
    return found, " ".join(text.split())


def condition(table: Table, said: str, quoted: Quoted) -> Condition:
    """One condition, such as `status = 404`, `bytes over 1000`, `path contains /api`, `status 404`."""
    status = table.role("status")
    said = said.strip()
    if status is not None and re.fullmatch(r"[1-5](?:\d\d|xx)", said):
        return Condition(status, "=", (said,))
    match = SIGNS.fullmatch(said) or _WORDED.fullmatch(said)
    if match:
        name, op, value = match.groups()
        return Condition(column(table, quoted(name)), _OPS[op], _values(value, quoted))
    words = said.split(" ")
    for cut in range(len(words) - 1, 0, -1):
        found = names.match(table, quoted(" ".join(words[:cut])))
        if len(found) == 1:
            return Condition(found[0], "=", _values(" ".join(words[cut:]), quoted))
    raise NotUnderstood(f"“{quoted(said)}” is no condition. Conditions look like `column = value`.")


def _values(said: str, quoted: Quoted) -> tuple[str, ...]:
    return tuple(quoted(value).strip() for value in re.split(r"\s+or\s+", said) if value.strip())


def predicate(condition: Condition) -> Callable[[str | float | None], bool]:
    """A test for one cell of the column of `condition`."""
    tests = [_test(condition, value) for value in condition.values]
    if condition.op == "!=":
        return lambda cell: all(test(cell) for test in tests)
    return lambda cell: any(test(cell) for test in tests)


def _test(condition: Condition, said: str) -> Callable[[str | float | None], bool]:
    op, wanted = condition.op, said.lower()
    if op in ("contains", "starts with", "ends with"):
        if op == "contains":
            return lambda cell: isinstance(cell, str) and wanted in cell.lower()
        if op == "starts with":
            return lambda cell: isinstance(cell, str) and cell.lower().startswith(wanted)
        return lambda cell: isinstance(cell, str) and cell.lower().endswith(wanted)
    kind = condition.column.kind if condition.column is not None else "text"
    value = times.read(said.upper()) if kind == "time" else number(said)
    if op in ("=", "!="):
        if re.fullmatch(r"[1-5]xx", wanted):
            same: Callable[[str | float | None], bool] = lambda cell: (  # noqa: E731
                isinstance(cell, str) and len(cell) == 3 and cell[0] == wanted[0]
            )
        else:
            same = lambda cell: (cell.lower() == wanted) if isinstance(cell, str) else cell == value is not None  # noqa: E731
        return same if op == "=" else lambda cell: not same(cell)
    if value is None:
        raise NotUnderstood(f"“{said}” is no {'time' if kind == 'time' else 'number'}, so it cannot be compared.")
    limit = value

    def compare(cell: str | float | None) -> bool:
        at = number(cell) if isinstance(cell, str) else cell
        if at is None or at != at:
            return False
        return {">": at > limit, ">=": at >= limit, "<": at < limit, "<=": at <= limit}[op]

    return compare
