"""Figures of several rounds: median, spread, ratios within a round, and what was asked of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any


def percentile(values: Sequence[float], share: float) -> float:
    """The value that ``share`` (0 to 1) of the values do not exceed (nearest rank). NaN of nothing."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass(frozen=True, slots=True)
class Spread:
    """What several rounds gave."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread | None:
        """The spread of the values that are numbers; None if none is."""
        there = [value for value in values if not math.isnan(value)]
        return Spread(median(there), min(there), max(there)) if there else None

    def to_json(self) -> dict[str, float]:
        return {"median": self.median, "min": self.low, "max": self.high}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One round of one contestant."""

    value: float
    """In the measure's unit; NaN if there was none."""
    cpu: dict[str, float] = field(default_factory=dict)
    """Seconds of CPU by process: server, agent, valkey, load."""
    seconds: float = 0.0
    """How long the measured phase took."""
    units: float = 0.0
    """How many deliveries, changes or connections the phase had; CPU is told per unit if this is not 0."""
    more: dict[str, Any] = field(default_factory=dict)
    """What else is worth knowing, by name; goes to the JSON."""

    def of(self, value: float) -> Sample:
        """Another figure of the same phase."""
        return replace(self, value=value)


@dataclass(frozen=True, slots=True)
class Goal:
    """What a figure is to be: a bound on its ratio to another contestant, or on the figure itself (``against`` None)."""

    contestant: str
    against: str | None
    bound: float
    at_least: bool = False

    def met(self, value: float) -> bool:
        """Whether a ratio or figure is good enough."""
        return value >= self.bound if self.at_least else value <= self.bound

    def words(self) -> str:
        """For people."""
        sign = "≥" if self.at_least else "≤"
        return f"{sign} {self.bound:g}" if self.against is None else f"{sign} {self.bound:g} × {self.against}"


@dataclass(slots=True, kw_only=True)
class Measure:
    """One figure of all contestants of a row."""

    title: str
    unit: str
    reference: str = "hub"
    """Whose figure is divided by each contestant's, or divides it if ``growth``."""
    growth: bool = False
    """Whether ratios say how much larger each contestant's figure is than the reference's."""
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    goals: list[Goal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, contestant: str, sample: Sample) -> None:
        """Another round of a contestant."""
        self.samples.setdefault(contestant, []).append(sample)

    def spread(self, contestant: str) -> Spread | None:
        """Of a contestant's own figure."""
        return Spread.of([sample.value for sample in self.samples.get(contestant, [])])

    def ratio(self, of: str, to: str) -> Spread | None:
        """Of one contestant's figure to another's, each within its round."""
        pairs = zip(self.samples.get(of, []), self.samples.get(to, []), strict=False)
        return Spread.of([a.value / b.value if b.value else math.nan for a, b in pairs])

    def against_reference(self, contestant: str) -> Spread | None:
        """The ratio that the table shows beside a contestant."""
        of, to = (contestant, self.reference) if self.growth else (self.reference, contestant)
        return self.ratio(of, to)

    def judge(self, goal: Goal) -> tuple[Spread, bool] | None:
        """What a goal asks about, and whether it is met by the median. None if it was not measured."""
        to = goal.against
        spread = self.spread(goal.contestant) if to is None else self.ratio(goal.contestant, to)
        return None if spread is None else (spread, goal.met(spread.median))

    def to_json(self) -> dict[str, Any]:
        """Everything, for a file."""
        contestants = {}
        for name, samples in self.samples.items():
            spread, ratio = self.spread(name), self.against_reference(name)
            contestants[name] = {
                "figure": spread and spread.to_json(),
                "ratio": ratio and ratio.to_json(),
                "rounds": [_sample_json(sample) for sample in samples],
            }
        goals = []
        for goal in self.goals:
            judged = self.judge(goal)
            asked = {"of": goal.contestant, "against": goal.against, "at_least": goal.at_least, "bound": goal.bound}
            goals.append({**asked, "got": judged and judged[0].to_json(), "met": judged and judged[1]})
        ratio_is = f"this / {self.reference}" if self.growth else f"{self.reference} / this"
        shown = {"title": self.title, "unit": self.unit, "ratio_is": ratio_is}
        return {**shown, "contestants": contestants, "goals": goals, "notes": self.notes}


def _sample_json(sample: Sample) -> dict[str, Any]:
    times = {"seconds": sample.seconds, "units": sample.units, "cpu_seconds": sample.cpu}
    told = {"value": sample.value, **times, **sample.more}
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in told.items()}
