"""What a streamed token costs at Redis' socket: in proportion to the token, however long the text is already."""

from __future__ import annotations

import pytest

from hub.core.changes import Part
from hub.record.mirror import MirrorState
from hub.record.redis import RedisRecord
from tests.proxy import Proxy
from tests.record.writer import Writer, log_add

TOKENS_A_SECOND = 50


async def streamed(server: str, token: str, count: int) -> tuple[int, int]:
    """Bytes to and from Redis of a stream of tokens, one append each, with the writes of the hashes that a node makes."""
    with Proxy(server) as proxy:
        record, writer = RedisRecord(proxy.url), Writer(f"ctx{count}")
        await record.start()
        await writer.create(record)
        await writer.write(record, log_add(0, "l0"))
        loaded = await record.load(writer.context)
        assert loaded is not None
        mirror, now = MirrorState.of(loaded, 0.0), 0.0

        async def write() -> None:
            write = mirror.write(writer.state, now)
            if write is not None:
                assert await record.mirror([write]) == [True]
                mirror.wrote(True, now)

        sent, received = proxy.to_server.bytes, proxy.to_client.bytes
        for n in range(count):
            at = writer.state.log.entries[0].units
            append: list[Part] = [
                {"kind": "log.append", "id": "l0", "at": at, "text": token},
                {"kind": "key", "key": f"w/{n}", "digest": "0123456789abcdef", "result": {"epoch": "E1", "seq": n}},
            ]
            await writer.write(record, append)
            assert writer.last is not None
            for change in writer.last.entry.changes:
                mirror.note(change, now)
            now += 1 / TOKENS_A_SECOND
            if mirror.due(now):
                await write()
        while mirror.behind:
            now += 1.0
            await write()
        sent, received = proxy.to_server.bytes - sent, proxy.to_client.bytes - received
        assert await record.mirrored([writer.context]) == [(writer.position.seq, {})]
        await record.close()
        return sent, received


@pytest.mark.parametrize("token", [" word", " a text of some more words" * 4], ids=["short", "long"])
async def test_bytes_to_redis_are_in_proportion_to_the_tokens(server: str, token: str) -> None:
    few, many = await streamed(server, token, 1_000), await streamed(server, token, 4_000)
    print(f"bytes a token, to and from Redis: {[n / 1_000 for n in few]}, {[n / 4_000 for n in many]}")  # noqa: T201
    for less, more in zip(few, many, strict=True):
        assert more / less <= 4.4
