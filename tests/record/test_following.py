"""What nodes hear of what happens in the record, whichever node did it, on every kind of record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from hub.core.position import Position
from hub.record.memory import MemoryRecord
from hub.record.port import Following, Outcome, Record, RowTold
from tests.record.heard import Heard
from tests.record.writer import NOW, Writer, everything, notice, put
from tests.support import until

Follow = Callable[..., Awaitable[tuple[Heard, Following]]]


@pytest.fixture
async def follow(record: Record) -> AsyncIterator[Follow]:
    """Makes a node follow the record."""
    started: list[Following] = []

    async def start(*contexts: str) -> tuple[Heard, Following]:
        heard = Heard()
        following = record.follow(f"node {len(started)}/{{}}", heard)
        await following.start()
        started.append(following)
        following.add(contexts)
        await heard.until("followed", len(contexts))
        return heard, following

    yield start
    for following in started:
        await following.close()


def row_of(id: str, **members: object) -> dict[str, object]:
    return {
        "id": id, "name": "", "type": "user", "no": 1, "user_id": None, "agent": None,
        "created_at": NOW, "last_message": NOW, "running": False, "paused": False,
    } | members  # fmt: skip


async def test_a_followed_context_is_heard_entry_by_entry(record: Record, follow: Follow) -> None:
    writer, reader = Writer(), Writer()
    await writer.create(record)
    heard, _ = await follow("ctx1")
    others, _ = await follow("ctx2")
    await reader.catch_up(record)
    for n in range(50):
        await writer.write(record, put("/state/a", n), put("/state/b", {"n": [n, "ünï"]}))
    for context, epoch, last, entry in await heard.until("appended", 50):
        assert (context, epoch) == ("ctx1", "E1")
        reader.take(entry)
        assert last == reader.position.seq
    assert everything(reader.state) == everything(writer.state)
    assert others.of("appended") == []


@pytest.mark.parametrize("before", [0, 40])
async def test_who_reads_after_the_confirmation_misses_nothing(record: Record, follow: Follow, before: int) -> None:
    """While another node writes all the time."""
    writer, reader = Writer(), Writer()
    await writer.create(record)
    stop = False

    async def write() -> None:
        for n in range(10_000):
            if stop:
                return
            await writer.write(record, put("/state/n", n))
            await asyncio.sleep(0)

    writing = asyncio.create_task(write())
    await until(lambda: writer.position.seq > before, "some entries")
    heard, _ = await follow("ctx1")
    await reader.catch_up(record)
    await until(lambda: len(heard.of("appended")) > 30, "more entries")
    stop = True
    await writing
    await until(lambda: heard.of("appended")[-1][2] == writer.position.seq, "the last entry")
    for _, _, last, entry in heard.of("appended"):
        if last > reader.position.seq:
            reader.take(entry)
    assert everything(reader.state) == everything(writer.state)


async def test_what_two_hear_is_not_shared(record: Record, follow: Follow) -> None:
    writer = Writer()
    one, _ = await follow("ctx1")
    other, _ = await follow("ctx1")
    await writer.create(record)
    [(_, _, _, first)] = await one.until("appended", 1)
    first.changes[0].parts[0]["ops"][0]["value"]["name"] = "changed"
    [(_, _, _, second)] = await other.until("appended", 1)
    assert second.changes[0].parts[0]["ops"][0]["value"]["name"] == ""
    assert writer.state.document["name"] == ""


async def test_a_comparison_and_a_refused_append_are_not_heard(record: Record, follow: Follow) -> None:
    writer, behind = Writer(), Writer()
    await writer.create(record)
    await behind.catch_up(record)
    heard, following = await follow("ctx1")
    await writer.write(record, put("/state/a", 1))
    await writer.write(record)
    assert (await behind.write(record, put("/state/a", 2))).outcome is Outcome.STALE
    assert (await Writer(epoch="E2").create(record)).outcome is Outcome.EXISTS
    await following.tell({"end": True})
    await heard.until("told", 1)
    assert len(heard.of("appended")) == 1
    assert heard.of("row") == []


async def test_a_large_entry_is_named_only(record: Record, follow: Follow) -> None:
    writer = Writer()
    await writer.create(record)
    heard, _ = await follow("ctx1")
    await writer.write(record, put("/state/a", "x" * 300_000))
    await writer.write(record, put("/state/a", "x"))
    large, small = await heard.until("appended", 2)
    assert large == ("ctx1", "E1", 2, None)
    assert small[2:] == (3, writer.last.entry if writer.last else None)


async def test_what_is_dropped_is_heard_no_more_until_it_is_added_again(record: Record, follow: Follow) -> None:
    writer = Writer()
    await writer.create(record)
    heard, following = await follow("ctx1")
    following.drop("ctx1")
    following.drop("ctx1")
    following.drop("never followed")
    await writer.write(record, put("/state/a", 1))
    await following.tell({})
    await heard.until("told", 1)
    assert heard.of("appended") == []
    following.drop("ctx1")
    following.add(["ctx1"])
    await heard.until("followed", 2)
    await writer.write(record, put("/state/a", 2))
    [(_, _, last, _)] = await heard.until("appended", 1)
    assert last == 3


async def test_many_contexts_are_followed_at_once(record: Record, follow: Follow) -> None:
    ids = [f"c{n}" for n in range(3000)]
    heard, following = await follow(*ids)
    assert heard.of("followed") == [(id,) for id in ids]
    assert not following.is_deaf
    writer = Writer("c2999")
    await writer.create(record)
    assert [one[0] for one in await heard.until("appended", 1)] == ["c2999"]


async def test_all_nodes_hear_what_one_tells_in_order(follow: Follow) -> None:
    one, following = await follow()
    other, _ = await follow()
    for n in range(100):
        await following.tell({"n": n, "text": "ünï"})
    for heard in (one, other):
        assert await heard.until("told", 100) == [({"n": n, "text": "ünï"},) for n in range(100)]


async def test_rows_are_heard_when_something_of_them_changes(record: Record, follow: Follow) -> None:
    heard, following = await follow()
    writer = Writer()
    await writer.create(record, name="ünï", user_id="ann", agent="demo", no=7)
    await writer.write(record, put("/state/a", 1))  # nothing of a row
    await writer.write(record, put("/running", True), put("/user_id", "bob"))
    await writer.write(record, put("/user_id", None))
    await writer.write(record, [{"kind": "closed", "reason": "removed"}])
    row = row_of("ctx1", name="ünï", user_id="ann", agent="demo", no=7)
    rows = [told for (told,) in await heard.until("row", 4)]
    assert rows == [
        RowTold("ctx1", Position("E1", 1), row, "user", "ann", None),
        RowTold("ctx1", Position("E1", 4), row | {"running": True, "user_id": "bob"}, "user", "bob", "ann"),
        RowTold("ctx1", Position("E1", 5), row | {"running": True, "user_id": None}, "user", None, "bob"),
        RowTold("ctx1", Position("E1", 6), None, "user", None, None),
    ]
    assert following.ignored == 0


async def test_a_row_says_who_had_a_context_that_is_removed_or_replaced(record: Record, follow: Follow) -> None:
    heard, _ = await follow()
    writer = Writer()
    await writer.create(record, user_id="ann", type="task")
    again = Writer(epoch="E2")
    await again.create(record, replace=True, user_id="bob")
    await again.write(record, [{"kind": "closed", "reason": "removed"}])
    third = Writer(epoch="E3")
    await third.create(record, user_id="cem")
    told = [row for (row,) in await heard.until("row", 4)]
    assert [(str(row.version), row.row is None, row.type, row.owner, row.before) for row in told] == [
        ("E1:1", False, "task", "ann", None),
        ("E2:1", False, "user", "bob", "ann"),
        ("E2:2", True, "user", "bob", "bob"),
        ("E3:1", False, "user", "cem", None),
    ]


async def test_a_new_epoch_is_heard_and_the_first_one_wins(record: Record, follow: Follow) -> None:
    writer = Writer()
    await writer.create(record, user_id="ann", state={"a": 1})
    await writer.write(record, put("/state/b", 2))
    heard, _ = await follow("ctx1")
    await record.new_epoch("ctx1", "E1", "E2")
    await record.new_epoch("ctx1", "E1", "E3")
    await record.new_epoch("nowhere", "E1", "E3")
    assert await heard.until("appended", 1) == [("ctx1", "E2", 2, None)]
    assert await heard.until("row", 1) == [
        (RowTold("ctx1", Position("E2", 2), row_of("ctx1", user_id="ann"), "user", "ann", "ann"),)
    ]
    assert await record.end("ctx1") == (Position("E2", 2), writer.tip)
    loaded = await record.load("ctx1")
    assert loaded is not None
    assert (loaded.state.position, loaded.born) == (Position("E2", 2), "E1")
    assert loaded.state.document["state"] == {"a": 1, "b": 2}
    assert (await writer.write(record, put("/state/c", 3))).outcome is Outcome.EPOCH
    writer.state.position = Position("E2", 2)
    assert (await writer.write(record, put("/state/c", 3))).outcome is Outcome.APPENDED
    loaded = await record.load("ctx1")
    assert loaded is not None
    assert everything(loaded.state) == everything(writer.state)


async def test_no_new_epoch_for_what_was_removed(record: Record) -> None:
    writer = Writer()
    await writer.create(record)
    await writer.write(record, [{"kind": "closed", "reason": "removed"}])
    await record.new_epoch("ctx1", "E1", "E2")
    assert (await writer.write(record, put("/state/a", 1))).outcome is Outcome.REMOVED
    assert await record.end("ctx1") is None


async def test_a_notice_is_heard_by_its_id(record: Record, follow: Follow) -> None:
    heard, _ = await follow()
    await record.put_notice(notice("n / 1", message="one"))
    await record.put_notice(notice("n / 1", message="two"))
    assert await record.notice("n / 1") == notice("n / 1", message="two")
    await record.drop_notices(["n / 1", "other"])
    assert await heard.until("notice", 4) == [("n / 1",), ("n / 1",), ("n / 1",), ("other",)]
    assert await record.notice("n / 1") is None


async def test_who_closed_hears_nothing_more(record: Record, follow: Follow) -> None:
    heard, following = await follow("ctx1")
    other, telling = await follow("ctx1")
    before = list(heard.all)
    await following.close()
    assert following.is_deaf
    following.add(["ctx2"])
    await Writer().create(record)
    await telling.tell({})
    await other.until("told", 1)
    assert heard.all == before
    await following.close()


async def test_nobody_is_told_inside_the_call_that_made_it_happen() -> None:
    """In memory, where nothing comes between: a follower may call the record, and nothing is told twice or out of order."""
    record, heard = MemoryRecord(), Heard()
    following = record.follow("n1", heard)
    await following.start()
    following.add(["ctx1"])
    writer = Writer()
    await writer.create(record)
    await following.tell({})
    await record.put_notice({"id": "n1"})
    assert heard.all == []
    await heard.until("notice", 1)
    assert [one[0] for one in heard.all] == ["followed", "appended", "row", "told", "notice"]


async def test_who_appended_is_not_told_what_it_appended(record: Record) -> None:
    mine, others = Writer("ctx1"), Writer("ctx2", "E2")
    await mine.create(record)
    await others.create(record)
    heard = Heard()
    following = record.follow("n1", heard, own="me.")
    await following.start()
    following.add(["ctx1", "ctx2"])
    await heard.until("followed", 2)
    await record.append([mine.append(put("/state/a", 1), id="me.1")])
    await record.append([others.append(put("/state/a", 1), id="you.1")])
    [(context, _, _, entry)] = await heard.until("appended", 1)
    assert (context, entry.id) == ("ctx2", "you.1")
    await following.close()
