"""Access logs of web servers: common and combined format, with or without a virtual host in front."""

import re

from hub.demo import times
from hub.demo.builder import Builder
from hub.demo.columns import Spec
from hub.demo.table import Cell, Table

_QUOTED = r'"([^"\\]*(?:\\.[^"\\]*)*)"'
LINE = re.compile(
    r"(?:(\S+:\d+) )?(\S+) \S+ ([^\[\"]+) \[([^\]]{1,40})\] " + _QUOTED + r" (\d{3}|-) (\d+|-)"
    r"(?: " + _QUOTED + " " + _QUOTED + r")?(?:\s.*)?"
)
_TIME = re.compile(r"(\d{1,2}/[A-Za-z]{3}/\d{4}):(\d\d):(\d\d):(\d\d)(?: ([+-]\d{4}))?", re.ASCII)

SPECS = (
    Spec("host"),
    Spec("user"),
    Spec("time", "time"),
    Spec("method"),
    Spec("path"),
    Spec("query"),
    Spec("protocol"),
    Spec("status", "code"),
    Spec("bytes", "number"),
    Spec("referer"),
    Spec("agent"),
)
ROLES = {spec.name: spec.name for spec in SPECS}


class AccessReader:
    """Reads the lines of an access log into a builder."""

    def __init__(self, table: Table, text_only: frozenset[str] = frozenset()) -> None:
        table.roles = dict(ROLES)
        self.builder = Builder(table, SPECS, text_only)
        self._days: dict[str, int | None] = {}
        self._zones: set[str] = set()

    def feed(self, lines: list[str], first: int) -> None:
        """Read lines; `first` is the number of the first of them."""
        table = self.builder.table
        rows: list[tuple[Cell, ...]] = []
        numbers: list[int] = []
        match = LINE.fullmatch
        for number, line in enumerate(lines, first):
            found = match(line)
            if found is None:
                if not line or line.isspace():
                    table.blank += 1
                else:
                    table.bad.add(number, "not in the form of an access log line", line)
                continue
            _, host, user, when, request, status, size, referer, agent = found.groups()
            time = self._time(when)
            if time is None:
                table.bad.add(number, "the time cannot be read", line)
                continue
            # A request is "GET /path HTTP/1.1"; what scanners send instead is kept as the path.
            parts = request.split(" ")
            method, target, protocol = parts if len(parts) == 3 else (None, request, None)
            path, _, query = target.partition("?")
            rows.append(
                (
                    host,
                    None if user == "-" else user,
                    time,
                    method,
                    path,
                    query,
                    protocol,
                    None if status == "-" else status,
                    None if size == "-" else float(size),
                    None if referer == "-" else referer,
                    None if agent == "-" else agent,
                )
            )
            numbers.append(number)
        self.builder.extend(rows, numbers)

    def finish(self) -> Table:
        """What was read."""
        table = self.builder.finish()
        if len(self._zones) == 1:
            table.notes.append(f"Times are shown as written (zone {next(iter(self._zones))}).")
        elif self._zones:
            table.notes.append(f"Times are shown as written, in the zones {', '.join(sorted(self._zones)[:5])}.")
        return table

    def _time(self, text: str) -> float | None:
        found = _TIME.fullmatch(text)
        if found is None:
            return None
        date, hour, minute, second, zone = found.groups()
        if date not in self._days:
            day, name, year = date.split("/")
            month = times.MONTHS.get(name.lower())
            self._days[date] = times.day_number(int(year), month, int(day)) if month else None
        if zone and len(self._zones) < 100:
            self._zones.add(zone)
        return times.seconds(self._days[date], int(hour), int(minute), int(second))
