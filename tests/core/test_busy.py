"""What becomes of messages that come while the agent works."""

from __future__ import annotations

import pytest

from hub.core.enums import WhenBusy
from hub.core.errors import AgentBusy
from hub.core.limits import DEFAULT_LIMITS, Limits
from hub.core.operations import LogReset
from hub.core.requests import Create, Message, RunStart, Update
from hub.core.state import ContextState
from hub.core.work_out import work_out
from tests.core.making import USER, ask, asked, created, do

START = RunStart(context="c", agent="demo", worker="w1", node="n1")


def working(when_busy: WhenBusy) -> ContextState:
    """A context whose agent works on "one"."""
    state = created(when_busy=when_busy)
    say(state, "one")
    ask(state, START)
    return state


def say(state: ContextState, text: str, limits: Limits = DEFAULT_LIMITS) -> None:
    work_out(state, asked(Message(context="c", text=text), USER, nonce=text), limits)


def waiting(state: ContextState) -> list[str]:
    return [item["text"] for item in state.document["queue"]]


def run_status(state: ContextState) -> str:
    status: str = state.document["run"]["status"]
    return status


def test_it_waits() -> None:
    state = working(WhenBusy.QUEUE)
    say(state, "two")
    say(state, "three")
    assert (waiting(state), run_status(state)) == (["two", "three"], "starting")


def test_it_interrupts_the_run_and_waits_for_its_turn() -> None:
    state = working(WhenBusy.INTERRUPT)
    ask(state, Update(context="c", when_busy=WhenBusy.QUEUE))
    say(state, "two")
    ask(state, Update(context="c", when_busy=WhenBusy.INTERRUPT))
    state.document["paused"] = True
    say(state, "three")
    assert (waiting(state), run_status(state)) == (["two", "three"], "stopping")
    assert not state.document["paused"], "a pause does not hold the run"
    say(state, "four")
    assert waiting(state) == ["two", "three", "four"]


@pytest.mark.parametrize("started", [True, False])
def test_it_is_refused(started: bool) -> None:
    state = created(when_busy=WhenBusy.REJECT)
    say(state, "one")
    if started:
        ask(state, START)
    with pytest.raises(AgentBusy, match="takes none meanwhile"):
        say(state, "two")
    assert waiting(state) == ([] if started else ["one"])


def test_it_replaces_what_waits_and_what_runs_and_the_log_keeps_all() -> None:
    state = working(WhenBusy.QUEUE)
    say(state, "two")
    ask(state, Update(context="c", when_busy=WhenBusy.REPLACE))
    say(state, "three")
    assert (waiting(state), run_status(state)) == (["three"], "stopping")
    assert state.document["run"]["messages"] == [], "a nudge takes up nothing of it"
    by = state.document["queue"][0]["id"]
    assert [(entry.content, entry.kvps) for entry in state.log.entries] == [
        ("one", {"replaced_by": by}),
        ("two", {"replaced_by": by}),
    ]


def test_it_replaces_what_waits_where_nothing_runs() -> None:
    state = created(when_busy=WhenBusy.REPLACE)
    for text in ("one", "two"):
        say(state, text, limits=Limits(queue=1))
    assert waiting(state) == ["two"]
    assert [entry.content for entry in state.log.entries] == ["one"]


def test_it_replaces_a_message_whose_entry_went() -> None:
    state = working(WhenBusy.REPLACE)
    do(state, LogReset())
    say(state, "two")
    assert waiting(state) == ["two"]


def test_a_context_of_an_earlier_hub_lets_messages_wait() -> None:
    state = working(WhenBusy.QUEUE)
    del state.document["when_busy"]
    say(state, "two")
    assert waiting(state) == ["two"]
    ask(state, Update(context="c", when_busy=WhenBusy.REJECT))
    assert state.document["when_busy"] == "reject"


def test_the_setting_is_changed_once() -> None:
    state = created(when_busy=WhenBusy.REJECT)
    before = state.position
    ask(state, Update(context="c", when_busy=WhenBusy.REJECT, name=""))
    assert state.position == before
    assert Create(context="c").when_busy is WhenBusy.QUEUE
