"""What stands in Redis may be anybody's: one broken context, or one entry of an index, is its own trouble only."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import pytest

from hub.core.errors import Internal, Unavailable
from hub.core.position import Position
from hub.record import names
from hub.record.connection import Connection
from hub.record.packing import pack
from hub.record.port import Outcome
from hub.record.redis import RedisRecord
from tests.record.test_retention import used_before
from tests.record.test_rows import all_rows
from tests.record.writer import Writer, creation, put

BROKEN: dict[str, list[tuple[Any, ...]]] = {
    "a text": [("SET", "hub:ctx:{bad}", "x")],
    "a list": [("RPUSH", "hub:ctx:{bad}", "x")],
    "an epoch only": [("HSET", "hub:ctx:{bad}", "epoch", "e")],
    "a tip only": [("HSET", "hub:ctx:{bad}", "tip", "t")],
    "no numbers": [("HSET", "hub:ctx:{bad}", "epoch", "e", "last", "zz", "tip", "t", "no", "NaN", "mirrored", "zz")],
    "no number of a row": [
        ("HSET", "hub:ctx:{bad}", "epoch", "e", "tip", "t", "id", "bad", "mirrored", "1", *numbers)
        for numbers in (("last", "1", "no", "NaN"), ("last", "zz", "no", "1"))
    ],
    "no text": [("HSET", "hub:ctx:{bad}", "epoch", b"\xff", "last", "1", "tip", b"\xff", "mirrored", "1")],
    "no fields left for later": [
        ("HSET", "hub:ctx:{bad}", "epoch", "e", "last", "1", "tip", "t", "no", "1", "mirrored", "1", "held", held)
        for held in (b"\x80", pack([1]), pack({"state/a": "b"}))
    ],
    "another's row": [("HSET", "hub:ctx:{bad}", "epoch", "e", "last", "1", "tip", "t", "id", "good", "no", "1")],
}
EACH = [pytest.param([command], id=f"{what} {n}") for what, all in BROKEN.items() for n, command in enumerate(all)]


@pytest.fixture
async def good(redis_record: RedisRecord, connection: Connection) -> Writer:
    """A context beside the broken one, which the indexes list before and after it."""
    writer = Writer("good")
    await writer.create(redis_record, user_id="ann")
    await Writer("older").create(redis_record, user_id="ann", created_at="2026-11-28T00:00:00.000Z")
    for index in (names.CONTEXTS, names.user_contexts("ann")):
        at = [int(score) for score in (await connection.run("ZRANGE", index, 0, -1, "WITHSCORES"))[1::2]]
        between = sum(at) // 2
        await connection.run("ZADD", index, between, "bad")
    return writer


@pytest.mark.parametrize("commands", EACH)
async def test_a_broken_context_is_its_own_trouble(
    redis_record: RedisRecord,
    connection: Connection,
    good: Writer,
    commands: list[tuple[Any, ...]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    await connection.many(commands)
    for limit in (1, 2, 100):
        assert await all_rows(redis_record, limit) == ["good", "older"]
        assert await all_rows(redis_record, limit, "ann") == ["good", "older"]
    assert await redis_record.unmirrored() in (["good", "older"], ["good", "bad", "older"])
    ends = [(id, Position("e", 9), "x") for id in ("bad", "none")]
    assert await redis_record.differ([*ends, ("good", good.position, good.tip)]) == ["bad", "none"]
    bad, other = await redis_record.mirrored(["bad", "good"])
    assert bad in (None, (1, {}))
    assert other == (0, {})
    for read in (redis_record.load, redis_record.end):
        with contextlib.suppress(Internal):  # and nothing foreign
            assert await read("bad") is None or read == redis_record.end

    await used_before(redis_record, 1000, "bad", "good")
    await connection.run("ZADD", names.USED, 1, b"\xff")
    assert {id for id, _, _ in await redis_record.unused(500)} - {"bad"} == {"good"}
    assert await redis_record.unused(500) == []


async def test_what_is_left_out_of_the_list_is_logged_once(
    redis_record: RedisRecord, connection: Connection, good: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    await connection.many([("SET", names.main("bad"), "x"), ("SET", names.main("older"), "x")])
    with caplog.at_level(logging.ERROR, "hub.record"):
        assert await all_rows(redis_record, 100) == ["good"]
    [record] = caplog.records
    assert "2 left out" in record.message
    assert "'bad'" in record.message
    assert "WRONGTYPE" in record.message


async def test_appends_beside_a_broken_context(redis_record: RedisRecord, connection: Connection, good: Writer) -> None:
    broken = Writer("broken")
    await broken.create(redis_record)
    await connection.run("SET", names.main("broken"), "x")
    outcomes = await redis_record.append([one.append(put("/user_id", "bob")) for one in (broken, good)])
    assert [one.outcome for one in outcomes] == [Outcome.FAILED, Outcome.APPENDED]
    assert await all_rows(redis_record, 100, "bob") == ["good"]


async def test_index_entries_that_no_hub_wrote(redis_record: RedisRecord, connection: Connection) -> None:
    ids = [f"c{n}" for n in range(10)]
    await redis_record.append([Writer(id).append(creation(id, "E1", user_id="ann")) for id in ids])
    [at] = {int(score) for score in (await connection.run("ZRANGE", names.CONTEXTS, 0, -1, "WITHSCORES"))[1::2]}
    for index in (names.CONTEXTS, names.user_contexts("ann")):
        foreign: list[Any] = []
        for n in range(7):
            for score in (at, at + 1, at + 0.5, at - 0.5, at - 1, "+inf", "-inf", 1e300):
                foreign += [score, b"\xff\xfe%d %s" % (n, str(score).encode())]
            foreign += ["+inf", f"last {n}", "-inf", f"first {n}", at + 0.5, f"between {n}"]
        await connection.run("ZADD", index, *foreign)
    for limit in (1, 2, 3, 10, 100):
        assert await all_rows(redis_record, limit) == ids[::-1]
        assert await all_rows(redis_record, limit, "ann") == ids[::-1]
    assert await redis_record.unmirrored() == ids[::-1]


async def test_what_is_refused_of_many_commands(connection: Connection) -> None:
    await connection.run("SET", "text", "x")
    commands = [("HGET", "text", "a"), ("GET", "text"), ("HGET", "none", "a")]
    refused, text, none = await connection.many(commands, apart=True)
    assert isinstance(refused, Internal)
    assert (text, none) == (b"x", None)
    for atomic in (False, True):
        with pytest.raises(Internal, match="WRONGTYPE"):
            await connection.many(commands, atomic=atomic)


async def test_a_server_that_takes_no_writes_now_is_no_refusal(redis_record: RedisRecord) -> None:
    connection = redis_record._connection
    await connection.run("CONFIG", "SET", "min-replicas-to-write", 1)
    try:
        with pytest.raises(Unavailable):
            await connection.many([("SET", "a", "b")], apart=True)
        with pytest.raises(Unavailable):
            await connection.many([("SET", "a", "b")])
    finally:
        await connection.run("CONFIG", "SET", "min-replicas-to-write", 0)
