"""The vectors that every reader of changes runs, in Python as in TypeScript: snapshot and changes in, state or resync out.

``from_core.json`` has, beside that, the requests that its changes were made by: the core still makes the same of them.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hub.core.changes import Change
from hub.core.errors import HubError
from hub.core.position import Position
from hub.core.requests import AnyBody, Author, Request, Role
from hub.core.state import ContextState, DoesNotFit
from hub.core.values import json_size
from hub.core.work_out import work_out
from tests.core.making import whole

FOLDER = Path(__file__).parents[1] / "vectors"
ALL: list[tuple[str, dict[str, Any]]] = [
    (f"{path.stem}: {case['name']}", case)
    for path in sorted(FOLDER.glob("*.json"))
    for case in json.loads(path.read_text(encoding="utf-8"))
]
CASES = [pytest.param(case, id=name) for name, case in ALL]
MADE = [pytest.param(case, id=name) for name, case in ALL if "requests" in case]


def change_of(given: dict[str, Any]) -> Change:
    return Change(Position(given["epoch"], given["seq"]), given["parts"])


def read(state: ContextState, change: Change) -> bool:
    """What every reader does with a change; False: it must load the context again."""
    if change.position.epoch == state.position.epoch and change.position.seq <= state.position.seq:
        return True
    before = whole(state)
    try:
        state.apply(change)
    except DoesNotFit:
        assert whole(state) == before
        return False
    return True


@pytest.mark.parametrize("case", CASES)
def test_vector(case: dict[str, Any]) -> None:
    expect = case["expect"]
    state = ContextState.from_snapshot(copy.deepcopy(case["snapshot"]))
    fits = True
    for given in case["changes"]:
        fits = read(state, change_of(copy.deepcopy(given)))
        if not fits:
            break
    assert fits is not expect.get("resync", False)
    if fits:
        snapshot = state.snapshot()
        assert state.position == Position(case["snapshot"]["epoch"], expect["seq"])
        assert {name: snapshot[name] for name in ("document", "log", "data")} == {
            name: expect[name] for name in ("document", "log", "data")
        }
        assert state.closed == expect.get("closed")
        assert state.size == json_size(state.document)


@pytest.mark.parametrize("case", MADE)
def test_requests_make_the_changes(case: dict[str, Any]) -> None:
    state = ContextState.from_snapshot(copy.deepcopy(case["snapshot"]))
    made = []
    for asked in case["requests"]:
        body: AnyBody = msgspec.convert({"request": asked["name"], **asked["payload"]}, AnyBody)
        author = Author(asked["sub"], Role(asked["role"]))
        request = Request(body, author, asked["now"], no=asked.get("no", 0))
        if "error" in asked:
            with pytest.raises(HubError) as refused:
                work_out(state, request, keyed=False)
            assert refused.value.code == asked["error"]
            continue
        worked = work_out(state, request, keyed=False)
        if worked.position is not None:
            made.append({"epoch": worked.position.epoch, "seq": worked.position.seq, "parts": worked.parts})
    assert made == case["changes"]
