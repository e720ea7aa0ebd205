"""WebSocket frames as a server reads them: whole, in parts, in any pieces; and what is none is refused before it is kept."""

from __future__ import annotations

import os
import random
from typing import Any

import aiohttp
import pytest

from hub.server.server import HubServer
from hub.server.websocket import BINARY, BROKEN, CLOSE, NOT_TEXT, PING, TEXT, TOO_BIG, FrameError, FrameReader, switch
from tests.raw import raw

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
    reader, frames = FrameReader(limit), []
    for piece in pieces:
        reader.feed(piece)
        while (found := reader.next()) is not None:
            frames.append(found)
    return frames


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


async def test_closing_in_order_and_pings_of_clients(hub: HubServer) -> None:
    async with raw(hub.url, hub.token) as client:
        await client.ws.ping(b"there?")
        await client.event(1, "contexts.page", {})
        assert (await client.acknowledgement(1))["ok"]
        await client.ws.close(code=4321)
        assert client.ws.close_code == 4321


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
