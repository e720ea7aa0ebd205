"""What is kept of answered requests for a record that loses them: the same requests come out, within the bounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hub.core.position import Position
from hub.core.requests import Apply, Author, Create, LogAdd, Message, Request, Role, StateMerge
from hub.node.recent import SECONDS, Recent, packed, unpacked

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
AUTHORS = st.builds(Author, st.text(min_size=1, max_size=20), st.sampled_from(list(Role)))
KEYS = st.none() | st.text(min_size=1, max_size=20)
BODIES = (
    st.builds(
        lambda value, key: Apply(context="c", ops=[StateMerge(value=value), LogAdd(type="info")], key=key),
        st.dictionaries(st.text(max_size=5), JSON, max_size=3),
        KEYS,
    )
    | st.builds(lambda text, key: Message(context="c", text=text, key=key), st.text(), KEYS)
    | st.builds(lambda name, key: Create(context="c", name=name, key=key), st.text(max_size=50), KEYS)
)


@given(st.lists(st.tuples(st.integers(1, 2**53), st.builds(Request, BODIES, AUTHORS, st.just("2026-01-01T00:00:00Z")))))
def test_the_same_requests_come_out(answered: list[tuple[int, Request]]) -> None:
    found = list(unpacked(packed("E", answered)))
    assert [at for at, _ in found] == [Position("E", seq) for seq, _ in answered]
    for (_, before), (_, after) in zip(answered, found, strict=True):
        assert (after.body, after.author, after.now, after.nonce) == (
            before.body,
            before.author,
            before.now,
            before.nonce,
        )
        assert after.digest == before.digest
        assert after.make_id() == before.make_id()


def test_they_go_by_time_and_by_bytes() -> None:
    recent = Recent(5_000)
    recent.add("first", b"1", 0.0)
    recent.add("second", b"2", 1.0)
    recent.add("first", b"3", SECONDS + 0.5)
    assert "second" in recent
    assert recent.take("first") == [b"3"]
    assert recent.take("second") == [b"2"]
    recent.add("first", b"x" * 4_000, 100.0)
    recent.add("second", b"y" * 4_000, 100.1)
    assert "first" not in recent
    recent.add("second", b"z", 100.2)
    recent.expire(100.2 + SECONDS)
    assert recent.take("second") == [b"z"]
    recent.add("third", b"w" * 4_000, 200.0)
    assert recent.take("third") == [b"w" * 4_000], "what was taken counts no more"


def test_with_no_budget_nothing_is_kept() -> None:
    recent = Recent(0)
    recent.add("first", b"1", 0.0)
    assert "first" not in recent
    assert recent.take("first") == []
