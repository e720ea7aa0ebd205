"""Any request, however odd, changes something or is refused with a HubError, and never breaks or leaves anything half-done."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.core.errors import HubError
from hub.core.limits import Limits
from hub.core.operations import StateAppend, StateIncr, StateMerge
from hub.core.position import Position
from hub.core.requests import AnyBody, Apply, Author, Create
from hub.core.state import ContextState
from hub.core.values import MAX_DEPTH, depth, json_size
from hub.core.work_out import work_out
from hub.wire.codec import Encoded, Variant
from hub.wire.messages import Asked, parse, to_payload
from tests.core.making import AGENT, OPERATOR, USER, asked, do, furnished, whole
from tests.core.odd import NAMED, nested

LIMITS = Limits(document=50_000)


def new_id(key: str | None) -> str:
    return "d"


def try_it(name: str, payload: Any, author: Author) -> str:
    """What became of a request on a furnished context: refused, asked, nothing or changed."""
    try:
        body = parse(name, payload, new_id)
    except HubError as error:
        return refused(error)
    assert parse(name, to_payload(body), new_id) == body
    if isinstance(body, Asked):
        return "asked"
    return work(body, author)


def refused(error: HubError) -> str:
    """The error can be told, and does not send back all that was sent."""
    told = error.to_wire()
    assert len(Encoded("error", told).get(Variant.JSON)) < 5_000
    assert Encoded("error", told).get(Variant.MSGPACK)
    return "refused"


def work(body: AnyBody, author: Author) -> str:
    state = ContextState(Position("e1", 0)) if isinstance(body, Create) else furnished()
    before = whole(state)
    try:
        worked = work_out(state, asked(body, author), LIMITS)
    except HubError as error:
        assert whole(state) == before
        return refused(error)
    if worked.undo is None:
        assert whole(state) == before
        return "nothing"
    told = {"parts": worked.parts, "result": worked.result}
    assert msgspec.json.decode(Encoded("change", told).get(Variant.JSON)[1:]) == ["change", told]
    assert Encoded("change", told).get(Variant.MSGPACK)
    assert state.size == json_size(state.document) <= LIMITS.document
    assert depth(state.document) <= MAX_DEPTH + 1
    worked.undo()
    assert whole(state) == before
    return "changed"


@settings(max_examples=600)
@given(NAMED, st.sampled_from([OPERATOR, AGENT, USER]))
def test_any_request_changes_something_or_is_refused(request_: tuple[str, Any], author: Author) -> None:
    name, payload = request_
    assert try_it(name, payload, author) in ("refused", "asked", "nothing", "changed")


def test_what_is_nested_grows_no_deeper_by_paths() -> None:
    state = furnished()
    path = "/deep"
    for _ in range(MAX_DEPTH):
        try:
            do(state, StateAppend(path, nested(30)))
            do(state, StateIncr(path + "/0/x/y/z"))
        except HubError:
            break
        path += "/0"
    for op in (StateIncr("/a" * 65), StateIncr("/a" * 100_000), StateAppend("/l/0" * 30, nested(10))):
        with pytest.raises(HubError):
            do(state, op)
    do(state, StateIncr("/x" * MAX_DEPTH))
    assert depth(state.document["state"]) == MAX_DEPTH
    assert Encoded("snapshot", state.snapshot()).get(Variant.MSGPACK)


def test_a_huge_apply_takes_time_in_proportion() -> None:
    state = furnished()
    keys = {f"k{number}": number for number in range(20_000)}
    worked = work_out(state, asked(Apply(context="c", ops=[StateMerge(keys), StateMerge({}, "replace")])))
    assert worked.position is not None
    assert state.document["state"] == {}
