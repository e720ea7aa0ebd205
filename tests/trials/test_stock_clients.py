"""Stock clients on both endpoints, over each transport: all of a connection's life, by one table."""

from __future__ import annotations

import asyncio

import pytest

from hub.core.requests import Role
from tests.clients import Client, Follower, People, refusal
from tests.support import until
from tests.trials.stock import ENDPOINTS, STOCK, TRANSPORTS, Cable, NodeStock, Stock, ThreadStock, stock

TABLE = [
    pytest.param(kind, endpoint, transport, id=f"{kind}-{endpoint}-{transport}")
    for kind in STOCK
    for endpoint in ENDPOINTS
    for transport in TRANSPORTS
]
CHANGES = 20


def seqs(client: Stock, context: str) -> list[int]:
    return [event["seq"] for event in client.of("snapshot") if event["topic"] == f"context:{context}"]


async def write(op: Client, context: str) -> None:
    """Changes that are about the document, and others about the log."""
    for n in range(CHANGES // 2):
        await op.ok("apply", context=context, ops=[{"op": "state.merge", "value": {"n": n, "text": "ä😀" * n}}])
        await op.ok("apply", context=context, ops=[{"op": "log.append", "id": "e", "text": f"{n} é😀 "}])


@pytest.mark.parametrize(("kind", "endpoint", "transport"), TABLE)
async def test_a_life(people: People, kind: str, endpoint: str, transport: str) -> None:
    """Connect, ask, follow in both modes, lose the connection, come back, resume, serve as an agent, leave."""
    op = await people.operator()
    for context in ("patches", "snapshots"):
        await op.ok("context.create", id=context, agent="nobody")
        await op.ok("apply", context=context, ops=[{"op": "log.add", "type": "agent", "id": "e"}])
    token = people.token("helper", Role.OPERATOR)
    async with Cable(people.server.port) as cable, stock(kind) as client:
        await client.open(cable.url, token, endpoint, transport)
        hello = await client.next("hello")
        assert (hello["role"], hello["sub"], hello["protocol"]) == ("operator", "helper", "1.0")

        follower = Follower("patches")
        await follower.subscribe(client)
        first = await client.ok("subscribe", topic="context:snapshots")
        await asyncio.gather(write(op, "patches"), write(op, "snapshots"), say(client))
        await caught_up(op, client, follower)
        # Every mutation is one snapshot but for appends to the log, which come as such.
        at = (await op.ok("context.get", context="snapshots"))["seq"]
        await client.until(lambda: at in seqs(client, "snapshots") or log_seqs(client)[-1] == at)
        assert sorted({*seqs(client, "snapshots"), *log_seqs(client)}) == list(range(first["seq"] + 1, at + 1))
        if not isinstance(client, ThreadStock):
            assert seqs(client, "snapshots") == sorted(seqs(client, "snapshots"))

        if transport == "upgrading":
            await until(lambda: is_websocket(client), "the upgrade")
        else:
            assert await client.transport() == transport
        lost = len(client.of("connect"))
        cable.cut()
        await client.next("disconnect", seconds=30)
        await write(op, "patches")
        cable.mend()
        await client.until(lambda: len(client.of("connect")) > lost, seconds=30)
        reply = await follower.subscribe(client)
        assert reply["recovered"], reply
        await caught_up(op, client, follower)

        await client.ok("agent.serve", agent="stocked")
        await op.ok("context.create", id="task", agent="stocked")
        await op.ok("message", context="task", text="to do")
        run = await client.next("run.start", lambda run: run["context"] == "task")
        await client.ok("apply", context="task", run=run["run"], ops=[{"op": "run.set", "status": "finished"}])
        await refused_values(client)
        before = people.server.sockets.count
        await client.close()
        await until(lambda: people.server.sockets.count == before - 1, "the end of the connection")


async def say(client: Stock) -> None:
    """Messages, each when the one before is answered."""
    for n in range(CHANGES):
        reply = await client.ok("message", context="patches", text=f"message {n} ä😀", key=f"stock/{n}")
        assert reply["id"]


async def caught_up(op: Client, client: Stock, follower: Follower) -> None:
    """The reader shows what the hub has, and got there without a gap, a change twice or a step back."""
    expected = await op.ok("context.get", context="patches")
    missed = set(range(follower.state.position.seq + 1, expected["seq"] + 1))
    await client.until(lambda: missed <= {change["seq"] for change in client.of("change")})
    assert follower.read(client).document == expected["document"]
    texts = [item["text"] for item in expected["document"]["queue"]]
    assert texts == [f"message {n} ä😀" for n in range(CHANGES)]


def log_seqs(client: Stock) -> list[int]:
    return [event["seq"] for event in client.of("log")]


async def is_websocket(client: Stock) -> bool:
    return await client.transport() == "websocket"


async def refused_values(client: Stock) -> None:
    """Trial D10, P3: binary values, wrong arguments and unknown names are told as such, and the connection lives."""
    if isinstance(client, NodeStock):
        for value in ("new Uint8Array([1, 2])", "Buffer.from('x')", "new Uint8Array([1]).buffer"):
            args = f"[{{context: 'task', ops: [{{op: 'state.merge', value: {{a: {value}}}}}]}}]"
            reply = await client.evaluate("apply", args)
            assert reply["error"]["code"] in ("invalid_value", "invalid_request"), reply
    else:
        ops = [{"op": "state.merge", "value": {"a": b"\x01\x02"}}]
        reply = await client.ask("apply", context="task", ops=ops)
        assert reply["error"]["code"] in ("invalid_value", "invalid_request"), reply
    refusal(await client.call("contexts.page", ({}, {})), "invalid_request")
    await client.refused("no.such.request", "unknown_request")
    state = (await client.ok("context.get", context="task"))["document"]["state"]
    assert state == {}


@pytest.mark.parametrize(("kind", "endpoint", "transport"), TABLE)
async def test_a_bad_token(people: People, kind: str, endpoint: str, transport: str) -> None:
    """CONNECT_ERROR with the reason; a stock client does not try again."""
    async with stock(kind) as client:
        await client.open(people.server.url, "bad", endpoint, transport)
        [refused] = client.of("connect_error")
        assert refused["data"]["code"] == 4500
        assert refused["data"]["reconnect"] is False
        assert refused["message"]
        assert refused.get("active", False) is False
        assert not client.of("connect", "hello")
        assert people.server.sockets.count == 0
