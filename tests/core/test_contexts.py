"""A context as a whole: made, changed, controlled, ended."""

from __future__ import annotations

import re
from typing import Any

import pytest

from hub.core.contexts import ROW_FIELDS, row_of
from hub.core.errors import Exists, InvalidRequest, NotFound, Removed, TooLarge
from hub.core.operations import LogAdd, OutputSet, ProgressSet, SessionContextSave, StateMerge
from hub.core.position import Position
from hub.core.requests import AnyBody, Apply, ContextType, Control, Create, Message, Remove, RunOpen, RunStart, Update
from hub.core.state import ContextState
from tests.core.making import AGENT, LATER, USER, T, ask, created, do, run_of, whole


def test_a_new_document_has_all_fields() -> None:
    state = ContextState(Position("e1", 0))
    result = ask(state, Create(context="c"), no=7).result
    assert result == {"epoch": "e1", "seq": 1, "id": "c"}
    log = state.document["log"]["id"]
    assert re.fullmatch("[0-9a-f]{16}", log)
    assert state.document == {
        "id": "c",
        "name": "",
        "type": "user",
        "no": 7,
        "created_at": T,
        "last_message": T,
        "user_id": None,
        "metadata": {},
        "running": False,
        "paused": False,
        "progress": {"text": "", "entry": None, "active": False},
        "state": {},
        "output": {},
        "session_context": {},
        "queue": [],
        "run": None,
        "agent": None,
        "when_busy": "queue",
        "asks": {},
        "log": {"id": log, "length": 0},
        "versions": {"state": "e1:1", "output": "e1:1", "session_context": "e1:1"},
    }
    assert state.log.id == log


def test_creation_is_one_patch_and_the_private_data() -> None:
    state = ContextState(Position("e1", 0))
    worked = ask(state, Create(context="c", state={"a": 1}, data={"p": 1}, type=ContextType.TASK, paused=True))
    assert [part["kind"] for part in worked.parts] == ["patch", "data"]
    document = state.document
    assert (document["state"], state.data, document["type"], document["paused"]) == ({"a": 1}, {"p": 1}, "task", True)
    assert worked.undo is not None
    worked.undo()
    assert whole(state) == whole(ContextState(Position("e1", 0)))


def test_times_are_given_in_any_form_of_iso_8601() -> None:
    state = created(created_at="2026-11-29T15:18:00+01:00")
    assert (state.document["created_at"], state.document["last_message"]) == ("2026-11-29T14:18:00.000Z",) * 2
    state = created(created_at="2026-01-01", last_message=T)
    assert (state.document["created_at"], state.document["last_message"]) == ("2026-01-01T00:00:00.000Z", T)
    for wrong in ("soon", "2026-13-01"):
        with pytest.raises(InvalidRequest):
            created(created_at=wrong)


def test_only_create_creates() -> None:
    bodies: list[AnyBody] = [
        Apply(context="c", ops=[StateMerge({})]),
        Message(context="c", text="x"),
        Update(context="c"),
        Remove(context="c"),
        Control(context="c", action="stop"),
    ]
    for body in bodies:
        with pytest.raises(NotFound):
            ask(ContextState(Position("e1", 0)), body)
    with pytest.raises(Exists):
        ask(created(), Create(context="c"))


def test_a_removed_context_takes_nothing_more() -> None:
    state = created()
    worked = ask(state, Remove(context="c"))
    assert worked.parts == [{"kind": "closed", "reason": "removed"}]
    assert not state.exists
    bodies: list[AnyBody] = [
        Apply(context="c", ops=[]),
        Create(context="c"),
        Remove(context="c"),
        Message(context="c", text="x"),
    ]
    for body in bodies:
        with pytest.raises(Removed):
            ask(state, body)
    assert worked.undo is not None
    worked.undo()
    assert state.exists


def test_names() -> None:
    state = created(name="first")
    ask(state, Update(context="c", name="Übung 😀"))
    assert state.document["name"] == "Übung 😀"
    for name, error in (("x" * 201, TooLarge), ("a\nb", InvalidRequest), ("\x00", InvalidRequest)):
        with pytest.raises(error):
            ask(state, Update(context="c", name=name))
        with pytest.raises(error):
            created(name=name)


def test_an_update_writes_what_differs() -> None:
    state = created(name="a", metadata={"k": 1})
    assert ask(state, Update(context="c", name="a", metadata={"k": 1})).parts == []
    ask(state, Update(context="c", metadata={}, agent="demo", user_id="ute"))
    assert {name: state.document[name] for name in ("name", "metadata", "agent", "user_id")} == {
        "name": "a",
        "metadata": {},
        "agent": "demo",
        "user_id": "ute",
    }


def test_pause_and_resume() -> None:
    state = created()
    ask(state, Control(context="c", action="pause"))
    assert state.document["paused"] is True
    assert ask(state, Control(context="c", action="pause")).parts == []
    ask(state, Control(context="c", action="resume"))
    assert state.document["paused"] is False


def test_stop() -> None:
    state = created()
    assert ask(state, Control(context="c", action="stop")).parts == []
    ask(state, RunOpen(context="c"), AGENT)
    ask(state, Control(context="c", action="pause"))
    ask(state, Control(context="c", action="stop"), USER)
    assert (state.document["run"]["status"], state.document["paused"], state.document["running"]) == (
        "stopping",
        False,
        True,
    )
    assert ask(state, Control(context="c", action="stop")).parts == []


def test_nudge_takes_up_what_was_left_undone() -> None:
    state = created(agent="demo")
    ask(state, Message(context="c", text="a"), USER)
    ask(state, RunStart(context="c", agent="demo", worker="w1", node="n1"))
    ask(state, Control(context="c", action="pause"))
    ask(state, Control(context="c", action="nudge"))  # a run that goes on is only resumed
    assert (state.document["paused"], state.document["queue"]) == (False, [])
    do(state, author=AGENT, run=run_of(state))
    ask(state, Control(context="c", action="stop"))
    ask(state, Control(context="c", action="reset"))
    assert ask(state, Control(context="c", action="nudge")).parts == []  # reset forgets what was under way


def test_reset_ends_the_run_and_empties_the_log_and_keeps_the_rest() -> None:
    state = created(name="n", state={"a": 1}, data={"d": 1}, metadata={"m": 1})
    ask(state, Message(context="c", text="waits"), USER)
    do(state, LogAdd("info", id="e"), OutputSet("o", 1), SessionContextSave({"goal": "g"}))
    ask(state, RunOpen(context="c"), AGENT)
    do(state, ProgressSet("Working", entry="e"), author=AGENT, run=run_of(state))
    before = whole(state)
    ask(state, Control(context="c", action="reset"), now=LATER)
    document = state.document
    kept = ("id", "name", "state", "output", "metadata", "session_context", "queue", "created_at", "agent", "versions")
    assert {name: document[name] for name in kept} == {name: before["document"][name] for name in kept}
    assert state.data == {"d": 1}
    assert (document["run"]["status"], document["running"]) == ("stopped", False)
    assert document["progress"] == {"text": "", "entry": None, "active": False}
    assert document["log"] == {"id": state.log.id, "length": 0}
    assert state.log.id != before["log"]["id"]


def test_a_row_has_the_fields_of_the_list() -> None:
    document = created(name="n").document
    assert row_of(document) == {name: document[name] for name in ROW_FIELDS}


def test_what_a_programmer_gets_wrong_leaves_nothing_behind() -> None:
    state = created()
    before = whole(state)
    wrong: Any = [StateMerge({"a": 1}), LogAdd("info", content=5)]  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        do(state, *wrong)
    assert whole(state) == before
