"""The replay ring: what it keeps, what it gives again, and the forms in which a change goes out."""

from __future__ import annotations

from typing import Any

from hub.core.changes import Change, Part
from hub.core.position import Position
from hub.fanout.ring import Ring
from hub.wire.codec import Variant

START = Position("e", 10)


def patch(n: int) -> list[Part]:
    return [{"kind": "patch", "ops": [{"op": "replace", "path": "/state/n", "value": n}]}]


def filled(count: int, **bounds: int) -> Ring:
    ring = Ring("context:c", START, **bounds)
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
        "log": sent.log and sent.log.payload["parts"],
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
    logs = [ring.push(Change(START.after(n), [add] if n % 2 else patch(n))).log for n in range(1, 6)]
    assert [(log.payload["after"], log.payload["seq"]) for log in logs if log] == [(10, 11), (11, 13), (13, 15)]


def test_it_is_encoded_once() -> None:
    sent = Ring("context:c", START).push(Change(START.after(), patch(1)))
    for variant in Variant:
        assert sent.public.get(variant) is sent.public.get(variant)
