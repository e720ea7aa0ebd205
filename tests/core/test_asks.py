"""Questions to people: asked once, answered once, found again by another attempt of the run."""

from __future__ import annotations

from typing import Any

import pytest

from hub.core.errors import AlreadyAnswered, Exists, HubError, InvalidRequest, InvalidValue, NotFound, Overloaded
from hub.core.limits import Limits
from hub.core.operations import AskClose, AskOpen, LogReset, RunSet
from hub.core.requests import AskAnswer, Author, Control, Message, Role, RunEnd, RunStart
from hub.core.state import ContextState
from tests.core.making import AGENT, LATER, USER, T, ask, created, do, run_of, whole

START = RunStart(context="c", agent="demo", worker="w1", node="n1")
OTTO = Author("otto", Role.USER)


def running(attempt: int = 1) -> ContextState:
    state = created(agent="demo")
    ask(state, Message(context="c", text="deploy it"), USER)
    for _ in range(attempt - 1):
        ask(state, START)
        ask(state, RunEnd(context="c", run=run_of(state), status="interrupted", again=True))
    ask(state, START)
    do(state, RunSet("running"), author=AGENT, run=run_of(state))
    return state


def opened(state: ContextState, id: str = "q1", question: str = "Deploy?", **more: Any) -> None:
    do(state, AskOpen(id, question, **more), author=AGENT, run=run_of(state))


def answered(state: ContextState, value: Any, id: str = "q1", author: Author = USER, now: str = T) -> None:
    ask(state, AskAnswer(context="c", ask=id, value=value), author, now=now)


def status(state: ContextState, id: str = "q1") -> str:
    found: str = state.document["asks"][id]["status"]
    return found


def run_status(state: ContextState) -> str:
    found: str = state.document["run"]["status"]
    return found


def test_a_question_and_its_answer() -> None:
    state = running()
    opened(state, options=["yes", "no"])
    assert run_status(state) == "waiting"
    assert state.document["asks"] == {
        "q1": {
            "question": "Deploy?",
            "options": ["yes", "no"],
            "status": "open",
            "run": run_of(state).id,
            "asked_at": T,
            "expires_at": None,
        }
    }
    entry = state.log.entries[-1]
    assert (entry.id, entry.type, entry.content, entry.kvps) == ("q1", "input", "Deploy?", {"options": ["yes", "no"]})
    answered(state, "yes", now=LATER)
    assert run_status(state) == "running"
    found = state.document["asks"]["q1"]
    assert (found["status"], found["value"], found["by"], found["answered_at"]) == ("answered", "yes", "ute", LATER)
    assert state.log.entries[-1].kvps == {"options": ["yes", "no"], "answer": "yes", "answered_by": "ute"}


def test_the_first_answer_wins_and_the_others_are_told_whose() -> None:
    state = running()
    opened(state)
    answered(state, {"any": [1]})
    before = whole(state)
    with pytest.raises(AlreadyAnswered, match="'ute' has answered") as refused:
        answered(state, "no", author=OTTO, now=LATER)
    assert refused.value.details == {"by": "ute", "at": T}
    assert whole(state) == before


@pytest.mark.parametrize(
    ("op", "error"),
    [
        (AskOpen("q2", "  "), InvalidRequest),
        (AskOpen("q2", "?", options=[]), InvalidRequest),
        (AskOpen("q2", "?", expires_at="soon"), InvalidRequest),
        (AskOpen("q2", "x" * 5_001), HubError),
        (AskOpen("q1", "another?"), Exists),
        (AskOpen("q1", "Deploy?", options=["yes"]), Exists),
    ],
)
def test_what_is_no_question(op: AskOpen, error: type[HubError]) -> None:
    state = running()
    opened(state)
    before = whole(state)
    with pytest.raises(error):
        do(state, op, author=AGENT, run=run_of(state))
    assert whole(state) == before


def test_what_is_no_answer() -> None:
    state = running()
    opened(state, options=["yes", 1], expires_at=LATER)
    before = whole(state)
    for value in ("no", True, 1.5, ["yes"], None):
        with pytest.raises(InvalidValue, match="one of"):
            answered(state, value)
    with pytest.raises(NotFound, match="no question 'q2'"):
        answered(state, "yes", "q2")
    with pytest.raises(NotFound, match="any more"):
        answered(state, "yes", now=LATER)
    assert whole(state) == before
    answered(state, 1)


@pytest.mark.parametrize("how", ["expired", "withdrawn"])
def test_one_that_was_closed_takes_no_answer(how: Any) -> None:
    state = running()
    opened(state)
    opened(state, "q2", "And now?")
    do(state, AskClose("q1", how), author=AGENT, run=run_of(state))
    assert (status(state), run_status(state)) == (how, "waiting"), "the other one waits"
    with pytest.raises(NotFound, match="any more"):
        answered(state, "yes")
    answered(state, "yes", "q2")
    assert run_status(state) == "running"
    for id in ("q1", "q2", "q3"):
        do(state, AskClose(id), author=AGENT, run=run_of(state))
    assert (status(state), status(state, "q2")) == (how, "answered")


def test_another_attempt_finds_the_answer() -> None:
    state = running()
    opened(state)
    opened(state, "q2", "And now?")
    answered(state, "yes")
    ask(state, RunEnd(context="c", run=run_of(state), status="interrupted", again=True))
    answered(state, "later", "q2")
    ask(state, START)
    assert state.document["run"]["attempt"] == 2
    before = whole(state)
    opened(state)
    opened(state, "q2", "And now?")
    assert whole(state) == before, "both have their answers"


def test_another_attempt_waits_for_what_is_open() -> None:
    state = running()
    opened(state)
    ask(state, RunEnd(context="c", run=run_of(state), status="interrupted", again=True))
    ask(state, START)
    opened(state)
    assert (run_status(state), state.document["asks"]["q1"]["run"]) == ("waiting", run_of(state).id)
    answered(state, "yes")
    assert run_status(state) == "running"


@pytest.mark.parametrize("end", ["finished", "failed", "stopped"])
def test_the_end_of_the_run_takes_questions_back(end: Any) -> None:
    state = running()
    opened(state)
    do(state, RunSet(end), author=AGENT, run=run_of(state))
    assert status(state) == "withdrawn"
    ask(state, Message(context="c", text="more"), USER, nonce="m2")
    ask(state, START)
    assert state.document["asks"] == {}, "they were about other messages"


def test_a_stop_leaves_the_question_until_the_run_has_ended() -> None:
    state = running()
    opened(state)
    ask(state, Control(context="c", action="stop"))
    assert run_status(state) == "stopping"
    answered(state, "yes")
    assert run_status(state) == "stopping"


def test_an_answer_after_the_log_was_emptied() -> None:
    state = running()
    opened(state)
    do(state, LogReset(), author=AGENT, run=run_of(state))
    answered(state, "yes")
    assert (status(state), state.log.length) == ("answered", 0)


def test_of_many_the_oldest_that_is_done_with_goes_first() -> None:
    limits, state = Limits(asks=2), running()
    run = run_of(state)
    for id in ("q1", "q2"):
        do(state, AskOpen(id, "?"), author=AGENT, run=run, limits=limits)
    with pytest.raises(Overloaded, match="2 questions wait"):
        do(state, AskOpen("q3", "?"), author=AGENT, run=run, limits=limits)
    answered(state, "yes", "q2")
    do(state, AskOpen("q3", "?"), author=AGENT, run=run, limits=limits)
    assert sorted(state.document["asks"]) == ["q1", "q3"]


def test_a_question_without_a_run() -> None:
    state = created()
    do(state, AskOpen("q1", "Who?"), author=AGENT)
    answered(state, "me")
    assert status(state) == "answered"


def test_a_reset_forgets_questions() -> None:
    state = running()
    opened(state)
    ask(state, Control(context="c", action="reset"), USER)
    assert (run_status(state), state.document["asks"]) == ("stopped", {})
