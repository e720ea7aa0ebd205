"""Agents that stream into many sessions, while they and their hub are killed in turn."""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.clients import Client
from tests.support import HubProcess, until
from tests.trials.handled import Runs, RunsChecker, stories
from tests.trials.rounds import Tab, World, page_in
from tests.trials.streaming_agent import AGENT, StreamingAgents

SESSIONS: Final = 200
FOLLOWED: Final = 20
"""Sessions that have viewers, one in either mode."""
KILLS: Final = 9
TOKENS: Final = (150, 300)
"""That a message asks for: some seconds of streaming."""
WAITING: Final = 2
"""Messages of a session that are not answered yet: one is worked on, the next waits."""
PEOPLE: Final = 4
GRACE: Final = "1"
"""Seconds that a worker may be away: when the hub was killed some come back in time and go on, others have lost their runs."""
SETTLE: Final = 60.0
"""Seconds within which everything is answered once nothing is killed any more; far more than it takes. If it is not, the
sessions tell what is missing."""
REST: Final = 5.0
"""Seconds from the last answer to the end of its run, at most."""


class Crowd:
    """People who write to agents as long as they are to, and viewers who come back whenever they lost their connection."""

    def __init__(self, world: World, agents: StreamingAgents) -> None:
        self.sent: dict[str, dict[str, int]] = {f"s{n}": {} for n in range(SESSIONS)}
        """Messages that were taken, by session in their order, and how many tokens each asked for."""
        self._unanswered: dict[str, set[str]] = {id: set() for id in self.sent}
        self._answered: set[str] = set()
        self._world, self._agents = world, agents
        self._numbers = itertools.count(1)
        self._writing = self._looking = True
        self._people: list[asyncio.Task[None]] = []
        self._onlookers: list[asyncio.Task[None]] = []
        self._checkers: dict[str, RunsChecker] = {}

    async def come(self) -> None:
        """Create the sessions, begin to look on and to write."""
        op = await self._world.client()
        for id in self.sent:
            await op.ok("context.create", id=id, agent=AGENT)
        await self._world.part(op)
        ids = list(self.sent)
        for n, id in enumerate(ids[:FOLLOWED]):
            for deliver in ("patch", "snapshot"):
                self._world.tabs.append(Tab(self._world, id, deliver, ("websocket", "msgpack")[n % 2]))
            self._checkers[id] = self._world.tabs[-2].follower.checker = RunsChecker(id)
        self._onlookers = [asyncio.create_task(self._look(tab)) for tab in self._world.tabs]
        self._onlookers.append(asyncio.create_task(self._look_at_notes()))
        self._people = [asyncio.create_task(self._write(ids[n::PEOPLE])) for n in range(PEOPLE)]

    def check(self) -> None:
        """Raise what one of them failed with."""
        for task in (*self._people, *self._onlookers):
            if task.done():
                task.result()

    async def settle(self) -> None:
        """Write no more, and wait until everything is answered."""
        self._writing = False
        await asyncio.gather(*self._people)
        with suppress(AssertionError):
            await until(self._all_answered, seconds=SETTLE)

    async def truths(self) -> dict[str, dict[str, Any]]:
        """Each session at its end, with its whole log. Viewers have just that."""
        self._looking = False
        await asyncio.gather(*self._onlookers)
        op = await self._world.client()
        with suppress(AssertionError):
            await until(partial(self._all_rest, op), seconds=REST)
        truths = {}
        for id in self.sent:
            truths[id] = await op.ok("subscribe", topic=f"context:{id}", tail=1000)
            await page_in(op, truths[id])
        for tab in self._world.tabs:
            await tab.converge(truths[tab.id])
        for client in list(self._world.clients):
            await self._world.part(client)
        return truths

    @property
    def runs(self) -> dict[str, Runs]:
        """By session, where somebody saw every change."""
        return {id: checker.runs for id, checker in self._checkers.items() if not checker.restarted}

    # what they do

    async def _write(self, sessions: list[str]) -> None:
        """The next message as soon as the one before the last was answered, so that agents always have something to do."""
        client = await self._world.client()
        while self._writing:
            for id in sessions:
                if len(self._unanswered[id]) < WAITING:
                    client = await self._send(client, id)
            await asyncio.sleep(0.05)

    async def _send(self, client: Client, id: str) -> Client:
        count = self._world.chance.randint(*TOKENS)
        asked = {"context": id, "text": str(count), "key": f"message/{next(self._numbers)}"}
        client, reply = await self._world.insist(client, "message", asked)
        assert reply["ok"], reply
        self.sent[id][reply["id"]] = count
        if reply["id"] not in self._answered:
            self._unanswered[id].add(reply["id"])
        return client

    async def _look_at_notes(self) -> None:
        while self._looking:
            for note in self._agents.read():
                if note.what in ("finished", "found"):
                    self._answered.add(note.message)
                    self._unanswered[note.context].discard(note.message)
            await asyncio.sleep(0.1)

    async def _look(self, tab: Tab) -> None:
        while self._looking:
            if not tab.there or not tab.subscribed:
                await tab.come()
            elif tab.client is not None:
                tab.follower.read(tab.client)
                tab.follower.forget(tab.client)
            await asyncio.sleep(0.1)

    def _all_answered(self) -> bool:
        self.check()
        return not any(self._unanswered.values())

    async def _all_rest(self, op: Client) -> bool:
        for id in self.sent:
            document = (await op.ok("context.get", context=id))["document"]
            if document["queue"] or document["running"]:
                return False
        return True


async def kill_in_turn(hub: HubProcess, agents: StreamingAgents, crowd: Crowd, chance: random.Random) -> None:
    """SIGKILL of an agent process, of the other, of the hub, and so on; each starts again after a moment."""
    for n in range(KILLS):
        await asyncio.sleep(chance.uniform(1.5, 3.5))  # the load goes on until it happens
        crowd.check()
        pause = chance.choice((0.0, 0.3, 1.0))
        if n % 3 < 2:
            agents.kill(n % 3)
            await asyncio.sleep(pause)
            agents.start(n % 3)
        else:
            hub.kill()
            await asyncio.sleep(pause)
            await asyncio.to_thread(hub.start)


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", [1])
async def test_agents_and_hub_are_killed_in_turn(tmp_path: Path, seed: int) -> None:
    """2 agent processes, 200 sessions, 50 tokens a second each: every message is handled at least once and finished once, no
    entry is out of order, no token that was answered is lost, every run ends."""
    with (
        HubProcess(tmp_path, HUB_RUN_GRACE=GRACE) as hub,
        StreamingAgents(hub.url, hub.token, tmp_path, 2) as agents,
    ):
        world = World(hub, seed)
        crowd = Crowd(world, agents)
        await crowd.come()
        began = time.monotonic()
        await kill_in_turn(hub, agents, crowd, random.Random(seed))
        killed = time.monotonic()
        await crowd.settle()
        settled = time.monotonic()
        truths = await crowd.truths()
        agents.read()

        faults = [fault for story in stories(crowd.sent, agents.notes, truths, crowd.runs) for fault in story.faults()]
        assert not faults, "\n".join([f"{len(faults)} faults:", *faults[:20], agents.last_words()])
        # That it means something: runs were broken off, and viewers saw all that came of it.
        messages = sum(map(len, crowd.sent.values()))
        tokens = sum(sum(counts.values()) for counts in crowd.sent.values())
        attempts = sum(note.what == "begun" for note in agents.notes)
        found = sum(note.what == "found" for note in agents.notes)
        recovered = sum(tab.follower.recovered for tab in world.tabs)
        assert messages >= 2 * SESSIONS
        assert attempts > messages + SESSIONS
        assert found < messages / 10, "what was finished is begun again only if its run was broken off right then"
        assert recovered >= 2 * FOLLOWED
        assert world.told.keys() <= {"too_far_behind"}, "the record lost nothing"
        print(  # noqa: T201
            f"seed {seed}, {KILLS} kills: {messages:,} messages, {attempts:,} attempts at them, {tokens:,} tokens in "
            f"{settled - began:.0f} s, the last {settled - killed:.0f} s without kills: {tokens / (settled - began):,.0f} a "
            f"second, {statistics.median(agents.rates()):.1f} in a run; viewers went on where they were {recovered} times"
        )
