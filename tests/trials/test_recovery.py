"""Exact recovery: whatever happens to clients, hub and record, every subscriber can prove what it got."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import redis.asyncio as redis

from hub.record.embedded import socket_url
from tests.support import HubProcess
from tests.trials.rounds import World

HAPPENINGS = ("kill", "flush", "stop", "flush and kill", "flush and stop", "flush")


async def flush(world: World, hub: HubProcess) -> None:
    """Everything in the record is gone."""
    for ledger in world.ledgers.values():
        ledger.flushed()
    async with redis.Redis.from_url(socket_url(hub.folder)) as server:
        await server.flushall()


async def restart(world: World, hub: HubProcess, *, kill: bool) -> None:
    await asyncio.to_thread(hub.kill if kill else hub.stop)
    for tab in world.tabs:
        await tab.away()
        if world.ledgers[tab.id].lost_in is not None:
            tab.follower.checker.shown.clear()
    for ledger in world.ledgers.values():
        ledger.killed()
    await asyncio.to_thread(hub.start)


async def go_rounds(hub: HubProcess, seed: int, rounds: int, every: int) -> None:
    """Rounds in which something happens to one client, and every so often something to the hub or its record."""
    world = World(hub, seed)
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
                    await flush(world, hub)
                if what != "flush":
                    await restart(world, hub, kill="kill" in what)
            if n % every == every // 2 or n == rounds:
                await world.converge()
        recovered = sum(tab.follower.recovered for tab in world.tabs)
        assert recovered > rounds // 3
        assert world.told.keys() <= {"epoch_changed", "too_far_behind"}
        assert world.told["epoch_changed"], "who came back after a flush was told"


async def test_fifty_rounds(tmp_path: Path) -> None:
    with HubProcess(tmp_path) as hub:
        await go_rounds(hub, 50, 50, 10)


@pytest.mark.long
@pytest.mark.timeout(400)
async def test_a_thousand_rounds(tmp_path: Path) -> None:
    with HubProcess(tmp_path) as hub:
        await go_rounds(hub, 1000, 1000, 40)
