"""What is wrong with how agents that were killed, and whose hub was, handled messages: of what they wrote down, and what is left.

The agent program is ``tests.trials.streaming_agent``: its answer to a message is one entry, ``answer/MESSAGE``, of numbered
tokens, each with the attempt that wrote it. An attempt goes on where the one before was broken off, so that a token which was
confirmed and lost cannot be replaced by a later attempt's without that being seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tests.checker import Checker

FINAL: Final = frozenset({"finished", "failed", "stopped", "interrupted"})
"""Statuses after which a run has no other. Spelt out here, so that a change of the hub's own list is noticed."""
ANSWER: Final = "answer"
ATTEMPT: Final = "attempt"


class Note(NamedTuple):
    """What an agent process wrote down, before it did anything else."""

    what: str
    """``begun``: it has a message. ``confirmed``: a flush returned. ``finished``: so did the one after the last token.
    ``found``: an earlier attempt had finished it already."""
    context: str
    message: str
    attempt: int
    tokens: int
    """How many tokens the answer had then."""
    seconds: float = 0.0
    """Since it began."""


def token(number: int, attempt: int) -> str:
    """One token of an answer."""
    return f"{number}/{attempt} "


class Runs:
    """The runs of a context, as somebody saw them who saw every change."""

    def __init__(self) -> None:
        self.messages: dict[str, set[str]] = {}
        """Of each run, in the order in which they began."""
        self.statuses: dict[str, list[str]] = {}

    def see(self, run: Mapping[str, Any] | None) -> None:
        """The run that the document has now."""
        if run is not None:
            self.messages.setdefault(run["id"], set()).update(message["id"] for message in run["messages"])
            statuses = self.statuses.setdefault(run["id"], [])
            if statuses[-1:] != [run["status"]]:
                statuses.append(run["status"])


class RunsChecker(Checker):
    """The proof of what a subscriber in patch mode got, and the runs that it saw."""

    def __init__(self, context: str) -> None:
        super().__init__(context)
        self.runs = Runs()

    def event(self, name: str, event: dict[str, Any]) -> None:
        super().event(name, event)
        self.runs.see(self.state.document.get("run"))

    def reply(self, reply: dict[str, Any]) -> None:
        super().reply(reply)
        self.runs.see(self.state.document.get("run"))


@dataclass
class Story:
    """One session from its first message to its end."""

    context: str
    sent: dict[str, int]
    """Messages that the hub took, in their order, and how many tokens each asks for."""
    notes: list[Note]
    """Of all agent processes; those of one process are in order."""
    document: dict[str, Any]
    entries: list[dict[str, Any]]
    """The whole log."""
    runs: Runs | None = None
    """If somebody saw all of them."""
    _faults: list[str] = field(default_factory=list, init=False, repr=False)

    def faults(self) -> list[str]:
        """All that is wrong; empty if nothing is."""
        self._faults = []
        self._check_handled()
        self._check_order()
        self._check_tokens()
        self._check_end()
        self._check_runs()
        return self._faults

    def _check(self, fits: object, what: str) -> None:
        if not fits:
            self._faults.append(f"{self.context}: {what}")

    def _check_handled(self) -> None:
        """Each message was given to an agent, no attempt to two, and what its handler did last was done once."""
        begun = Counter((note.message, note.attempt) for note in self.notes if note.what == "begun")
        finished = Counter(note.message for note in self.notes if note.what == "finished")
        for (message, attempt), times in begun.items():
            self._check(message in self.sent, f"a message that nobody sent was handled: {message}")
            self._check(times == 1, f"attempt {attempt} at message {message} was begun {times} times")
        handled = {message for message, _ in begun}
        for message in self.sent:
            self._check(message in handled, f"message {message} was never handled")
            times = self.document["state"].get(message, 0)
            self._check(times, f"message {message} was not finished")
            self._check(times <= 1, f"message {message} was finished {times} times, by the state")
            self._check(
                finished[message] <= 1,
                f"message {message} was finished {finished[message]} times, by the agents' notes",
            )

    def _check_order(self) -> None:
        """The log has each message, and then what its attempts wrote, in their order."""
        ids = [entry["id"] for entry in self.entries]
        self._check(
            [entry["no"] for entry in self.entries] == list(range(self.document["log"]["length"])),
            "the log's numbers are not 0, 1, 2 ...",
        )
        self._check(len(ids) == len(set(ids)), "an entry is there twice")
        shown = [entry["id"] for entry in self.entries if entry["type"] == "user"]
        self._check(shown == list(self.sent), f"the messages are {shown}, sent were {list(self.sent)}")
        current, attempt = "", 0
        for entry in self.entries:
            if entry["type"] == "user":
                current, attempt = entry["id"], 0
                continue
            kind, _, rest = entry["id"].partition("/")
            message, _, number = rest.partition("/")
            self._check(kind in (ANSWER, ATTEMPT), f"an entry that no handler wrote: {entry}")
            if kind in (ANSWER, ATTEMPT):
                self._check(
                    message == current, f"entry {entry['id']} is out of order: it comes after message {current}"
                )
            if kind == ATTEMPT:
                self._check(
                    int(number) > attempt, f"entry {entry['id']} is out of order: it comes after attempt {attempt}"
                )
                attempt = int(number)

    def _check_tokens(self) -> None:
        """Each answer is whole, without a token too many, and has what was confirmed."""
        contents = {entry["id"]: entry["content"] for entry in self.entries}
        there: dict[str, list[str]] = {}
        for message, count in self.sent.items():
            tokens = there[message] = contents.get(f"{ANSWER}/{message}", "").split()
            numbers = [word.partition("/")[0] for word in tokens]
            wanted = [str(number) for number in range(count)]
            if numbers == wanted:
                continue
            times = Counter(numbers)
            missing, twice = [n for n in wanted if not times[n]], [n for n in times if times[n] > 1]
            self._check(not missing, f"the answer to {message} is without {len(missing)} tokens: {missing[:5]}")
            self._check(not twice, f"the answer to {message} has tokens twice: {twice[:5]}")
            self._check(missing or twice, f"the answer to {message} has tokens out of order, or too many")
        begun = {(note.message, note.attempt): note.tokens for note in self.notes if note.what == "begun"}
        for note in self.notes:
            if note.what in ("confirmed", "finished"):
                first = begun.get((note.message, note.attempt))
                if first is None:
                    self._check(False, f"attempt {note.attempt} at message {note.message} confirmed and never began")
                    continue
                wrote = {token(number, note.attempt).strip() for number in range(first, note.tokens)}
                lost = len(wrote.difference(there.get(note.message, ())))
                self._check(
                    not lost,
                    f"the answer to {note.message} lost {lost} tokens that attempt {note.attempt} had confirmed",
                )

    def _check_end(self) -> None:
        """Nothing waits, and nothing goes on."""
        run = self.document["run"]
        self._check(not self.document["queue"], f"{len(self.document['queue'])} messages still wait")
        self._check(not self.document["running"], "it is still running")
        if run is not None:
            self._check(run["status"] in FINAL, f"run {run['id']} did not end: it is {run['status']}")
            self._check(
                not run["messages"], f"run {run['id']} is {run['status']}, and its message was not taken up again"
            )

    def _check_runs(self) -> None:
        """Each run came to one end, and each message to one run that finished."""
        if self.runs is None:
            return
        finished: Counter[str] = Counter()
        for id, statuses in self.runs.statuses.items():
            self._check(statuses[-1] in FINAL, f"run {id} did not end: it went {', '.join(statuses)}")
            self._check(not FINAL.intersection(statuses[:-1]), f"run {id} went on after its end: {', '.join(statuses)}")
            if "finished" in statuses:
                finished.update(self.runs.messages[id])
        for message in self.sent:
            self._check(
                finished[message] == 1, f"message {message} was finished by {finished[message]} runs, by who saw them"
            )


def stories(
    sent: Mapping[str, dict[str, int]],
    notes: Sequence[Note],
    truths: Mapping[str, dict[str, Any]],
    runs: Mapping[str, Runs],
) -> list[Story]:
    """One of each session. ``truths``: what somebody gets of each who subscribes, with the whole log."""
    by_context: dict[str, list[Note]] = {}
    for note in notes:
        by_context.setdefault(note.context, []).append(note)
    return [
        Story(id, sent[id], by_context.get(id, []), truth["document"], truth["entries"], runs.get(id))
        for id, truth in truths.items()
    ]
