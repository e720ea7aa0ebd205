"""What is loaded is the state, whatever the hashes hold, on every kind of record."""

from __future__ import annotations

import random
import time

import pytest

from hub.core.errors import Internal
from hub.record.connection import Connection
from hub.record.mirror import MirrorState
from hub.record.port import Outcome, Record
from hub.record.redis import RedisRecord
from tests.record.random_changes import parts
from tests.record.writer import Writer, everything, log_add, put


async def test_state_without_any_hashes(record: Record) -> None:
    writer = Writer()
    await writer.create(record, state={"a": 1}, user_id="ann")
    await writer.write(record, put("/state/b", [1, {"c": None}]), log_add(0, "l0", "text", n=1))
    await writer.write(record, [{"kind": "data", "key": "secret", "value": {"x": 1}}])
    loaded = await record.load("ctx1")
    assert loaded is not None
    assert everything(loaded.state) == everything(writer.state)
    assert (loaded.tip, loaded.born, loaded.mirrored) == (writer.tip, "E1", 0)
    assert len(loaded.behind) == 4


@pytest.mark.parametrize("seed", range(6))
async def test_random_changes_and_mirror_writes(record: Record, seed: int) -> None:
    """The hashes are written now and then, answers get lost, writers start over: the loaded state is always the writer's."""
    rng, writer, now = random.Random(seed), Writer(), 0.0
    await writer.create(record)
    loaded = await record.load("ctx1")
    assert loaded is not None
    mirror = MirrorState.of(loaded, now)
    for step in range(250):
        now += rng.choice([0.0, 0.01, 0.05, 0.3, 1.5])
        changes = [parts(rng, writer.state, step)]
        append = writer.append(*changes)
        assert (await record.append([append]))[0].outcome is Outcome.APPENDED
        writer.take(append.entry)
        for change in append.entry.changes:
            mirror.note(change, now)
        if mirror.due(now):
            write = mirror.write(writer.state, now, everything=rng.random() < 0.05)
            if write is not None:
                fate = rng.randrange(8)
                done = fate != 0 and (await record.mirror([write]))[0]
                mirror.wrote(done and fate != 1, now)
                if fate < 2:
                    [there] = await record.mirrored(["ctx1"])
                    assert there is not None
                    mirror.moved(*there, now)
                else:
                    assert done
        if rng.random() < 0.1:
            loaded = await record.load("ctx1")
            assert loaded is not None
            assert everything(loaded.state) == everything(writer.state)
            assert loaded.tip == writer.tip
            if rng.random() < 0.3:
                mirror = MirrorState.of(loaded, now)
    write = mirror.write(writer.state, now + 10)
    assert write is None or (await record.mirror([write]))[0]
    loaded = await record.load("ctx1")
    assert loaded is not None
    assert everything(loaded.state) == everything(writer.state)
    assert loaded.state.size == writer.state.size
    assert loaded.behind == ()
    assert loaded.held == {}


async def test_only_one_of_two_mirror_writers_from_the_same_base_wins(record: Record) -> None:
    writer = Writer()
    await writer.create(record)
    loaded = await record.load("ctx1")
    assert loaded is not None
    one, other = MirrorState.of(loaded), MirrorState.of(loaded)
    first, second = one.write(writer.state, 1.0), other.write(writer.state, 1.0)
    assert first is not None
    assert second is not None
    assert (await record.mirror([first]))[0]
    assert not (await record.mirror([second]))[0]
    other.wrote(False, 1.0)
    [there] = await record.mirrored(["ctx1"])
    assert there == (1, {})
    other.moved(*there, 1.0)
    assert not other.behind
    assert other.write(writer.state, 2.0) is None


async def test_a_stream_is_trimmed_only_past_what_every_field_has(
    redis_record: RedisRecord, connection: Connection
) -> None:
    writer, mirror = Writer(), MirrorState()
    big = "x" * 400_000
    for number, part in enumerate([None, *(put("/state/n", n) for n in range(2600))]):
        if part is None:
            await writer.create(redis_record, state={"big": {"text": big}})
        else:
            batch = [part, put("/state/big/n", number)] if number < 100 else [part]
            await writer.write(redis_record, *batch)
        assert writer.last is not None
        for change in writer.last.entry.changes:
            mirror.note(change, number * 0.0001)
        if number in (1, 2600):  # after the first write the large field is held: its changes are small and recent
            write = mirror.write(writer.state, number * 0.0001)
            assert write is not None
            assert (await redis_record.mirror([write]))[0]
            mirror.wrote(True, number * 0.0001)
    assert (await redis_record.mirrored(["ctx1"])) == [(writer.position.seq, {"state/big": 4})]
    length = await connection.run("XLEN", "hub:ctx:{ctx1}:changes")
    assert length > 2590
    write = mirror.write(writer.state, 5.0)
    assert write is not None
    assert (await redis_record.mirror([write]))[0]
    mirror.wrote(True, 5.0)
    length = await connection.run("XLEN", "hub:ctx:{ctx1}:changes")
    assert 2048 <= length <= 2048 + 200
    loaded = await redis_record.load("ctx1")
    assert loaded is not None
    assert everything(loaded.state) == everything(writer.state)


async def test_loading_while_the_hashes_move(redis_record: RedisRecord) -> None:
    """A load between two steps of which the hashes are written is done again, the third time in one step."""
    writer, mirror = Writer(), MirrorState()
    await writer.create(redis_record)
    assert writer.last is not None
    mirror.note(writer.last.entry.changes[0], 0.0)
    original = redis_record._connection.many
    moves, moving, steps = 0, False, list[bool]()

    async def many(commands: object, **options: object) -> object:
        nonlocal moves, moving
        answer = await original(commands, **options)  # type: ignore[arg-type]
        if not moving:
            steps.append(bool(options.get("atomic")))
        if not moving and not options.get("atomic"):
            moves, moving = moves + 1, True
            await writer.write(redis_record, put("/state/n", moves))
            assert writer.last is not None
            mirror.note(writer.last.entry.changes[0], float(moves))
            write = mirror.write(writer.state, moves + 0.5)
            assert write is not None
            mirror.wrote((await redis_record.mirror([write]))[0], float(moves))
            moving = False
        return answer

    redis_record._connection.many = many  # type: ignore[method-assign,assignment]
    loaded = await redis_record.load("ctx1")
    assert loaded is not None
    assert everything(loaded.state) == everything(writer.state)
    assert steps == [False, False, False, False, True], "hashes and stream, twice; then all at once"


@pytest.mark.parametrize(
    "raw", [b"", b"\x92\x01", b"\x92\x02\x90", b"\x92\x01\xc4\x01x", b"\x80\x04\x95.", b"\x92\x01\x91\x01"]
)
async def test_hostile_bytes_are_a_typed_error(redis_record: RedisRecord, connection: Connection, raw: bytes) -> None:
    writer = Writer()
    await writer.create(redis_record)
    await connection.run("XADD", "hub:ctx:{ctx1}:changes", "2-0", "id", "x", "before", writer.tip, "changes", raw)
    with pytest.raises(Internal, match=r"damaged|not a packed value|not a list of changes"):
        await redis_record.load("ctx1")
    result = (await redis_record.append([Writer().append(put("/state/a", 1))]))[0]
    assert result.outcome is Outcome.EXISTS or result.error is not None


async def test_a_missing_piece_of_the_stream_is_an_error_not_a_guess(
    redis_record: RedisRecord, connection: Connection
) -> None:
    writer = Writer()
    await writer.create(redis_record)
    for n in range(4):
        await writer.write(redis_record, put("/state/a", n))
    await connection.run("XDEL", "hub:ctx:{ctx1}:changes", "3-0")
    with pytest.raises(Internal, match="damaged"):
        await redis_record.load("ctx1")


async def test_loading_is_quick_with_ten_thousand_entries(redis_record: RedisRecord) -> None:
    writer, mirror = Writer(), MirrorState()
    await writer.create(redis_record)
    await writer.write(redis_record, *(log_add(n, f"l{n}", "some text of an entry", n=n) for n in range(10_000)))
    loaded = await redis_record.load("ctx1")
    assert loaded is not None
    mirror = MirrorState.of(loaded)
    write = mirror.write(loaded.state, 1.0)
    assert write is not None
    assert (await redis_record.mirror([write]))[0]
    began = time.monotonic()
    loaded = await redis_record.load("ctx1")
    assert time.monotonic() - began < 3
    assert loaded is not None
    assert everything(loaded.state) == everything(writer.state)
