from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.core.changes import Entry
from hub.core.log import LogEntry, LogState
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


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["append", "append", "update", "read", "back"]), st.sampled_from(["", "x", "😀", "ä" * 50])
        ),
        max_size=20,
    )
)
def test_text_that_grows_is_read_and_taken_back_in_any_order(steps: list[tuple[str, str]]) -> None:
    entry_ = LogEntry(entry(0, "a😀"))
    contents = ["a😀"]
    undos = []
    for step, text in steps:
        if step == "append":
            undos.append(
                entry_.append({"kind": "log.append", "id": "n0", "at": utf16_length(contents[-1]), "text": text})
            )
            contents.append(contents[-1] + text)
        elif step == "update":
            if text == "x":
                undos.append(entry_.update({"kind": "log.update", "id": "n0", "heading": "h", "kvps": {"k": text}}))
                contents.append(contents[-1])
            else:
                undos.append(entry_.update({"kind": "log.update", "id": "n0", "content": text, "cut": 1}))
                contents.append(text)
        elif step == "read":
            assert entry_.content == contents[-1]
        elif undos:
            undos.pop()()
            contents.pop()
        assert (entry_.length, entry_.units) == (len(contents[-1]), utf16_length(contents[-1]))
    assert entry_.content == contents[-1]
    while undos:
        undos.pop()()
    assert entry_.to_json() == entry(0, "a😀")


def test_an_update_without_content_is_taken_back_after_a_read() -> None:
    one = LogEntry(entry(0, "abc"))
    update = one.update({"kind": "log.update", "id": "n0", "heading": "h"})
    append = one.append({"kind": "log.append", "id": "n0", "at": 3, "text": "x"})
    assert one.content == "abcx"
    append()
    update()
    assert one.to_json() == entry(0, "abc")


@pytest.mark.parametrize("at", [0, 2, 4, -1, None])
def test_text_begins_where_the_content_ends(at: Any) -> None:
    one = LogEntry(entry(0, "a😀"))
    with pytest.raises(LookupError):
        one.append({"kind": "log.append", "id": "n0", "at": at, "text": "x"})
    one.append({"kind": "log.append", "id": "n0", "at": 3, "text": "x"})
    assert one.content == "a😀x"


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
    one = LogEntry(entry(0, "abc"))
    with pytest.raises((TypeError, AttributeError)):
        one.update(part | {"kind": "log.update", "id": "n0"})
    assert one.to_json() == entry(0, "abc")
    with pytest.raises((TypeError, AttributeError)):
        one.append({"kind": "log.append", "id": "n0", "at": 3, "text": part})
    assert one.to_json() == entry(0, "abc")


def test_pairs_are_merged_and_shared_with_nobody() -> None:
    given_entry = entry(0, kvps={"a": 1, "b": {"x": 1}})
    one = LogEntry(given_entry)
    shown = one.to_json()
    one.update({"kind": "log.update", "id": "n0", "kvps": {"b": {"y": 2}, "c": None}})
    assert one.kvps == {"a": 1, "b": {"y": 2}, "c": None}
    assert shown["kvps"] == given_entry["kvps"] == {"a": 1, "b": {"x": 1}}


def test_cut_is_shown_while_something_is_cut() -> None:
    one = LogEntry(entry(0, "abc", cut=5))
    assert one.to_json()["cut"] == 5
    one.update({"kind": "log.update", "id": "n0", "cut": 0})
    assert "cut" not in one.to_json()


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
