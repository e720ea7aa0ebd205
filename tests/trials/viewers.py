"""Viewers of contexts at each of several nodes, in either mode; what each was sent is checked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from tests.clients import Client, Follower
from tests.support import until
from tests.trials.nodes import Nodes


class Viewers:
    """One viewer of each context at each node in each mode, and an operator at each node: ``ops``."""

    def __init__(self, nodes: Nodes, stack: AsyncExitStack) -> None:
        self.ops: list[Client] = []
        self.all: list[tuple[Client, Follower]] = []
        self._nodes = nodes
        self._stack = stack

    async def join(self, *contexts: str) -> Viewers:
        """Connect; contexts that are not there are created."""
        self.ops = [await self.client(n) for n in range(len(self._nodes.all))]
        for id in contexts:
            reply = await self.ops[0].ask("context.create", id=id, agent="bot")
            assert reply["ok"] or reply["error"]["code"] == "exists", reply
            for n in range(len(self._nodes.all)):
                for deliver, kind in (("patch", "websocket"), ("snapshot", "msgpack")):
                    client, follower = await self.client(n, kind), Follower(id, deliver)
                    await follower.subscribe(client)
                    self.all.append((client, follower))
        return self

    async def client(self, node: int, kind: str = "msgpack") -> Client:
        """Another operator at a node."""
        client = Client(self._nodes.all[node].url, self._nodes.token, kind)
        self._stack.push_async_callback(client.close)
        return await client.connect()

    async def truth(self, id: str) -> dict[str, Any]:
        """The state of a context, which is the same at all nodes once they have heard of the same changes."""

        async def same() -> list[dict[str, Any]] | None:
            got = [await op.ok("subscribe", topic=f"context:{id}", tail=1000) for op in self.ops]
            for reply in got[1:]:
                if any(reply[name] != got[0][name] for name in ("epoch", "seq", "document", "entries", "data")):
                    return None
            return got

        found: list[dict[str, Any]] = await until(same, f"the same state of {id} at all nodes")
        return found[0]

    async def converge(self, seconds: float = 20.0) -> float:
        """Wait until everybody has the confirmed state, which is then proved. Gives the seconds that this took."""
        began = time.monotonic()
        truths = {
            id: await self.truth(id) for id in {follower.checker.state.document["id"] for _, follower in self.all}
        }

        def arrived(client: Client, follower: Follower) -> bool:
            state, truth = follower.read(client), truths[follower.state.document["id"]]
            return state.position == (truth["epoch"], truth["seq"]) and state.document == truth["document"]

        for client, follower in self.all:
            await client.until(lambda: arrived(client, follower), seconds)  # noqa: B023 - waited for right here
            follower.checker.compare(truths[follower.state.document["id"]])
        return time.monotonic() - began


async def write(client: Client, id: str, name: str, numbers: Sequence[int], answered: set[str]) -> None:
    """Entries with keys, each asked for until it is answered, and counted in the state. Very patient."""
    for n in numbers:
        content = f"{name}/{n}"
        ops = [
            {"op": "log.add", "type": "info", "id": content, "content": content},
            {"op": "state.incr", "path": f"/{name}"},
        ]
        request = {"context": id, "ops": ops, "key": content}
        while not (reply := await client.call("apply", request, seconds=60))["ok"]:
            assert reply["error"]["retryable"], reply
            await asyncio.sleep(0.05)
        answered.add(content)


def check_entries(truth: dict[str, Any], answered: set[str]) -> None:
    """Each answered entry is there, each is there once, and the counts are right. For up to a thousand entries."""
    ids = [entry["id"] for entry in truth["entries"]]
    assert len(ids) == len(set(ids)) == truth["document"]["log"]["length"]
    assert answered <= set(ids), f"answered and lost: {sorted(answered - set(ids))[:5]}"
    for name, count in truth["document"]["state"].items():
        assert len([id for id in ids if id.startswith(f"{name}/")]) == count, name
