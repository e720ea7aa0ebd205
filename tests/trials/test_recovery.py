"""Exact recovery: whatever happens to clients, hub and record, every subscriber can prove what it got."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import HubProcess
from tests.trials.rounds import World

HAPPENINGS = ("kill", "flush", "stop", "flush and kill", "flush and stop", "flush")


async def go_rounds(world: World, rounds: int, every: int) -> None:
    """Rounds in which something happens to one client, and every so often something to the hub or its record."""
    happenings = 0
    async with world.load():
        for tab in world.tabs:
            await tab.come()
        for n in range(1, rounds + 1):
            if world.chance.random() < 0.08:
                world.drop_agent()
            else:
                await world.chance.choice(world.tabs).act()
            world.check_writers()
            if n % every == 0:
                what = HAPPENINGS[happenings % len(HAPPENINGS)]
                happenings += 1
                if "flush" in what:
                    await world.flush()
                if what != "flush":
                    await world.restart(kill="kill" in what)
            if n % every == every // 2 or n == rounds:
                await world.converge()
        recovered = sum(tab.follower.recovered for tab in world.tabs)
        assert recovered > rounds // 3
        assert world.told.keys() <= {"epoch_changed", "too_far_behind"}
        assert world.told["epoch_changed"], "who came back after a flush was told"


async def test_fifty_rounds(tmp_path: Path) -> None:
    with HubProcess(tmp_path) as hub:
        await go_rounds(World(hub, 50), 50, 10)


@pytest.mark.long
@pytest.mark.timeout(400)
async def test_a_thousand_rounds(tmp_path: Path) -> None:
    with HubProcess(tmp_path) as hub:
        await go_rounds(World(hub, 1000), 1000, 40)
