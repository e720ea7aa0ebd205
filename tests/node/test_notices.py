"""Notices: begin, end, order, bounds, and a record that goes away."""

from __future__ import annotations

from typing import Any

import pytest

from hub.core.errors import InvalidRequest, Unavailable
from hub.core.requests import Role
from hub.core.times import iso
from hub.node import notices as module
from hub.node.notices import MOST_OF_CONTEXTS, Notices
from hub.node.rights import Identity
from hub.record.memory import MemoryRecord
from hub.wire.messages import NoticePost
from tests.node.support import KeptOutbox
from tests.support import until

OPERATOR = Identity("op", Role.OPERATOR)


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def clock() -> Clock:
    return Clock()


@pytest.fixture
async def notices(clock: Clock) -> Any:
    notices = Notices(MemoryRecord(clock=clock), clock)
    await notices.start()
    yield notices
    await notices.close()


async def shown(notices: Notices, identity: Identity = OPERATOR) -> list[str]:
    return [row["id"] for row in (await notices.rows(identity))["rows"]]


async def test_begin_and_end(notices: Notices, clock: Clock) -> None:
    outbox = KeptOutbox()
    notices.topic.join(outbox, OPERATOR)
    begins, ends = iso(clock.now + 0.2), iso(clock.now + 0.4)
    await notices.post(NoticePost(message="later", id="n", starts_at=begins, expires_at=ends), "operator", None)
    assert await shown(notices) == []
    assert outbox.events == []
    clock.now += 0.3
    assert await shown(notices) == ["n"]
    await until(lambda: outbox.events)
    assert outbox.of("row")[0]["row"]["message"] == "later"
    clock.now += 0.2
    assert await shown(notices) == [], "it has expired, whether or not that was swept"
    await until(lambda: len(outbox.events) == 2)
    assert outbox.of("row")[1]["row"] is None
    assert await notices._record.notices() == {}


async def test_an_expiry_while_the_record_is_away(
    notices: Notices, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY", 0.05)
    record, away, tries = notices._record, True, 0
    original = record.drop_notices

    async def drop(ids: Any) -> None:
        nonlocal tries
        tries += 1
        if away:
            raise Unavailable("away")
        await original(ids)

    monkeypatch.setattr(record, "drop_notices", drop)
    await notices.post(NoticePost(message="m", id="n", expires_at=iso(clock.now + 0.05)), "operator", None)
    clock.now += 1
    await until(lambda: tries > 1)
    assert await shown(notices) == []
    away = False
    await until(lambda: notices.get("n") is None)


async def test_newest_first_and_again(notices: Notices) -> None:
    for id in ("a", "b", "c", "a"):
        await notices.post(NoticePost(message=id, id=id), "operator", None)
    assert await shown(notices) == ["a", "c", "b"]


async def test_at_most_so_many_of_contexts(notices: Notices) -> None:
    outbox = KeptOutbox()
    notices.topic.join(outbox, OPERATOR)
    await notices.post(NoticePost(message="mine", id="operators"), "operator", None)
    for n in range(MOST_OF_CONTEXTS + 3):
        await notices.post(NoticePost(message="m", id=f"n{n}", context="c"), "context", "ann")
    ids = await shown(notices)
    assert len(ids) == MOST_OF_CONTEXTS + 1
    assert "operators" in ids
    gone = [event["id"] for event in outbox.of("row") if event["row"] is None]
    assert gone == ["n0", "n1", "n2"]


@pytest.mark.parametrize("moment", ["soon", "2026-13-01T00:00:00Z", "5"])
async def test_times_that_are_none(notices: Notices, moment: str) -> None:
    with pytest.raises(InvalidRequest):
        await notices.post(NoticePost(message="m", id="n", expires_at=moment), "operator", None)
    assert await shown(notices) == []


async def test_after_a_restart(clock: Clock) -> None:
    record = MemoryRecord(clock=clock)
    first = Notices(record, clock)
    await first.start()
    await first.post(NoticePost(message="stays", id="stays", key="k"), "operator", None, ["k", "digest"])
    clock.now += 1
    await first.post(NoticePost(message="goes", id="goes", expires_at=iso(clock.now + 5)), "operator", None)
    await first.mark_read(OPERATOR, ["stays"])
    await first.close()
    clock.now += 10
    second = Notices(record, clock)
    await second.start()
    reply = await second.rows(OPERATOR)
    assert [row["id"] for row in reply["rows"]] == reply["read"] == ["stays"]
    again = await second.post(NoticePost(message="stays", id="stays", key="k"), "operator", None, ["k", "digest"])
    assert again["duplicate"]
    await until(lambda: second.get("goes") is None)
    await second.close()
