"""Who else is there while the tabs watch: agent processes, people who send messages, operators, readers of lists."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.clients import Client
from tests.support import ROOT, environment, until
from tests.trials.rounds import LOST, World, end

GONE = ("removed", "not_found")
"""What a removal that is tried again may be answered: the first try did it."""
TELL_SECONDS = 40.0
"""How long an agent process may take to confirm what it began."""


class Agents:
    """Agent processes, each of which may be killed, and what they were told was confirmed."""

    _numbers = itertools.count(1)

    def __init__(self, address: str, token: str, folder: Path, count: int) -> None:
        self._address, self._token, self._folder = address, token, folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._unheard: Counter[subprocess.Popen[bytes]] = Counter()  # what was said and not answered yet
        self._context = ""
        self._files: list[Path] = []
        for _ in range(count):
            self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        name = f"agent{next(self._numbers)}"
        self._files.append(self._folder / f"{name}.confirmed")
        with (self._folder / f"{name}.err").open("wb") as err:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.worker", self._address, self._files[-1], name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=err,
                cwd=ROOT,
                env=environment(HUB_TOKEN=self._token),
            )
        self._processes.append(process)
        if self._context:
            self._say(process, self._context)
        return process

    def kill(self, chance: random.Random) -> None:
        """SIGKILL for one of them; another takes its place."""
        process = self._processes.pop(chance.randrange(len(self._processes)))
        process.kill()
        _reap(process)
        del self._unheard[process]
        self._start()

    async def write_into(self, context: str) -> None:
        """Let all write into a context from now on; "" lets them rest. What they had begun is confirmed first."""
        self._context = context
        for process in self._processes:
            self._say(process, context)
        for process in self._processes:
            async with asyncio.timeout(TELL_SECONDS):
                await asyncio.to_thread(self._hear, process)

    def _say(self, process: subprocess.Popen[bytes], context: str) -> None:
        assert process.stdin is not None
        process.stdin.write(context.encode() + b"\n")
        process.stdin.flush()
        self._unheard[process] += 1

    def _hear(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        while self._unheard[process]:
            assert process.stdout.readline() == b"told\n", f"an agent process ended:\n{self._last_words()}"
            self._unheard[process] -= 1

    def _last_words(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-600:] for path in self._folder.glob("agent*.err"))

    @property
    def confirmed(self) -> dict[str, set[str]]:
        """Entries that were confirmed to them, by context."""
        found: dict[str, set[str]] = {}
        for path in self._files:
            if path.exists():
                for line in path.read_text().splitlines():
                    context, entry = json.loads(line)
                    found.setdefault(context, set()).add(entry)
        return found

    def end(self) -> None:
        """End them in order."""
        for process in self._processes:
            assert process.stdin is not None
            with contextlib.suppress(OSError):
                process.stdin.close()
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
            _reap(process)


def _reap(process: subprocess.Popen[bytes]) -> None:
    process.wait(10)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


class People:
    """Tasks that ask things of a world's hub for as long as it is written to, and what they were answered."""

    def __init__(self, world: World, name: str, served: list[str]) -> None:
        self._world, self._name = world, name
        self.served = served
        """Contexts that agent processes serve."""
        self.sent: dict[str, set[str]] = {id: set() for id in served}
        """Messages that were taken, by context."""
        self.broadcasts: list[str] = []
        """Contents of those that were answered."""
        self.there: set[str] = set()
        """Contexts that were created and not removed."""
        self.posted: set[str] = set()
        """Notices that were posted and not cleared."""
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(work) for work in (self._send(), self._announce(), self._churn())]

    async def stop(self) -> None:
        """Raises what one of them failed with."""
        self.check()
        await end(self._tasks)

    def check(self) -> None:
        """Raise what one of them failed with."""
        for task in self._tasks:
            if task.done():
                task.result()

    async def _insist(self, client: Client, name: str, *done: str, **payload: Any) -> tuple[Client, dict[str, Any]]:
        """A request that must go well in the end; a refusal by one of the codes ``done`` says that it had done so already."""
        self._world.busy += 1
        try:
            client, reply = await self._world.insist(client, name, payload)
        finally:
            self._world.busy -= 1
        assert reply["ok"] or reply["error"]["code"] in done, (name, payload, reply)
        return client, reply

    async def _send(self) -> None:
        """People write to agents."""
        chance, client = random.Random(f"{self._name} send"), await self._world.client()
        for n in itertools.count(1):
            await self._world.writing.wait()
            id = chance.choice(self.served)
            client, reply = await self._insist(client, "message", context=id, text=f"do {n}", key=f"send/{n}")
            self.sent[id].add(reply["id"])
            await asyncio.sleep(chance.uniform(0.1, 0.5))

    async def _announce(self) -> None:
        """An operator broadcasts, posts and clears."""
        chance, client = random.Random(f"{self._name} announce"), await self._world.client("websocket")
        for n in itertools.count(1):
            await self._world.writing.wait()
            content, key = f"{self._name} broadcast {n}", f"{self._name}b/{n}"
            client, _ = await self._insist(client, "broadcast", type="info", content=content, key=key)
            self.broadcasts.append(content)
            id = f"{self._name}n{n % 7}"
            self.posted.add(id)
            client, _ = await self._insist(client, "notice.post", id=id, message=content, key=f"{self._name}n/{n}")
            if chance.random() < 0.3:
                id = chance.choice(sorted(self.posted))
                client, _ = await self._insist(client, "notice.clear", *GONE, id=id, key=f"{self._name}c/{n}")
                self.posted.discard(id)
            await asyncio.sleep(chance.uniform(0.1, 0.5))

    async def _churn(self) -> None:
        """Sessions come and go."""
        chance, client = random.Random(f"{self._name} churn"), await self._world.client()
        for n in itertools.count(1):
            await self._world.writing.wait()
            id = f"{self._name}x{n}"
            client, _ = await self._insist(client, "context.create", id=id, key=f"{id}/1")
            client, _ = await self._insist(
                client, "apply", context=id, ops=[{"op": "state.incr", "path": "/n"}], key=f"{id}/2"
            )
            self.there.add(id)
            if len(self.there) > 5:
                gone = chance.choice(sorted(self.there))
                client, _ = await self._insist(client, "context.remove", *GONE, context=gone, key=f"{gone}/3")
                self.there.discard(gone)
            await asyncio.sleep(chance.uniform(0.1, 0.3))

    async def settle(self) -> None:
        """Wait until every message was worked on. What was left undone by a run that broke off is taken up again."""
        client = await self._world.client()
        for id in self.served:

            async def done(id: str = id) -> bool:
                nonlocal client
                client, got = await self._world.insist(client, "context.get", {"context": id})
                document = got["document"]
                if document["queue"] or document["running"]:
                    return False
                if document["run"] and document["run"]["messages"]:
                    client, _ = await self._world.insist(client, "control", {"context": id, "action": "nudge"})
                    return False
                return True

            await until(done, f"the runs of {id}", 60)
        await self._world.part(client)

    def check_truth(self, id: str, truth: dict[str, Any]) -> None:
        """What was answered is in a context once."""
        entries = truth["entries"]
        contents = [entry["content"] for entry in entries]
        for content in self.broadcasts:
            assert contents.count(content) <= 1, f"{id}: {content!r} is there twice"
        if id in self.served:
            lost = self.sent[id] - {entry["id"] for entry in entries}
            assert not lost, f"{id}: messages that were taken and are lost: {sorted(lost)[:5]}"
            answers = [entry for entry in entries if entry["id"].startswith("agent")]
            assert len(answers) == truth["document"]["state"].get("answers", 0), f"{id}: answers and their count"


class Reader:
    """Somebody who looks at the contexts list or the notices, through all connections."""

    def __init__(self, world: World, topic: str, kind: str) -> None:
        self._world, self.topic, self._kind = world, topic, kind
        self._client: Client | None = None
        self._read = 0
        self._stale = True
        self._rows: dict[str, dict[str, Any] | None] = {}
        self._versions: dict[str, tuple[str, int]] = {}

    async def come(self) -> None:
        """Be connected, and know the set."""
        if self._client is None or self._client.gone:
            if self._client is not None:
                await self._world.part(self._client)
            self._client = await self._world.client(self._kind)
            self._read, self._stale = 0, True
        self._take()
        if self._stale:
            asked_at = len(self._client.events)  # what is told before the reply may be newer than the reply
            try:
                reply, _ = await self._client.call_in_line("subscribe", {"topic": self.topic}, seconds=5)
            except LOST:
                return
            if reply["ok"]:
                self._read, self._stale = asked_at, False
                self._rows, self._versions = {}, {}
                for row in reply["rows"]:
                    self._set(row["id"], row.pop("version"), row)
                self._take()

    def _take(self) -> None:
        assert self._client is not None
        for name, event in self._client.events[self._read :]:
            if name == "hub.lagged" and event["topic"] == self.topic:
                self._stale = True
            elif name == "row" and event["topic"] == self.topic:
                self._set(event["id"], event["version"], event["row"])
        self._read = len(self._client.events)

    def _set(self, id: str, version: str, row: dict[str, Any] | None) -> None:
        epoch, _, seq = version.rpartition(":")
        known = self._versions.get(id)
        if known is not None and known[0] != epoch:
            self._stale = True
        elif known is None or known[1] < int(seq):
            self._versions[id], self._rows[id] = (epoch, int(seq)), row

    async def converge(self, truth: list[dict[str, Any]]) -> None:
        """Come to show what somebody sees who looks anew."""
        wanted = {row["id"]: {name: value for name, value in row.items() if name != "version"} for row in truth}

        async def same() -> bool:
            await self.come()
            return {id: row for id, row in self._rows.items() if row is not None} == wanted

        try:
            await until(same)
        except AssertionError:
            shown = {id: row for id, row in self._rows.items() if row is not None}
            wrong = sorted(id for id in shown.keys() | wanted.keys() if shown.get(id) != wanted.get(id))
            told = (
                [event for name, event in self._client.events if name == "row" and event["id"] in wrong[:1]]
                if self._client
                else []
            )
            raise AssertionError(
                f"a reader of {self.topic} shows something else for {wrong[:5]}: {[shown.get(id) for id in wrong[:2]]}, "
                f"should be {[wanted.get(id) for id in wrong[:2]]}; it was told {told}"
            ) from None
