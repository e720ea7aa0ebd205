"""A hub under load, with an agent and many tabs that come and go, and everything that can happen to it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

import socketio

import hub as library
from hub import AgentContext
from hub.core.errors import HubError
from tests.agent.test_connect import drop
from tests.clients import Client, Follower, Talk, refusal
from tests.support import SECONDS, until, until_done
from tests.trials.tally import CUT, Tally

WRITERS: Final = 4
TABS: Final = 20
SEE: Final = 1.0
"""Seconds for which a tab looks on at most before it does something else."""
LOST: Final = (socketio.exceptions.SocketIOError, asyncio.TimeoutError, ConnectionError, AssertionError)
"""What a client meets whose hub went away."""


class Place(Protocol):
    """Where clients go: one hub, or several nodes of one."""

    @property
    def url(self) -> str:
        """For the next connection."""

    @property
    def address(self) -> str:
        """For clients that come back to where they were."""

    @property
    def token(self) -> str:
        """The operator's."""


class Ledger:
    """What was acknowledged to writers of one context, and which epoch they heard of."""

    def __init__(self) -> None:
        self.acknowledged: set[str] = set()
        self.epoch = ""
        self.lost_in: str | None = None
        """The epoch that a flush took, until the hub has written the context anew: it is only in the hub's memory."""

    def add(self, content: str, epoch: str) -> None:
        self.acknowledged.add(content)
        self.epoch = epoch
        if self.lost_in != epoch:
            self.lost_in = None

    def flushed(self) -> None:
        self.lost_in = self.epoch

    def killed(self) -> None:
        """What only memory had is gone."""
        if self.lost_in is not None:
            self.acknowledged.clear()


class World:
    """A hub, the writers, an agent process's client, and the tabs.

    Contexts: two that clients write, ``c0`` and ``c1``, one that an agent process writes too, ``a``, and what else the tabs
    look at. ``name`` goes before their ids, so that there can be one world after another. A writer gives up a connection
    that gives no answer for ``patience`` seconds.
    """

    def __init__(
        self, hub: Place, seed: int, *, name: str = "", watched: Sequence[str] = (), patience: float = SECONDS
    ) -> None:
        self.hub = hub
        self.chance = random.Random(seed)
        self.own = f"{name}a"
        """The agent's context."""
        self.ledgers = {id: Ledger() for id in (f"{name}c0", f"{name}c1", self.own)}
        self.contexts = [*self.ledgers, *watched]
        self.tabs: list[Tab] = []
        self.tally = Tally()
        self.patience = patience
        self.writing = asyncio.Event()
        self.busy = 0
        self.clients: list[Client] = []
        self.writers: list[asyncio.Task[None]] = []
        self.agent: library.Client | None = None
        self.agent_context: AgentContext
        self.told: dict[str, int] = {}
        """Reasons for which tabs had to begin anew, and how often."""

    # who writes

    async def client(self, kind: str = "msgpack", url: str | None = None) -> Client:
        """A new connection, as soon as the hub is there; ``url``: to that node."""

        async def connect() -> Client:
            client = Client(url or self.hub.url, self.hub.token, kind)
            try:
                async with asyncio.timeout(self.patience):
                    await client.connect()
            except BaseException:
                await client.close()
                raise
            return client

        client: Client = await until_done(connect, *LOST, seconds=2 * SECONDS)
        self.clients.append(client)
        return client

    async def part(self, client: Client) -> None:
        """Let go of a connection, whether or not the other side still listens."""
        if not client.gone:
            client.drop()
        await client.close()
        self.clients.remove(client)

    async def ask(self, client: Client, name: str, payload: dict[str, Any]) -> dict[str, Any]:
        """A request's answer, which is counted. Raises one of LOST if there is none."""
        began = time.monotonic()
        try:
            reply, _ = await client.call_in_line(name, payload, seconds=self.patience)
        except LOST:
            self.tally.add(client.url, began, CUT)
            raise
        self.tally.add(client.url, began, "ok" if reply["ok"] else reply["error"]["code"])
        return reply

    async def insist(self, client: Client, name: str, payload: dict[str, Any]) -> tuple[Client, dict[str, Any]]:
        """Ask until there is an answer that stays. Gives it and the client, another one if the connection was lost."""
        while True:
            try:
                reply = await self.ask(client, name, payload)
            except LOST:
                await self.part(client)
                client = await self.client(client.kind)
                continue
            if reply["ok"] or not reply["error"]["retryable"]:
                return client, reply
            await asyncio.sleep(0.05)

    async def write_forever(self, name: str) -> None:
        """Write entries with keys, and send again what was not answered."""
        chance, client = random.Random(name), await self.client(self.chance.choice(["websocket", "msgpack"]))
        numbers = dict.fromkeys(self.ledgers, 0)
        while True:
            await self.writing.wait()
            id = chance.choice(list(self.ledgers))
            numbers[id] += 1
            content = f"{name}/{numbers[id]}"
            ops: list[dict[str, Any]] = [
                {"op": "log.add", "type": "info", "id": content, "content": content},
                {"op": "state.incr", "path": f"/{name}"},
                chance.choice(
                    [
                        {"op": "log.append", "id": content, "text": chance.choice("aé😀") * chance.randrange(1, 60)},
                        {"op": "data.set", "key": f"k{name}", "value": chance.random()},
                        {"op": "state.merge", "value": {"pad": "x" * chance.randrange(200)}},
                    ]
                ),
            ]
            self.busy += 1
            try:
                client = await self.write(client, id, content, ops)
            finally:
                self.busy -= 1
            await asyncio.sleep(0.005)  # not as fast as it goes: all share two processors

    async def write(self, client: Client, id: str, content: str, ops: list[dict[str, Any]]) -> Client:
        """One batch, until it is acknowledged. Returns the client, another one after a restart."""
        while True:
            client, reply = await self.insist(client, "apply", {"context": id, "ops": ops, "key": content})
            if reply["ok"]:
                self.ledgers[id].add(content, reply["epoch"])
                return client
            assert reply["error"]["code"] in ("not_found", "removed"), reply
            assert not self.ledgers[id].acknowledged, f"context {id} is gone, and no flush took it"
            reply = await client.ask("context.create", id=id)
            assert reply["ok"] or refusal(reply, "exists"), reply

    async def agent_forever(self) -> None:
        """What an agent process does in its context: a stream, entries, state; each flush confirms them."""
        assert self.agent is not None
        n = 0
        while True:
            await self.writing.wait()
            self.busy += 1
            n += 1
            try:
                ctx = self.agent_context
                with ctx.batch():
                    ctx.log.log("info", id=f"agent/{n}", content=f"agent/{n}").stream(content=f" and {n}")
                    ctx.state.incr("agent")
                await ctx.flush()
                self.ledgers[self.own].add(f"agent/{n}", ctx.version.partition(":")[0])
            except HubError as error:
                if error.code in ("not_found", "removed", "exists"):
                    assert not self.ledgers[self.own].acknowledged, "the agent's context is gone, and no flush took it"
                elif not error.retryable:
                    raise
                self.agent_context = await self._open()
            finally:
                self.busy -= 1
            await asyncio.sleep(0.02)

    async def _open(self) -> AgentContext:
        assert self.agent is not None
        while True:
            try:
                return await self.agent.open(self.own)
            except HubError as error:
                if error.code == "not_found":
                    with contextlib.suppress(HubError):
                        await self.agent.request("context.create", {"id": self.own})
                await asyncio.sleep(0.05)

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        """Writers, the agent and tabs."""
        op = await self.client()
        for id, ledger in self.ledgers.items():
            ledger.epoch = (await op.ok("context.create", id=id))["epoch"]
        await self.part(op)
        for n in range(TABS):
            deliver, kind = ("patch", "snapshot")[n % 2], ("websocket", "msgpack")[n // 2 % 2]
            self.tabs.append(Tab(self, self.contexts[n % len(self.contexts)], deliver, kind))
        self.writing.set()
        async with library.connect(self.hub.address, token=self.hub.token) as self.agent:
            self.agent_context = await self.agent.open(self.own)
            self.writers = [asyncio.create_task(self.write_forever(f"w{n}")) for n in range(WRITERS)]
            self.writers.append(asyncio.create_task(self.agent_forever()))
            try:
                yield
            finally:
                await end(self.writers)
                for client in list(self.clients):
                    await self.part(client)

    # what happens

    def drop_agent(self) -> None:
        assert self.agent is not None
        drop(self.agent)

    async def converge(self) -> None:
        """Stop writing, compare, and go on."""
        await self.rest()
        await self.compare()
        self.writing.set()

    async def rest(self) -> None:
        """Stop writing; everything has its answer then."""
        self.writing.clear()
        await until(lambda: not self.busy or self._failed(), "the answers to all writers", 30)
        self.check_writers()

    async def compare(self) -> dict[str, dict[str, Any]]:
        """Every tab comes to the end and has the confirmed state; nothing acknowledged or shown is missing, or there twice.
        Gives what somebody who subscribes anew gets of each context, with the whole log."""
        op = await self.client()
        for id, ledger in self.ledgers.items():  # so that a context that a flush took is missed
            await self.write(op, id, f"check/{self.chance.random()}", [{"op": "state.incr", "path": "/checks"}])
            ledger.acknowledged = {content for content in ledger.acknowledged if not content.startswith("check")}
        truths = {id: await op.ok("subscribe", topic=f"context:{id}", tail=1000) for id in self.contexts}
        for truth in truths.values():
            await page_in(op, truth)
        await asyncio.gather(*(tab.converge(truths[tab.id]) for tab in self.tabs))
        await until(lambda: self.agent_context.document() == truths[self.own]["document"], "the agent's own view")
        for id, truth in truths.items():
            check_log(truth)
            if id in self.ledgers:
                check_written(truth, self.ledgers[id])
        await self.part(op)
        return truths

    def _failed(self) -> bool:
        return any(task.done() for task in self.writers)

    def check_writers(self) -> None:
        """Raise what a writer failed with."""
        for task in self.writers:
            if task.done():
                task.result()


async def end(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks until they have ended: the clients' library swallows a cancellation now and then."""

    def ended() -> bool:
        going_on = [task for task in tasks if not task.done()]
        for task in going_on:
            task.cancel()
        return not going_on

    await until(ended, "tasks to end")


async def page_in(op: Talk, truth: dict[str, Any]) -> None:
    """Add the older entries to what a subscription gave."""
    id, log = truth["document"]["id"], truth["log_id"]
    while (entries := truth["entries"]) and entries[0]["no"]:
        page = await op.ok("log.page", context=id, log=log, before=entries[0]["no"], limit=500)
        truth["entries"] = page["entries"][::-1] + entries


def check_log(truth: dict[str, Any]) -> None:
    """The log is whole, and no entry is there twice."""
    ids = [entry["id"] for entry in truth["entries"]]
    twice = sorted({id for id in ids if ids.count(id) > 1})
    assert not twice, f"entries that are there twice: {twice[:5]}"
    assert len(ids) == truth["document"]["log"]["length"], f"{len(ids)} entries of {truth['document']['log']}"


def check_written(truth: dict[str, Any], ledger: Ledger) -> None:
    """Every acknowledged entry is there, each writer's in order; what belongs together was done together."""
    ids = [entry["id"] for entry in truth["entries"]]
    assert ledger.acknowledged <= set(ids), f"acknowledged and lost: {sorted(ledger.acknowledged - set(ids))[:5]}"
    numbers: dict[str, list[int]] = defaultdict(list)
    for id in ids:
        name, _, number = id.partition("/")
        if number:
            numbers[name].append(int(number))
    state = truth["document"]["state"]
    for name, own in numbers.items():
        assert own == sorted(own), f"the entries of {name} are out of order"
        assert state.get(name) == len(own), f"{name}: {len(own)} entries, and {state.get(name)} counted"
    for entry in truth["entries"]:
        if entry["id"].startswith("agent"):
            assert entry["content"] == f"{entry['id']} and {entry['id'].partition('/')[2]}", entry


class Tab:
    """A subscriber of one context, through all its connections."""

    def __init__(self, world: World, id: str, deliver: str, kind: str) -> None:
        self.world, self.id, self.kind = world, id, kind
        self.follower = Follower(id, deliver)
        self.client: Client | None = None
        self.subscribed = False

    @property
    def there(self) -> bool:
        """Whether it is connected, as far as it knows."""
        return self.client is not None and not self.client.gone

    async def come(self, *, resume: bool = True) -> None:
        """Be connected and subscribed; while the context is not there, only connected."""
        if not self.there:
            await self.away()
            self.client = await self.world.client(self.kind)
        assert self.client is not None
        try:
            reply = await self.follower.try_to_subscribe(self.client, resume=resume)
        except LOST as error:
            if isinstance(error, AssertionError) and self.there:
                raise
            return
        self.subscribed = reply["ok"]
        if reply["ok"] and "reason" in reply:
            self.world.told[reply["reason"]] = self.world.told.get(reply["reason"], 0) + 1
        assert reply["ok"] or reply["error"]["code"] in ("not_found", "unavailable"), reply

    async def see(self, count: int) -> None:
        """Look on until so many more events came, or the connection ended."""
        client, until_then = self.client, self.follower.checker.taken + count
        assert client is not None

        def seen() -> bool:
            self.follower.read(client)
            return self.follower.checker.taken >= until_then or client.gone

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SEE):
                await client.until(seen)

    async def leave(self) -> None:
        """Unsubscribe, and stay connected."""
        if self.there and self.client is not None:
            with contextlib.suppress(*LOST):
                await self.client.call_in_line("unsubscribe", {"topic": self.follower.checker.topic})
                self.follower.read(self.client)
                self.follower.checker.left()
        self.subscribed = False

    async def away(self, *, drop: bool = False) -> None:
        """Lose the connection, or close it. What came until then was seen."""
        client, self.client = self.client, None
        self.subscribed = False
        if client is not None:
            if drop and not client.gone:
                client.drop()
            await self.world.part(client)
            self.follower.read(client)

    async def act(self) -> None:
        """Something that a person, a phone or a network does."""
        chance = self.world.chance
        if self.client is not None:
            self.follower.read(self.client)
        if not self.there or not self.subscribed:
            await self.come(resume=chance.random() < 0.95)
            return
        await self.see(chance.choice((0, 0, 0, 1, 3, 10, 30)))
        match chance.choices(("drop", "close", "again", "anew", "leave", "quickly"), (4, 2, 2, 1, 2, 4))[0]:
            case "drop":
                await self.away(drop=True)
            case "close":
                await self.away()
            case "again":
                await self.come()
            case "anew":
                await self.come(resume=False)
            case "leave":
                await self.leave()
            case "quickly":  # away and there again, twice
                for _ in range(2):
                    await self.away(drop=True)
                    await self.come()

    async def converge(self, truth: dict[str, Any]) -> None:
        """Come to the end, and compare."""

        async def arrived() -> bool:
            if not self.there or not self.subscribed:
                await self.come()
            if self.client is None:
                return False
            state = self.follower.read(self.client)
            if not self.subscribed or state.position != (truth["epoch"], truth["seq"]):
                return False
            # The log parts of a change come before the snapshot that has its position, too.
            return checker.deliver == "patch" or state.document == truth["document"]

        checker = self.follower.checker
        try:
            await until(arrived)
        except AssertionError as error:
            if checker.position == (truth["epoch"], truth["seq"]):
                checker.compare(truth)
            raise AssertionError(f"{self.id} {checker.deliver} {self.kind} stays at {checker.position}") from error
        checker.compare(truth)
        lost = checker.shown - {entry["id"] for entry in truth["entries"]}
        assert not lost, f"{self.id}: shown and lost: {sorted(lost)[:5]}"
