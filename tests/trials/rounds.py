"""A hub under load, with an agent and many tabs that come and go, and everything that can happen to it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import redis.asyncio as redis
import socketio

import hub as library
from hub import AgentContext
from hub.core.errors import HubError
from hub.record.embedded import socket_url
from tests.agent.test_connect import drop
from tests.clients import Client, Follower, refusal
from tests.support import HubProcess, until, until_done

CONTEXTS: Final = ("c0", "c1", "a")
"""Two that clients write, and one that an agent process writes, too."""
WRITERS: Final = 4
TABS: Final = 20
LOST: Final = (socketio.exceptions.SocketIOError, asyncio.TimeoutError, ConnectionError, AssertionError)
"""What a client meets whose hub went away."""


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
    """One hub with its record, the writers, an agent process's client, and the tabs."""

    def __init__(self, hub: HubProcess, seed: int) -> None:
        self.hub = hub
        self.chance = random.Random(seed)
        self.ledgers = {id: Ledger() for id in CONTEXTS}
        self.tabs: list[Tab] = []
        self.writing = asyncio.Event()
        self.busy = 0
        self.clients: list[Client] = []
        self.writers: list[asyncio.Task[None]] = []
        self.agent: library.Client | None = None
        self.agent_context: AgentContext
        self.told: dict[str, int] = {}
        """Reasons for which tabs had to begin anew, and how often."""

    # who writes

    async def client(self, kind: str = "msgpack") -> Client:
        """A new connection, as soon as the hub is there."""
        client = Client(self.hub.url, self.hub.token, kind)
        self.clients.append(client)
        await until_done(client.connect, *LOST)
        return client

    async def write_forever(self, name: str) -> None:
        """Write entries with keys, and send again what was not answered."""
        chance, client = random.Random(name), await self.client(self.chance.choice(["websocket", "msgpack"]))
        numbers = dict.fromkeys(CONTEXTS, 0)
        while True:
            await self.writing.wait()
            id = chance.choice(CONTEXTS)
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
            try:
                reply, _ = await client.call_in_line("apply", {"context": id, "ops": ops, "key": content})
            except LOST:
                await client.close()
                client = await self.client(client.kind)
                continue
            if reply["ok"]:
                self.ledgers[id].add(content, reply["epoch"])
                return client
            code = reply["error"]["code"]
            if code in ("not_found", "removed"):
                assert not self.ledgers[id].acknowledged, f"context {id} is gone, and no flush took it"
                reply = await client.ask("context.create", id=id)
                assert reply["ok"] or refusal(reply, "exists"), reply
            else:
                assert reply["error"]["retryable"], reply
                await asyncio.sleep(0.05)

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
                self.ledgers["a"].add(f"agent/{n}", ctx.version.partition(":")[0])
            except HubError as error:
                if error.code in ("not_found", "removed", "exists"):
                    assert not self.ledgers["a"].acknowledged, "the agent's context is gone, and no flush took it"
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
                return await self.agent.open("a")
            except HubError as error:
                if error.code == "not_found":
                    with contextlib.suppress(HubError):
                        await self.agent.request("context.create", {"id": "a"})
                await asyncio.sleep(0.05)

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        """Writers, the agent and tabs."""
        op = await self.client()
        for id in CONTEXTS:
            self.ledgers[id].epoch = (await op.ok("context.create", id=id))["epoch"]
        await op.close()
        for n in range(TABS):
            deliver, kind = ("patch", "snapshot")[n % 2], ("websocket", "msgpack")[n // 2 % 2]
            self.tabs.append(Tab(self, CONTEXTS[n % 3], deliver, kind))
        self.writing.set()
        async with library.connect(self.hub.url, token=self.hub.token) as self.agent:
            self.agent_context = await self.agent.open("a")
            self.writers = [asyncio.create_task(self.write_forever(f"w{n}")) for n in range(WRITERS)]
            self.writers.append(asyncio.create_task(self.agent_forever()))
            try:
                yield
            finally:
                for task in self.writers:
                    task.cancel()
                await asyncio.gather(*self.writers, return_exceptions=True)
                for client in self.clients:
                    await client.close()

    # what happens

    def drop_agent(self) -> None:
        assert self.agent is not None
        drop(self.agent)

    async def flush(self) -> None:
        """Everything in the record is gone."""
        server = redis.Redis.from_url(socket_url(self.hub.folder))
        for ledger in self.ledgers.values():
            ledger.flushed()
        await server.flushall()
        await server.aclose()

    async def restart(self, *, kill: bool) -> None:
        await asyncio.to_thread(self.hub.kill if kill else self.hub.stop)
        for ledger in self.ledgers.values():
            ledger.killed()
        await asyncio.to_thread(self.hub.start)

    async def converge(self) -> None:
        """Stop writing; then every tab comes to the end, has the confirmed state, and nothing acknowledged is missing."""
        self.writing.clear()
        await until(lambda: not self.busy or self._failed(), "the answers to all writers", 30)
        self.check_writers()
        op = await self.client()
        for id, ledger in self.ledgers.items():  # so that a context that a flush took is missed
            await self.write(op, id, f"check/{self.chance.random()}", [{"op": "state.incr", "path": "/checks"}])
            ledger.acknowledged = {content for content in ledger.acknowledged if not content.startswith("check")}
        truths = {id: await op.ok("subscribe", topic=f"context:{id}", tail=1000) for id in CONTEXTS}
        for truth in truths.values():
            await page_in(op, truth)
        await asyncio.gather(*(tab.converge(truths[tab.id]) for tab in self.tabs))
        await until(lambda: self.agent_context.document() == truths["a"]["document"], "the agent's own view")
        for id, ledger in self.ledgers.items():
            check_log(truths[id], ledger)
        await op.close()
        self.writing.set()

    def _failed(self) -> bool:
        return any(task.done() for task in self.writers)

    def check_writers(self) -> None:
        """Raise what a writer failed with."""
        for task in self.writers:
            if task.done():
                task.result()


async def page_in(op: Client, truth: dict[str, Any]) -> None:
    """Add the older entries to what a subscription gave."""
    id, log = truth["document"]["id"], truth["log_id"]
    while (entries := truth["entries"]) and entries[0]["no"]:
        page = await op.ok("log.page", context=id, log=log, before=entries[0]["no"], limit=500)
        truth["entries"] = page["entries"][::-1] + entries


def check_log(truth: dict[str, Any], ledger: Ledger) -> None:
    """Every acknowledged entry is there, no entry twice; what belongs together was done together."""
    entries = truth["entries"]
    ids = [entry["id"] for entry in entries]
    twice = sorted({id for id in ids if ids.count(id) > 1})
    assert not twice, f"entries that are there twice: {twice[:5]}"
    assert len(ids) == truth["document"]["log"]["length"], f"{len(ids)} entries of {truth['document']['log']}"
    assert ledger.acknowledged <= set(ids), f"acknowledged and lost: {sorted(ledger.acknowledged - set(ids))[:5]}"
    for name in [*(f"w{n}" for n in range(WRITERS)), "agent"]:
        own = [int(id.partition("/")[2]) for id in ids if id.startswith(f"{name}/")]
        assert own == sorted(own), f"the entries of {name} are out of order"
        counted = truth["document"]["state"].get(name, 0)
        assert counted == len(own), f"{name}: {len(own)} entries, and {counted} counted"
    streamed = [entry for entry in entries if entry["id"].startswith("agent/")]
    for entry in streamed:
        assert entry["content"] == f"{entry['id']} and {entry['id'][6:]}", entry


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
        """Wait until so many more events came, or the connection ended."""
        client, until_then = self.client, self.follower.checker.taken + count
        assert client is not None

        def seen() -> bool:
            self.follower.read(client)
            return self.follower.checker.taken >= until_then or client.gone

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
            await client.close()
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
            at = self.follower.read(self.client).position
            return self.subscribed and at == (truth["epoch"], truth["seq"])

        try:
            await until(arrived)
        except AssertionError as error:
            at, checker = self.follower.state.position, self.follower.checker
            raise AssertionError(f"{self.id} {checker.deliver} {self.kind} stays at {at}: {error}") from error
        self.follower.checker.compare(truth)
