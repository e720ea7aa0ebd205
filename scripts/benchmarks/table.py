"""Results for people: a table a row with figure, ratio, CPU apart and goals."""

from __future__ import annotations

import math
from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from scripts.benchmarks.figures import Goal, Measure, Sample, Spread

_CPU = {"server": "server", "agent": "agent", "valkey": "Valkey"}


def number(value: float) -> str:
    """A figure with three digits that count."""
    if math.isnan(value):
        return "–"
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 1 else f"{value:.3f}"


def spread_text(spread: Spread | None) -> str:
    """Median and, if rounds differ, from where to where."""
    if spread is None:
        return "–"
    if spread.low == spread.high:
        return number(spread.median)
    return f"{number(spread.median)} ({number(spread.low)}–{number(spread.high)})"


def cpu_text(samples: Iterable[Sample], name: str) -> str:
    """CPU of one process per unit, in microseconds, the median of the rounds."""
    each = [sample.cpu[name] / sample.units * 1e6 for sample in samples if sample.units and name in sample.cpu]
    spread = Spread.of(each)
    return "" if spread is None else number(spread.median)


def load_text(samples: Iterable[Sample]) -> str:
    """The share of a core that the viewers' processes used."""
    shares = [s.cpu["load"] / s.seconds * 100 for s in samples if s.seconds and "load" in s.cpu]
    spread = Spread.of(shares)
    return "" if spread is None else f"{spread.median:.0f} %"


def measure_table(measure: Measure) -> Table:
    """One measure, a line a contestant."""
    table = Table(title=measure.title, title_justify="left", title_style="bold", header_style="bold")
    table.add_column("")
    table.add_column(measure.unit, justify="right")
    table.add_column(f"÷ {measure.reference}" if measure.growth else f"{measure.reference} ÷ this", justify="right")
    shown = {name: title for name, title in _CPU.items() if any(cpu_text(s, name) for s in measure.samples.values())}
    for title in shown.values():
        table.add_column(f"CPU us\n{title}", justify="right")
    watched = any(map(load_text, measure.samples.values()))
    if watched:
        table.add_column("viewers,\nof a core", justify="right")
    for name, samples in measure.samples.items():
        ratio_text = "1" if name == measure.reference else spread_text(measure.against_reference(name))
        cells = [name, spread_text(measure.spread(name)), ratio_text]
        cells += [cpu_text(samples, process) for process in shown]
        if watched:
            cells.append(load_text(samples))
        table.add_row(*cells, style="bold" if name == measure.reference else "")
    return table


def goal_text(measure: Measure, goal: Goal) -> Text:
    """Whether a goal is met, and by what."""
    judged = measure.judge(goal)
    if judged is None:
        return Text(f"  ? {goal.contestant} {goal.words()}: not measured", style="yellow")
    spread, met = judged
    words = f"{goal.contestant} {goal.words()}: {spread_text(spread)}"
    return Text(f"  ✓ {words}", style="green") if met else Text(f"  ✗ {words}", style="red")


def show(measures: Iterable[Measure]) -> RenderableType:
    """A row's results."""
    parts: list[RenderableType] = []
    for measure in measures:
        parts.append(measure_table(measure))
        parts += [goal_text(measure, goal) for goal in measure.goals]
        parts += [Text(f"  {note}", style="dim") for note in measure.notes]
        parts.append(Text())
    return Group(*parts)
