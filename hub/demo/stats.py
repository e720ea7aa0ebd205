"""Numbers and counts of columns."""

import heapq
import math
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hub.demo.steps import Steps, spans

EXACT = 200_000
"""Up to so many values the median and p95 are exact; above, they are those of as many values taken at even distances,
so that memory and the time of one sort stay bounded. All other numbers are always exact."""


@dataclass(frozen=True)
class Summary:
    """What can be said about numbers in short; None where there are too few or the numbers are too large.

    Percentiles lie between the two nearest values in proportion; `stddev` is that of a sample (divided by n - 1).
    """

    count: int
    missing: int
    minimum: float | None
    maximum: float | None
    total: float | None
    mean: float | None
    median: float | None
    p95: float | None
    stddev: float | None
    exact: bool


def percentile(ordered: Sequence[float], part: float) -> float | None:
    """The value below which `part` (0 to 1) of the sorted values lie."""
    if not ordered:
        return None
    place = (len(ordered) - 1) * part
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    weight = place - low
    return finite(ordered[low] * (1 - weight) + ordered[high] * weight)


def finite(value: float) -> float | None:
    """None in place of infinity and NaN, which JSON cannot carry."""
    return value if math.isfinite(value) else None


def sample(values: "Sequence[float]", limit: int = EXACT) -> Steps[tuple[list[float], bool]]:
    """Sorted values without NaN, at most `limit` taken at even distances, and whether these are all."""
    step = max(1, math.ceil(len(values) / limit))
    chosen: list[float] = []
    for start in range(0, len(values), step * 20_000):
        chosen.extend(value for value in values[start : start + step * 20_000 : step] if value == value)
        yield
    chosen.sort()
    return chosen, step == 1


def summarise(values: "Sequence[float]") -> Steps[Summary]:
    """The summary of all values that are not NaN."""
    count, total, spread = 0, 0.0, 0.0
    low, high = math.inf, -math.inf
    for start, stop in spans(len(values)):
        piece = [value for value in values[start:stop] if value == value]
        if piece:
            low, high = min(low, min(piece)), max(high, max(piece))
            try:
                part = math.fsum(piece)
                here = part / len(piece)
                inner = math.fsum((value - here) * (value - here) for value in piece)
            except OverflowError:
                part = here = inner = math.inf
            # The squared distances of two parts from their own means, put together.
            apart = here - total / count if count else 0.0
            spread += inner + apart * apart * count * len(piece) / (count + len(piece))
            total += part
            count += len(piece)
        yield
    if not count:
        return Summary(0, len(values), None, None, None, None, None, None, None, True)
    ordered, exact = yield from sample(values)
    deviation = math.sqrt(spread / (count - 1)) if count > 1 and math.isfinite(spread) else None
    return Summary(
        count,
        len(values) - count,
        low,
        high,
        finite(total),
        finite(total / count),
        percentile(ordered, 0.5),
        percentile(ordered, 0.95),
        deviation,
        exact,
    )


def count_values(
    values: "Sequence[str | None] | array[float]", rows: Sequence[int] | None = None
) -> Steps["Counter[str | float]"]:
    """How often each value comes, in all rows or in these; missing ones are left out."""
    counts: Counter[str | float] = Counter()
    length = len(values) if rows is None else len(rows)
    for start, stop in spans(length):
        piece = values[start:stop] if rows is None else [values[row] for row in rows[start:stop]]
        # A NaN equals nothing, itself neither.
        counts.update([value for value in piece if value is not None and value == value])
        yield
    return counts


def most(
    counts: Iterable[tuple[str | float, float]], number: int, *, least: bool = False
) -> list[tuple[str | float, float]]:
    """The `number` pairs with the highest (lowest) counts; of equal ones the smaller value first."""
    sign = 1 if least else -1
    return heapq.nsmallest(number, counts, key=lambda item: (sign * item[1], isinstance(item[0], str), item[0]))
