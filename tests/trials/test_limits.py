"""Limits: whoever is beyond one gets a typed error, or is ended with a code; nobody else notices."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hub.agent.connection import Connection
from hub.node.settings import Settings
from hub.server import sockets
from tests.clients import People, refusal, serving
from tests.raw import Raw, enter, raw
from tests.support import ROOT, HubProcess, environment, until
from tests.trials.load import loaded, p99
from tests.trials.stock import ENDPOINTS, STOCK, Cable, stock

LIMIT = 1_048_576
FRAME = 512_000


# requests and connections a second


async def told_to_wait(client: Raw, id: int) -> dict[str, Any]:
    """The error of a request that was refused for the connection's rate."""
    error = refusal(await client.acknowledgement(id), "rate_limited")
    assert error["retryable"]
    assert error["details"]["retry_after_ms"] > 0
    return error


async def test_who_asks_too_much_is_told_when_to_ask_again(tmp_path: Path) -> None:
    settings = Settings(requests_per_second=100, rate_burst=0.2)
    async with serving(tmp_path / "hub", settings=settings) as people, raw(people.server.url) as client:
        other = await people.operator()
        await client.send(enter(people.server.token))
        for id in range(60):
            await client.event(id, "contexts.page", {})
        replies = [await client.acknowledgement(id) for id in range(60)]
        taken = [reply["ok"] for reply in replies].index(False)
        assert 20 <= taken < 40
        refused = [refusal(reply, "rate_limited") for reply in replies[taken:] if not reply["ok"]]
        assert not any(reply["ok"] for reply in replies[taken : taken + 10]), "none overtakes one that was refused"
        waits = [error["details"]["retry_after_ms"] for error in refused]
        assert all(error["retryable"] for error in refused)
        assert waits[0] >= 400, "not at once"
        assert waits[9] > waits[0], "each at another time"
        await asyncio.sleep(waits[0] / 1000)
        await client.event(100, "contexts.page", {})
        assert (await client.acknowledgement(100))["ok"]
        assert (await other.ok("contexts.page"))["rows"] == []


async def test_bytes_count_too(tmp_path: Path) -> None:
    settings = Settings(bytes_per_second=500_000, rate_burst=0.5)
    async with serving(tmp_path / "hub", settings=settings) as people:
        op = await people.operator()
        await op.ok("context.create", id="c")
        ops = [{"op": "log.add", "type": "info", "content": "x" * 900_000}]
        await op.ok("apply", context="c", ops=ops)  # one that is larger than the burst is taken too
        error = await op.refused("apply", "rate_limited", context="c", ops=ops)
        assert 1_000 <= error["details"]["retry_after_ms"] <= 4_000


async def test_a_change_that_was_refused_applies_once(tmp_path: Path) -> None:
    """The client library of Python asks again by itself, when it is told to."""
    settings = Settings(requests_per_second=40, rate_burst=0.25)
    async with serving(tmp_path / "hub", settings=settings) as people:
        op = await people.operator()
        await op.ok("context.create", id="c")
        line = Connection(
            people.server.url,
            people.server.token,
            on_event=lambda name, payload: None,
            on_up=lambda hello: None,
            on_down=lambda error: None,
        )
        await line.start(5)
        try:
            add = {"context": "c", "ops": [{"op": "state.incr", "path": "/n"}]}
            began = time.monotonic()
            replies = await asyncio.gather(*(line.ask("apply", {**add, "key": f"k{n}"}) for n in range(40)))
            assert all(reply["ok"] for reply in replies)
            assert time.monotonic() - began > 0.5
        finally:
            await line.close()
        assert (await op.ok("context.get", context="c"))["document"]["state"] == {"n": 40}


async def test_an_agent_process_hears_why_it_was_ended(people: People, caplog: pytest.LogCaptureFixture) -> None:
    """It comes back by itself, and its log has the reason."""
    greetings: list[dict[str, Any]] = []
    line = Connection(
        people.server.url,
        people.server.token,
        on_event=lambda name, payload: None,
        on_up=greetings.append,
        on_down=lambda error: None,
    )
    await line.start(5)
    try:
        (outbox,) = people.server.sockets.servers["/msgpack/socket.io"].outboxes.values()
        outbox.end("it takes nothing", 4008)
        await until(lambda: len(greetings) == 2)
        assert greetings[1]["previous"]["code"] == 4008
        assert "previous" not in greetings[0]
        assert "the last connection: it takes nothing" in caplog.text
        assert (await line.ask("contexts.page", {}))["ok"]
    finally:
        await line.close()


async def test_who_goes_on_is_ended_and_told_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "FAR", 1.0)
    settings = Settings(requests_per_second=50, rate_burst=0.2)
    async with serving(tmp_path / "hub", settings=settings) as people:
        other = await people.operator()
        async with raw(people.server.url, people.server.token) as client:

            async def go_on() -> None:
                for id in range(100_000):
                    await client.event(id, "contexts.page", {})

            asking = asyncio.create_task(go_on())
            frame = await client.until(lambda frame: str(frame).startswith('42["hub.disconnect"'))
            farewell = json.loads(frame[2:])[1]
            assert (farewell["code"], farewell["reconnect"]) == (4013, True)
            assert farewell["retry_after_ms"] > 1_000
            assert await client.ended()
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        await until(lambda: people.server.sockets.count == 1)
        await other.ok("contexts.page")
        hello = await (await people.operator()).next("hello")
        assert hello["previous"]["code"] == 4013


@pytest.mark.parametrize("kind", ["asyncio", "node"])
async def test_connections_beyond_the_rate_come_later(tmp_path: Path, kind: str) -> None:
    """They are refused in a way that a stock client comes back from."""
    async with serving(tmp_path / "hub", settings=Settings(connects_per_second=2)) as people:
        async with Cable(people.server.port) as cable, stock(kind) as client:
            await client.open(cable.url, people.server.token, "json", "websocket")
            refused = 0
            for _ in range(12):
                try:
                    await (await people.operator()).close()
                except Exception:  # whatever the client calls it
                    refused += 1
            assert refused
            connects = len(client.of("connect"))
            cable.cut()
            await client.next("disconnect")
            cable.mend()
            await client.until(lambda: len(client.of("connect")) > connects, seconds=20)
            await client.ok("contexts.page")


# subscriptions


@pytest.mark.long
@pytest.mark.timeout(240)
def test_one_hundred_thousand_subscriptions(tmp_path: Path) -> None:
    """Trial F3."""
    with HubProcess(tmp_path, HUB_PING_SECONDS="200") as hub, loaded(hub, tmp_path) as load:
        load.source.prepare(1_200)
        crowd = load.crowd(20)
        load.rounds(crowd, 200)
        before = load.rounds(crowd, 500)
        command = [sys.executable, "-m", "tests.trials.flood", str(hub.port), hub.token, "100000"]
        flood = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, env=environment())
        try:
            during: list[float] = []
            while flood.poll() is None:
                during += load.rounds(crowd, 20)
            assert flood.stdout is not None
            told = json.loads(flood.stdout.read())
        finally:
            flood.kill()
            flood.wait()
            assert flood.stdout is not None
            flood.stdout.close()
        assert told["codes"].pop("ok") == 1_000
        assert set(told["codes"]) == {"rate_limited"}
        assert told["farewell"] is None or told["farewell"]["code"] == 4013
        assert told["codes"]["rate_limited"] == 99_000 or told["farewell"]
        assert len(during) > 100
        assert p99(during) < 2 * p99(before) + 0.02, (p99(before), p99(during))
        assert crowd.report()["lost"] == 0


# batches


async def test_as_many_batches_as_are_taken(people: People) -> None:
    op = await people.operator("msgpack")
    await op.ok("context.create", id="c")
    batch = {"context": "c", "ops": [{"op": "state.incr", "path": "/n"}]}
    for count in (4_095, 4_096):
        replies = (await op.ok("apply.many", batches=[batch] * count))["replies"]
        assert len(replies) == count
        assert all(reply["ok"] for reply in replies)
    error = await op.refused("apply.many", "too_large", batches=[batch] * 4_097)
    assert error["details"] == {"limit": 4_096}
    assert (await op.ok("context.get", context="c"))["document"]["state"] == {"n": 4_095 + 4_096}


# the size of a message


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")  # by the stock client
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # sockets that threads' client leaves
@pytest.mark.parametrize("transport", ["websocket", "polling"])
@pytest.mark.parametrize("endpoint", list(ENDPOINTS))
@pytest.mark.parametrize("kind", STOCK)
async def test_a_message_around_the_limit(people: People, kind: str, endpoint: str, transport: str) -> None:
    """Trial P5, by stock clients: what is above the limit is refused as such, above twice the limit the connection ends, once."""
    other = await people.operator("msgpack")
    await other.ok("context.create", id="c")
    await other.ok("subscribe", topic="context:c", deliver="patch")
    token = people.server.token
    async with Cable(people.server.port) as cable, stock(kind) as client:
        await client.open(cable.url, token, endpoint, transport)

        async def add(size: int) -> Any:
            ops = [{"op": "log.add", "type": "info", "content": "x" * size}]
            return await client.ask("apply", context="c", ops=ops)

        size = LIMIT + 1_000
        said = refusal(await add(size), "too_large")["message"]
        overhead = int(said.split(" bytes")[0].split()[-1].replace(",", "")) - size
        assert 50 < overhead < 200
        for length in (LIMIT - 1, LIMIT):
            assert (await add(length - overhead))["ok"]
        error = refusal(await add(LIMIT + 1 - overhead), "too_large")
        assert error["details"] == {"limit": LIMIT}
        assert f"{LIMIT + 1:,}" in error["message"]
        assert not client.of("disconnect")
        await other.until(lambda: len(other.of("change")) == 2)

        connects = len(client.of("connect"))
        too_much = asyncio.create_task(add(3 * LIMIT))
        await client.next("disconnect")
        await client.until(lambda: len(client.of("connect")) > connects)
        too_much.cancel()
        await asyncio.gather(too_much, return_exceptions=True)
        await asyncio.sleep(1)  # many times what a stock client waits here before it connects again
        assert (await client.ask("contexts.page"))["ok"]
        assert len(client.of("connect")) == connects + 1
        assert not other.of("disconnect")
        assert people.server.sockets.count == 2


# attachments

ATTACHMENTS = [
    "459999999999-0[%s]",
    "459999999999-[%s]",
    "45" + "9" * 9 + "-0[%s]",
    "45" + "9" * 200_000 + "-0[%s]",
    "45-1-0[%s]",
    "4500-0[%s]",
    "451.5-0[%s]",
    "45" + "\u0669" * 10 + "-0[%s]",  # digits of another script
    "469999999999-0[%s]",
    "451-0[%s]",
    "4516-0[%s]",
    "4517-0[%s]",
    "451-451-0[%s]",
]
PLACES = [
    '"contexts.page",{"_placeholder":true,"num":0}',
    '"contexts.page",{"_placeholder":true,"num":9999999999}',
    '"contexts.page",{"_placeholder":true,"num":-1}',
    '"contexts.page",' + '{"a":' * 500 + '{"_placeholder":true,"num":0}' + "}" * 500,
    '{"_placeholder":true,"num":0}',
]


@pytest.mark.parametrize("place", range(len(PLACES)))
@pytest.mark.parametrize("packet", range(len(ATTACHMENTS)))
async def test_attachments_that_are_announced_and_streamed(people: People, packet: int, place: int) -> None:
    """Trial P6: it is ended below a cap of bytes; nothing of them is kept."""
    other = await people.operator()
    taken = await stream_parts(people, ATTACHMENTS[packet] % PLACES[place])
    assert taken < 16 * LIMIT
    await until(lambda: people.server.sockets.count == 1, "its end")
    await other.ok("contexts.page")


async def stream_parts(people: People, first: str) -> int:
    """Send a packet and binary parts until the connection ends; bytes that went, most of them into the system's buffers."""
    sent = 0
    async with raw(people.server.url, people.server.token) as client:
        await client.send(first)
        ended = asyncio.create_task(client.ended())
        while not ended.done() and sent < 64 * LIMIT:
            try:
                await client.send(bytes(FRAME))
            except (ConnectionError, RuntimeError):
                break
            sent += FRAME
            await asyncio.sleep(0)
        assert await ended
    return sent
