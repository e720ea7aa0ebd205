from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hub.core.enums import EntryType
from hub.core.errors import Exists, HubError, NotFound, UnknownType
from hub.core.limits import Limits
from hub.core.operations import AnyOperation, LogAdd, LogAppend, LogReset, LogUpdate, ProgressSet, StateMerge
from hub.core.state import ContextState
from tests.core.making import LATER, created, do, furnished, whole

LIMITS = Limits(heading=30, content=10, key=40, value=35, progress=30)


def shown(state: ContextState, id: str = "e") -> Any:
    return state.log.find(id).to_json()


def test_an_entry() -> None:
    state = created()
    do(state, LogAdd("agent", "Heading", "text", {"tool": {"a": [1]}}, "e"), now=LATER)
    assert shown(state) == {
        "no": 0,
        "id": "e",
        "type": "agent",
        "heading": "Heading",
        "content": "text",
        "kvps": {"tool": {"a": [1]}},
        "timestamp": LATER,
    }
    assert state.document["log"]["length"] == 1


@pytest.mark.parametrize("type", EntryType)
def test_every_type(type: EntryType) -> None:
    state = created()
    do(state, LogAdd(str(type)))
    assert state.log.entries[-1].type == type


@pytest.mark.parametrize(
    ("op", "error"),
    [
        (LogAdd("zoo"), UnknownType),
        (LogAdd("INFO"), UnknownType),
        (LogAdd("info", id="f0"), Exists),
        (LogUpdate("f0", type="zoo"), UnknownType),
        (LogUpdate("none", heading="h"), NotFound),
        (LogAppend("none", "x"), NotFound),
        (ProgressSet("x", entry="none"), NotFound),
    ],
)
def test_what_is_refused(op: AnyOperation, error: type[HubError]) -> None:
    state = furnished()
    before = whole(state)
    with pytest.raises(error):
        do(state, LogAdd("info", id="new"), LogAppend("f0", "x"), op)
    assert whole(state) == before


def test_ids_do_not_depend_on_what_the_state_makes_of_a_request() -> None:
    ops = (StateMerge({"a": 1}), LogAdd("info"), StateMerge({"b": 1}), LogAdd("info"))
    one, other = created(), created(state={"a": 1})
    do(one, *ops, key="w/1")
    do(other, *ops, key="w/1")
    ids = [entry.id for entry in one.log.entries]
    assert ids == [entry.id for entry in other.log.entries]
    assert len(set(ids)) == 2


def test_an_update_names_only_what_differs() -> None:
    state = created()
    do(state, LogAdd("info", "h", "c", {"a": 1, "b": [1]}, "e"))
    parts = do(state, LogUpdate("e", "error", "h", "c", {"a": 1, "b": [2], "n": None})).parts
    assert parts == [{"kind": "log.update", "id": "e", "type": "error", "kvps": {"b": [2], "n": None}}]
    assert do(state, LogUpdate("e", "error", "h", "c", {"a": 1})).parts == []
    assert do(state, LogUpdate("e")).parts == []
    do(state, LogUpdate("e", content="", kvps={"a": True}))
    assert (shown(state)["content"], shown(state)["kvps"]) == ("", {"a": True, "b": [2], "n": None})


def test_pairs_can_be_replaced_as_a_whole() -> None:
    state = created()
    do(state, LogAdd("info", kvps={"b": 1, "a": 1, "c": [1]}, id="e"))
    parts = do(state, LogUpdate("e", kvps={"c": [1], "n": 2}, replace_kvps=True)).parts
    assert parts == [{"kind": "log.update", "id": "e", "kvps": {"n": 2}, "gone": ["a", "b"]}]
    assert shown(state)["kvps"] == {"c": [1], "n": 2}
    assert do(state, LogUpdate("e", kvps={"c": [1], "n": 2}, replace_kvps=True)).parts == []
    assert do(state, LogUpdate("e", replace_kvps=True)).parts == []
    before = whole(state)
    worked = do(state, LogUpdate("e", kvps={}, replace_kvps=True))
    assert worked.parts == [{"kind": "log.update", "id": "e", "gone": ["c", "n"]}]
    assert worked.undo is not None
    worked.undo()
    assert whole(state) == before


def test_streaming() -> None:
    state = created()
    do(state, LogAdd("agent", id="e"))
    assert do(state, LogAppend("e", "a😀")).parts == [{"kind": "log.append", "id": "e", "at": 0, "text": "a😀"}]
    assert do(state, LogAppend("e", "b"), LogAppend("e", "c")).parts == [
        {"kind": "log.append", "id": "e", "at": 3, "text": "b"},
        {"kind": "log.append", "id": "e", "at": 4, "text": "c"},
    ]
    assert do(state, LogAppend("e", "")).parts == []
    assert shown(state)["content"] == "a😀bc"


def test_content_has_a_limit_in_every_way_in() -> None:
    state = created()
    do(state, LogAdd("info", content="x" * 14, id="added"), limits=LIMITS)
    assert (shown(state, "added")["content"], shown(state, "added")["cut"]) == ("x" * 10, 4)
    do(state, LogAdd("info", id="e"), LogAppend("e", "x" * 8), limits=LIMITS)
    assert do(state, LogAppend("e", "😀" * 5), limits=LIMITS).parts == [
        {"kind": "log.append", "id": "e", "at": 8, "text": "😀😀"},
        {"kind": "log.update", "id": "e", "cut": 3},
    ]
    assert do(state, LogAppend("e", "more"), limits=LIMITS).parts == [{"kind": "log.update", "id": "e", "cut": 7}]
    do(state, LogUpdate("e", content="y" * 12), limits=LIMITS)
    assert (shown(state)["content"], shown(state)["cut"]) == ("y" * 10, 2)
    do(state, LogUpdate("e", content="z"), limits=LIMITS)
    assert (shown(state)["content"], "cut" in shown(state)) == ("z", False)


def test_headings_keys_values_and_progress_have_limits_too() -> None:
    state = created()
    kvps = {"k" * 50: "v" * 50, "deep": {"l": ["v" * 50, {"k" * 50: 1}]}}
    do(state, LogAdd("info", "h" * 50, kvps=kvps, id="e"), ProgressSet("p" * 50), limits=LIMITS)
    do(state, LogAdd("info", id="f"), LogUpdate("f", heading="h" * 50, kvps=kvps), limits=LIMITS)
    for id in ("e", "f"):
        entry = shown(state, id)
        key = next(iter(entry["kvps"]))
        texts = [key, entry["kvps"][key], entry["kvps"]["deep"]["l"][0], next(iter(entry["kvps"]["deep"]["l"][1]))]
        assert [len(text) for text in texts] == [40, 35, 35, 40]
        assert len(entry["heading"]) == 30
        assert all("characters" in text for text in [*texts, entry["heading"]])
    assert len(state.document["progress"]["text"]) == 30


def test_progress() -> None:
    state = created()
    assert state.document["progress"] == {"text": "", "entry": None, "active": False}
    do(state, LogAdd("info", id="e"), ProgressSet("Working", entry="e"))
    assert state.document["progress"] == {"text": "Working", "entry": "e", "active": True}
    assert do(state, ProgressSet("Working", entry="e")).parts == []
    do(state, ProgressSet("Done", active=False))
    assert state.document["progress"] == {"text": "Done", "entry": None, "active": False}


def test_a_reset_log_is_another_one() -> None:
    state = created()
    before = state.log.id
    do(state, LogAdd("info", id="e"), ProgressSet("Working", entry="e"), key="w/1")
    do(state, LogReset(), LogReset(), LogAdd("info", id="e"), key="w/2")
    assert state.log.id == state.document["log"]["id"] != before
    assert state.document["log"]["length"] == 1
    assert state.document["progress"]["entry"] is None
    with pytest.raises(NotFound):
        do(state, LogReset(), LogAppend("e", "late"), key="w/3")


def test_a_reader_of_the_newest_entries_leaves_older_ones_to_the_hub() -> None:
    snapshot = msgspec.json.decode(msgspec.json.encode(furnished().snapshot()))
    snapshot["log"]["entries"] = snapshot["log"]["entries"][1:]
    view = ContextState.from_snapshot(snapshot)
    assert do(view, LogAppend("f0", "x"), LogUpdate("f0", heading="h")).parts == []
    do(view, ProgressSet("x", entry="f0"))
    with pytest.raises(UnknownType):
        do(view, LogUpdate("f0", type="zoo"))
    do(view, LogAdd("info", id="n"))
    assert view.log.find("n").no == 2
