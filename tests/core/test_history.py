"""Random histories: snapshot plus changes is the state, taking back is exact, and what was made never changes."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.core.changes import Change
from hub.core.errors import HubError
from hub.core.limits import Limits
from hub.core.position import Position
from hub.core.requests import AnyBody, Author, Request
from hub.core.state import ContextState
from hub.core.values import json_size
from hub.core.work_out import Worked, work_out
from tests.core.making import asked, encoded, furnished, whole
from tests.core.random_requests import AUTHORS, BODIES, KEYS, bind

SMALL = Limits(heading=10, content=60, key=5, value=20, progress=8, queue=3, document=1_800)
_STEPS = st.tuples(BODIES, AUTHORS, KEYS)
HISTORIES = st.lists(_STEPS, max_size=6) | st.lists(_STEPS, min_size=12, max_size=30)
History = list[tuple[AnyBody, Author, str | None]]


class Made(NamedTuple):
    request: Request
    worked: Worked
    text: bytes
    """Request, parts and result as they were when they were made."""


def play(state: ContextState, history: History) -> list[Made]:
    """Work all of it out. A refused request leaves everything as it was."""
    made = []
    for number, (body, author, key) in enumerate(history):
        bound = msgspec.structs.replace(bind(body, state), key=f"w/{number}" if key == "next" else key)
        request = asked(bound, author, nonce=str(number), now=f"2026-11-29T14:18:{number:02}.000Z")
        before, position = whole(state), state.position
        try:
            worked = work_out(state, request, SMALL)
        except HubError:
            assert whole(state) == before
            continue
        assert (worked.position is None) == (not worked.parts) == (state.position == position)
        if not worked.parts:
            assert whole(state) == before
        else:
            assert worked.position == state.position == position.after()
            assert (worked.result["epoch"], worked.result["seq"]) == worked.position
        assert state.size == json_size(state.document)
        begin = {"first": state.log.begin} if state.log.begin else {}
        assert state.document["log"] == {"id": state.log.id, "length": state.log.length} | begin
        made.append(Made(request, worked, encoded([bound, worked.parts, worked.result])))
    return made


def changes_of(made: list[Made]) -> list[Change]:
    return [Change(one.worked.position, one.worked.parts) for one in made if one.worked.position is not None]


def sent(change: Change) -> Change:
    """The change as somebody else gets it."""
    return Change(change.position, msgspec.msgpack.decode(msgspec.msgpack.encode(change.parts)))


@settings(max_examples=120)
@given(HISTORIES, st.integers(0, 24))
def test_a_snapshot_of_any_moment_and_the_changes_since_are_the_state(history: History, moment: int) -> None:
    state = furnished()
    play(state, history[:moment])
    snapshot: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(state.snapshot()))
    reader = ContextState.from_snapshot(snapshot)
    made = play(state, history[moment:])
    for change in changes_of(made):
        reader.apply(sent(change))
    expected = whole(state)
    assert whole(reader) == expected | {"keys": whole(reader)["keys"]}


@settings(max_examples=60)
@given(HISTORIES)
def test_all_changes_from_the_first_give_the_keys_too(history: History) -> None:
    state = ContextState(Position("e1", 0))
    creation = work_out(state, asked(msgspec.convert({"context": "c", "request": "context.create"}, AnyBody)))
    made = play(state, history)
    reader = ContextState(Position("e1", 0))
    for change in [Change(Position("e1", 1), creation.parts), *changes_of(made)]:
        reader.apply(sent(change))
    assert whole(reader) == whole(state)


@settings(max_examples=60)
@given(HISTORIES, st.integers(0, 24))
def test_a_reader_of_the_newest_entries_agrees_on_all_that_it_holds(history: History, moment: int) -> None:
    state = furnished()
    play(state, history[:moment])
    snapshot: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(state.snapshot()))
    snapshot["log"]["entries"] = snapshot["log"]["entries"][-1:]
    reader = ContextState.from_snapshot(snapshot)
    for change in changes_of(play(state, history[moment:])):
        reader.apply(sent(change))
    first = reader.log.first
    assert reader.document == state.document
    assert reader.log.to_json()["entries"] == state.log.to_json()["entries"][first - state.log.begin :]
    assert (reader.log.length, reader.log.begin) == (state.log.length, state.log.begin)


@settings(max_examples=60)
@given(HISTORIES)
def test_taking_back_gives_the_state_before_each_request(history: History) -> None:
    state = furnished()
    stack = []
    for number, step in enumerate(history):
        before = whole(state)
        for made in play(state, [(msgspec.structs.replace(step[0]), step[1], f"k/{number}")]):
            stack.append((before, made.worked))
    for before, worked in reversed(stack):
        if worked.undo is not None:
            worked.undo()
        assert whole(state) == before


@settings(max_examples=60)
@given(HISTORIES)
def test_taking_back_applied_changes_gives_the_state_before_each(history: History) -> None:
    state = furnished()
    reader = furnished()
    stack = []
    for change in changes_of(play(state, history)):
        before = whole(reader)
        stack.append((before, reader.apply(sent(change))))
    for before, undo in reversed(stack):
        undo()
        assert whole(reader) == before


@settings(max_examples=60)
@given(HISTORIES)
def test_what_was_made_never_changes(history: History) -> None:
    state = furnished()
    made = play(state, history)
    for one in reversed(made):
        if one.worked.undo is not None:
            one.worked.undo()
    play(state, history)
    for one in made:
        assert encoded([one.request.body, one.worked.parts, one.worked.result]) == one.text


@settings(max_examples=60)
@given(HISTORIES)
def test_another_node_works_out_the_same(history: History) -> None:
    one, other = furnished(), furnished()
    first, second = play(one, history), play(other, history)
    assert [made.text for made in first] == [made.text for made in second]
    assert whole(one) == whole(other)
