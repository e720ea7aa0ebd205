"""What a context remembers of the requests it applied."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.core.changes import Key
from hub.core.errors import KeyExpired, KeyReused
from hub.core.keys import WRITERS, KeyTable, field_of, split_key
from hub.core.operations import StateIncr
from hub.core.requests import Apply, Remove
from hub.core.values import same
from hub.core.work_out import work_out
from tests.core.making import LATER, USER, ask, asked, created, do, whole


def part(key: str, digest: str = "d", **result: Any) -> Key:
    return {"kind": "key", "key": key, "digest": digest, "result": result or {"of": key}}


def dumped(table: KeyTable) -> dict[str, Any]:
    return {field: table.dump(field) for field in sorted(table.fields())}


def filled(count: int, form: str = "w/{}") -> KeyTable:
    table = KeyTable()
    for n in range(1, count + 1):
        table.apply(part(form.format(n)), n)
    return table


@pytest.mark.parametrize(
    ("key", "split"),
    [
        ("w/1", ("w", 1)),
        ("a/b/0", ("a/b", 0)),
        ("w/999999999999999", ("w", 999_999_999_999_999)),
        ("w/1000000000000000", ("w/1000000000000000", None)),
        ("w/01", ("w/01", None)),
        ("w/-1", ("w/-1", None)),
        ("w/٣", ("w/٣", None)),
        ("w/", ("w/", None)),
        ("/1", ("/1", None)),
        ("1", ("1", None)),
        ("w/1x", ("w/1x", None)),
    ],
)
def test_which_keys_are_a_writers(key: str, split: tuple[str, int | None]) -> None:
    assert split_key(key) == split


def test_a_known_key_gets_its_first_outcome() -> None:
    table = filled(3)
    assert table.find("w/2", "d") == {"of": "w/2"}
    with pytest.raises(KeyReused):
        table.find("w/2", "another payload")
    assert table.find("w/4", "d") is None
    assert table.find("other", "d") is None


@pytest.mark.parametrize(
    "result",
    [
        {"epoch": "E", "seq": 5},
        {"epoch": "F", "seq": 5},
        {"epoch": "E", "seq": 5, "versions": {"state": "E:5"}},
        {"epoch": "E", "seq": -5},
        {"epoch": "E", "seq": True},
        {"epoch": "E", "of": 5},
        {"text": "a\nb c\u2028ä😀", "n": 1.5},
    ],
)
def test_any_result_is_given_again(result: dict[str, Any]) -> None:
    table = KeyTable()
    for n in (7, 9, 8):
        table.apply(part(f"w/{n}", epoch="E", seq=n), n)
        table.apply(part(f"v/{n}", **result), n)
        table.apply(part(f"some key {n}", **result), n)
    copy = KeyTable()
    for part_ in table.parts():
        copy.apply(part_, 9)
    for one in (table, copy):
        assert one.find("w/8", "d") == {"epoch": "E", "seq": 8}
        found = one.find("v/8", "d")
        assert same(found, result)
        assert same(one.find("some key 8", "d"), result)
    assert copy.dump("w/v") == table.dump("w/v")


def test_a_wrong_outcome_is_not_taken() -> None:
    table = filled(1)
    for key in ("w/2", "new/1"):
        for wrong in (part(key, "a b"), part(key, ""), part(key) | {"result": 5}, part(key) | {"digest": None}):
            with pytest.raises((TypeError, ValueError, AttributeError)):
                table.apply(wrong, 2)  # type: ignore[arg-type]
    assert dumped(table) == dumped(filled(1))


def test_outcomes_of_the_last_64_are_kept() -> None:
    table = filled(100)
    assert table.find("w/37", "d") == {"of": "w/37"}
    assert table.find("w/100", "d") == {"of": "w/100"}
    for n in (1, 36):
        with pytest.raises(KeyExpired):
            table.find(f"w/{n}", "d")


def test_what_is_inside_the_window_without_an_outcome_was_never_applied() -> None:
    table = KeyTable()
    table.apply(part("w/100"), 1)
    assert table.find("w/37", "d") is None
    with pytest.raises(KeyExpired):
        table.find("w/36", "d")
    table.apply(part("w/37"), 2)
    assert table.find("w/37", "d") == {"of": "w/37"}
    table.apply(part("w/101"), 3)
    with pytest.raises(KeyExpired):
        table.find("w/37", "d")


def test_an_unknown_writer_may_begin_anywhere() -> None:
    table = filled(3)
    assert table.find("new/5000", "d") is None
    table.apply(part("new/5000"), 4)
    assert table.find("new/4999", "d") is None


def test_many_outcomes_are_taken_back_one_by_one() -> None:
    table = KeyTable()
    stack = []
    for n in range(1, 300):
        stack.append((table.dump("w/w"), table.apply(part(f"w/{n}", epoch="E", seq=n), n)))
    for n in range(237, 240):
        assert table.find(f"w/{n}", "d") == {"epoch": "E", "seq": n}
    with pytest.raises(KeyExpired):
        table.find("w/235", "d")
    for before, take_back in reversed(stack):
        take_back()
        assert table.dump("w/w") == before


def test_a_writer_that_jumps_ahead_again_and_again() -> None:
    table = KeyTable()
    stack = []
    for seq, n in enumerate([*range(20), *range(1_000, 1_040), 5_000, 4_990, 4_960, 9_000], 1):
        stack.append((table.dump("w/w"), table.apply(part(f"w/{n}", epoch="E", seq=seq), seq)))
        assert table.find(f"w/{n}", "d") == {"epoch": "E", "seq": seq}
    assert table.dump("w/w") == [64, "E", "\n9000 d 64"]
    for before, take_back in reversed(stack):
        take_back()
        assert table.dump("w/w") == before


def test_the_last_256_writers_are_kept() -> None:
    table = KeyTable()
    for n in range(WRITERS):
        table.apply(part(f"w{n}/1"), n + 1)
    table.apply(part("w0/2"), 1_000)  # not silent any more
    table.apply(part("late/1"), 1_001)
    assert table.find("w0/1", "d") == {"of": "w0/1"}
    assert table.find("w1/1", "d") is None  # as an unknown writer's
    assert table.find("w2/1", "d") == {"of": "w2/1"}
    assert len(table.fields()) == WRITERS


def test_the_last_256_other_keys_are_kept() -> None:
    table = filled(WRITERS, "some key {}")
    table.apply(part("one more"), 1_000)
    assert table.find("some key 1", "d") is None
    assert table.find("some key 2", "d") == {"of": "some key 2"}
    with pytest.raises(KeyReused):
        table.find("one more", "e")
    assert len(table.fields()) == WRITERS


@settings(max_examples=60)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from("abc"), st.integers(0, 200)).map(lambda pair: f"{pair[0]}/{pair[1]}"),
            st.integers(0, 400).map(lambda n: f"w{n}/1"),
            st.integers(0, 400).map(lambda n: f"other {n}"),
        ),
        max_size=60,
    )
)
def test_taking_back_is_exact_and_a_dump_is_the_table(keys: list[str]) -> None:
    table = KeyTable()
    for n in range(WRITERS):
        table.apply(part(f"w{n}/1"), n)
        table.apply(part(f"other {n}"), n)
    stack = []
    for seq, key in enumerate(keys, 1_000):
        given = part(key, epoch="E", seq=seq) if seq % 3 else part(key)
        stack.append((dumped(table), table.apply(given, seq)))
    loaded = KeyTable()
    for field in sorted(table.fields(), reverse=True):
        loaded.load(field, msgspec.msgpack.decode(msgspec.msgpack.encode(table.dump(field))))
    assert dumped(loaded) == msgspec.json.decode(msgspec.json.encode(dumped(table)))
    after, loaded_after = part("one more"), part("one more")
    undo = table.apply(after, 2_000)
    loaded.apply(loaded_after, 2_000)
    assert sorted(table.fields()) == sorted(loaded.fields())  # the same one goes, in whatever order they were loaded
    undo()
    for before, take_back in reversed(stack):
        take_back()
        assert dumped(table) == before


def test_a_field_that_was_loaded_ahead_stays_ahead() -> None:
    table = KeyTable()
    loaded = [9, "E", '\n1 d {"of":"w/1"}\n2 d 7']
    table.load("w/w", loaded)
    table.apply(part("w/1"), 4)
    assert table.dump("w/w") == loaded
    assert table.find("w/2", "d") == {"epoch": "E", "seq": 7}


def test_fields() -> None:
    table = filled(2)
    table.apply(part("some key"), 3)
    assert table.fields() == ["w/w", "k/some key"]
    assert [field_of(key) for key in ("w/7", "some key", "a/b/1")] == ["w/w", "k/some key", "w/a/b"]
    assert table.dump("w/gone") is table.dump("k/gone") is None


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        [1],
        "text",
        [1, []],
        [1, "E", ""],
        [1, "E", "1 d 1"],
        [1, "E", "\n1 d 1\n"],
        [1, "E", "\n1 d"],
        [1, "E", "\nx d 1"],
        [1, "E", "\n1 d []"],
        [1, "E", "\n2 d 1\n1 d 1"],
        [1, "E", "\n1 d 1\n1 d 1"],
        [1, None, "\n1 d 1"],
        ["1", "E", "\n1 d 1"],
        [1, "E", b"\n1 d 1"],
        [1, "E", "\n1 d {odd}"],
        [1, "E", "\n1 d {}\n2 d {"],
        [1, 2, {}],
        [1, "d", None],
        ["1", "d", {}],
    ],
)
@pytest.mark.parametrize("field", ["w/w", "k/some key"])
def test_a_damaged_field(field: str, value: Any) -> None:
    with pytest.raises((LookupError, TypeError, ValueError)):
        KeyTable().load(field, value)


def test_a_retry_changes_nothing_and_gets_the_first_answer() -> None:
    state = created()
    first = do(state, StateIncr("/n"), key="w/1")
    do(state, StateIncr("/n"), key="w/2")
    before = whole(state)
    again = do(state, StateIncr("/n"), key="w/1", now=LATER)
    assert (again.duplicate, again.parts, again.position) == (True, [], None)
    assert again.result == first.result
    again.result["ok"] = True  # a caller's own
    assert whole(state) == before
    with pytest.raises(KeyReused):
        do(state, StateIncr("/n", 2), key="w/1")
    assert whole(state) == before


def test_a_refused_request_leaves_its_key_free() -> None:
    state = created(state={"n": "text"})
    with pytest.raises(Exception, match="number"):
        do(state, StateIncr("/n"), key="w/1")
    assert do(state, StateIncr("/m"), key="w/1").position is not None


def test_what_did_nothing_is_worked_out_again() -> None:
    state = created()
    assert do(state, key="w/1").result == {"epoch": "e1", "seq": 1}
    assert state.keys.fields() == []


def test_a_removal_has_its_outcome_after_the_end() -> None:
    state = created()
    removed = ask(state, Remove(context="c", key="w/1"), USER)
    again = ask(state, Remove(context="c", key="w/1"), USER)
    assert (again.duplicate, again.result) == (True, removed.result)


def test_the_key_is_the_last_part() -> None:
    state = created()
    assert [item["kind"] for item in do(state, StateIncr("/n"), key="w/1").parts] == ["patch", "key"]
    assert [item["kind"] for item in do(state, StateIncr("/n")).parts] == ["patch"]
    request = asked(Apply(context="c", ops=[StateIncr("/n")], key="w/1"))
    assert [item["kind"] for item in work_out(state, request, keyed=False).parts] == ["patch"]


def test_taking_back_opens_the_window_again() -> None:
    table = filled(3)
    undo = table.apply(part("w/200"), 4)
    with pytest.raises(KeyExpired):
        table.find("w/4", "d")
    undo()
    assert table.find("w/4", "d") is None
    assert table.find("w/1", "d") == {"of": "w/1"}


def test_after_taking_back_the_oldest_key_still_goes_first() -> None:
    table = filled(WRITERS, "some key {}")
    table.apply(part("one more"), 1_000)()
    table.apply(part("another"), 1_000)
    assert table.find("some key 1", "d") is None
    assert table.find("some key 2", "d") == {"of": "some key 2"}


def test_the_answer_is_the_callers_own() -> None:
    state = created()
    first = do(state, StateIncr("/n"), key="w/1")
    before, parts = whole(state), str(first.parts)
    first.result["ok"] = True
    assert (whole(state), str(first.parts)) == (before, parts)


def test_what_earlier_builds_kept_is_still_read() -> None:
    table = KeyTable()
    table.load("w/w", [9, [[7, "d7", {"epoch": "E", "seq": 8}], [8, "d8", {"id": "x"}]]])
    assert table.find("w/7", "d7") == {"epoch": "E", "seq": 8}
    assert table.find("w/8", "d8") == {"id": "x"}
    again = KeyTable()
    again.load("w/w", table.dump("w/w"))
    assert again.find("w/8", "d8") == {"id": "x"}


def test_the_key_of_the_first_change() -> None:
    for key in ("any text", "writer/3"):
        table = KeyTable()
        assert table.first() is None
        for seq, other in enumerate((key, "other", "writer/9", "writer2/1"), 1):
            result = {"epoch": "e", "seq": seq, "id": "c"} if seq == 1 else {"epoch": "e", "seq": seq}
            table.apply({"kind": "key", "key": other, "digest": "d", "result": result}, seq)
        assert table.first() == key
