"""The replay ring: what it keeps, what it gives again, and the forms in which a change goes out."""

from __future__ import annotations

import gc
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hub.core.changes import Change, Part
from hub.core.position import Position
from hub.fanout.ring import Budget, Ring
from hub.wire.codec import Variant

START = Position("e", 10)


def patch(n: int) -> list[Part]:
    return [{"kind": "patch", "ops": [{"op": "replace", "path": "/state/n", "value": n}]}]


def filled(count: int, **bounds: int) -> Ring:
    ring = Ring("context:c", START, None, **bounds)
    for n in range(count):
        ring.push(Change(START.after(n + 1), patch(n)))
    return ring


def seqs(ring: Ring, position: Position) -> list[int] | None:
    found = ring.since(position)
    return None if found is None else [sent.position.seq for sent in found]


def test_since() -> None:
    ring = filled(5)
    assert seqs(ring, START) == [11, 12, 13, 14, 15]
    assert seqs(ring, START.after(3)) == [14, 15]
    assert seqs(ring, START.after(5)) == []
    assert seqs(ring, Position("e", 9)) is None
    assert seqs(ring, Position("other", 12)) is None


def test_bounds() -> None:
    ring = filled(20, most=5)
    assert ring.after == START.after(15)
    assert seqs(ring, START.after(14)) is None
    assert seqs(ring, START.after(15)) == [26, 27, 28, 29, 30]
    by_bytes = filled(20, most_bytes=300)
    kept = seqs(by_bytes, by_bytes.after)
    assert kept is not None
    assert 1 < len(kept) < 6
    large = Ring("t", START, most_bytes=100)
    large.push(Change(START.after(), [{"kind": "data", "key": "k", "value": "x" * 1000}]))
    assert seqs(large, START) == [11], "one that is larger than the bound is kept alone"


def test_starting_over() -> None:
    ring = filled(5)
    ring.start_over(Position("new", 3))
    assert seqs(ring, Position("new", 3)) == []
    assert seqs(ring, START.after(2)) is None


def payloads(parts: list[Part]) -> dict[str, Any]:
    sent = Ring("context:c", START).push(Change(START.after(), parts))
    return {
        "public": sent.public.payload["parts"],
        "private": sent.private.payload["parts"],
        "log": sent.log().payload["parts"] if sent.in_log else None,
        "same": sent.public is sent.private,
        "only_appends": sent.only_appends,
    }


def test_the_forms_of_a_change() -> None:
    append: Part = {"kind": "log.append", "id": "e", "at": 0, "text": "x"}
    data: Part = {"kind": "data", "key": "k", "value": 1}
    key: Part = {"kind": "key", "key": "w/1", "digest": "d", "result": {}}
    plain = patch(1)
    assert payloads(plain) == {
        "public": plain, "private": plain, "log": None, "same": True, "only_appends": False
    }  # fmt: skip
    assert payloads([append, key]) == {
        "public": [append], "private": [append], "log": [append], "same": True, "only_appends": True
    }  # fmt: skip
    assert payloads([data, key]) == {
        "public": [], "private": [data], "log": None, "same": False, "only_appends": False
    }  # fmt: skip
    assert payloads([*plain, data, append]) == {
        "public": [*plain, append], "private": [*plain, data, append], "log": [append], "same": False,
        "only_appends": False,
    }  # fmt: skip


def test_log_events_name_the_one_before() -> None:
    ring = Ring("context:c", START)
    add: Part = {"kind": "log.reset", "log_id": "l"}
    for n in range(1, 6):
        ring.push(Change(START.after(n), [add] if n % 2 else patch(n)))
    found = ring.since(START)
    assert found is not None
    logs = [sent.log().payload for sent in found if sent.in_log]
    assert [(log["after"], log["seq"]) for log in logs] == [(10, 11), (11, 13), (13, 15)]


def test_it_is_encoded_once() -> None:
    sent = Ring("context:c", START).push(Change(START.after(), patch(1)))
    for variant in Variant:
        assert sent.public.get(variant) is sent.public.get(variant)


def test_a_piece_has_so_many_bytes_and_one_change_at_least() -> None:
    ring = filled(20)
    for most_bytes in (1, 200, 10_000):
        pieces, at = 0, START
        while piece := ring.since(at, most_bytes):
            assert [sent.position.seq for sent in piece] == list(range(at.seq + 1, at.seq + 1 + len(piece)))
            pieces, at = pieces + 1, piece[-1].position
        assert at == START.after(20)
        assert pieces == {1: 20, 200: 7, 10_000: 1}[most_bytes]


def rings_of(budget: Budget, count: int) -> list[Ring]:
    return [Ring(f"context:{n}", START, budget) for n in range(count)]


def push(ring: Ring, size: int = 100) -> None:
    at = ring.after.after(ring.kept + 1)
    ring.push(Change(at, [{"kind": "data", "key": "k", "value": "x" * size}]))


def test_who_was_used_least_recently_gives_way_first() -> None:
    budget = Budget(4_000)
    first, second, third = rings_of(budget, 3)
    for ring in (first, second, third):
        for _ in range(5):
            push(ring)
    assert first.since(START, 1), "being read is being used"
    while budget.bytes + 200 < budget.most:
        push(third)
    assert (first.after, second.after) == (START, START)
    for _ in range(3):
        push(third)
    assert (first.after, third.after) == (START, START)
    assert START.seq < second.after.seq < START.seq + 5, "its oldest changes only"
    assert seqs(second, START) is None
    assert seqs(second, second.after) == list(range(second.after.seq + 1, START.seq + 6))
    push(second, 3_000)
    assert (first.kept, first.after) == (0, START.after(5))
    assert budget.bytes <= budget.most


def test_a_ring_that_is_let_go_frees_its_bytes() -> None:
    budget = Budget(1_000_000)
    rings = rings_of(budget, 3)
    for ring in rings:
        push(ring)
        ring.start_over(START.after(9))
    assert budget.bytes == 0
    assert not budget._rings
    push(rings[0], 2_000_000)
    assert (rings[0].kept, rings[0].after, budget.bytes) == (0, START.after(10), 0), "nothing over the budget is kept"
    push(rings[0])
    assert seqs(rings[0], START.after(10)) == [START.seq + 11]


@given(
    st.integers(0, 3_000),
    st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from(["push", "push", "push", "read", "over"]), st.integers(0, 900))
    ),
)
def test_the_budget_holds_whatever_happens(most: int, steps: list[tuple[int, str, int]]) -> None:
    """The sum is exact and never over the budget; every ring has all that came after its ``after``, and nothing else."""
    budget = Budget(most)
    rings = rings_of(budget, 5)
    ends = [START.seq] * 5
    used: list[int] = []
    for n, step, size in steps:
        ring, kept = rings[n], [ring.kept for ring in rings]
        if step == "push":
            ends[n] += 1
            ring.push(Change(Position("e", ends[n]), [{"kind": "data", "key": str(ends[n]), "value": "x" * size}]))
        elif step == "over":
            ring.start_over(Position("e", ends[n]))
        else:
            found = ring.since(ring.after)
            assert found is not None
            keys = [part["key"] for sent in found for part in sent.private.payload["parts"]]
            assert keys == [str(seq) for seq in range(ring.after.seq + 1, ends[n] + 1)]
        used = [*[other for other in used if other != n], n]
        assert budget.bytes == sum(ring.bytes for ring in rings) <= most
        assert list(budget._rings) == [rings[n] for n in used if rings[n].kept]
        lost = [other for other in used if rings[other].kept < kept[other]]
        assert all(not rings[other].kept for other in lost[:-1] if other != n), "one after the other"
        for ring, end in zip(rings, ends, strict=True):
            assert ring.after.seq + ring.kept == end


def test_one_without_a_budget_goes_when_nobody_has_it() -> None:
    """Megabytes that were read for a replay must not wait for the collector of cycles."""
    gc.collect()
    gc.disable()
    try:
        before = sum(isinstance(thing, Ring) for thing in gc.get_objects())
        for _ in range(10):
            ring = filled(5)
            assert ring.since(START)
            del ring
        assert sum(isinstance(thing, Ring) for thing in gc.get_objects()) == before
    finally:
        gc.enable()
