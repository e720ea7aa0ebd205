"""WebSocket frames as a server reads them: whole, in parts, in any pieces; and what is none is refused before it is kept."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from hub.node.settings import Settings
from hub.server.server import HubServer
from hub.server.websocket import (
    BINARY,
    BROKEN,
    CLOSE,
    NOT_TEXT,
    PART,
    PING,
    TEXT,
    TOO_BIG,
    FrameError,
    FrameReader,
    switch,
)
from hub.wire.codec import Encoded, Variant
from tests.clients import serving
from tests.raw import Polling, raw
from tests.support import until

LIMIT = 100_000


def frame(opcode: int, payload: bytes, *, last: bool = True, mask: bytes | None = None, bits: int = 0) -> bytes:
    """A client's frame."""
    mask = os.urandom(4) if mask is None else mask
    size = len(payload)
    if size < 126:
        head = bytes((0x80 | size,))
    elif size < 65_536:
        head = bytes((0x80 | 126,)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | 127,)) + size.to_bytes(8, "big")
    masked = bytes(byte ^ mask[n % 4] for n, byte in enumerate(payload))
    return bytes(((0x80 if last else 0) | bits | opcode,)) + head + mask + masked


def read(*pieces: bytes, limit: int = LIMIT) -> list[tuple[int, str | bytes]]:
    """What there is to handle."""
    reader, frames = FrameReader(limit), []
    for piece in pieces:
        reader.feed(piece)
        while (found := reader.next()) is not None:
            frames.append(found)
    return [found for found in frames if found[0] != PART]


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 125, 126, 127, 65_535, 65_536, LIMIT])
@pytest.mark.parametrize("mask", [None, bytes(4), b"\xff\x00\x01\x80"])
def test_sizes(size: int, mask: bytes | None) -> None:
    payload = random.Random(size).randbytes(size)
    assert read(frame(BINARY, payload, mask=mask)) == [(BINARY, payload)]


def test_any_pieces_give_the_same() -> None:
    chance = random.Random(3)
    messages = [chance.randbytes(chance.choice((0, 5, 130, 3000))) for _ in range(40)]
    stream, expected = b"", []
    for message in messages:
        parts = [message[at : at + 700] for at in range(0, max(1, len(message)), 700)]
        for n, part in enumerate(parts):
            stream += frame(0 if n else BINARY, part, last=n == len(parts) - 1)
            if chance.random() < 0.3:
                stream += frame(PING, b"p")  # control frames may come between the parts of a message
                expected.append((PING, b"p"))
        expected.append((BINARY, message))
    whole = read(stream)
    assert sorted(map(repr, whole)) == sorted(map(repr, expected))
    assert [found for found in whole if found[0] == BINARY] == [(BINARY, message) for message in messages]
    assert read(*(stream[at : at + 1] for at in range(len(stream)))) == whole
    for _ in range(10):
        cuts = sorted(chance.sample(range(len(stream)), 30))
        pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
        assert read(*pieces) == whole


def test_text_is_decoded_when_it_is_whole() -> None:
    data = "é😀".encode()
    assert read(frame(TEXT, data[:1], last=False), frame(0, data[1:4], last=False), frame(0, data[4:])) == [
        (TEXT, "é😀")
    ]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x81\x05hello", BROKEN),  # without a mask
        (frame(TEXT, b"x", bits=0x40), BROKEN),  # compressed, which was not agreed on
        (frame(3, b"x"), BROKEN),
        (frame(11, b"x"), BROKEN),
        (frame(PING, b"x" * 126), BROKEN),
        (frame(CLOSE, b"", last=False), BROKEN),
        (frame(CLOSE, b"\x03"), BROKEN),
        *((frame(CLOSE, code.to_bytes(2, "big")), BROKEN) for code in (0, 999, 1004, 1005, 1006, 1015, 2999, 5000)),
        (frame(CLOSE, b"\x03\xe8\xff"), NOT_TEXT),
        (frame(0, b"x"), BROKEN),
        (frame(TEXT, b"x", last=False) + frame(TEXT, b"x"), BROKEN),
        (frame(TEXT, b"\xff"), NOT_TEXT),
        (frame(TEXT, b"\xed\xa0\x80"), NOT_TEXT),  # half a character
        (frame(BINARY, bytes(LIMIT + 1))[:14], TOO_BIG),  # said of itself: nothing of it is waited for
        (b"\x82\xff" + b"\xff" * 12, TOO_BIG),
        (frame(BINARY, bytes(LIMIT), last=False) + frame(0, b"x")[:7], TOO_BIG),
    ],
)
def test_what_is_no_frame(data: bytes, code: int) -> None:
    with pytest.raises(FrameError) as raised:
        read(data)
    assert raised.value.code == code
    with pytest.raises(FrameError):
        read(*(data[at : at + 1] for at in range(len(data))))


def test_the_handshake() -> None:
    asked = {
        "Upgrade": "websocket",
        "Connection": "keep-alive, Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    answer = switch(asked)
    assert answer is not None
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n" in answer, "the example of RFC 6455"
    for name, value in (
        ("Upgrade", "h2c"),
        ("Connection", "close"),
        ("Sec-WebSocket-Version", "8"),
        ("Sec-WebSocket-Key", "short"),
        ("Sec-WebSocket-Key", "é"),
        ("Sec-WebSocket-Key", "\udcff" * 24),  # what aiohttp makes of bytes that are no UTF-8
    ):
        assert switch(asked | {name: value}) is None
        assert switch({there: text for there, text in asked.items() if there != name}) is None


@pytest.mark.parametrize("code", [BROKEN, TOO_BIG])
async def test_a_broken_frame_closes_with_its_code(hub: HubServer, code: int) -> None:
    async with raw(hub.url, hub.token) as client:
        transport: Any = client.ws._response.connection.transport  # type: ignore[union-attr]
        transport.write(b"\x81\x05hello" if code == BROKEN else b"\x82\xff" + b"\xff" * 12)
        assert await client.ended()
        assert client.ws.close_code == code


@pytest.mark.parametrize("code", [1000, 1001, 1011, 3000, 4321])
async def test_closing_in_order_and_pings_of_clients(hub: HubServer, code: int) -> None:
    async with raw(hub.url, hub.token) as client:
        await client.ws.ping(b"there?")
        await client.event(1, "contexts.page", {})
        assert (await client.acknowledgement(1))["ok"]
        await client.ws.close(code=code)
        assert client.ws.close_code == code


def test_each_part_is_given_by_itself() -> None:
    """A message of a hundred thousand empty parts must not be read in one go."""
    reader = FrameReader(LIMIT)
    reader.feed(frame(TEXT, b"x", last=False) + frame(0, b"", last=False) * 2 + frame(0, b"y"))
    assert [reader.next() for _ in range(5)] == [(PART, b"")] * 3 + [(TEXT, "xy"), None]


async def test_pings_of_who_takes_no_pongs_are_not_kept(hub: HubServer) -> None:
    """Neither before an upgrade is done nor after it."""
    async with aiohttp.ClientSession(hub.url) as session:
        polling = await Polling.open(session)
        async with session.ws_connect(polling.address("websocket")) as ws:
            transport: Any = ws._response.connection.transport  # type: ignore[union-attr]
            transport.pause_reading()
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
            outbox = next(iter(hub.sockets.servers["/socket.io"].outboxes.values()))
            polled: Any = outbox._line
            line = polled._line
            for _ in range(64):
                transport.write(frame(PING, bytes(125)) * 1_000)
                await asyncio.sleep(0)
            transport.write(frame(TEXT, b"2probe"))
            await until(lambda: polled.upgrading, "the hub to read it all", 60)
            assert line.transport.get_write_buffer_size() < 100_000
            transport.abort()


async def test_probes_without_end_are_not_kept(hub: HubServer) -> None:
    """Neither their answers nor the ends of polls that they ask for, on one WebSocket or on many."""
    async with aiohttp.ClientSession(hub.url) as session:
        polling = await Polling.open(session)
        polled: Any = next(iter(hub.sockets.servers["/socket.io"].outboxes.values()))._line
        for _ in range(20):
            async with session.ws_connect(polling.address("websocket")) as ws:
                transport: Any = ws._response.connection.transport  # type: ignore[union-attr]
                transport.write(frame(TEXT, b"2probe") * 1_000)
                assert await ws.receive_str() == "3probe"
                assert (await ws.receive()).type is aiohttp.WSMsgType.CLOSE
            assert polled.queue.qsize() == 1
        async with polling.upgrade() as (client, _):
            await client.send("40" + json.dumps({"token": hub.token}))
            assert await client.until(lambda packet: packet.startswith("40"))


@pytest.mark.parametrize("sid", ["", "&sid="])
async def test_an_empty_sid_gets_round_no_rate(tmp_path: Path, sid: str) -> None:
    settings = Settings(connects_per_second=0.5)
    async with serving(tmp_path / "hub", settings=settings) as people, aiohttp.ClientSession(people.server.url) as http:
        statuses = []
        for _ in range(4):
            async with http.get(f"/socket.io/?EIO=4&transport=polling{sid}") as answer:
                statuses.append(answer.status)
        assert statuses == [200, 200, 503, 503]


async def test_nothing_follows_a_close_frame(hub: HubServer) -> None:
    """Even if what was written before it still waits for the client, and more is streamed."""
    server = hub.sockets.servers["/socket.io"]
    event = Encoded("hub.degraded", {"degraded": "x" * 200_000})
    async with raw(hub.url, hub.token) as client:
        outbox = next(iter(server.outboxes.values()))
        line: Any = outbox._line
        transport: Any = client.ws._response.connection.transport  # type: ignore[union-attr]
        transport.pause_reading()
        for _ in range(200):  # until the kernel takes no more
            if outbox.waiting:
                break
            outbox.stream(event.frame(Variant.JSON), (event,))
            await asyncio.sleep(0)
        assert 0 < outbox.waiting < 262_144
        transport.write(frame(CLOSE, b"\x03\xe8"))
        await until(lambda: outbox.ended)
        waiting = line.transport.get_write_buffer_size()
        assert outbox.stream(b"more", (event,))
        outbox.send(event)
        assert line.transport.get_write_buffer_size() == waiting > 0
        transport.resume_reading()
        assert await client.ended()
    assert client.ws.close_code == 1000


async def test_a_hub_that_ends_takes_no_more(tmp_path: Path) -> None:
    """What came between the end of the connections and that of the web server would be nobody's."""
    async with serving(tmp_path / "hub") as people, aiohttp.ClientSession(people.server.url) as session:
        polling = await Polling.open(session)
        async with session.ws_connect(polling.address("websocket")) as probing:
            people.server.sockets.close()
            assert (await probing.receive()).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
            for transport in ("polling", "websocket"):
                async with session.get(f"/socket.io/?EIO=4&transport={transport}") as answer:
                    assert answer.status == 503
        assert not any(server.outboxes for server in people.server.sockets.servers.values())


@pytest.mark.parametrize("query", ["EIO=4&transport=websocket", "EIO=3&transport=websocket", "transport=polling", ""])
async def test_requests_that_ask_for_no_websocket_properly(hub: HubServer, query: str) -> None:
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    async with aiohttp.ClientSession(hub.url) as session:
        for sent in ({}, headers):
            async with session.get(f"/socket.io/?{query}", headers=sent) as answer:
                assert answer.status == 400
        async with session.get("/healthz") as answer:
            assert answer.status == 200
    assert not hub.sockets.servers["/socket.io"].outboxes
