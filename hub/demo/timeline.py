"""How many rows there are over time."""

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from hub.demo import times
from hub.demo.stats import sample
from hub.demo.steps import Steps, spans
from hub.demo.table import Table

_MINUTE, _HOUR, _DAY = 60, 3600, times.DAY
WIDTHS: tuple[tuple[int, str], ...] = (
    (1, "second"), (5, "5 seconds"), (10, "10 seconds"), (30, "30 seconds"),
    (_MINUTE, "minute"), (5 * _MINUTE, "5 minutes"), (10 * _MINUTE, "10 minutes"), (15 * _MINUTE, "15 minutes"),
    (30 * _MINUTE, "30 minutes"), (_HOUR, "hour"), (3 * _HOUR, "3 hours"), (6 * _HOUR, "6 hours"),
    (12 * _HOUR, "12 hours"), (_DAY, "day"), (7 * _DAY, "week"), (28 * _DAY, "4 weeks"), (364 * _DAY, "52 weeks"),
)  # fmt: skip
"""Bucket widths in seconds, and what they are called."""

BUCKETS = 26
"""At most so many are shown when the width is free to choose."""
MOST = 200
"""At most so many when the user said the width."""


@dataclass(frozen=True)
class Bucket:
    """The rows from `start` (seconds, see `hub.demo.times`) up to the start of the next one."""

    start: float
    count: int
    errors: int


@dataclass(frozen=True)
class Timeline:
    """Buckets without gaps, in order. `outside` rows lie before or after the part that is shown."""

    width: int
    unit: str
    buckets: tuple[Bucket, ...]
    outside: int
    missing: int

    def label(self, table: Table, bucket: Bucket) -> str:
        """The start of a bucket, as exact as the width asks for."""
        if self.width >= _DAY:
            return times.show(bucket.start, yearly=table.yearly).rpartition(" ")[0]
        text = table.show_time(bucket.start)
        if self._within_a_day():
            text = text.rpartition(" ")[2]
        return text if self.width < _MINUTE else text[:-3]

    def _within_a_day(self) -> bool:
        return self.buckets[0].start // _DAY == self.buckets[-1].start // _DAY

    def day(self, table: Table) -> str:
        """The day that all buckets lie in, "" if there are several or the input has no dates."""
        if not self.buckets or not table.dated or not self._within_a_day() or self.width >= _DAY:
            return ""
        return table.show_time(self.buckets[0].start).rpartition(" ")[0]


def unit_of(seconds: int) -> str:
    """What a width is called: 3600 -> hour."""
    for width, unit in WIDTHS:
        if width == seconds:
            return unit
    for size, unit in ((_DAY, "days"), (_HOUR, "hours"), (_MINUTE, "minutes")):
        if seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} seconds"


def build(
    values: "array[float]", errors: Sequence[int] = (), rows: Sequence[int] | None = None, width: int | None = None
) -> Steps[Timeline | None]:
    """Count the times in buckets: all of them or those of `rows`; `errors` (rows) are counted a second time.

    Without a `width` in seconds the smallest is taken that gives at most `BUCKETS`; a few times far away from the
    rest are left outside then. With one, the latest `MOST` buckets are shown. None if there is no time at all.
    """
    chosen = values if rows is None else array("d", [values[row] for row in rows])
    ordered, _ = yield from sample(chosen)
    if not ordered:
        return None
    low, high = ordered[0], ordered[-1]
    if width is None:
        inner_low, inner_high = ordered[len(ordered) // 200], ordered[-1 - len(ordered) // 200]
        if len(ordered) >= 200 and high - low > 50 * max(1.0, inner_high - inner_low):
            low, high = inner_low, inner_high
        width = next((size for size, _ in WIDTHS if high // size - low // size < BUCKETS), 0)
        width = width or int((high - low) / BUCKETS / _DAY + 1) * _DAY
    # 1970 began on a Thursday; weeks begin on Mondays.
    shift = 4 * _DAY if width % (7 * _DAY) == 0 else 0
    first, last = int((low - shift) // width), int((high - shift) // width)
    first = max(first, last - MOST + 1)
    counts: Counter[int] = Counter()
    for start, stop in spans(len(chosen)):
        counts.update([int((value - shift) // width) for value in chosen[start:stop] if value == value])
        yield
    wrong: Counter[int] = Counter()
    for start, stop in spans(len(errors)):
        wrong.update([int((values[row] - shift) // width) for row in errors[start:stop] if values[row] == values[row]])
        yield
    buckets = tuple(Bucket(float(at * width + shift), counts[at], wrong[at]) for at in range(first, last + 1))
    timed = sum(counts.values())
    return Timeline(
        width, unit_of(width), buckets, timed - sum(bucket.count for bucket in buckets), len(chosen) - timed
    )
