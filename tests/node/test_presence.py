"""Who lives: beats, hello, deaths, and who must not judge."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from hub.core.errors import Overloaded, Unavailable
from hub.node.machine import has_ended, this_process
from hub.node.presence import Presence
from hub.record.memory import MemoryRecord
from hub.record.port import Beat
from tests.support import until, wait_until

EVERY, DEAD, LATE = 0.03, 0.3, 0.1


class Record(MemoryRecord):
    """One that can be away: for all, or for the beats of some nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.away: set[str] = set()
        self.left: list[str] = []

    async def beat(self, node: str, info: dict[str, Any]) -> dict[str, Beat]:
        if self.away & {node, "all"}:
            raise Unavailable("away")
        return await super().beat(node, info)

    async def leave(self, node: str) -> None:
        self.left.append(node)
        await super().leave(node)


class Member:
    """A node's presence, and what it was told."""

    def __init__(self, record: MemoryRecord, everybody: list[Member], name: str, dead_after: float) -> None:
        self.everybody = everybody
        self.presence = Presence(
            record, name, lambda: {"host": "h"}, self.tell, every=EVERY, dead_after=dead_after, late=LATE
        )
        self.company = self.lonely = self.late = 0
        self.dead: list[tuple[str, float]] = []
        self.deaf = False
        self.follows = asyncio.Event()
        self.follows.set()
        self.presence.on_company = self.on_company
        self.presence.on_alone = self.on_alone
        self.presence.on_dead = self.on_dead
        self.presence.on_late = self.on_late

    async def tell(self, message: dict[str, Any]) -> None:
        for member in self.everybody:
            if not member.deaf:
                asyncio.get_running_loop().call_soon(member.presence.told, message)

    async def on_company(self) -> None:
        await self.follows.wait()
        self.company += 1

    def on_alone(self) -> None:
        self.lonely += 1

    def on_late(self) -> None:
        self.late += 1

    async def on_dead(self, node: str, missed: float) -> None:
        self.dead.append((node, missed))

    async def die(self) -> None:
        """Beat no more, without a word."""
        task = self.presence._task
        assert task is not None
        task.cancel()
        await asyncio.wait([task])


class Members:
    def __init__(self, record: Record, stack: AsyncExitStack) -> None:
        self.record = record
        self._stack = stack
        self._everybody: list[Member] = []

    async def join(self, name: str, *, hello: bool = True, dead_after: float = DEAD) -> Member:
        member = Member(self.record, self._everybody, name, dead_after)
        self._everybody.append(member)
        self._stack.push_async_callback(member.presence.close)
        await member.presence.start()
        if hello:
            await member.presence.say_hello()
        return member


@asynccontextmanager
async def members(record: Record) -> AsyncIterator[Members]:
    async with AsyncExitStack() as stack:
        yield Members(record, stack)


@pytest.fixture
async def there() -> AsyncIterator[Members]:
    async with members(Record()) as there:
        yield there


async def beats(member: Member, number: int) -> None:
    """Wait for some more beats of a node."""
    beat = member.presence._beats[member.presence.node].info["beat"]
    await until(lambda: member.presence._beats[member.presence.node].info["beat"] >= beat + number)


async def test_one_that_is_alone_waits_for_nobody(there: Members) -> None:
    first = await there.join("a")
    assert (first.presence.alone, first.presence.is_first, first.presence.others) == (True, True, [])
    await beats(first, 3)
    assert (first.company, first.lonely, first.dead) == (0, 0, [])
    [row] = first.presence.rows()
    assert (row["name"], row["info"]["host"]) == ("a", "h")
    assert row["age"] < LATE


async def test_a_new_one_serves_once_the_others_follow(there: Members) -> None:
    first, second = await there.join("a"), await there.join("b")
    assert (first.company, first.presence.alone, second.presence.alone) == (1, False, False)
    first.follows.clear()
    third = await there.join("c", hello=False)
    hello = asyncio.create_task(third.presence.say_hello())
    await until(lambda: second.company >= 2)
    await beats(third, 3)
    assert not hello.done(), "one of them does not follow yet"
    first.follows.set()
    await hello
    assert [row["name"] for row in third.presence.rows()] == ["a", "b", "c"]
    assert (first.presence.is_first, third.presence.is_first) == (True, False)


async def test_one_that_was_late_greets_the_others_again(there: Members) -> None:
    """They may have taken it for dead, and follow what it appends no more."""
    first, second = await there.join("a"), await there.join("b")
    there.record.away = {"a"}
    await until(lambda: second.presence.alone)
    greeted = second.company
    there.record.away = set()
    await until(lambda: first.late)
    await until(lambda: second.company > greeted)
    assert second.presence.others == ["a"]


async def test_a_death_is_seen_though_the_records_clock_was_set_back(
    there: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    beat = there.record.beat

    async def young(node: str, info: dict[str, Any]) -> dict[str, Beat]:
        return {name: Beat(0.0, beat.info) for name, beat in (await beat(node, info)).items()}

    monkeypatch.setattr(there.record, "beat", young)
    first, second = await there.join("a"), await there.join("b")
    await second.die()
    await until(lambda: [node for node, _ in first.dead] == ["b"])
    assert first.presence.alone


async def test_a_record_that_is_full_is_told_once_and_the_nodes_stay_known(
    there: Members, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, _ = await there.join("a"), await there.join("b")
    await beats(first, 2)
    beat, refused = there.record.beat, 0

    async def full(node: str, info: dict[str, Any]) -> dict[str, Beat]:
        nonlocal refused
        refused += 1
        raise Overloaded("the record is full")

    monkeypatch.setattr(there.record, "beat", full)
    assert [row["name"] for row in await first.presence.look()] == ["a", "b"]
    await until(lambda: refused > 8)
    assert first.presence.refused == "the record is full"
    assert len([text for text in caplog.messages if "cannot show that it lives" in text]) == 2, "once a node"
    monkeypatch.setattr(there.record, "beat", beat)
    await until(lambda: first.presence.refused is None)


async def test_two_that_start_together_greet_each_other(there: Members) -> None:
    first, second = await asyncio.gather(there.join("a"), there.join("b"))
    assert not first.presence.alone
    assert not second.presence.alone
    assert first.company + second.company >= 2


async def test_one_whose_hello_was_lost_is_seen_by_its_beat(there: Members) -> None:
    first = await there.join("a")
    first.deaf = True
    second = await there.join("b", hello=False)
    await until(lambda: first.company == 1)
    assert first.presence.others == ["b"]
    hello = asyncio.create_task(second.presence.say_hello())
    await beats(second, 3)
    assert not hello.done()
    first.deaf = False
    await hello


async def test_one_that_shows_no_beat_is_not_waited_for(there: Members) -> None:
    first = await there.join("a")
    await first.die()
    first.deaf = True
    second = await there.join("b")
    assert second.presence.others == ["a"], "it may live, all the same"
    assert second.presence.may_live("a")


async def test_one_that_beats_but_does_not_answer_is_waited_for_within_bounds(
    there: Members, caplog: pytest.LogCaptureFixture
) -> None:
    first = await there.join("a")
    first.deaf = True
    await there.join("b")
    assert "no answer from a" in caplog.text


async def test_a_death_is_seen_by_all_and_told_once_each(there: Members) -> None:
    first, second, third = await there.join("a"), await there.join("b"), await there.join("c")
    await there.record.hold_run("b", "x")
    began = asyncio.get_running_loop().time()
    await second.die()
    await until(lambda: first.dead and third.dead)
    assert asyncio.get_running_loop().time() - began >= DEAD - EVERY
    for member in (first, third):
        await beats(member, 3)
        [(name, missed)] = member.dead
        assert name == "b"
        assert missed >= 0
        assert not member.presence.may_live("b")
        assert [row["name"] for row in member.presence.rows()] == ["a", "c"]
    assert first.dead[0][1] >= DEAD - EVERY or third.dead[0][1] >= DEAD - EVERY
    assert await there.record.runs_of("b") == [], "it is forgotten, with its runs"
    assert not first.presence.alone
    await third.die()
    await until(lambda: first.presence.alone)
    assert (first.lonely, first.company) == (1, 2)


async def test_one_that_leaves_nothing_behind_is_forgotten_at_once(there: Members) -> None:
    first, second = await there.join("a"), await there.join("b")
    await second.presence.close()
    await until(lambda: first.presence.alone)
    await until(lambda: first.dead == [("b", 0.0)], "whoever has its contexts may look")
    assert there.record.left == ["b"]


async def test_one_that_leaves_runs_behind_is_found_at_once(there: Members) -> None:
    first, second = await there.join("a", dead_after=3600), await there.join("b")
    await there.record.hold_run("b", "x")
    await second.presence.close()
    assert await there.record.runs_of("b") == ["x"]
    assert there.record.left == []
    await until(lambda: first.dead)
    await until(lambda: there.record.left == ["b"])
    assert first.presence.alone


async def test_what_the_last_one_left_behind_is_found_by_the_next(there: Members) -> None:
    only = await there.join("a")
    await there.record.hold_run("a", "x")
    await only.presence.close()
    next_one = await there.join("b")
    await until(lambda: next_one.dead)
    assert next_one.presence.alone
    assert next_one.company == 0


async def test_one_that_died_long_ago_is_no_company_and_is_buried(there: Members) -> None:
    only = await there.join("a")
    await only.die()
    await asyncio.sleep(DEAD)
    began = asyncio.get_running_loop().time()
    next_one = await there.join("b")
    assert next_one.presence.alone
    assert next_one.presence.may_live("a"), "it has not been watched for long enough"
    await until(lambda: next_one.dead)
    assert asyncio.get_running_loop().time() - began >= DEAD - 2 * EVERY
    assert next_one.company == 0


async def test_a_record_that_was_away_is_nobodys_death(there: Members) -> None:
    first, second = await there.join("a"), await there.join("b")
    there.record.away.add("all")
    await asyncio.sleep(2 * DEAD)
    sure = [first.presence.sure]
    there.record.away.clear()
    await asyncio.gather(beats(first, 5), beats(second, 5))
    assert (first.dead, second.dead) == ([], [])
    assert [*sure, first.presence.sure] == [False, True]
    assert first.presence.others == ["b"]
    assert first.lonely == 0, "not even for a moment"


async def test_one_that_could_not_reach_the_record_counts_anew(there: Members) -> None:
    """The other one died meanwhile: that shows later than to somebody who watched."""
    first, second = await there.join("a"), await there.join("b")
    there.record.away.add("a")
    await second.die()
    await asyncio.sleep(DEAD + EVERY)
    there.record.away.clear()
    back = asyncio.get_running_loop().time()
    await beats(first, 2)
    assert first.dead == []
    await until(lambda: first.dead)
    assert asyncio.get_running_loop().time() - back >= DEAD - 2 * EVERY


async def test_one_that_slept_counts_anew_and_takes_nobody_for_dead(there: Members) -> None:
    """SIGSTOP, for this node: its loop stands still, and nobody else's beats come meanwhile either, as far as it can see."""
    first, second = await there.join("a"), await there.join("b")
    time.sleep(2 * DEAD)  # noqa: ASYNC251 - this is the sleep that the test is about
    await asyncio.gather(beats(first, 5), beats(second, 5))
    assert (first.dead, second.dead) == ([], [])
    assert first.late >= 1
    assert second.late >= 1


async def test_one_that_was_taken_for_dead_just_lives_on(there: Members) -> None:
    first, second = await there.join("a"), await there.join("b")
    there.record.away.add("b")
    await until(lambda: there.record.left == ["b"])
    assert first.presence.alone
    there.record.away.clear()
    await until(lambda: first.presence.others == ["b"] and first.company == 2)
    await beats(second, 3)
    assert (second.dead, len(first.dead)) == ([], 1)
    assert second.late >= 1


async def test_a_burial_that_fails_is_tried_again(there: Members) -> None:
    first, second = await there.join("a"), await there.join("b")
    tries: list[str] = []

    async def look_after(node: str, missed: float) -> None:
        tries.append(node)
        if len(tries) == 1:
            raise Unavailable("away")

    first.presence.on_dead = look_after
    await second.die()
    await until(lambda: there.record.left == ["b"])
    assert tries == ["b", "b"]


async def test_beats_that_nobody_can_read_are_left_out(there: Members) -> None:
    await there.record.beat("odd", {"beat": ["x"], "process": "y", "ended": "maybe"})
    first = await there.join("a")
    await beats(first, 2)
    assert first.presence.others == ["odd"]
    await until(lambda: first.presence.alone)


def test_a_process_that_ended_is_known_to_have() -> None:
    code = (
        "import json; from hub.node.machine import this_process; print(json.dumps(this_process()), flush=True); input()"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdin is not None
    other = json.loads(process.stdout.readline())
    if not other["machine"]:
        process.kill()
        process.communicate()
        pytest.skip("this system does not tell which processes are its own")
    assert not has_ended(other)
    assert not has_ended(this_process())
    process.kill()
    wait_until(lambda: has_ended(other), "its end, before anybody has looked at it")
    process.communicate()
    assert has_ended(other)
    assert has_ended(this_process() | {"started": "1"}), "the id is another process's now"
    assert not has_ended(other | {"machine": "another"})
    odd: Any
    for odd in (None, "x", {}, other | {"pid": "1"}, other | {"pid": -1}, other | {"pid": 0}, other | {"machine": ""}):
        assert not has_ended(odd)
