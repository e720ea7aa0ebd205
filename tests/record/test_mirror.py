"""When the hashes are written, and how much: the policy without any server."""

from __future__ import annotations

from typing import Any

import pytest

from hub.core.changes import Change, Part
from hub.core.position import Position
from hub.core.state import ContextState
from hub.record.mirror import (
    KEEP_ASLEEP,
    KEEP_BYTES,
    KEEP_CHANGES,
    LARGE,
    QUIET_SECONDS,
    SMALL_SECONDS,
    MirrorState,
)
from hub.record.packing import unpack
from hub.record.port import Loaded, MirrorWrite
from tests.record.writer import creation, log_add, put


class Live:
    """A context with its mirror, and a model of the hashes."""

    def __init__(self, **members: Any) -> None:
        self.state = ContextState(Position("E1", 0))
        self.mirror = MirrorState()
        self.hashes: dict[str, dict[str, Any]] = {}
        self.written = 0
        self.change(0.0, *creation("ctx1", "E1", **members))
        assert self.write(0.2) is not None

    def change(self, now: float, *parts: Part) -> None:
        change = Change(self.state.position.after(), list(parts))
        self.state.apply(change)
        self.mirror.note(change, now)

    def write(self, now: float, *, done: bool = True, **options: bool) -> MirrorWrite | None:
        write = self.mirror.write(self.state, now, **options)
        if write is not None:
            self.mirror.wrote(done, now)
        if write is not None and done:
            for hash in write.cleared:
                self.hashes[hash] = {}
            for hash, fields in write.set_fields.items():
                self.written += sum(map(len, fields.values()))
                self.hashes.setdefault(hash, {}).update({field: unpack(raw) for field, raw in fields.items()})
            for hash, names in write.deleted.items():
                for name in names:
                    self.hashes[hash].pop(name, None)
        return write


def test_a_small_field_is_due_after_a_tenth_of_a_second() -> None:
    live = Live()
    assert live.mirror.due_at is None
    live.change(1.0, *put("/state/a", 1))
    live.change(1.09, *put("/state/a", 2))
    assert live.mirror.due_at == pytest.approx(1.0 + SMALL_SECONDS)
    assert not live.mirror.due(1.05)
    assert live.mirror.due(1.11)
    live.write(1.11)
    assert live.hashes["state"] == {"a": 2}
    assert not live.mirror.behind
    assert live.mirror.due_at is None


def test_plain_fields_are_none_of_its_business() -> None:
    live = Live()
    live.change(1.0, *put("/name", "x"), *put("/running", True), *put("/last_message", "2026"))
    assert not live.mirror.behind


def test_a_large_field_waits_until_its_changes_are_as_large_or_it_is_quiet() -> None:
    live = Live(state={"big": {"text": "x" * 50_000}, "small": 0})
    live.change(1.0, *put("/state/big/n", 1), *put("/state/small", 1))
    write = live.write(1.2)
    assert write is not None
    assert write.held == {"state/big": 1}
    assert list(write.set_fields["state"]) == ["small"]
    assert live.mirror.due_at == pytest.approx(1.0 + QUIET_SECONDS)

    live.change(1.9, *put("/state/big/n", 2))
    assert live.write(2.5) is None
    assert live.mirror.due_at == pytest.approx(1.9 + QUIET_SECONDS)
    write = live.write(2.95)
    assert write is not None
    assert (write.held, live.hashes["state"]["big"]["n"]) == ({}, 2)

    live.change(3.0, *put("/state/big/more", "y" * 60_000))
    assert live.mirror.due(3.11)
    assert live.write(3.11) is not None
    assert "more" in live.hashes["state"]["big"]


@pytest.mark.parametrize(("size", "held"), [(8_100, {}), (8_300, {"state/f": 1})])
def test_more_than_8_kb_is_large(size: int, held: dict[str, int]) -> None:
    live = Live(state={"f": {"text": "x" * size}})
    live.change(1.0, *put("/state/f/n", 1), *put("/state/other", 1))
    write = live.write(1.11)
    assert write is not None
    assert write.held == held


def test_a_large_field_that_is_set_anew_is_written_like_a_small_one() -> None:
    live = Live(state={"big": "x" * 50_000})
    live.change(1.0, *put("/state/big", "y" * 20_000))
    assert live.mirror.due(1.11)
    live.write(1.11)
    assert live.hashes["state"]["big"] == "y" * 20_000


def test_a_streaming_entry_costs_no_more_than_a_few_times_its_text() -> None:
    """RECORD.md: the cost stays O(change); twice the appends write about twice the bytes."""
    costs = []
    for count in (2_000, 4_000):
        live = Live()
        live.change(1.0, *log_add(0, "l0"))
        now, piece = 1.0, "some words and more "
        for n in range(count):
            now += 0.01
            live.change(now, {"kind": "log.append", "id": "l0", "at": n * len(piece), "text": piece})
            if live.mirror.due(now):
                live.write(now)
        live.write(now + QUIET_SECONDS)
        assert live.hashes["log"]["l0"]["content"] == piece * count
        assert live.written < 4 * count * len(piece) + 200 * LARGE
        costs.append(live.written)
    assert costs[1] < 2.4 * costs[0]


def test_everything_holds_nothing_back_and_keeps_a_short_stream() -> None:
    live = Live(state={"big": {"text": "x" * 50_000}})
    for n in range(100):
        live.change(1.0, *put("/state/big/n", n))
    write = live.write(1.01, everything=True)
    assert write is not None
    assert write.held == {}
    assert live.hashes["state"]["big"]["n"] == 99
    assert write.trim == 101 - 64


def test_stream_is_kept_by_number_or_by_bytes() -> None:
    live = Live()
    for n in range(KEEP_CHANGES + 500):
        live.change(1.0, *put("/state/n", n))
    write = live.write(1.2)
    assert write is not None
    assert KEEP_CHANGES <= live.state.position.seq - write.trim < KEEP_CHANGES + 64
    piece = "x" * 50_000
    for n in range(60):
        live.change(2.0, *put("/state/n", piece + str(n)))
    write = live.write(2.2)
    assert write is not None
    kept = live.state.position.seq - write.trim
    assert KEEP_BYTES / 50_100 < kept < KEEP_BYTES / 50_000 + 2


def test_a_failed_write_is_due_again_with_what_came_since() -> None:
    live = Live(state={"a": 0, "gone": 1})
    live.change(1.0, *put("/state/a", 1), {"kind": "patch", "ops": [{"op": "remove", "path": "/state/gone"}]})
    write = live.mirror.write(live.state, 1.2)
    assert write is not None
    live.change(1.25, *put("/state/b", 1), {"kind": "log.reset", "log_id": "log2"})
    assert not live.mirror.due(9.0)  # one write at a time
    with pytest.raises(RuntimeError):
        live.mirror.write(live.state, 1.3)
    live.mirror.wrote(False, 1.3)
    assert not live.mirror.due(1.35)
    assert live.mirror.due(1.41)
    again = live.write(1.41)
    assert again is not None
    assert again.base == write.base
    assert live.hashes["state"] == {"a": 1, "b": 1}
    assert live.hashes["log"] == {}


def test_writers_that_were_pushed_out_leave_the_hash() -> None:
    live = Live()
    for n in range(300):
        live.change(1.0 + n, {"kind": "key", "key": f"w{n}/1", "digest": "d", "result": {}})
        live.write(1.5 + n)
    assert sorted(live.hashes["keys"]) == sorted(live.state.keys.fields())
    assert len(live.hashes["keys"]) == 256


def key_of(writer: int) -> Part:
    return {"kind": "key", "key": f"w{writer}/1", "digest": "d", "result": {}}


def test_so_do_those_that_another_node_wrote() -> None:
    live = Live()
    for n in range(256):
        live.change(1.0, key_of(n))
    live.write(2.0)
    mine, other = live.mirror, MirrorState.of(Loaded(live.state, "tip", "E1", live.mirror.mirrored), 2.0)
    live.mirror = other
    live.change(3.0, key_of(256))
    mine.note(Change(live.state.position, [key_of(256)]), 3.0)
    live.write(4.0)
    live.mirror = mine
    mine.moved(other.mirrored, {}, 4.0)
    for n in range(257, 600):
        live.change(5.0, key_of(n))
    live.write(6.0)
    assert sorted(live.hashes["keys"]) == sorted(live.state.keys.fields())


def test_so_do_those_that_left_before_the_context_was_loaded() -> None:
    live = Live()
    for n in range(256):
        live.change(1.0, key_of(n))
    live.write(2.0)
    mirrored = live.mirror.mirrored
    live.change(3.0, key_of(256))  # the first one is pushed out, and the node ends before it writes that
    behind = (Change(live.state.position, [key_of(256)]),)
    live.mirror = MirrorState.of(Loaded(live.state, "tip", "E1", mirrored, {}, behind), 4.0)
    live.write(4.0)
    assert sorted(live.hashes["keys"]) == sorted(live.state.keys.fields())


def test_a_large_field_whose_answer_was_lost_is_held_where_the_hash_has_it() -> None:
    """Else what the hash has already would be replayed on it."""
    live = Live()
    live.change(1.0, *log_add(0, "l0", "x" * 3 * LARGE))
    live.write(1.2)
    live.change(2.0, {"kind": "log.append", "id": "l0", "at": 3 * LARGE, "text": "y"})
    lost = live.write(3.1, done=False)  # it is quiet, so it was written
    assert lost is not None
    live.change(3.2, {"kind": "log.append", "id": "l0", "at": 3 * LARGE + 1, "text": "z"}, *put("/state/a", 1))
    live.mirror.moved(lost.position.seq, {}, 3.2)
    write = live.write(3.4)
    assert write is not None
    assert write.held == {"log/l0": lost.position.seq}


def test_a_closed_context_is_not_written_any_more() -> None:
    live = Live()
    live.change(1.0, *put("/state/a", 1), {"kind": "closed", "reason": "removed"})
    assert not live.mirror.due(2.0)
    assert live.write(2.0) is None


def trim(before: int, *nos: int) -> Part:
    return {"kind": "log.trim", "before": before, "ids": [f"l{no}" for no in nos]}


def test_entries_that_are_not_kept_leave_the_hash_and_no_other_is_written() -> None:
    live = Live()
    for no in range(5):
        live.change(1.0, *log_add(no, f"l{no}", "x" * 3 * LARGE))
    live.write(1.2)
    before = live.written
    live.change(2.0, {"kind": "log.append", "id": "l1", "at": 3 * LARGE, "text": "y"})
    held = live.write(2.0)
    assert held is None, "what is large is not written yet"
    live.change(2.05, trim(2, 0, 1), *log_add(5, "l0"))
    live.change(2.06, trim(3, 2))
    assert live.mirror.due_at == pytest.approx(2.0 + SMALL_SECONDS)
    write = live.write(2.2)
    assert write is not None
    assert write.held == {}
    assert sorted(write.deleted["log"]) == ["l1", "l2"]
    assert sorted(live.hashes["log"]) == ["l0", "l3", "l4"], "an id that was used again is there"
    assert live.hashes["log"]["l0"]["no"] == 5
    assert live.hashes["main"]["log"] == {"id": "log1", "length": 6, "first": 3}
    assert live.written - before < 1_000
    assert not live.mirror.behind


def test_entries_that_went_are_deleted_once_more_if_that_was_lost() -> None:
    live = Live()
    live.change(1.0, *log_add(0, "l0"), *log_add(1, "l1"))
    live.write(1.2)
    live.change(2.0, trim(1, 0))
    assert live.write(2.2, done=False) is not None
    live.change(2.3, *log_add(2, "l2"))
    live.write(2.5)
    assert sorted(live.hashes["log"]) == ["l1", "l2"]


def test_a_context_that_goes_to_sleep_keeps_a_short_stream_also_if_nothing_is_to_be_written() -> None:
    live = Live()
    for n in range(KEEP_ASLEEP + 10):
        live.change(1.0, *put("/state/a", n))
    assert live.write(2.0) is not None
    assert live.write(3.0) is None
    busy = [live.mirror.busy]
    write = live.mirror.write(live.state, 3.0, everything=True)
    assert write is not None
    busy.append(live.mirror.busy)
    assert (write.set_fields, write.base, write.position) == ({}, write.position.seq, live.state.position)
    assert write.trim == write.position.seq - KEEP_ASLEEP
    live.mirror.wrote(True, 3.0)
    assert [*busy, live.mirror.busy] == [False, True, False]
    assert not live.mirror.behind


def test_whole_parts_are_emptied_first() -> None:
    live = Live(state={"a": 1, "b": 2})
    live.change(1.0, *log_add(0, "l0"), *put("/state", {"c": 3}))
    live.change(1.01, {"kind": "log.reset", "log_id": "log2"}, *log_add(0, "l1"))
    live.write(1.2)
    assert live.hashes["state"] == {"c": 3}
    assert list(live.hashes["log"]) == ["l1"]
    assert live.hashes["main"]["log"] == {"id": "log2", "length": 1}
