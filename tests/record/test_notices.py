"""Notices and read marks, on every kind of record."""

from __future__ import annotations

import pytest

from hub.core.errors import InvalidRequest
from hub.record.connection import Connection
from hub.record.packing import pack
from hub.record.port import Record
from hub.record.redis import RedisRecord
from tests.record.writer import NOW, notice


async def test_notices_are_kept_until_they_are_dropped(record: Record) -> None:
    assert await record.notices() == {}
    again, two = notice("n1", message="again", expires_at=NOW), notice("n2", message="two", starts_at=NOW)
    await record.put_notice(notice("n1", message="ünï", context="c1", audience="ann"))
    await record.put_notice(two)
    await record.put_notice(again)
    assert await record.notices() == {"n1": again, "n2": two}
    await record.drop_notices(["n1", "unknown"])
    await record.drop_notices([])
    assert list(await record.notices()) == ["n2"]
    with pytest.raises(InvalidRequest):
        await record.put_notice({"message": "no id"})


async def test_marks_are_per_user_and_a_new_text_is_unread(record: Record) -> None:
    await record.put_notice(notice("n1"))
    await record.put_notice(notice("n2"))
    await record.mark_read("ann / {}", ["n1", "n2", "unknown"])
    await record.mark_read("ann / {}", [])
    assert await record.read_marks("ann / {}") == {"n1", "n2"}
    assert await record.read_marks("bob") == set()
    await record.put_notice(notice("n1"))
    assert await record.read_marks("ann / {}") == {"n2"}
    await record.drop_notices(["n2"])
    assert await record.read_marks("ann / {}") == set()


async def test_marks_of_old_notices_do_not_pile_up(redis_record: RedisRecord, connection: Connection) -> None:
    for start in range(0, 1200, 100):
        ids = [f"n{n}" for n in range(start, start + 100)]
        for id in ids:
            await redis_record.put_notice(notice(id))
        await redis_record.mark_read("ann", ids)
        assert await redis_record.read_marks("ann") == set(ids)
        await redis_record.drop_notices(ids)
    assert await connection.run("HLEN", "hub:user:{ann}:notices") <= 600


FOREIGN: list[tuple[str | bytes, bytes]] = [
    ("bad", b"\x80\x04."),
    (b"\xff", pack(["m", notice("bad")])),
    ("bad", pack(["m", notice("another")])),
    ("bad", pack([1, notice("bad")])),
    *(
        ("bad", pack(["m", {name: value for name, value in notice("bad").items() if name != missing}]))
        for missing in notice("bad")
    ),
    *(("bad", pack(["m", notice("bad") | {name: {}}])) for name in notice("bad")),
    *(
        ("bad", pack(["m", notice("bad") | {name: "zz"}]))
        for name in ("created_at", "starts_at", "expires_at", "posted")
    ),
    ("bad", pack(["m", notice("bad", posted=["key"])])),
]


@pytest.mark.parametrize(("id", "raw"), FOREIGN)
async def test_a_notice_that_somebody_else_wrote_hides_no_other(
    redis_record: RedisRecord, connection: Connection, id: str | bytes, raw: bytes
) -> None:
    await redis_record.put_notice(notice("n1"))
    await connection.run("HSET", "hub:notices", id, raw)
    assert await redis_record.notices() == {"n1": notice("n1")}
    if isinstance(id, str):
        assert await redis_record.notice(id) is None
        await redis_record.mark_read("ann", [id, "n1"])
        assert await redis_record.read_marks("ann") == {"n1"}
