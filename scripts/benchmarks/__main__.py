"""``python -m scripts.benchmarks``: what ``scripts/bench`` runs once everything is installed."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from scripts.benchmarks.bench import Bench, Plan
from scripts.benchmarks.contestants import NODE, node_is_here
from scripts.benchmarks.figures import Measure
from scripts.benchmarks.machine import describe, raise_file_limit
from scripts.benchmarks.processes import BenchError
from scripts.benchmarks.rows import ROWS
from scripts.benchmarks.table import show


def arguments(args: list[str] | None = None) -> argparse.Namespace:
    """What was asked for."""
    listed = "\n".join(f"  {name:<12} {entry.about}" for name, entry in ROWS.items())
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measures the hub beside its peers on this machine; every figure is a ratio within this call.",
        epilog=f"rows:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that everything runs")
    parser.add_argument("--rows", metavar="A,B", help="only these rows")
    parser.add_argument("--rounds", metavar="N", type=int, help="rounds of each row (3; with --quick 1)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write everything that was measured there")
    asked = parser.parse_args(args)
    asked.rows = list(ROWS) if asked.rows is None else asked.rows.split(",")
    unknown = [name for name in asked.rows if name not in ROWS]
    if unknown:
        parser.error(f"there is no row {', '.join(unknown)}; there are: {', '.join(ROWS)}")
    if asked.rounds is not None and asked.rounds < 1:
        parser.error("--rounds takes 1 or more")
    return asked


@contextmanager
def bounded(name: str, seconds: float) -> Iterator[None]:
    """Raise BenchError when a row takes too long."""

    def over(number: int, frame: FrameType | None) -> None:
        raise BenchError(f"{name} took more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Report:
    """What has been measured so far, and the file that it goes to after each row."""

    def __init__(self, plan: Plan, file: Path | None) -> None:
        self._file = file
        self._whole: dict[str, Any] = {
            "machine": describe(),
            "quick": plan.quick,
            "rounds": plan.rounds,
            "rows": {},
        }

    def add(self, name: str, seconds: float, measures: list[Measure], error: str | None) -> None:
        """A row is done, or failed."""
        self._whole["rows"][name] = {
            "seconds": round(seconds, 1),
            "error": error,
            "measures": [measure.to_json() for measure in measures],
        }
        if self._file is not None:
            self._file.write_text(json.dumps(self._whole, indent=1) + "\n")


def run(asked: argparse.Namespace) -> int:
    """Run the rows; the exit code."""
    width = None if sys.stdout.isatty() else 120
    out, err = Console(width=width), Console(stderr=True, width=width)
    plan = Plan(asked.quick, asked.rounds or (1 if asked.quick else 3), node_is_here())
    files = raise_file_limit()
    report = Report(plan, asked.json)
    out.print(_introduction(plan, files), highlight=False)
    if not plan.node:
        out.print(
            f"{NODE} is left out: scripts/bench installs it, python -m scripts.benchmarks does not.\n", style="yellow"
        )
    failed = 0
    judged: list[bool] = []
    for name in asked.rows:
        began = time.monotonic()
        measures, error = _run_row(name, plan, err)
        took = time.monotonic() - began
        if error is None:
            out.print(show(measures))
            judged += [found[1] for m in measures for goal in m.goals if (found := m.judge(goal)) is not None]
        else:
            failed += 1
            out.print(Text(f"{name} failed: {error}\n", style="red"))
        out.print(f"{name}: {took:.0f} s\n", style="dim")
        report.add(name, took, measures, error)
    out.print(f"goals: {sum(judged)} of {len(judged)} met; rows that failed: {failed}", style="bold")
    return 1 if failed else 0


def _run_row(name: str, plan: Plan, err: Console) -> tuple[list[Measure], str | None]:
    entry = ROWS[name]
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as scratch,
        Progress(*columns, console=err, transient=True) as progress,
    ):
        task = progress.add_task(name, total=1.0)

        def tell(doing: str, done: float) -> None:
            if err.is_terminal:
                progress.update(task, description=f"{name}: {doing}", completed=done)
            else:
                err.print(f"{name}: {doing}")

        bench = Bench(plan, Path(scratch), tell)
        try:
            with bench.row(), bounded(name, entry.fixed + entry.per_round * plan.rounds):
                return entry.run(bench), None
        except BenchError as error:
            return [], str(error)


def _introduction(plan: Plan, files: int) -> str:
    machine = describe()
    versions = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    size = "small sizes, figures not to be quoted" if plan.quick else "full sizes"
    return (
        f"{machine['cores']} cores, load {machine['load_average_before']:.2f} before; Python {machine['python']}; {versions}\n"
        f"{size}; rounds: {plan.rounds}; at most {files:,} open files a process\n"
        "Figures: median (lowest–highest) of the rounds. Ratios: within each round. CPU: microseconds per unit, by process; "
        "'viewers' are the processes that receive.\n"
    )


def main() -> int:
    """Run, and end in order when told to."""

    def ended(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, ended)
    try:
        return run(arguments())
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
