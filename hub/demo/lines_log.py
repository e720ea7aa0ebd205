"""Logs of programs: syslog, and lines that begin with a time (or a level) and go on with a message.

A line that does not begin like that belongs to the entry before it when it looks like the rest of one, such as a stack
trace; else it is a bad row.
"""

import re
from dataclasses import dataclass

from hub.demo import times
from hub.demo.builder import Builder
from hub.demo.columns import Spec
from hub.demo.table import NAN, Cell, Table

LEVELS = {
    "emerg": "fatal", "emergency": "fatal", "alert": "fatal", "fatal": "fatal", "panic": "fatal", "critical": "fatal",
    "crit": "fatal", "severe": "error", "error": "error", "err": "error", "warning": "warning", "warn": "warning",
    "notice": "notice", "info": "info", "information": "info", "debug": "debug", "trace": "debug", "verbose": "debug",
    "fine": "debug", "e": "error", "w": "warning", "i": "info", "f": "fatal",
}  # fmt: skip
"""What levels are called, and the few names that they are counted under."""

_SEVERITIES = ("fatal", "fatal", "fatal", "error", "warning", "notice", "info", "debug")  # of syslog, 0 to 7
_ISO = r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|\s?[+-]\d\d:?\d\d(?!\d))?"
_CLF = r"\d\d/[A-Z][a-z]{2}/\d{4}[: ]\d\d:\d\d:\d\d(?: [+-]\d{4})?"
_SYSLOG = r"([A-Z][a-z]{2})\s+(\d{1,2}) (?:(\d{4}) )?(\d\d):(\d\d):(\d\d)"
_LONG = r"[A-Z][a-z]{2} ([A-Z][a-z]{2})\s+(\d{1,2}) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))? (\d{4})"
_CLOCK = r"(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"
_KLOG = r"([IWEF])(\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{1,9})"
_NAMES = "|".join(sorted((name for name in LEVELS if len(name) > 1), key=len, reverse=True))

_HEAD = re.compile(
    rf"(?:<(?P<pri>\d{{1,3}})>(?:1 )?)?(?:\[?(?P<first>{_NAMES})\]?[:\s]\s*(?:\[|-\s)?)?"
    rf"[\[(]?(?:(?P<iso>{_ISO})|(?P<clf>{_CLF})|(?P<syslog>{_SYSLOG})|(?P<long>{_LONG})|(?P<klog>{_KLOG})"
    rf"|(?P<clock>{_CLOCK}))[\])]?(?=[\s:|,;-]|$)[\s:|-]*",
    re.IGNORECASE | re.ASCII,
)
_LEVEL_ONLY = re.compile(rf"\[?(?P<first>{_NAMES})\]?(?::|\s+-|(?<=\])\s)\s*", re.IGNORECASE)
_LEVEL = re.compile(rf"[\[(<|:\s-]*\b({_NAMES})\b[\])>|:\s-]*", re.IGNORECASE)
_LEVEL_INSIDE = re.compile(
    rf"(?:[\[(<|](?i:[\w-]{{1,20}}:)?((?i:{_NAMES}))[\])>|]|(?:^|\s)({_NAMES.upper()})(?=[\s:|-])"
    rf"|\b(?i:level|severity|lvl)=\"?((?i:{_NAMES}))\b\"?)[:\s-]*"
)
_SOURCE = re.compile(
    r"(?:\[(?P<inside>[^\]\[]{1,60})\]\s*(?:-\s+|:\s+)?)?"
    r"(?:(?P<name>[A-Za-z_@][\w.$/@-]{0,79})(?:\[\d+\])?(?::\d+)?(?::\s+|\s-\s|\s\|\s))?"
)
_SOURCE_TIGHT = re.compile(r"([A-Za-z_][\w.]{0,79}):(?=\S)")
_SOURCE_KLOG = re.compile(r"\s*\d*\s*([\w.-]{1,80}):\d+\]\s*")
_HOST = re.compile(r"(\S{1,100})\s+")
_REST = re.compile(
    r"\s|Traceback|Caused by:|\.\.\.|at |goroutine |[\w.$]{1,100}(?:Error|Exception|Exit|Interrupt|Warning)\b|[}\])]"
)

SPECS = (Spec("time", "time"), Spec("level"), Spec("host"), Spec("source"), Spec("message"))


@dataclass
class Head:
    """The beginning of a log line, and where the rest begins."""

    time: float
    level: str | None
    rest: str
    syslog: bool = False
    klog: bool = False


class HeadReader:
    """Reads the beginnings of lines; remembers the year for logs that leave it out."""

    def __init__(self, year: int) -> None:
        self.year = year
        self.yearly = True
        self.dated = True
        self._month = 0
        self._iso: dict[str, float | None] = {}

    def read(self, line: str) -> Head | None:
        """The beginning of `line`, None if it has no time or level there."""
        found = _HEAD.match(line)
        if found is None:
            found = _LEVEL_ONLY.match(line)
            return Head(NAN, LEVELS[found["first"].lower()], line[found.end() :]) if found else None
        time = self._time(found)
        if time is None:
            return None
        level = LEVELS[found["first"].lower()] if found["first"] else None
        if found["klog"]:
            level = LEVELS[found["klog"][0].lower()]
        elif found["pri"]:
            level = _SEVERITIES[int(found["pri"]) & 7]
        return Head(time, level, line[found.end() :], bool(found["syslog"] or found["pri"]), bool(found["klog"]))

    def _time(self, found: "re.Match[str]") -> float | None:
        groups = found.groups()
        at = found.re.groupindex
        if text := found["iso"]:
            return self._read_iso(text)
        if text := found["clf"]:
            return times.read(text)
        if found["syslog"]:
            name, day, year, *clock = groups[at["syslog"] : at["syslog"] + 6]
            month = times.MONTHS.get(name.lower())
            return self._dated(month, day, year, clock, "")
        if found["long"]:
            name, day, hour, minute, second, part, year = groups[at["long"] : at["long"] + 7]
            month = times.MONTHS.get(name.lower())
            return self._dated(month, day, year, (hour, minute, second), part or "")
        if found["klog"]:
            _, month_text, day, hour, minute, second, part = groups[at["klog"] : at["klog"] + 7]
            return self._dated(int(month_text), day, None, (hour, minute, second), part)
        self.dated = False
        hour, minute, second, part = groups[at["clock"] : at["clock"] + 4]
        return times.seconds(0, int(hour), int(minute), int(second), part or "")

    def _read_iso(self, text: str) -> float | None:
        # Many lines share a second, and reading the date is the slow part.
        key, part = text[:19], ""
        if len(text) > 20 and text[19] in ".,":
            digits = text[20:30]
            part = digits[: len(digits) - len(digits.lstrip("0123456789"))]
        if key not in self._iso:
            if len(self._iso) > 10_000:
                self._iso.clear()
            self._iso[key] = times.read(key)
        whole = self._iso[key]
        return whole if whole is None or not part else whole + float("0." + part)

    def _dated(
        self, month: int | None, day: str, year: str | None, clock: "tuple[str, ...] | list[str]", part: str
    ) -> float | None:
        if not month:
            return None
        if year is None:
            self.yearly = False
            if self._month - month > 6:  # from December to January
                self.year = min(self.year + 1, 9999)
            self._month = month
        hour, minute, second = map(int, clock)
        return times.seconds(times.day_number(int(year or self.year), month, int(day)), hour, minute, second, part)


def split_rest(head: Head) -> tuple[str | None, str | None, str | None, str]:
    """`(level, host, source, message)` of what follows the time."""
    rest, level, host = head.rest, head.level, None
    if head.syslog and (found := _HOST.match(rest)):
        host, rest = found[1], rest[found.end() :]
    source = None
    if level is None and (found := _LEVEL.match(rest)):
        level, rest = LEVELS[found[1].lower()], rest[found.end() :]
    elif level is None and (found := _LEVEL_INSIDE.search(rest, 0, 120)):
        level = LEVELS[(found[1] or found[2] or found[3]).lower()]
        source = rest[: found.start()].strip(" []()-:|") or None
        rest = rest[found.end() :]
    elif level is not None and (found := _LEVEL.match(rest)) and LEVELS[found[1].lower()] == level:
        rest = rest[found.end() :]
    if head.time != head.time and (found := _SOURCE_TIGHT.match(rest)):  # INFO:app.db:the message
        return level, host, found[1], rest[found.end() :].strip()
    if head.klog and (found := _SOURCE_KLOG.match(rest)):
        return level, host, found[1], rest[found.end() :].strip()
    found = _SOURCE.match(rest)
    if found and found.end():
        source = found["name"] or source or found["inside"]
        rest = rest[found.end() :]
    return level, host, source, rest.strip()


class LogReader:
    """Reads the lines of a program's log into a builder."""

    def __init__(self, table: Table, year: int, text_only: frozenset[str] = frozenset()) -> None:
        table.roles = {spec.name: spec.name for spec in SPECS}
        self.builder = Builder(table, SPECS, text_only)
        self._heads = HeadReader(year)
        self._begun = False
        self._traced = False
        self._continued = 0

    def feed(self, lines: list[str], first: int) -> None:
        """Read lines; `first` is the number of the first of them."""
        table = self.builder.table
        rows: list[tuple[Cell, ...]] = []
        numbers: list[int] = []
        for number, line in enumerate(lines, first):
            head = self._heads.read(line)
            if head is not None:
                level, host, source, message = split_rest(head)
                rows.append((head.time, level, host, source, message))
                numbers.append(number)
                self._begun, self._traced = True, False
            elif not line or line.isspace():
                table.blank += 1
            elif self._begun and _REST.match(line):
                self._continued += 1
                self._traced = True
            elif self._traced and ": " in line:
                self._continued += 1
            else:
                table.bad.add(number, "no time or level at its beginning", line)
        self.builder.extend(rows, numbers)

    def finish(self) -> Table:
        """What was read."""
        table = self.builder.finish()
        table.yearly, table.dated = self._heads.yearly, self._heads.dated
        if self._continued:
            table.notes.append(f"{self._continued:,} lines go on with the entry before them (stack traces and such).")
        time = table.column("time")
        if time is not None and all(value != value for value in time.values):
            table.columns.remove(time)
            table.roles.pop("time")
        elif not table.dated:
            table.notes.append("The log has times but no dates: all is shown as one day.")
        return table
