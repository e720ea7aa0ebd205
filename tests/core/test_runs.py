"""Runs: every pair of statuses, who may write while one is active, and what becomes of its messages."""

from __future__ import annotations

from itertools import product
from typing import Any, Literal

import msgspec
import pytest

from hub.core.errors import HubError, InvalidRequest, RunLost, RunRequired
from hub.core.limits import Limits
from hub.core.operations import DataSet, LogAdd, ProgressSet, RunSet, StateMerge
from hub.core.requests import (
    Apply,
    Attachment,
    Control,
    Message,
    QueueEdit,
    QueueSend,
    Request,
    RunEnd,
    RunMove,
    RunOpen,
    RunRef,
    RunStart,
)
from hub.core.runs import ACTIVE, TRANSITIONS, active_run
from hub.core.state import ContextState
from hub.core.work_out import work_out
from tests.core.making import AGENT, LATER, OPERATOR, USER, T, ask, asked, created, do, run_of, whole

START = RunStart(context="c", agent="demo", worker="w1", node="n1")


def waiting(*texts: str) -> ContextState:
    state = created(agent="demo")
    for number, text in enumerate(texts):
        ask(state, Message(context="c", text=text), USER, nonce=f"m{number}")
    return state


def in_status(status: str) -> ContextState:
    """A context whose run has that status, with its message."""
    state = waiting("hello")
    ask(state, START)
    if status != "starting":
        if status == "stopping":
            ask(state, Control(context="c", action="stop"))
        elif status == "interrupted":
            ask(state, RunEnd(context="c", run=run_of(state), status="interrupted"))
        else:
            set_status(state, status)
    assert state.document["run"]["status"] == status
    return state


def set_status(state: ContextState, status: Any, error: str | None = None) -> None:
    do(state, RunSet(status, error), author=AGENT, run=run_of(state), now=LATER)


SET = ["running", "waiting", "finished", "failed", "stopped", "interrupted"]


@pytest.mark.parametrize(("before", "after"), list(product(TRANSITIONS, SET)))
def test_every_pair(before: str, after: str) -> None:
    state = in_status(before)
    unchanged = whole(state)
    if before not in ACTIVE:
        with pytest.raises(RunLost):
            set_status(state, after)
    elif before == after:
        set_status(state, after)
    elif after in TRANSITIONS[before]:
        set_status(state, after)
        document = state.document
        assert document["run"]["status"] == after
        assert document["running"] is (after in ACTIVE)
        assert ("ended_at" in document["run"]) is (after not in ACTIVE)
        return
    else:
        with pytest.raises(InvalidRequest):
            set_status(state, after)
    assert whole(state) == unchanged


def test_the_table_is_whole() -> None:
    assert set().union(*TRANSITIONS.values()) == set(TRANSITIONS) - {"starting"}
    assert {status for status, after in TRANSITIONS.items() if after} == ACTIVE
    assert all(status not in after for status, after in TRANSITIONS.items())
    assert all({"finished", "failed", "stopped", "interrupted"} <= TRANSITIONS[status] for status in ACTIVE)


def test_a_run_begins_with_the_first_message_and_shows_it() -> None:
    state = created(agent="demo")
    attachment = Attachment("u1", "f.csv", 3, "text/csv")
    id = ask(state, Message(context="c", text="hello", attachments=[attachment]), USER, nonce="m").result["id"]
    ask(state, Message(context="c", text="again"), USER, nonce="m2")
    result = ask(state, START, now=LATER).result
    run = state.document["run"]
    assert result["run"] == {"id": run["id"], "fence": 1}
    assert result["attempt"] == 1
    assert {name: run[name] for name in ("status", "agent", "worker", "node", "started_at")} == {
        "status": "starting",
        "agent": "demo",
        "worker": "w1",
        "node": "n1",
        "started_at": LATER,
    }
    assert [message["text"] for message in run["messages"]] == ["hello"]
    assert [message["text"] for message in state.document["queue"]] == ["again"]
    assert state.document["running"] is True
    entry = state.log.find(id).to_json()
    assert (entry["type"], entry["content"], entry["kvps"]) == (
        "user",
        "hello",
        {"attachments": [{"id": "u1", "name": "f.csv", "size": 3, "type": "text/csv"}]},
    )


def test_one_run_at_a_time() -> None:
    state = waiting("a", "b")
    ask(state, START)
    for body in (START, RunOpen(context="c")):
        with pytest.raises(InvalidRequest) as refused:
            ask(state, body, AGENT)
        assert refused.value.details["run"] == state.document["run"]["id"]


def test_a_run_needs_a_message() -> None:
    with pytest.raises(InvalidRequest):
        ask(created(), START)


def test_a_run_of_ones_own() -> None:
    state = created(agent="demo")
    result = ask(state, RunOpen(context="c"), AGENT).result
    assert (state.document["run"]["status"], state.document["run"]["worker"]) == ("running", "worker-1")
    assert result["run"] == {"id": run_of(state).id, "fence": 1}
    set_status(state, "finished")
    ask(state, RunOpen(context="c"), AGENT, nonce="2")
    assert run_of(state).fence == 2
    assert run_of(state).id != result["run"]["id"]


def test_a_run_of_ones_own_is_where_its_request_came_in() -> None:
    state = created(agent="demo")
    body = RunOpen(context="c", key="w/1")
    here, there = (Request(body, AGENT, T, node=node) for node in ("n1", "n2"))
    first = work_out(state, here)
    assert state.document["run"]["node"] == "n1"
    again = work_out(state, there)
    assert again.duplicate, "the same request by way of another node"
    assert again.result["run"] == first.result["run"]


def test_a_run_moves_with_its_worker() -> None:
    state = in_status("running")
    run = run_of(state)
    ask(state, RunMove(context="c", run=run, worker="w2", node="n2"))
    moved = state.document["run"]
    assert (moved["worker"], moved["node"], moved["status"], run_of(state)) == ("w2", "n2", "running", run)
    assert not ask(state, RunMove(context="c", run=run, worker="w2", node="n2")).parts
    with pytest.raises(RunLost):
        ask(state, RunEnd(context="c", run=run, status="interrupted", node="n1"))
    assert active_run(state.document) is not None
    ask(state, RunEnd(context="c", run=run, status="interrupted", node="n2"))
    assert active_run(state.document) is None


@pytest.mark.parametrize("status", sorted(TRANSITIONS))
def test_only_the_active_run_moves(status: str) -> None:
    state = in_status(status)
    unchanged, run = whole(state), run_of(state)
    lost = [RunRef(run.id, run.fence + 1), RunRef("other", run.fence)]
    for wrong in lost if status in ACTIVE else [run, *lost]:
        with pytest.raises(RunLost):
            ask(state, RunMove(context="c", run=wrong, worker="w2", node="n2"))
        assert whole(state) == unchanged
    if status in ACTIVE:
        ask(state, RunMove(context="c", run=run, worker="w2", node="n2"))
        assert state.document["run"]["status"] == status


def test_who_writes_while_a_run_is_active() -> None:
    state = in_status("running")
    run = run_of(state)
    with pytest.raises(RunRequired) as refused:
        do(state, StateMerge({"a": 1}), author=AGENT)
    assert refused.value.details == {"run": run.id}
    for author in (USER, OPERATOR):
        do(state, StateMerge({str(author): 1}), author=author)
    do(state, StateMerge({"a": 1}), author=AGENT, run=run)
    for wrong in (RunRef(run.id, run.fence + 1), RunRef("other", run.fence)):
        with pytest.raises(RunLost):
            do(state, StateMerge({"a": 2}), author=AGENT, run=wrong)
    set_status(state, "finished")
    with pytest.raises(RunLost):
        do(state, StateMerge({"a": 2}), author=AGENT, run=run)
    do(state, StateMerge({"a": 2}), author=AGENT)


def test_a_late_worker_cannot_write_into_the_next_run() -> None:
    state = waiting("a", "b")
    ask(state, START)
    late = run_of(state)
    ask(state, RunEnd(context="c", run=late, status="interrupted"))
    ask(state, START, nonce="2")
    with pytest.raises(RunLost):
        do(state, StateMerge({"a": 1}), author=AGENT, run=late)
    with pytest.raises(RunLost):
        ask(state, RunEnd(context="c", run=late, status="failed"))
    assert active_run(state.document) is not None


def test_the_end_of_a_run() -> None:
    state = in_status("running")
    do(state, ProgressSet("Working"), author=AGENT, run=run_of(state))
    set_status(state, "failed", "x" * 5_000)
    run = state.document["run"]
    assert (run["status"], run["ended_at"], len(run["error"])) == ("failed", LATER, 2_000)
    assert state.document["progress"] == {"text": "Working", "entry": None, "active": False}
    assert [message["text"] for message in run["messages"]] == ["hello"]


def test_a_finished_run_has_its_messages_done() -> None:
    state = in_status("running")
    set_status(state, "finished")
    assert state.document["run"]["messages"] == []
    assert ask(state, Control(context="c", action="nudge")).parts == []


def test_messages_of_a_lost_run_wait_again_first() -> None:
    state = waiting("a", "b")
    ask(state, START)
    ask(state, RunEnd(context="c", run=run_of(state), status="interrupted", error="gone", again=True))
    assert [(message["text"], message.get("attempt", 1)) for message in state.document["queue"]] == [("a", 2), ("b", 1)]
    assert (state.document["run"]["messages"], state.document["run"]["error"]) == ([], "gone")
    assert ask(state, START, nonce="2").result["attempt"] == 2
    assert [entry.content for entry in state.log.entries] == ["a"]


def test_a_message_that_was_edited_before_it_came_again_is_shown_as_it_is_now() -> None:
    state = waiting("a")
    ask(state, START)
    id = state.log.entries[0].id
    ask(state, RunEnd(context="c", run=run_of(state), status="interrupted", again=True))
    ask(state, QueueEdit(context="c", id=id, text="better"))
    ask(state, START, nonce="2")
    assert [entry.content for entry in state.log.entries] == ["better"]


def test_messages_that_were_joined_after_a_lost_run_are_shown() -> None:
    state = waiting("a", "b")
    ask(state, START)
    ask(state, RunEnd(context="c", run=run_of(state), status="interrupted", again=True))
    ask(state, QueueSend(context="c", joined=True), USER, nonce="join")
    assert ask(state, START, nonce="2").result["attempt"] == 1
    assert [entry.content for entry in state.log.entries] == ["a", "a\n\nb"]


def test_a_message_that_comes_again_after_a_reset_is_shown_again() -> None:
    state = waiting("a")
    ask(state, START)
    ask(state, RunEnd(context="c", run=run_of(state), status="interrupted", again=True))
    ask(state, Control(context="c", action="reset"), nonce="r")
    ask(state, START, nonce="2")
    assert [entry.content for entry in state.log.entries] == ["a"]


def test_an_entry_that_took_the_messages_id_does_not_keep_the_run_from_starting() -> None:
    state = waiting("a")
    do(state, LogAdd("info", "mine", id=state.document["queue"][0]["id"]), author=AGENT)
    ask(state, START)
    assert state.document["run"]["status"] == "starting"
    assert state.log.entries[0].content == "a"


def test_a_long_message_is_cut_in_the_log_only() -> None:
    state = waiting("x" * 262_144)
    ask(state, START)
    entry = state.log.entries[0]
    assert (entry.length, entry.cut) == (250_000, 12_144)
    assert len(state.document["run"]["messages"][0]["text"]) == 262_144


def test_a_full_document_keeps_no_run_from_starting_or_ending() -> None:
    state = waiting("a", "b")
    full = Limits(document=state.size)

    def hub(body: Any, nonce: str = "n", author: Any = OPERATOR) -> None:
        work_out(state, asked(body, author, nonce=nonce), full)

    hub(START)
    with pytest.raises(HubError):
        hub(Apply(context="c", ops=[StateMerge({"a": "x" * 300}), RunSet("running")], run=run_of(state)), author=AGENT)
    hub(Apply(context="c", ops=[RunSet("running"), DataSet("d", "x" * 999)], run=run_of(state)), author=AGENT)
    hub(RunMove(context="c", run=run_of(state), worker="w" * 300, node="n" * 300))
    hub(Control(context="c", action="pause"))
    hub(Control(context="c", action="stop"))
    hub(RunEnd(context="c", run=run_of(state), status="interrupted", error="x" * 500, again=True))
    hub(START, "2")
    hub(Apply(context="c", ops=[RunSet("failed", "y" * 500)], run=run_of(state)), author=AGENT)
    hub(Control(context="c", action="nudge"))
    hub(Control(context="c", action="reset"))
    with pytest.raises(HubError):
        hub(Message(context="c", text="one more"))


def test_the_parts_of_a_run_are_not_the_documents_own() -> None:
    state = waiting("a", "b")
    first = ask(state, START)
    ended = ask(state, RunEnd(context="c", run=run_of(state), status="interrupted", again=True))
    texts = (str(first.parts), str(ended.parts))
    ask(state, QueueEdit(context="c", id=state.document["queue"][0]["id"], text="edited"), USER)
    assert (str(first.parts), str(ended.parts)) == texts
    assert T in texts[0]


def test_an_interrupted_message_waits_again_as_often_as_the_agent_wants() -> None:
    state = waiting("a", "b")
    start = msgspec.structs.replace(START, attempts=3, version="1.2")
    for attempt in (1, 2, 3):
        ask(state, start, nonce=str(attempt))
        run = state.document["run"]
        assert (run["attempt"], run["attempts"], run["version"]) == (attempt, 3, "1.2")
        if attempt == 2:  # its own process ends, and says so
            do(state, RunSet("interrupted"), author=AGENT, run=run_of(state))
        else:
            ask(state, RunEnd(context="c", run=run_of(state), status="interrupted"))
        again = attempt < 3
        assert [item["text"] for item in state.document["queue"]] == (["a", "b"] if again else ["b"])
        assert bool(state.document["run"]["messages"]) is not again, "each message is in one place"


@pytest.mark.parametrize("status", ["finished", "failed", "stopped"])
def test_other_ends_offer_nothing_again(status: Literal["finished", "failed", "stopped"]) -> None:
    state = waiting("a")
    ask(state, msgspec.structs.replace(START, attempts=3))
    do(state, RunSet(status), author=AGENT, run=run_of(state))
    assert state.document["queue"] == []
