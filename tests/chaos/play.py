"""The chaos test: rounds in which something fails under load, in acts of some rounds; after each act everything is compared."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from hub.record import names
from hub.record.connection import Connection
from hub.record.reader import MirrorReader
from tests.chaos.faults import Faults, Hub
from tests.chaos.people import Agents, People, Reader
from tests.clients import health
from tests.record.servers import lasting_keys
from tests.support import until
from tests.trials.rounds import LOST, Tab, World, end
from tests.trials.tally import ok_share

ACT: Final = 10
"""Rounds of an act. Then its contexts are removed, and others take their place, so that logs stay short."""
PATIENCE: Final = 8.0
"""Seconds after which a client gives up a connection that gives no answer: more than a request waits for the record."""
RETURN: Final = 5.0
"""Seconds within which everything goes on by itself after what was away is back."""
LONGEST: Final = 1_000
"""Characters of a failure that are told."""
DESCRIPTORS: Final = 50
"""That a node has open when nobody but agent processes is connected to it: its own files, 16 connections to the record at most
in its pool, one for each script and one to hear with."""
NODE_VARIABLES: Final = {"HUB_RUN_GRACE": "3", "HUB_PING_SECONDS": "3", "HUB_PING_TIMEOUT": "4", "HUB_IDLE": "5"}

Tell = Callable[[str], None]


class Figures:
    """What came of the rounds so far."""

    def __init__(self) -> None:
        self.rounds = 0
        self.faults: Counter[str] = Counter()
        self.changes = 0
        self.confirmed = 0
        self.recovered = 0
        self.told: Counter[str] = Counter()
        self.came: Counter[str] = Counter()
        self.outside: Counter[str] = Counter()
        self.returns: list[tuple[float, str]] = []
        """Seconds from the end of a fault until every node answered, and which it was."""
        self.descriptors = 0
        """The most that a node had open after an act."""
        self.failures: list[str] = []

    @property
    def ok_share(self) -> float:
        return ok_share(self.outside)


class Play:
    """Plays rounds on a hub that runs."""

    def __init__(
        self, hub: Hub, kind: type[Faults], faults: Sequence[str], folder: Path, seed: int, tell: Tell
    ) -> None:
        """``faults`` are those of the ``kind`` that may happen."""
        self.figures = Figures()
        self._hub = hub
        self._kind = kind
        self._folder = folder
        self._seed = seed
        self._chance = random.Random(seed)
        self._faults = faults
        self._tell = tell
        self._changes = 0  # of the act, when everything was last compared
        self._agents: Agents

    async def rounds(self, count: int) -> None:
        """Play so many rounds. What is found to be wrong is among the figures' failures, and ends its act."""
        self._agents = Agents(self._hub.address, self._hub.token, self._folder, 2)
        try:
            while self.figures.rounds < count:
                before = self.figures.rounds
                try:
                    await self._act(min(ACT, count - before))
                except Exception as error:
                    self.figures.rounds = max(self.figures.rounds, before + 1)  # so that it comes to an end
                    what = f"{type(error).__name__}: {error}"[:LONGEST]
                    text = f"seed {self._seed}, after round {self.figures.rounds}: {what}"
                    self.figures.failures.append(text)
                    self._tell(f"FAILED: {text}")
                    with contextlib.suppress(Exception):
                        await self._leave_nothing(World(self._hub, 0))
        finally:
            self._agents.end()

    async def _act(self, rounds: int) -> None:
        name = f"r{self.figures.rounds}-"
        served = [f"{name}b0", f"{name}b1"]
        written = f"{name}p"
        world = World(
            self._hub, self._chance.randrange(1 << 30), name=name, watched=[*served, written], patience=PATIENCE
        )
        faults = self._kind(self._hub, self._agents, world.tally, self._chance)
        op = await world.client()
        for id in (*served, written):
            await op.ok("context.create", id=id, agent="bot")
        people = People(world, name, served)
        readers = [Reader(world, topic, kind) for topic in ("contexts", "notices") for kind in ("websocket", "msgpack")]
        async with world.load():
            people.start()
            await self._agents.write_into(written)
            try:
                async with watching(world, readers) as check:
                    for n in range(rounds):
                        await self._round(world, people, faults)
                        check()
                        if n == rounds - 1 or self._chance.random() < 0.3:
                            await self._compare(world, people, readers)
                            await self._agents.write_into(written)
            except BaseException:
                with contextlib.suppress(Exception):  # that one is told
                    await self._agents.write_into("")
                raise
            finally:
                await people.stop()
                self._count(world)
            await self._agents.write_into("")
        await self._leave_nothing(world)

    async def _round(self, world: World, people: People, faults: Faults) -> None:
        self.figures.rounds += 1
        what = self._chance.choice(self._faults)
        self.figures.faults[what] += 1
        began = time.monotonic()
        outages = await faults.happen(what)
        lasted, back = time.monotonic() - began, time.monotonic()
        await self._answering(world)
        took = time.monotonic() - back
        for outage in outages:
            outage.ended = time.monotonic()
        self.figures.returns.append((took, what))
        self._tell(f"round {self.figures.rounds}: {what}, {lasted:.1f} s; {took:.1f} s until all nodes answered")
        if took > RETURN:
            self.figures.failures.append(f"round {self.figures.rounds}: {took:.1f} s after {what} until all answered")
        await asyncio.sleep(self._chance.uniform(0.5, 1.5))  # the load goes on for a while before the next
        world.check_writers()
        people.check()

    async def _answering(self, world: World) -> None:
        """Wait until each node takes a write."""

        async def answers(url: str) -> bool:
            client = None
            try:
                client = await world.client(url=url)
                reply, _ = await client.call_in_line(
                    "apply", {"context": world.own, "ops": [{"op": "state.incr", "path": "/probes"}]}, seconds=3
                )
            except LOST:
                return False
            finally:
                if client is not None:
                    await world.part(client)
            return bool(reply["ok"])

        await asyncio.gather(*(until(partial(answers, url), url, 60) for url in self._hub.doors))

    async def _compare(self, world: World, people: People, readers: list[Reader]) -> None:
        """Everything that was answered or shown is there once, and all who look see the same."""
        await self._agents.write_into("")
        await world.rest()
        await people.settle()
        truths = await world.compare()
        for id, truth in truths.items():
            people.check_truth(id, truth)
            there = {entry["id"] for entry in truth["entries"]}
            lost = self._agents.confirmed.get(id, set()) - there
            assert not lost, f"{id}: confirmed to an agent and lost: {sorted(lost)[:5]}"
        await self._same_everywhere(world, truths)
        await self._same_lists(world, people, readers)
        self._changes = sum(truth["seq"] for truth in truths.values())
        world.writing.set()

    async def _same_everywhere(self, world: World, truths: dict[str, dict[str, Any]]) -> None:
        """Each node, and who reads Redis, has the same state at the same position."""
        async with MirrorReader(self._hub.record_url) as reader:
            for id, truth in truths.items():
                mirrored = await reader.get(id)
                assert mirrored is not None, f"MirrorReader does not find {id}"
                for member in ("epoch", "seq", "document", "data"):
                    assert mirrored[member] == truth[member], f"{id}: MirrorReader reads another {member}"
                assert mirrored["log"]["entries"] == truth["entries"], f"{id}: MirrorReader reads another log"
        for url in self._hub.doors:
            client = await world.client(url=url)
            for id, truth in truths.items():
                got = await client.ok("context.get", context=id)
                for member in ("epoch", "seq", "document", "data"):
                    assert got[member] == truth[member], f"{id}: node {url} has another {member}"
            await world.part(client)

    async def _same_lists(self, world: World, people: People, readers: list[Reader]) -> None:
        for url in self._hub.doors:
            client = await world.client(url=url)
            lists = {topic: (await client.ok("subscribe", topic=topic))["rows"] for topic in ("contexts", "notices")}
            await world.part(client)
            for topic, wanted in (("contexts", people.there | set(world.contexts)), ("notices", people.posted)):
                ids = {row["id"] for row in lists[topic]}
                assert ids == wanted, (
                    f"{topic} at {url}: too many {sorted(ids - wanted)}, missing {sorted(wanted - ids)}"
                )
            for reader in readers:
                await reader.converge(lists[reader.topic])

    def _count(self, world: World) -> None:
        figures = self.figures
        figures.came.update(came for _, _, _, came in world.tally.asked)
        figures.outside.update(world.tally.outside())
        figures.recovered += sum(tab.follower.recovered for tab in world.tabs)
        figures.told.update(world.told)
        figures.changes += self._changes
        self._changes = 0
        figures.confirmed = sum(len(entries) for entries in self._agents.confirmed.values())

    async def _leave_nothing(self, world: World) -> None:
        """Everything is taken away again, and nothing of it is left."""
        client = await world.client()
        for row in (await client.ok("contexts.page", filter={"type": "all"}, limit=500))["rows"]:
            await client.ok("context.remove", context=row["id"])
        for row in (await client.ok("subscribe", topic="notices"))["rows"]:
            await client.ok("notice.clear", id=row["id"])
        await world.part(client)
        for url in self._hub.doors:
            await until(partial(idle, url), f"{url} to be idle", 20)
        left: list[str] = []

        async def no_keys() -> bool:
            left[:] = await left_keys(self._hub.record_url)
            return not left

        try:
            await until(no_keys, seconds=10)
        except AssertionError:
            raise AssertionError(f"keys that are left without an expiry: {left[:5]}") from None
        self._check_descriptors()

    def _check_descriptors(self) -> None:
        """Nothing of those who were connected stays open. Each node has its files and its connections to the record."""
        for pid in self._hub.node_pids:
            count = len(list(Path(f"/proc/{pid}/fd").iterdir()))
            self.figures.descriptors = max(self.figures.descriptors, count)
            assert count <= DESCRIPTORS, f"process {pid} has {count} descriptors open"


async def left_keys(url: str) -> list[str]:
    """Keys without an expiry that are not those of agents, or there once."""
    connection = Connection(url)
    found = await lasting_keys(connection)
    await connection.close()
    return [key for key in found if key not in ONCE and not key.startswith("hub:agent:")]


ONCE: Final = (names.BROADCASTS, names.NO)


async def idle(url: str) -> bool:
    """Whether nobody but an agent process is connected to a node."""
    status, body = await health(url)
    return status == 200 and body["contexts"] == 0


@asynccontextmanager
async def watching(world: World, readers: list[Reader]) -> AsyncIterator[Callable[[], None]]:
    """Tabs and readers that come back whenever they lost their connection, and go and come by themselves now and then. Gives
    what raises what one of them met."""

    async def watch(tab: Tab) -> None:
        while True:
            await world.writing.wait()
            world.busy += 1
            try:
                if not tab.there or not tab.subscribed or world.chance.random() < 0.05:
                    await tab.act()
                elif tab.client is not None:
                    tab.follower.read(tab.client)
                    tab.follower.forget(tab.client)
            finally:
                world.busy -= 1
            await asyncio.sleep(0.1)

    async def read(reader: Reader) -> None:
        while True:
            await world.writing.wait()
            await reader.come()
            await asyncio.sleep(0.2)

    tasks = [asyncio.create_task(watch(tab)) for tab in world.tabs]
    tasks += [asyncio.create_task(read(reader)) for reader in readers]

    def check() -> None:
        for task in tasks:
            if task.done():
                task.result()

    try:
        yield check
    finally:
        await end(tasks)
