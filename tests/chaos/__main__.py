"""``python -m tests.chaos``: what ``scripts/chaos`` runs once everything is installed."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.chaos.faults import KILLS, Faults, FaultsApart
from tests.chaos.one_port import FaultsOfOnePort, OnePort
from tests.chaos.play import NODE_VARIABLES, Figures, Play
from tests.trials.nodes import Nodes


def arguments(args: Sequence[str] | None = None) -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(
        prog="scripts/chaos",
        description="Lets things fail under load, and proves that nothing that was answered or shown is lost.",
        epilog=f"faults: {', '.join(FaultsApart.ALL)}\n\nfaults with --one-port: {', '.join(FaultsOfOnePort.ALL)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="what happens, and when (1)")
    parser.add_argument("--rounds", type=int, default=20, metavar="N", help="how many things fail (20)")
    parser.add_argument("--nodes", type=int, default=3, metavar="N", help="nodes (3)")
    parser.add_argument("--one-port", action="store_true", help="serve --nodes, with the embedded server")
    parser.add_argument("--faults", metavar="A,B", help="only these; kills: everything that is SIGKILL")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write data and logs there, and leave them")
    asked = parser.parse_args(args)
    known = list((FaultsOfOnePort if asked.one_port else FaultsApart).ALL)
    if asked.faults == "kills":
        asked.faults = [name for name in known if name in KILLS]
    else:
        asked.faults = known if asked.faults is None else asked.faults.split(",")
    if unknown := [name for name in asked.faults if name not in known]:
        parser.error(f"there is no fault {', '.join(unknown)}; there are: {', '.join(known)}")
    if asked.rounds < 1 or asked.nodes < 2:
        parser.error("--rounds takes 1 or more, --nodes 2 or more")
    return asked


def run(asked: argparse.Namespace, folder: Path) -> int:
    """Play the rounds and tell what came of them; the exit code."""
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    began = time.monotonic()

    def tell(text: str) -> None:
        console.print(f"{time.monotonic() - began:7.1f}  {text}", markup=False)

    hub: OnePort | Nodes
    kind: type[Faults]
    if asked.one_port:
        hub, kind = OnePort(folder, asked.nodes, NODE_VARIABLES), FaultsOfOnePort
    else:
        hub, kind = Nodes(folder, asked.nodes, NODE_VARIABLES, seed=asked.seed), FaultsApart
    with hub:
        play = Play(hub, kind, asked.faults, folder, asked.seed, tell)
        try:
            asyncio.run(play.rounds(asked.rounds))
        except KeyboardInterrupt:
            tell("broken off")
    console.print(table(play.figures, asked.seed, time.monotonic() - began))
    return 1 if play.figures.failures else 0


def table(figures: Figures, seed: int, seconds: float) -> Table:
    """What came of it."""
    shown = Table(
        title=f"seed {seed}: {figures.rounds} rounds in {seconds:.0f} s", show_header=False, title_justify="left"
    )
    answered = sum(figures.came.values())
    slowest = max(figures.returns, default=(0.0, "-"))
    rows = {
        "changes in the record": f"{figures.changes:,}",
        "requests": f"{answered:,}, of them ok {figures.came['ok']:,}",
        "outside of outages": f"{figures.outside.total():,}, of them ok {figures.ok_share:.2%}",
        "not ok there": ", ".join(f"{came} {n}" for came, n in figures.outside.items() if came != "ok") or "none",
        "confirmed to agent processes": f"{figures.confirmed:,}",
        "viewers": f"went on where they were {figures.recovered:,} times; anew: {dict(figures.told) or 'never'}",
        "until all nodes answered again": f"{slowest[0]:.1f} s at most, after {slowest[1]}",
        "descriptors of a node when idle": f"{figures.descriptors} at most",
        "faults": ", ".join(f"{name} {n}" for name, n in sorted(figures.faults.items())),
        "failures": "\n".join(figures.failures) or "none: nothing lost, nothing doubled, everybody sees the same",
    }
    for name, value in rows.items():
        shown.add_row(name, value)
    return shown


def main() -> int:
    """Run in a folder that is left only if somebody asked for that."""
    asked = arguments()
    if asked.keep is not None:
        asked.keep.mkdir(parents=True, exist_ok=True)
        return run(asked, asked.keep)
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        return run(asked, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
