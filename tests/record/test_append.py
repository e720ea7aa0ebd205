"""What becomes of an append, on every kind of record."""

from __future__ import annotations

import asyncio
from functools import partial

import msgpack
import pytest

from hub.core.changes import ROOT, RecordEntry
from hub.core.errors import Conflict, HubError, InvalidValue, NotFound, Overloaded, Unavailable
from hub.core.position import Position
from hub.record.connection import Connection, pairs
from hub.record.memory import MemoryRecord
from hub.record.packing import pack
from hub.record.port import Append, MirrorWrite, Outcome, Record
from hub.record.redis import RedisRecord
from tests.proxy import Proxy
from tests.record.writer import Writer, creation, everything, log_add, put
from tests.support import SECONDS, until


async def test_appends_stand_in_order_and_name_the_one_before(record: Record) -> None:
    writer = Writer()
    assert (await writer.create(record)).outcome is Outcome.APPENDED
    first = writer.tip
    assert (await writer.write(record, put("/state/a", 1), put("/state/b", 2))).outcome is Outcome.APPENDED

    assert await record.end("ctx1") == (Position("E1", 3), writer.tip)
    entries, more = await record.read("ctx1", Position("E1", 0))
    assert [(entry.id, entry.before) for entry in entries] == [(first, ROOT), (writer.tip, first)]
    assert [change.position.seq for entry in entries for change in entry.changes] == [1, 2, 3]
    assert entries[1].changes[1].parts == put("/state/b", 2)
    assert not more


async def test_who_stands_behind_gets_what_was_missed(record: Record) -> None:
    ahead, behind = Writer(), Writer()
    await ahead.create(record)
    await behind.catch_up(record)
    await ahead.write(record, put("/state/a", 1), put("/state/b", 2))
    await ahead.write(record, put("/state/c", 3))

    result = await behind.write(record, put("/state/mine", 1))
    assert result.outcome is Outcome.STALE
    assert not result.more
    for entry in result.entries:
        behind.take(entry)
    assert behind.position == ahead.position
    assert (await behind.write(record, put("/state/mine", 1))).outcome is Outcome.APPENDED


async def test_missed_entries_come_in_bounded_pieces(record: Record) -> None:
    ahead, behind = Writer(), Writer()
    await ahead.create(record)
    await behind.catch_up(record)
    for n in range(100):
        await ahead.write(record, put("/state/a", n))
    result = await behind.write(record, put("/state/mine", 1))
    assert result.more
    assert 0 < len(result.entries) < 100
    for entry in result.entries:
        behind.take(entry)
    await behind.catch_up(record)
    assert behind.state.document == ahead.state.document


async def test_an_own_entry_among_the_missed_is_a_lost_answer(record: Record) -> None:
    writer = Writer()
    await writer.create(record)
    append = writer.append(put("/state/a", 1))
    await record.append([append])
    (again,) = await record.append([append])
    assert again.outcome is Outcome.STALE
    assert [entry.id for entry in again.entries] == [append.entry.id]


async def test_same_seq_after_another_entry_is_stale(record: Record) -> None:
    one, other = Writer(), Writer()
    await one.create(record)
    await other.catch_up(record)
    await one.write(record, put("/state/a", 1))
    other.take(other.append(put("/state/b", 1)).entry)
    result = await other.write(record, put("/state/c", 1))
    assert (result.outcome, list(result.entries)) == (Outcome.STALE, [])


async def test_epoch_missing_and_exists(record: Record) -> None:
    writer = Writer()
    await writer.create(record)
    stranger = Writer(epoch="E2")
    assert (await stranger.create(record)).outcome is Outcome.EXISTS
    stranger.take(stranger.append(creation("ctx1", "E2")).entry)
    assert (await stranger.write(record, put("/state/a", 1))).outcome is Outcome.EPOCH
    lost = Writer("nowhere")
    lost.take(lost.append(creation("nowhere", "E1")).entry)
    assert (await lost.write(record, put("/state/a", 1))).outcome is Outcome.MISSING
    assert await record.end("nowhere") is None
    assert await record.load("nowhere") is None


async def test_a_creation_whose_answer_was_lost_brings_its_entries(record: Record) -> None:
    writer = Writer()
    creating = writer.append(creation("ctx1", "E1"))
    await record.append([creating])
    writer.take(creating.entry)
    await writer.write(record, put("/state/a", 1))
    (again,) = await record.append([creating])
    assert again.outcome is Outcome.EXISTS
    assert [entry.id for entry in again.entries] == [creating.entry.id, writer.tip]


async def test_removed_contexts_leave_a_tombstone_that_a_creation_takes_over(record: Record) -> None:
    writer, other = Writer(), Writer()
    await writer.create(record, state={"old": 1})
    await other.catch_up(record)
    assert (await writer.write(record, [{"kind": "closed", "reason": "removed"}])).outcome is Outcome.APPENDED

    assert (await other.write(record, put("/state/a", 1))).outcome is Outcome.REMOVED
    assert await record.load("ctx1") is None
    assert await record.end("ctx1") is None
    assert (await record.rows())[0] == []
    entries, _ = await record.read("ctx1", other.position)
    assert entries[0].changes[0].parts == [{"kind": "closed", "reason": "removed"}]

    again = Writer(epoch="E2")
    assert (await again.create(record)).outcome is Outcome.APPENDED
    loaded = await record.load("ctx1")
    assert loaded is not None
    assert loaded.state.document["state"] == {}
    assert (await other.write(record, put("/state/a", 1))).outcome is Outcome.EPOCH
    assert (await other.write(record, put("/state/a", 1), born="E1")).outcome is Outcome.REMOVED


async def test_replace_is_remove_and_create_in_one(record: Record) -> None:
    old, new = Writer(), Writer(epoch="E2")
    await old.create(record, state={"old": 1}, user_id="ann")
    result = await new.create(record, replace=True, state={"new": 1}, user_id="bob")
    assert result.outcome is Outcome.APPENDED
    loaded = await record.load("ctx1")
    assert loaded is not None
    assert (loaded.state.document["state"], loaded.born) == ({"new": 1}, "E2")
    assert (await record.rows(user_id="ann"))[0] == []
    assert [row["id"] for row in (await record.rows(user_id="bob"))[0]] == ["ctx1"]
    assert new.last is not None
    (again,) = await record.append([new.last])  # the answer was lost
    assert (again.outcome, [entry.id for entry in again.entries]) == (Outcome.EXISTS, [new.tip])


async def test_a_lost_context_is_written_anew(record: Record) -> None:
    """Its first epoch stays what it was, so that who knew it before finds out that it is the same."""
    anew, knows, stranger = Writer(epoch="E2"), Writer(epoch="E2"), Writer(epoch="E2")
    result = await anew.write(record, creation("ctx1", "E2", state={"a": 1}), born="E1", since="E1:17")
    assert result.outcome is Outcome.APPENDED
    loaded = await record.load("ctx1")
    assert loaded is not None
    assert (loaded.born, loaded.since, loaded.state.position) == ("E1", "E1:17", Position("E2", 1))
    assert loaded.state.document["state"] == {"a": 1}
    assert set(loaded.state.document) == set(anew.state.document)
    await knows.catch_up(record)
    assert (await knows.write(record, put("/state/b", 2), born="E1")).outcome is Outcome.APPENDED
    await stranger.catch_up(record)
    assert (await stranger.write(record, put("/state/b", 3), born="E9")).outcome is Outcome.REMOVED
    loaded = await record.load("ctx1")
    assert loaded is not None
    assert (loaded.born, loaded.since) == ("E1", "E1:17")


async def test_what_is_there_is_not_written_anew(record: Record) -> None:
    """Another node was first, or it was removed after that."""
    first, second, third = Writer(epoch="E2"), Writer(epoch="E3"), Writer(epoch="E4")
    await first.write(record, creation("ctx1", "E2"), born="E1")
    result = await second.write(record, creation("ctx1", "E3"), born="E1")
    assert (result.outcome, list(result.entries)) == (Outcome.EXISTS, [])
    assert first.last is not None
    (again,) = await record.append([first.last])  # the answer was lost
    assert (again.outcome, [entry.id for entry in again.entries]) == (Outcome.EXISTS, [first.tip])
    await first.write(record, [{"kind": "closed", "reason": "removed"}], born="E1")
    assert (await third.write(record, creation("ctx1", "E4"), born="E1")).outcome is Outcome.REMOVED
    assert await record.end("ctx1") is None
    created = Writer(epoch="E5")
    assert (await created.write(record, creation("ctx1", "E5"), born="E5")).outcome is Outcome.APPENDED
    loaded = await record.load("ctx1")
    assert loaded is not None
    assert (loaded.born, loaded.since) == ("E5", "")


async def test_who_wins_learns_that_another_writer_was_stale(record: Record) -> None:
    one, other = Writer(), Writer()
    assert not (await one.create(record)).wanted
    await other.catch_up(record)
    assert not (await one.write(record, put("/state/a", 1))).wanted
    assert not (await one.write(record, put("/state/a", 2))).wanted
    for _ in range(3):  # compared only, then twice refused
        assert (await other.write(record)).outcome is Outcome.STALE
    assert not (await one.write(record, put("/state/a", 3))).wanted
    for n in range(2):
        assert (await other.write(record, put("/state/b", n))).outcome is Outcome.STALE
    assert not (await one.write(record)).wanted
    assert (await one.write(record, put("/state/a", 4))).wanted
    assert not (await one.write(record, put("/state/a", 5))).wanted
    assert (await other.write(record, put("/state/b", 1))).outcome is Outcome.STALE
    await other.catch_up(record)
    assert not (await other.write(record, put("/state/b", 1))).wanted, "it was the one"
    loaded = await record.load("ctx1")
    assert loaded is not None
    assert everything(loaded.state) == everything(other.state)


async def test_the_first_that_was_stale_is_the_one_that_others_wait_for(record: Record) -> None:
    one, first, second = Writer(), Writer(), Writer()
    await one.create(record)
    for other in (first, second):
        await other.catch_up(record)
    await one.write(record, put("/state/a", 1))
    for other in (first, second):
        assert (await other.write(record, put("/state/b", 1))).outcome is Outcome.STALE
    await second.catch_up(record)
    assert (await second.write(record, put("/state/b", 2))).wanted
    await first.write(record, put("/state/b", 3))
    await first.catch_up(record)
    assert not (await first.write(record, put("/state/b", 3))).wanted


async def test_a_mark_of_a_context_that_was_replaced_is_forgotten(record: Record) -> None:
    one, other, new = Writer(), Writer(), Writer(epoch="E2")
    await one.create(record)
    await other.catch_up(record)
    await one.write(record, put("/state/a", 1))
    await other.write(record, put("/state/a", 2))
    assert not (await new.create(record, replace=True)).wanted
    assert not (await new.write(record, put("/state/a", 3))).wanted


async def test_an_entry_without_changes_only_compares(record: Record) -> None:
    writer, other = Writer(), Writer()
    await writer.create(record)
    await other.catch_up(record)
    assert (await writer.write(record)).outcome is Outcome.APPENDED
    assert await record.end("ctx1") == (Position("E1", 1), writer.tip)
    await other.write(record, put("/state/a", 1))
    result = await writer.write(record)
    assert (result.outcome, len(result.entries)) == (Outcome.STALE, 1)


async def test_each_context_of_a_group_has_its_own_outcome(record: Record) -> None:
    writers = [Writer(f"c{n}") for n in range(150)]
    results = await record.append([writer.append(creation(writer.context, "E1")) for writer in writers])
    assert {result.outcome for result in results} == {Outcome.APPENDED}
    for writer in writers:
        assert writer.last is not None
        writer.take(writer.last.entry)
    intruder = Writer("c7")
    await intruder.catch_up(record)
    await intruder.write(record, put("/state/x", 1))

    appends = [writer.append(put("/state/a", 1)) for writer in writers]
    appends[3] = writers[3].append(put("/state/a", "\ud800"))
    results = await record.append(appends)
    odd = {n: result.outcome for n, result in enumerate(results) if result.outcome is not Outcome.APPENDED}
    assert odd == {3: Outcome.FAILED, 7: Outcome.STALE}
    assert isinstance(results[3].error, InvalidValue)


async def test_large_entries_go_alone_and_whole(record: Record) -> None:
    writers = [Writer(f"c{n}") for n in range(3)]
    for writer in writers:
        await writer.create(record)
    text = "x" * 900_000
    results = await record.append([writer.append(put("/state/a", text)) for writer in writers])
    assert {result.outcome for result in results} == {Outcome.APPENDED}
    loaded = await record.load("c2")
    assert loaded is not None
    assert loaded.state.document["state"]["a"] == text


async def test_read_says_what_does_not_fit(record: Record) -> None:
    writer = Writer()
    await writer.create(record)
    await writer.write(record, put("/state/a", 1), put("/state/a", 2), put("/state/a", 3))
    entries, _ = await record.read("ctx1", Position("E1", 2))  # in the middle of an entry
    assert [change.position.seq for change in entries[0].changes] == [3, 4]
    assert await record.read("ctx1", Position("E1", 4)) == ([], False)
    for position in (Position("E1", 9), Position("E2", 1)):
        with pytest.raises(Conflict):
            await record.read("ctx1", position)
    with pytest.raises(NotFound):
        await record.read("nowhere", Position("E1", 0))


async def test_read_in_pages(record: Record) -> None:
    writer, reader = Writer(), Writer()
    await writer.create(record)
    for n in range(9):
        await writer.write(record, log_add(n, f"l{n}"))
    entries, more = await record.read("ctx1", reader.position, limit=4)
    assert (len(entries), more) == (4, True)
    for entry in entries:
        reader.take(entry)
    entries, more = await record.read("ctx1", reader.position, limit=6)
    assert (len(entries), more) == (6, False)


async def test_one_broken_context_harms_no_other(redis_record: RedisRecord, connection: Connection) -> None:
    writers = [Writer(f"c{n}") for n in range(3)]
    for writer in writers:
        await writer.create(redis_record)
    await connection.run("DEL", "hub:ctx:{c1}:changes")
    await connection.run("SET", "hub:ctx:{c1}:changes", "broken")
    results = await redis_record.append([writer.append(put("/state/a", 1)) for writer in writers])
    assert [result.outcome for result in results] == [Outcome.APPENDED, Outcome.FAILED, Outcome.APPENDED]
    assert results[1].error is not None
    assert "WRONGTYPE" in results[1].error.message
    assert await redis_record.end("c1") == (Position("E1", 1), writers[1].tip)


@pytest.mark.parametrize(
    ("stop", "go_on", "error"),
    [
        ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0", Unavailable),
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", Unavailable),
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", Overloaded),
    ],
)
async def test_a_server_that_takes_no_writes_says_so(
    redis_record: RedisRecord, connection: Connection, stop: str, go_on: str, error: type[HubError]
) -> None:
    """It lost its replicas, became one, or is full: that is no fault of a context, and the same append may come again."""
    writer = Writer()
    await writer.create(redis_record)
    append = writer.append(put("/state/a", 1))
    write = MirrorWrite("ctx1", 0, writer.position, {"state": {"a": pack(1)}})
    await connection.run(*stop.split())
    try:
        if error is Unavailable:
            with pytest.raises(Unavailable):
                await redis_record.append([append])
            with pytest.raises(Unavailable):
                await redis_record.mirror([write])
        else:
            [result] = await redis_record.append([append])
            assert (result.outcome, type(result.error)) == (Outcome.FAILED, error)
            assert await redis_record.mirror([write]) == [False]
    finally:
        await connection.run(*go_on.split())
    assert [result.outcome for result in await redis_record.append([append])] == [Outcome.APPENDED]
    assert await redis_record.mirror([write]) == [True]


async def test_nothing_to_write_is_no_call(redis_record: RedisRecord) -> None:
    assert await redis_record.append([]) == []
    assert await redis_record.mirror([]) == []


async def test_scripts_are_loaded_again_after_a_flush(redis_record: RedisRecord, connection: Connection) -> None:
    writer = Writer()
    await writer.create(redis_record)
    await connection.run("SCRIPT", "FLUSH")
    assert (await writer.write(redis_record, put("/state/a", 1))).outcome is Outcome.APPENDED


async def test_scripts_that_are_flushed_all_the_time(redis_record: RedisRecord, connection: Connection) -> None:
    """Some calls of a group ran before the script was gone: all come again, and who was in them finds the own entry."""
    writers = [Writer(f"c{n}") for n in range(200)]
    await redis_record.append([writer.append(creation(writer.context, "E1")) for writer in writers])
    for writer in writers:
        assert writer.last is not None
        writer.take(writer.last.entry)

    async def flush() -> None:
        while True:
            await connection.run("SCRIPT", "FLUSH")

    flushing = asyncio.create_task(flush())
    appended = 0
    for n in range(20):
        appends = [writer.append(put("/state/a", n)) for writer in writers]
        try:
            results = await redis_record.append(appends)
        except Unavailable:
            results = []  # "forgets its scripts as fast as they are loaded": any of them may be appended
        for writer, append, result in zip(writers, appends, results, strict=False):
            assert result.outcome is Outcome.APPENDED or list(result.entries) == [append.entry]
            writer.take(append.entry)
            appended += 1
        if not results:
            for writer in writers:
                await writer.catch_up(redis_record)
    flushing.cancel()
    await asyncio.wait({flushing}, timeout=SECONDS)
    assert flushing.cancelled()
    assert appended
    for writer in writers:
        assert await redis_record.end(writer.context) == (writer.position, writer.tip)


@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_the_connection_goes_in_the_middle(server: str, lost: str) -> None:
    """Nobody knows what was appended; the same appends come again and find out."""
    with Proxy(server) as proxy:
        record = RedisRecord(proxy.url)
        await record.start()
        writers = [Writer(f"c{n}") for n in range(130)]  # three calls
        for writer in writers:
            await writer.create(record)
        appends = [writer.append(put("/state/a", n)) for n, writer in enumerate(writers)]
        way = proxy.to_server if lost == "request" else proxy.to_client
        before, way.delay = proxy.to_server.bytes, 30.0
        appending = asyncio.create_task(record.append(appends))
        if lost == "answer":
            other = RedisRecord(server)
            await until(partial(_ends_at, other, "c129", 2), "the append at the server")
            await other.close()
        else:
            await asyncio.sleep(0)  # it is sent at once
        proxy.cut()
        with pytest.raises(Unavailable):
            await appending
        way.delay = 0.0
        assert (proxy.to_server.bytes > before) is (lost == "answer")
        again = await record.append(appends)
        if lost == "request":
            assert {result.outcome for result in again} == {Outcome.APPENDED}
        else:
            assert {result.outcome for result in again} == {Outcome.STALE}
            assert [list(result.entries) for result in again] == [[append.entry] for append in appends]
        for writer, append in zip(writers, appends, strict=True):
            writer.take(append.entry)
            assert await record.end(writer.context) == (writer.position, writer.tip)
        await record.close()


async def _ends_at(record: Record, context: str, seq: int) -> bool:
    end = await record.end(context)
    return end is not None and end[0].seq == seq


async def test_many_contexts_go_in_few_bounded_calls(redis_record: RedisRecord, connection: Connection) -> None:
    async def calls(appends: list[Append]) -> int:
        await connection.run("CONFIG", "RESETSTAT")
        assert {result.outcome for result in await redis_record.append(appends)} == {Outcome.APPENDED}
        stats: bytes = await connection.run("INFO", "commandstats")
        [line] = [line for line in stats.splitlines() if line.startswith(b"cmdstat_evalsha:")]
        return int(line.partition(b"calls=")[2].partition(b",")[0])

    await Writer().create(redis_record)
    assert await calls([Writer(f"a{n}").append(creation(f"a{n}", "E1")) for n in range(129)]) == 3
    text = "x" * 600_000
    assert await calls([Writer(f"b{n}").append(creation(f"b{n}", "E1", state={"a": text})) for n in range(3)]) == 3


async def test_a_full_server_still_says_who_is_stale(redis_record: RedisRecord, connection: Connection) -> None:
    writer, behind = Writer(), Writer()
    await writer.create(redis_record)
    await behind.catch_up(redis_record)
    await writer.write(redis_record, put("/state/a", 1))
    await connection.run("CONFIG", "SET", "maxmemory", 1)
    try:
        result = await behind.write(redis_record, put("/state/a", 2))
    finally:
        await connection.run("CONFIG", "SET", "maxmemory", 0)
    assert (result.outcome, [entry.id for entry in result.entries]) == (Outcome.STALE, [writer.tip])


async def test_what_a_removal_leaves_expires(redis_record: RedisRecord, connection: Connection) -> None:
    writer = Writer()
    await writer.create(redis_record, user_id="ann", state={"a": 1})
    await writer.write(redis_record, [{"kind": "closed", "reason": "removed"}])
    keys = sorted(await connection.run("KEYS", "*"))
    assert keys == [b"hub:ctx:{ctx1}", b"hub:ctx:{ctx1}:changes"]
    for key in keys:
        assert 3500 < await connection.run("TTL", key) <= 3600


async def test_what_a_removal_leaves_is_forgotten_in_memory() -> None:
    now = 1_000_000.0
    record, writer, other = MemoryRecord(clock=lambda: now), Writer(), Writer()
    await writer.create(record)
    await other.catch_up(record)
    await writer.write(record, [{"kind": "closed", "reason": "removed"}])
    now += 3599
    assert (await other.write(record, put("/state/a", 1))).outcome is Outcome.REMOVED
    assert len((await record.read("ctx1", other.position))[0]) == 1
    now += 2
    assert (await other.write(record, put("/state/a", 1))).outcome is Outcome.MISSING
    with pytest.raises(NotFound):
        await record.read("ctx1", other.position)


async def test_entries_are_published_for_other_nodes(redis_record: RedisRecord, connection: Connection) -> None:
    from redis.asyncio import Redis

    client = Redis(unix_socket_path=connection.address.removeprefix("unix://"), protocol=2)
    try:
        async with client.pubsub() as pubsub:
            await pubsub.execute_command("SSUBSCRIBE", "hub:ctx:{ctx1}:live")
            assert (await pubsub.parse_response())[0] == b"ssubscribe"
            writer = Writer()
            await writer.create(redis_record)
            kind, channel, message = await pubsub.parse_response()
    finally:
        await client.aclose()
    head, _, packed = message.partition(b"\n")
    assert (kind, channel, head.decode()) == (b"smessage", b"hub:ctx:{ctx1}:live", f"1 E1 1 {writer.tip} root")
    assert packed[:2] == b"\x92\x01"


async def test_what_a_context_is_in_redis(redis_record: RedisRecord, connection: Connection) -> None:
    """RECORD.md's table of keys, to the letter: other programs read it."""
    writer = Writer("c1", "E1")
    await writer.create(redis_record, name="ünï", state={"a": 1})
    first = writer.tip
    await writer.write(redis_record, put("/state/b", 2), put("/state/c", 3))
    await redis_record.new_epoch("c1", "E1", "E2")
    main = pairs(await connection.run("HGETALL", "hub:ctx:{c1}"))
    ends = {name: main[name] for name in (b"epoch", b"last", b"tip", b"born", b"mirrored", b"name", b"running")}
    assert ends == {
        b"epoch": b"E2", b"last": b"3", b"tip": writer.tip.encode(), b"born": b"E1", b"mirrored": b"0",
        b"name": "ünï".encode(), b"running": b"false",
    }  # fmt: skip
    created, changed = await connection.run("XRANGE", "hub:ctx:{c1}:changes", "-", "+")
    assert [created[0], changed[0]] == [b"1-0", b"3-0"]
    fields = pairs(changed[1])
    assert (fields.pop(b"id"), fields.pop(b"before")) == (writer.tip.encode(), first.encode())
    assert msgpack.unpackb(fields.pop(b"changes")) == [1, [put("/state/b", 2), put("/state/c", 3)]]
    assert fields == {}


async def test_who_was_behind_a_removal_is_told_how_it_came(record: Record) -> None:
    writer, behind = Writer(), Writer()
    await writer.create(record)
    assert await record.farewell("ctx1") is None
    await behind.catch_up(record)
    await writer.write(record, put("/state/a", 1))
    await writer.write(record, [{"kind": "closed", "reason": "removed"}])
    late = await behind.write(record, put("/state/b", 1))
    assert late.outcome is Outcome.REMOVED
    assert [entry.changes[0].position.seq for entry in late.entries] == [2, 3]
    assert late.entries[0].before == behind.tip
    farewell = await record.farewell("ctx1")
    assert farewell == late.entries[-1]
    [stranger] = await record.append([Append("ctx1", Position("E9", 3), RecordEntry("x", "y", []), born="E9")])
    assert (stranger.outcome, list(stranger.entries)) == (Outcome.REMOVED, [])
    assert await record.farewell("nothing") is None


async def test_the_request_that_made_a_removed_context_does_not_make_it_again(record: Record) -> None:
    """A node that was paused may come late with it: it was tried again elsewhere, and the context was removed."""
    first = Writer()
    await record.append([first.append(creation("ctx1", "E1"), key="k")])
    await first.catch_up(record)
    await record.append([first.append([{"kind": "closed", "reason": "removed"}], key="k")])
    late = Writer(epoch="E2")
    [outcome] = await record.append([late.append(creation("ctx1", "E2"), key="k")])
    assert outcome.outcome is Outcome.REMOVED
    [outcome] = await record.append([late.append(creation("ctx1", "E2"), key="another")])
    assert outcome.outcome is Outcome.APPENDED
