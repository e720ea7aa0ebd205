"""What clients should not send: each is answered by a typed error or ends that connection, and no other."""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import tracemalloc
from pathlib import Path
from typing import Any

import msgpack
import pytest

from hub.node.settings import Settings
from hub.server.bounds import UNREADABLE
from hub.server.server import HubServer
from tests.clients import Client, People, refusal, serving
from tests.raw import enter, raw
from tests.support import until

LIMIT = 1_048_576


@pytest.fixture
def server(people: People) -> HubServer:
    return people.server


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ((), "invalid_request"),
        (({"context": "c"}, {"context": "c"}), "invalid_request"),
        (([],), "invalid_request"),
        (("c",), "invalid_request"),
        ((None,), "invalid_request"),
        ((5,), "invalid_request"),
        ((True,), "invalid_request"),
    ],
)
async def test_wrong_arguments(op: Client, args: tuple[Any, ...], code: str) -> None:
    await op.ok("context.create", id="c")
    if args == (None,):
        await op.send("context.get", (None,))
        reply = await op.next("reply")
    else:
        reply = await op.call("context.get", args)
    refusal(reply, code)
    await op.ok("context.get", context="c")


@pytest.mark.parametrize("name", [5, None, ["context.get"], {"a": 1}, True])
async def test_names_that_are_no_text(server: HubServer, name: Any) -> None:
    async with raw(server.url, server.token) as client:
        await client.event(7, name, {})
        refusal(await client.acknowledgement(7), "invalid_request")
        await client.event(8, "contexts.page", {})
        assert (await client.acknowledgement(8))["ok"]


@pytest.mark.parametrize(
    "packet",
    [
        "420",  # an event without anything
        "420[]",
        "420{}",
        '420{"a":1}',
        '420"text"',
        "420null",
        '420["contexts.page"',  # broken JSON
        '420["contexts.page",{"limit":NaN}]',
        '420["contexts.page",{"before":"\\ud800"}]',
        '420["\\ud800",{}]',
        '420["contexts.page",' + "9" * 5000 + "]",
        '420["contexts.page",' + "[" * 100_000 + "]" * 100_000 + "]",
        '420["contexts.page",{"filter":' + '{"a":' * 70 + "1" + "}" * 70 + "}]",
        '451-0["contexts.page",{"_placeholder":true,"num":0}]',  # binary attachments are announced
        '459-0["contexts.page",{}]',
    ],
)
async def test_bad_events_get_an_answer(server: HubServer, packet: str, caplog: pytest.LogCaptureFixture) -> None:
    async with raw(server.url, server.token) as client:
        await client.send(packet)
        reply = await client.acknowledgement(0)
        assert reply["ok"] is False
        assert reply["error"]["code"] in ("invalid_request", "invalid_value", "unknown_request"), reply
        await client.event(1, "contexts.page", {})
        assert (await client.acknowledgement(1))["ok"]
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    "frame",
    [
        "x",
        "",
        "4",
        "4x",
        "49",
        "44{}",  # an answer that only servers give
        '46-1["a"]',
        "45" + "9" * 10 + '-0["contexts.page",{}]',  # 9,999,999,999 attachments
        "4😀",
        "4²",
        "b!!!",
        "42no json and no id",
        b"\x00\x01\x02",
    ],
)
async def test_garbage_ends_only_its_connection(
    people: People, op: Client, frame: str | bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with raw(people.server.url, people.server.token) as client:
            for _ in range(20):  # a few binary frames may be left over from an event that was refused
                if client.ws.closed:
                    break
                await client.send(frame)
            assert await client.ended()
        async with raw(people.server.url) as client:
            await client.send(enter(people.server.token))
            hello = await client.until(lambda frame: isinstance(frame, str) and frame.startswith('42["hello"'))
            assert json.loads(hello[2:])[1]["previous"]["code"] == UNREADABLE
    assert "Traceback" not in caplog.text
    await until(lambda: people.server.sockets.count == 1, "the connection's end")
    await op.ok("contexts.page")


async def test_attachments_are_dropped_not_kept(people: People) -> None:
    async with raw(people.server.url, people.server.token) as client:
        await client.send('459-1["contexts.page",{"_placeholder":true,"num":0}]')
        refusal(await client.acknowledgement(1), "invalid_request")
        tracemalloc.start()
        try:
            with contextlib.suppress(ConnectionError):
                for _ in range(64):
                    await client.send(bytes(512_000))
            assert await client.ended()
            gc.collect()
            assert tracemalloc.get_traced_memory()[0] < 8_000_000
        finally:
            tracemalloc.stop()
    await until(lambda: people.server.sockets.count == 0)


@pytest.mark.parametrize(
    "packet",
    [
        b"\xc1",
        b"\x80",
        msgpack.packb({"type": 2}),
        msgpack.packb({"type": 2, "nsp": ["/"], "data": ["contexts.page", {}], "id": 1}),
        msgpack.packb({"type": 2, "nsp": "/", "data": ["contexts.page", {}], "id": "one"}),
        msgpack.packb({"type": 99, "nsp": "/", "data": []}),
        msgpack.packb({"type": "2", "nsp": "/", "data": []}),
        msgpack.packb([1, 2, 3]),
        msgpack.packb({"type": 2, "nsp": "/", "data": {}, "id": 1})[:-1],
        b"\x91" * 5000,
        "not binary",
    ],
)
async def test_msgpack_garbage(people: People, packet: bytes | str, caplog: pytest.LogCaptureFixture) -> None:
    other = await people.operator("msgpack")
    path = "/msgpack/socket.io/"
    async with raw(people.server.url, people.server.token, path=path) as client:
        await client.send(packet if isinstance(packet, bytes) else "4" + packet)
        assert await client.ended()
    assert "Traceback" not in caplog.text
    await other.ok("contexts.page")


@pytest.mark.parametrize("data", [None, [], {}, [5], [["contexts.page"]], "contexts.page"])
async def test_msgpack_events_that_are_none_get_an_answer(people: People, data: Any) -> None:
    async with raw(people.server.url, people.server.token, path="/msgpack/socket.io/") as client:
        await client.send(msgpack.packb({"type": 2, "nsp": "/", "data": data, "id": 3}))
        answer = await client.until(lambda frame: isinstance(frame, bytes) and msgpack.unpackb(frame)["type"] == 3)
        refusal(msgpack.unpackb(answer)["data"][0], "invalid_request")


async def test_events_before_connect_are_refused_not_lost(server: HubServer) -> None:
    async with raw(server.url) as client:
        await client.event(1, "contexts.page", {})
        error = refusal(await client.acknowledgement(1), "unavailable")
        assert error["retryable"]
        await client.send(enter(server.token))
        await client.event(2, "contexts.page", {})  # right behind: no need to wait for the answer
        assert (await client.acknowledgement(2))["ok"]


async def test_an_unknown_namespace_is_refused(server: HubServer) -> None:
    async with raw(server.url, server.token) as client:
        await client.send("40/admin," + json.dumps({"token": server.token}))
        assert (await client.until(lambda frame: isinstance(frame, str) and frame.startswith("44"))).startswith(
            "44/admin,"
        )
        await client.send('42/admin,5["contexts.page",{}]')
        answer = await client.until(lambda frame: isinstance(frame, str) and frame.startswith("43"))
        assert answer.startswith("43/admin,5[")
        refusal(json.loads(answer[len("43/admin,5") :])[0], "unavailable")
        await client.event(6, "contexts.page", {})
        assert (await client.acknowledgement(6))["ok"]


async def test_connecting_twice_changes_nothing(people: People) -> None:
    server = people.server
    async with raw(server.url, server.token) as client:
        await client.send(enter(server.token))
        await client.event(1, "contexts.page", {})
        assert (await client.acknowledgement(1))["ok"]
        assert server.sockets.count == 1


async def test_leaving_and_coming_back_on_one_connection(people: People) -> None:
    server = people.server
    async with raw(server.url, server.token) as client:
        await client.send("41")
        await client.event(1, "contexts.page", {})
        refusal(await client.acknowledgement(1), "unavailable")
        assert server.sockets.count == 0
        await client.send(enter(server.token))
        await client.until(lambda frame: isinstance(frame, str) and frame.startswith("40"))
        await client.event(2, "contexts.page", {})
        assert (await client.acknowledgement(2))["ok"]


async def test_acknowledgements_that_nobody_waits_for(server: HubServer) -> None:
    async with raw(server.url, server.token) as client:
        for frame in ('430["ok"]', "431[]", "4399", '431{"a":1}'):
            await client.send(frame)
        await client.event(1, "contexts.page", {})
        assert (await client.acknowledgement(1))["ok"]


async def test_no_acknowledgement_unless_it_is_asked_for(server: HubServer) -> None:
    async with raw(server.url, server.token) as client:
        await client.send('42["context.create",{"id":"c"}]')
        await client.send('42["no.such.request",{}]')
        await client.event(1, "context.get", {"context": "c"})
        frames = []
        while not (frame := await client.receive()).startswith("431["):
            frames.append(frame)
        assert not [frame for frame in frames if frame.startswith("43")]
        assert json.loads(frame[3:])[0]["ok"]


def padded(size: int, text: str = "x") -> str:
    """A packet of exactly so many bytes: an apply with a padded value."""
    begin, end = '427["apply",{"context":"c","ops":[{"op":"state.merge","value":{"pad":["', '"]}}]}]'
    room = size - len(begin) - len(end) + 1  # the engine's own digit does not count
    return begin + text * (room // len(text.encode())) + "y" * (room % len(text.encode())) + end


@pytest.mark.parametrize("text", ["x", "é", "語"])
async def test_the_limit_of_a_message(people: People, text: str) -> None:
    """One below it and the limit itself are looked at (and too large for a document); one above is refused as such."""
    server = people.server
    other = await people.operator()
    await other.ok("context.create", id="c")
    async with raw(server.url, server.token) as client:
        for size in (LIMIT - 1, LIMIT):
            packet = padded(size, text)
            assert len(packet.encode()) - 1 == size
            await client.send(packet)
            reply = await client.acknowledgement(7)
            assert reply["ok"] or "document" in reply["error"]["message"] or "context would take" in str(reply), reply
        await client.send(padded(LIMIT + 1, text))
        error = refusal(await client.acknowledgement(7), "too_large")
        assert error["details"] == {"limit": LIMIT}
        assert f"{LIMIT + 1:,}" in error["message"]
        await client.event(8, "contexts.page", {})
        assert (await client.acknowledgement(8))["ok"]
        await client.send("42" + "x" * 2 * LIMIT)  # beyond twice the limit there is no answer any more
        assert await client.ended()
    await other.ok("contexts.page")


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")  # by the stock client
@pytest.mark.parametrize("kind", ["polling", "msgpack"])
async def test_the_limit_of_a_message_elsewhere(people: People, kind: str) -> None:
    client = await people.operator(kind)
    await client.ok("context.create", id="c")
    ops = [{"op": "state.merge", "value": {"pad": "x" * LIMIT}}]
    await client.refused("apply", "too_large", context="c", ops=ops)
    await client.ok("apply", context="c", ops=[{"op": "state.merge", "value": {"pad": "x" * (LIMIT - 2000)}}])


async def test_leaving_and_coming_back_does_not_renew_the_rate(tmp_path: Path) -> None:
    settings = Settings(requests_per_second=0.5, rate_burst=6.0)
    async with serving(tmp_path / "hub", settings=settings) as people, raw(people.server.url) as client:
        replies = []
        for n in range(4):
            await client.send(enter(people.server.token))
            await client.event(n, "contexts.page", {})
            replies.append(await client.acknowledgement(n))
            await client.send("41")
        assert replies[0]["ok"]
        refusal(replies[-1], "rate_limited")
