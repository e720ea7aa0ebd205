"""The checker of handled messages itself: what is right passes, and each kind of fault is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.trials.handled import Note, Runs, RunsChecker, Story, stories, token

A, B = "message-a", "message-b"


def entry(no: int, id: str, type: str, content: str = "") -> dict[str, Any]:
    return {"no": no, "id": id, "type": type, "heading": "", "content": content, "kvps": {}, "timestamp": "t"}


def text(*tokens: tuple[int, int]) -> str:
    return "".join(token(number, attempt) for number, attempt in tokens)


def run(id: str, status: str, *messages: str) -> dict[str, Any]:
    return {"id": id, "status": status, "messages": [{"id": message} for message in messages]}


def right() -> Story:
    """Two messages of four tokens. The first attempt at the first one wrote three, two of them confirmed, and was killed."""
    notes = [
        Note("begun", "s", A, 1, 0),
        Note("confirmed", "s", A, 1, 2),
        Note("begun", "s", A, 2, 3),
        Note("finished", "s", A, 2, 4, 0.5),
        Note("begun", "s", B, 1, 0),
        Note("confirmed", "s", B, 1, 2),
        Note("finished", "s", B, 1, 4, 0.5),
    ]
    entries = [
        entry(0, A, "user", "4"),
        entry(1, f"attempt/{A}/1", "info"),
        entry(2, f"answer/{A}", "response", text((0, 1), (1, 1), (2, 1), (3, 2))),
        entry(3, f"attempt/{A}/2", "info"),
        entry(4, B, "user", "4"),
        entry(5, f"attempt/{B}/1", "info"),
        entry(6, f"answer/{B}", "response", text((0, 1), (1, 1), (2, 1), (3, 1))),
    ]
    document = {
        "state": {A: 1, B: 1},
        "queue": [],
        "running": False,
        "run": run("r3", "finished"),
        "log": {"id": "l", "length": len(entries)},
    }
    runs = Runs()
    for id, message, last in (("r1", A, "interrupted"), ("r2", A, "finished"), ("r3", B, "finished")):
        for status in ("starting", "running"):
            runs.see(run(id, status, message))
        runs.see(run(id, last))
    return Story("s", {A: 4, B: 4}, notes, document, entries, runs)


def test_what_is_right_passes() -> None:
    assert right().faults() == []
    story = right()
    story.runs = None
    assert story.faults() == []


def test_what_was_finished_and_is_found_so_passes() -> None:
    """Killed after the last flush, before it was noted, and again before the run had ended."""
    story = right()
    story.notes[-1:] = [Note("begun", "s", B, 2, 4), Note("found", "s", B, 2, 4)]
    story.entries.append(entry(7, f"attempt/{B}/2", "info"))
    story.document["log"]["length"] = 8
    assert story.faults() == []


def test_each_session_has_its_own() -> None:
    story = right()
    truth = {"document": story.document, "entries": story.entries}
    notes = [*story.notes, Note("begun", "t", A, 1, 0)]
    assert story.runs is not None
    (same,) = stories({"s": story.sent}, notes, {"s": truth}, {"s": story.runs})
    assert same.faults() == []
    assert same.notes == story.notes


def test_a_viewer_sees_every_run() -> None:
    """Those of the state that it begins with, and of each change."""
    checker = RunsChecker("s")
    checker.connected()
    checker.request()
    document = {"log": {"id": "l", "length": 0}, "run": run("r1", "starting", A)}
    whole = {"ok": True, "recovered": False, "epoch": "e", "seq": 1, "log_id": "l", "entries": [], "data": {}}
    checker.reply({**whole, "document": document})
    changes: list[list[tuple[str, Any]]] = [
        [("/run/status", "running")],
        [("/run/status", "finished"), ("/run/messages", [])],
        [("/run", run("r2", "starting", B))],
    ]
    for seq, values in enumerate(changes, 2):
        ops = [{"op": "replace", "path": path, "value": value} for path, value in values]
        change = {"topic": "context:s", "epoch": "e", "seq": seq, "parts": [{"kind": "patch", "ops": ops}]}
        checker.event("change", change)
    assert checker.runs.statuses == {"r1": ["starting", "running", "finished"], "r2": ["starting"]}
    assert checker.runs.messages == {"r1": {A}, "r2": {B}}


# ---------------------------------------------------------------------------------------------------------- faults


def never_handled(story: Story) -> None:
    story.notes = [note for note in story.notes if note.message != B]


def never_shown(story: Story) -> None:
    story.entries = story.entries[:4]
    story.document["log"]["length"] = 4


def never_finished(story: Story) -> None:
    del story.document["state"][B]


def finished_twice_by_the_state(story: Story) -> None:
    story.document["state"][B] = 2


def finished_twice_by_notes(story: Story) -> None:
    story.notes += [Note("begun", "s", B, 2, 3), Note("finished", "s", B, 2, 4)]


def finished_by_two_runs(story: Story) -> None:
    assert story.runs is not None
    story.runs.see(run("r4", "running", B))
    story.runs.see(run("r4", "finished"))


def finished_by_no_run(story: Story) -> None:
    assert story.runs is not None
    story.runs.statuses["r3"][-1] = "stopped"


def given_to_two(story: Story) -> None:
    story.notes.append(Note("begun", "s", B, 1, 0))


def from_nobody(story: Story) -> None:
    story.notes.append(Note("begun", "s", "message-c", 1, 0))


def swap(story: Story, one: int, other: int) -> None:
    entries = story.entries
    entries[one], entries[other] = {**entries[other], "no": one}, {**entries[one], "no": other}


def messages_out_of_order(story: Story) -> None:
    swap(story, 0, 4)


def answer_out_of_order(story: Story) -> None:
    """It comes after the next message."""
    swap(story, 2, 4)


def answer_before_its_message(story: Story) -> None:
    swap(story, 4, 6)


def attempts_out_of_order(story: Story) -> None:
    swap(story, 1, 3)


def entry_of_nobody(story: Story) -> None:
    story.entries.append(entry(7, "e", "error", "RuntimeError: it failed"))
    story.document["log"]["length"] = 8


def entry_missing(story: Story) -> None:
    del story.entries[3]


def entry_twice(story: Story) -> None:
    story.entries.append({**story.entries[5], "no": 7})
    story.document["log"]["length"] = 8


def write(*tokens: tuple[int, int]) -> Callable[[Story], None]:
    """The answer to the first message is this."""

    def spoil(story: Story) -> None:
        story.entries[2]["content"] = text(*tokens)

    return spoil


def confirmed_by_nobody(story: Story) -> None:
    story.notes.append(Note("confirmed", "s", B, 2, 4))


def still_waits(story: Story) -> None:
    story.document["queue"].append({"id": B})


def still_running(story: Story) -> None:
    story.document["running"] = True


def not_ended(story: Story) -> None:
    story.document["run"]["status"] = "running"


def left_undone(story: Story) -> None:
    story.document["run"] = run("r3", "interrupted", B)


def run_without_end(story: Story) -> None:
    """Another one followed it all the same."""
    assert story.runs is not None
    story.runs.statuses["r1"].pop()


def run_goes_on_after_its_end(story: Story) -> None:
    assert story.runs is not None
    story.runs.see(run("r3", "running"))
    story.runs.see(run("r3", "finished"))


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (never_handled, f"message {B} was never handled"),
        (never_shown, f"the messages are ['{A}'], sent were ['{A}', '{B}']"),
        (never_finished, f"message {B} was not finished"),
        (finished_twice_by_the_state, f"message {B} was finished 2 times, by the state"),
        (finished_twice_by_notes, f"message {B} was finished 2 times, by the agents' notes"),
        (finished_by_two_runs, f"message {B} was finished by 2 runs"),
        (finished_by_no_run, f"message {B} was finished by 0 runs"),
        (given_to_two, f"attempt 1 at message {B} was begun 2 times"),
        (from_nobody, "a message that nobody sent was handled"),
        (messages_out_of_order, f"the messages are ['{B}', '{A}']"),
        (answer_out_of_order, f"answer/{A} is out of order: it comes after message {B}"),
        (answer_before_its_message, f"answer/{B} is out of order: it comes after message {A}"),
        (attempts_out_of_order, f"attempt/{A}/1 is out of order: it comes after attempt 2"),
        (entry_of_nobody, "an entry that no handler wrote"),
        (entry_missing, "the log's numbers are not"),
        (entry_twice, "an entry is there twice"),
        pytest.param(write((0, 1), (2, 1), (3, 2)), f"the answer to {A} is without 1 tokens: ['1']", id="missing"),
        pytest.param(
            write((0, 1), (1, 2), (2, 1), (3, 2)),
            f"the answer to {A} lost 1 tokens that attempt 1 had confirmed",
            id="lost and written anew",
        ),
        pytest.param(
            write((0, 1), (1, 1), (1, 1), (2, 1), (3, 2)), f"the answer to {A} has tokens twice: ['1']", id="twice"
        ),
        pytest.param(write((1, 1), (0, 1), (2, 1), (3, 2)), "has tokens out of order, or too many", id="out of order"),
        pytest.param(
            write((0, 1), (1, 1), (2, 1), (3, 2), (4, 2)), "has tokens out of order, or too many", id="too many"
        ),
        (confirmed_by_nobody, f"attempt 2 at message {B} confirmed and never began"),
        (still_waits, "1 messages still wait"),
        (still_running, "it is still running"),
        (not_ended, "run r3 did not end: it is running"),
        (left_undone, "its message was not taken up again"),
        (run_without_end, "run r1 did not end: it went starting, running"),
        (run_goes_on_after_its_end, "run r3 went on after its end"),
    ],
)
def test_each_fault_is_told(spoil: Callable[[Story], None], told: str) -> None:
    story = right()
    spoil(story)
    faults = story.faults()
    assert any(told in fault for fault in faults), faults
    assert all(fault.startswith("s: ") for fault in faults)
