from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.core.changes import Entry, Undo
from hub.core.log import MOST_OPEN, SMALL, LogState
from hub.core.values import json_size, utf16_length
from tests.core.making import T


def entry(no: int, content: str = "", **more: Any) -> Entry:
    made: Any = {
        "no": no,
        "id": f"n{no}",
        "type": "info",
        "heading": "",
        "content": content,
        "kvps": {},
        "timestamp": T,
        **more,
    }
    return made  # type: ignore[no-any-return]


def state(*entries: Entry) -> LogState:
    return LogState("L", entries)


def append(log: LogState, text: str, at: Any, id: str = "n0") -> Undo:
    undo = log.append({"kind": "log.append", "id": id, "at": at, "text": text})
    assert undo is not None
    return undo


def update(log: LogState, id: str = "n0", **what: Any) -> Undo:
    part: Any = {"kind": "log.update", "id": id, **what}
    undo = log.update(part)
    assert undo is not None
    return undo


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["append", "append", "update", "read", "others", "back"]),
            st.sampled_from(["", "x", "😀", "ä" * 50]),
        ),
        max_size=20,
    )
)
def test_text_that_grows_is_read_and_taken_back_in_any_order(steps: list[tuple[str, str]]) -> None:
    """Whether the entry is packed meanwhile, because others are written to, or not."""
    log = state(*(entry(no, "a😀") for no in range(MOST_OPEN + 2)))
    contents = ["a😀"]
    undos: list[Undo] = []
    for step, text in steps:
        if step == "append":
            undos.append(append(log, text, utf16_length(contents[-1])))
            contents.append(contents[-1] + text)
        elif step == "update":
            if text == "x":
                undos.append(update(log, heading="h", kvps={"k": text}))
                contents.append(contents[-1])
            else:
                undos.append(update(log, content=text, cut=1))
                contents.append(text)
        elif step == "others":
            for no in range(1, MOST_OPEN + 2):
                undo = append(log, "x", 3, f"n{no}")
                if text:
                    undo()
                else:
                    undos.append(undo)
                    contents.append(contents[-1])
            if text == "":
                for _ in range(MOST_OPEN + 1):
                    undos.pop()()
                    contents.pop()
        elif step == "read":
            assert log.find("n0").content == contents[-1]
        elif undos:
            undos.pop()()
            contents.pop()
        held = log.find("n0")
        assert (held.length, held.units) == (len(contents[-1]), utf16_length(contents[-1]))
    assert log.find("n0").content == contents[-1]
    while undos:
        undos.pop()()
    assert log.to_json()["entries"] == [entry(no, "a😀") for no in range(MOST_OPEN + 2)]


def test_an_update_without_content_is_taken_back_after_a_read() -> None:
    log = state(entry(0, "abc"))
    undo_update = update(log, heading="h")
    undo_append = append(log, "x", 3)
    assert log.find("n0").content == "abcx"
    undo_append()
    undo_update()
    assert log.find("n0").to_json() == entry(0, "abc")


@pytest.mark.parametrize("at", [0, 2, 4, -1, None])
def test_text_begins_where_the_content_ends(at: Any) -> None:
    log = state(entry(0, "a😀"))
    with pytest.raises(LookupError):
        append(log, "x", at)
    append(log, "x", 3)
    assert log.find("n0").content == "a😀x"


@pytest.mark.parametrize(
    "part",
    [
        {"heading": "h", "content": 5},
        {"type": "error", "kvps": 5},
        {"type": "error", "kvps": None},
        {"cut": 1, "content": None},
        {"heading": "h", "gone": 5},
        {"heading": "h", "gone": [[]]},
    ],
)
def test_a_wrong_update_changes_nothing(part: Any) -> None:
    log = state(entry(0, "abc"))
    with pytest.raises((TypeError, AttributeError)):
        update(log, **part)
    assert log.find("n0").to_json() == entry(0, "abc")
    with pytest.raises((TypeError, AttributeError)):
        append(log, part, 3)
    assert log.find("n0").to_json() == entry(0, "abc")


def test_pairs_are_merged_and_shared_with_nobody() -> None:
    given_entry = entry(0, kvps={"a": 1, "b": {"x": 1}})
    log = state(given_entry)
    shown = log.find("n0").to_json()
    update(log, kvps={"b": {"y": 2}, "c": None})
    assert log.find("n0").kvps == {"a": 1, "b": {"y": 2}, "c": None}
    assert shown["kvps"] == given_entry["kvps"] == {"a": 1, "b": {"x": 1}}


def test_cut_is_shown_while_something_is_cut() -> None:
    log = state(entry(0, "abc", cut=5))
    assert log.find("n0").to_json()["cut"] == 5
    update(log, cut=0)
    assert "cut" not in log.find("n0").to_json()


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"content": 5}, TypeError),
        ({"content": None}, TypeError),
        ({"kvps": 5}, TypeError),
        ({"kvps": None}, TypeError),
        ({"no": None}, LookupError),
        ({"id": []}, TypeError),
    ],
)
def test_a_wrong_entry_is_not_taken(wrong: Any, error: type[Exception]) -> None:
    log = state()
    with pytest.raises(error):
        log.add({**entry(0), **wrong})
    for member in entry(0):
        less: Any = {name: value for name, value in entry(0).items() if name != member}
        with pytest.raises(LookupError):
            log.add(less)
    assert log.to_json() == {"id": "L", "entries": []}
    assert "n0" not in log


def test_members_that_an_entry_does_not_have_are_left_out() -> None:
    log = state(entry(0, more=1, cut=0))
    assert log.to_json()["entries"] == [entry(0)]


@pytest.mark.parametrize("odd", [{"content": "a\ud800"}, {"kvps": {"n": 2**70}}])
def test_what_cannot_be_packed_is_held_all_the_same(odd: Any) -> None:
    log = state(entry(0, **odd))
    assert log.packed("n0") is None
    assert log.to_json()["entries"] == [entry(0, **odd)]
    append(log, "x", utf16_length(entry(0, **odd)["content"]))
    for no in range(1, MOST_OPEN + 2):
        log.add(entry(no))
        append(log, "x", 0, f"n{no}")
    assert log.find("n0").content == entry(0, **odd)["content"] + "x"


def test_a_log_of_which_much_is_written_to_keeps_little_open() -> None:
    log = state(*(entry(no, "x" * (SMALL + 1 if no == 3 else 1)) for no in range(100)))
    for no, one in enumerate(log.entries):
        append(log, "y", one.units, one.id)
        update(log, one.id, kvps={"n": no})
    assert sum(1 for held in log._held if not isinstance(held, bytes)) == MOST_OPEN + 1  # the large one stays open
    assert [one.kvps for one in log.entries] == [{"n": no} for no in range(100)]
    assert {one.content[-2:] for one in log.entries} == {"xy"}
    assert all(log.packed(one.id) == msgspec.msgpack.encode(one.to_json()) for one in log.entries)


def test_a_time_that_was_taken_over_stays_when_a_write_is_taken_back() -> None:
    log = state(*map(entry, range(MOST_OPEN + 2)))
    undo = append(log, "x", 0)
    others = [append(log, "y", 0, f"n{no}") for no in range(1, MOST_OPEN + 2)]
    log.restamp("n0", "later")
    for other in reversed(others):
        other()
    undo()
    assert log.find("n0").to_json() == entry(0, timestamp="later")


def test_entries_are_given_like_a_list() -> None:
    entries = state(*map(entry, range(5))).entries
    assert len(entries) == 5
    assert entries[-1].no == 4
    assert [one.no for one in entries[1:3]] == [1, 2]
    assert [one.no for one in entries] == list(range(5))
    with pytest.raises(IndexError):
        entries[5]


def test_entries_come_in_order_and_once() -> None:
    log = LogState("L", [entry(0), entry(1)])
    for wrong in (entry(1), entry(3), entry(2, id="n0")):
        with pytest.raises(LookupError):
            log.add(wrong)
    undo = log.add(entry(2))
    assert (log.length, log.find("n2").no) == (3, 2)
    undo()
    assert (log.length, log.get("n2")) == (2, None)
    with pytest.raises(LookupError):
        log.find("n2")


def test_a_log_of_which_the_newest_entries_are_held() -> None:
    log = LogState("L", [entry(7), entry(8)])
    assert (log.first, log.length) == (7, 9)
    log.add(entry(9))
    assert log.find_if_held("n3") is None
    held = log.find_if_held("n8")
    assert held is not None
    assert held.no == 8
    empty = LogState("L", first=5)
    assert empty.length == 5
    empty.add(entry(5))
    with pytest.raises(LookupError):
        LogState("L", [entry(0)]).find_if_held("n3")


def numbers(entries: list[Entry]) -> list[int]:
    return [one["no"] for one in entries]


def test_a_log_that_is_trimmed() -> None:
    log = state(*map(entry, range(5)))
    append(log, "x", 0, "n4")
    assert (log.ids(3), log.ids(0), log.ids(99)) == (["n0", "n1", "n2"], [], [f"n{no}" for no in range(5)])
    undo = log.trim(3)
    assert (log.begin, log.first, log.length, log.whole) == (3, 3, 5, True)
    assert ([one.no for one in log.entries], log.no_of("n3"), log.no_of("n2")) == ([3, 4], 3, None)
    assert log.find("n4").content == "x"
    with pytest.raises(LookupError):
        log.find_if_held("n2")
    log.add(entry(5))
    assert numbers(log.tail(9, 10**6)) == [3, 4, 5]
    assert numbers(log.tail(9, 10**6, before=5)) == [3, 4]
    assert log.tail(9, 10**6, before=3) == []
    for wrong in (3, 2, 7, -1, "4", 4.0, True, None):
        with pytest.raises(LookupError):
            log.trim(wrong)  # type: ignore[arg-type]
    assert log.length == 6
    log._drop_last()
    undo()
    assert (log.begin, log.first, log.length) == (0, 0, 5)
    assert [one.id for one in log.entries] == log.ids(5) == [f"n{no}" for no in range(5)]


def test_a_reader_of_the_newest_entries_hears_of_a_trim() -> None:
    log = LogState("L", [entry(7), entry(8)])
    undo = log.trim(5)
    assert (log.begin, log.first, log.whole, len(log.entries)) == (5, 7, False, 2)
    assert log.find_if_held("n6") is None
    log.trim(8)
    assert (log.begin, log.first, log.whole) == (8, 8, True)
    log = LogState("L", [entry(7), entry(8)])
    undo = log.trim(8)
    undo()
    assert (log.begin, log.first, len(log.entries)) == (0, 7, 2)


@given(st.lists(st.sampled_from(["append", "append", "add", "trim", "back"]), max_size=30), st.integers(0, 5))
def test_what_was_trimmed_comes_back_as_it_was(steps: list[str], seed: int) -> None:
    """Whatever is written to what stays, and whichever entries are open or packed meanwhile."""
    log = state(*(entry(no, "x" * (SMALL + 1 if no == seed else 1)) for no in range(MOST_OPEN + 4)))
    undos: list[Undo] = []
    shots: list[Any] = []

    def shot() -> Any:
        return log.begin, log.first, log.length, log.to_json(), log.ids(10**6)

    for number, step in enumerate(steps):
        if step == "back":
            if undos:
                undos.pop()()
                assert shot() == shots.pop()
            continue
        shots.append(shot())
        if step == "add" or not log.entries:
            undos.append(log.add(entry(log.length)))
        elif step == "trim":
            undos.append(log.trim(min(log.begin + 1 + (number + seed) % 3, log.length)))
        else:
            one = log.entries[(number * (seed + 1)) % len(log.entries)]
            undos.append(append(log, "y", one.units, one.id))
        opened = sum(1 for held in log._held if not isinstance(held, bytes))
        assert opened <= MOST_OPEN + 1
    while undos:
        undos.pop()()
        assert shot() == shots.pop()


def test_the_tail() -> None:
    log = LogState("L", [entry(no) for no in range(10)])
    assert numbers(log.tail(3, 10**6)) == [7, 8, 9]
    assert numbers(log.tail(100, 10**6)) == list(range(10))
    assert log.tail(0, 10**6) == []
    assert numbers(log.tail(3, 10**6, before=5)) == [2, 3, 4]
    assert numbers(log.tail(3, 10**6, before=1)) == [0]
    assert log.tail(3, 10**6, before=0) == log.tail(3, 10**6, before=-5) == []
    assert numbers(log.tail(2, 10**6, before=10**9)) == [8, 9]


def test_the_tail_of_a_log_that_is_not_held_whole() -> None:
    log = LogState("L", [entry(no) for no in range(7, 10)])
    assert numbers(log.tail(5, 10**6, before=9)) == [7, 8]
    assert log.tail(5, 10**6, before=7) == log.tail(5, 10**6, before=3) == []


@given(st.lists(st.text(max_size=30), max_size=8), st.integers(0, 10), st.integers(0, 1_500))
def test_the_tail_keeps_to_its_bytes(contents: list[str], count: int, most: int) -> None:
    log = LogState("L", [entry(no, content) for no, content in enumerate(contents)])
    picked = log.tail(count, most)
    assert picked == [one.to_json() for one in log.entries][len(contents) - len(picked) :]
    assert len(picked) <= count
    assert len(picked) == min(1, count, len(contents)) or sum(map(json_size, picked)) <= most
    if len(picked) < min(count, len(contents)):
        more = log.entries[-len(picked) - 1].to_json()
        assert sum(map(json_size, [more, *picked])) > most
