"""Reading and showing times.

A time is a number of seconds since 1970-01-01 00:00 *as it is written*: time zones are not applied, because somebody
who asks for "errors after 14:00" means the 14:00 in the log. Seconds since 1970 are read as UTC. A time without a date
lies on 1970-01-01, one without a year in the year that the reader is given.
"""

import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Literal

DAY = 86_400
Order = Literal["ymd", "dmy", "mdy", "epoch"]
"""How a date is written: 2024-01-31, 31.01.2024, 01/31/2024, or seconds (milliseconds) since 1970."""

MONTHS = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), start=1
    )
}
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - times have no zone here
_FIRST_DAY = date(1970, 1, 1).toordinal()
_LAST_SECOND = (date(9999, 12, 31).toordinal() - _FIRST_DAY + 1) * DAY - 1
_FIRST_SECOND = (1 - _FIRST_DAY) * DAY

_CLOCK = r"(?:[T ]+(\d{1,2}):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?\s?([AaPp][Mm])?)?\s?(?:Z|UTC|GMT|[+-]\d\d:?\d\d)?"
_YMD = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})" + _CLOCK, re.ASCII)
_XMY = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4})" + _CLOCK, re.ASCII)
_NAMED = re.compile(r"(\d{1,2})[-/ ]([A-Za-z]{3})[A-Za-z]*[-/ ](\d{4})" + _CLOCK.replace("[T ]+", "[T: ]+"), re.ASCII)
_COUNT = re.compile(r"\d{9,13}(?:\.\d{1,9})?", re.ASCII)


def day_number(year: int, month: int, day: int) -> int | None:
    """Days since 1970-01-01, None if there is no such day."""
    try:
        return date(year, month, day).toordinal() - _FIRST_DAY
    except ValueError:
        return None


def seconds(day: int | None, hour: int, minute: int, second: int, fraction: str = "") -> float | None:
    """The time within `day` (days since 1970), None if it is none; a leap second counts as the one before it."""
    if day is None or hour > 23 or minute > 59 or second > 60:
        return None
    whole = day * DAY + hour * 3600 + minute * 60 + min(second, 59)
    return whole + float("0." + fraction) if fraction else float(whole)


def read(text: str, order: Order = "ymd") -> float | None:
    """The time that `text` is, None if it is none. `order` settles what 01/02/2024 means."""
    text = text.strip()
    if order == "epoch":
        return from_count(float(text)) if _COUNT.fullmatch(text) else None
    if match := _YMD.fullmatch(text):
        year, _, month, day, *clock = match.groups()
        return _with_clock(day_number(int(year), int(month), int(day)), clock)
    if match := _XMY.fullmatch(text):
        first, _, second, year, *clock = match.groups()
        month, day = (first, second) if order == "mdy" else (second, first)
        return _with_clock(day_number(int(year), int(month), int(day)), clock)
    if match := _NAMED.fullmatch(text):
        day, name, year, *clock = match.groups()
        number = MONTHS.get(name.lower())
        return _with_clock(day_number(int(year), number, int(day)), clock) if number else None
    return None


def _with_clock(day: int | None, clock: Sequence[str | None]) -> float | None:
    hour_text, minute, second, fraction, half = clock
    hour = int(hour_text or 0)
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half.lower() == "pm" else 0)
    return seconds(day, hour, int(minute or 0), int(second or 0), fraction or "")


def from_count(count: float) -> float | None:
    """Seconds or milliseconds since 1970 as a time; None if it lies before 1973 or after 9999."""
    if count >= 1e11:
        count /= 1000
    return count if 1e8 <= count <= _LAST_SECOND else None


def guess_order(samples: Sequence[str]) -> Order | None:
    """How these dates are written, None if fewer than 9 of 10 are dates."""
    orders: tuple[Order, ...] = ("ymd", "dmy", "mdy", "epoch")
    if any("/" in text for text in samples):
        orders = ("ymd", "mdy", "dmy", "epoch")  # slashes are written by those who put the month first
    best = max(orders, key=lambda order: sum(read(text, order) is not None for text in samples))
    fits = sum(read(text, best) is not None for text in samples)
    return best if samples and fits >= 0.9 * len(samples) else None


def moment(time: float) -> datetime:
    """The time as a datetime without a zone; what lies outside the years 1 to 9999 is moved to their ends."""
    return _EPOCH + timedelta(seconds=min(max(time, _FIRST_SECOND), _LAST_SECOND))


def show(time: float, *, dated: bool = True, yearly: bool = True) -> str:
    """`2024-01-31 14:05:06`, without the year `01-31 14:05:06`, without a date `14:05:06`."""
    pattern = "%H:%M:%S"
    if dated:
        pattern = ("%Y-%m-%d " if yearly else "%m-%d ") + pattern
    at = moment(time)
    # strftime does not pad years before 1000
    return at.strftime(pattern.replace("%Y", f"{at.year:04d}"))


def clock_of(time: float) -> float:
    """Seconds since midnight of that day."""
    return time % DAY
