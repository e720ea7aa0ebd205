"""The chaos test in short; ``scripts/chaos`` plays it for as long as one likes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from tests.chaos.__main__ import arguments
from tests.chaos.faults import Fault, Faults, FaultsApart, Hub
from tests.chaos.one_port import FaultsOfOnePort, OnePort
from tests.chaos.play import NODE_VARIABLES, Figures, Play
from tests.trials.nodes import Nodes
from tests.trials.tally import Outage

LEAST_OK = 0.99
"""The share of requests outside of outages that are answered ``ok``."""


async def play(hub: Hub, kind: type[Faults], faults: Sequence[str], folder: Path, rounds: int, seed: int) -> Figures:
    """Some rounds, in which nothing may be found to be wrong."""
    told: list[str] = []
    play = Play(hub, kind, faults, folder, seed, told.append)
    await play.rounds(rounds)
    assert not play.figures.failures, "\n".join([*told, *play.figures.failures])
    assert play.figures.ok_share >= LEAST_OK, play.figures.outside
    assert play.figures.changes > 100 * rounds
    assert play.figures.told.keys() <= {"too_far_behind"}, "the record lost nothing"
    return play.figures


SHORT = ("kill node", "kill record", "kill agent", "cut network")


async def test_some_rounds(tmp_path: Path) -> None:
    with Nodes(tmp_path, 3, NODE_VARIABLES, seed=4) as nodes:
        await play(nodes, FaultsApart, SHORT, tmp_path, 4, 4)


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_twenty_rounds(tmp_path: Path) -> None:
    with Nodes(tmp_path, 3, NODE_VARIABLES, seed=20) as nodes:
        await play(nodes, FaultsApart, list(FaultsApart.ALL), tmp_path, 20, 20)


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_twenty_rounds_on_one_port(tmp_path: Path) -> None:
    with OnePort(tmp_path, 3, NODE_VARIABLES) as hub:
        await play(hub, FaultsOfOnePort, list(FaultsOfOnePort.ALL), tmp_path, 20, 20)


class Losing(FaultsApart):
    """One that no hub survives: everybody who knew what was answered is killed, and the record goes back to a backup."""

    async def lose(self) -> list[Outage]:
        outage = self._tally.outage(None)
        for node in self._nodes.all:
            node.kill()
        self._record.kill()
        backup = self._record.folder / "backup"
        if backup.exists():
            self._record.put_data_back(backup)
        else:
            self._record.keep_data(backup)
        await asyncio.to_thread(self._record.start)
        for node in self._nodes.all:
            await self._start(node)
        return [outage]

    ALL: ClassVar[Mapping[str, Fault]] = {"lose": lose}


@pytest.mark.long
async def test_a_loss_is_found(tmp_path: Path) -> None:
    """That the others mean something."""
    with Nodes(tmp_path, 2, NODE_VARIABLES) as nodes:
        play = Play(nodes, Losing, ["lose"], tmp_path, 1, lambda text: None)
        await play.rounds(3)
    assert play.figures.failures


def test_what_can_be_asked_for() -> None:
    assert arguments([]).faults == list(FaultsApart.ALL)
    assert "kill parent" in arguments(["--one-port", "--faults", "kills"]).faults
    assert arguments(["--faults", "kill node,nothing"]).faults == ["kill node", "nothing"]
    for wrong in (["--faults", "kill parent"], ["--rounds", "0"], ["--nodes", "1"]):
        with pytest.raises(SystemExit):
            arguments(wrong)
