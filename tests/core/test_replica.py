"""A replica equals a reference that applies the confirmed history and then works out what is pending."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.core.changes import Change
from hub.core.errors import HubError
from hub.core.limits import DEFAULT_LIMITS, Limits
from hub.core.operations import LogAdd, LogAppend, StateIncr, StateMerge
from hub.core.position import Position
from hub.core.replica import Pending, Replica
from hub.core.requests import (
    AnyBody,
    Apply,
    Author,
    Control,
    QueueEdit,
    QueueRemove,
    QueueSend,
    Request,
    RunEnd,
    RunRef,
    RunStart,
)
from hub.core.state import ContextState, DoesNotFit
from hub.core.work_out import work_out
from tests.core.making import AGENT, OPERATOR, asked, created, encoded, furnished, whole
from tests.core.random_requests import BODIES, bind

SMALL = Limits(heading=10, content=60, key=5, value=20, progress=8, queue=3, document=1_800)


class World:
    """The record (``confirmed``), somebody else's writer at it, and the replica that is looked at."""

    def __init__(self, *, keyed: bool) -> None:
        self.keyed = keyed
        self.confirmed = furnished()
        self.history: list[Change] = []
        self.replica = Replica(furnished(), SMALL, keyed=keyed)
        self.expected: list[Pending] = []
        self.count = 0

    def request(self, body: AnyBody, author: Author, name: str, seen: ContextState) -> Request:
        self.count += 1
        bound = msgspec.structs.replace(bind(body, seen), key=f"{name}/{self.count}")
        return asked(bound, author, now=f"2026-11-29T14:18:00.{self.count:03}Z")

    def own(self, body: AnyBody) -> None:
        request = self.request(body, AGENT, "me", self.replica.state)
        before = whole(self.replica.state)
        try:
            self.expected.append(self.replica.write(request))
        except HubError:
            assert whole(self.replica.state) == before

    def append(self, request: Request) -> Change | None:
        """The record works a request out. What it did, as the replica gets it. Raises HubError."""
        worked = work_out(self.confirmed, request, SMALL)
        if worked.position is None:
            return None
        change = Change(worked.position, worked.parts)
        self.history.append(change)
        if not self.keyed:
            change = Change(change.position, [part for part in change.parts if part["kind"] != "key"])
        return Change(change.position, msgspec.json.decode(msgspec.json.encode(change.parts)))

    def other(self, body: AnyBody) -> None:
        try:
            change = self.append(self.request(body, OPERATOR, "you", self.confirmed))
        except HubError:
            return
        if change is not None:
            self.refused(self.replica.follow(change))

    def confirm_oldest(self) -> None:
        """As a facade does it: the answer comes, then the change."""
        if not self.expected:
            return
        oldest = self.expected[0]
        try:
            change = self.append(oldest.request)
        except HubError:
            change = None
        if change is None:
            self.drop(oldest)
            return
        oldest.at = change.position
        self.expected.remove(oldest)
        self.refused(self.replica.follow(change))

    def confirm_all(self) -> None:
        """As a node does it: what is pending is appended just as it is."""
        changes = []
        for pending in self.expected:
            change = self.append(pending.request)
            if change is not None:
                changes.append(change)
        assert self.replica.changes() == changes
        assert self.replica.confirm() == changes
        self.expected = []

    def drop(self, gone: Pending) -> None:
        self.expected.remove(gone)
        self.refused(self.replica.drop(gone))

    def refused(self, refused: list[tuple[Pending, HubError]]) -> None:
        for pending, _ in refused:
            self.expected.remove(pending)

    def look(self) -> None:
        with self.replica.confirmed() as state:
            assert seen(state, self.keyed) == seen(self.confirmed, self.keyed)

    def check(self) -> None:
        assert self.replica.pending == self.expected
        assert self.replica.position == self.confirmed.position
        reference = furnished()
        for change in self.history:
            reference.apply(change)
        for pending in self.expected:
            worked = work_out(reference, pending.request, SMALL, keyed=self.keyed)
            assert (worked.parts, worked.result) == (pending.worked.parts, pending.worked.result)
        assert seen(self.replica.state, self.keyed) == seen(reference, self.keyed)
        self.look()


def seen(state: ContextState, keyed: bool) -> object:
    everything = whole(state)
    if not keyed:
        del everything["keys"]
    return everything


KEYED_STEPS: st.SearchStrategy[tuple[str, object]] = st.one_of(
    st.tuples(st.just("own"), BODIES),
    st.tuples(st.just("own"), BODIES),
    st.tuples(st.just("other"), BODIES),
    st.tuples(st.just("drop"), st.integers(0, 3)),
    st.tuples(st.just("confirm_all"), st.none()),
)
UNKEYED_STEPS = st.one_of(
    st.tuples(st.just("own"), BODIES),
    st.tuples(st.just("own"), BODIES),
    st.tuples(st.just("other"), BODIES),
    st.tuples(st.just("drop"), st.integers(0, 3)),
    st.tuples(st.just("confirm_oldest"), st.none()),
    st.tuples(st.just("confirm_oldest"), st.none()),
)


def play(world: World, steps: list[tuple[str, object]]) -> None:
    for name, what in steps:
        if name == "drop":
            assert isinstance(what, int)
            if what < len(world.expected):
                world.drop(world.expected[what])
        elif what is None:
            getattr(world, name)()
        else:
            getattr(world, name)(what)
        world.check()


@settings(max_examples=80)
@given(st.lists(KEYED_STEPS, max_size=8) | st.lists(KEYED_STEPS, min_size=10, max_size=20))
def test_a_node_equals_the_confirmed_history_and_what_is_pending(steps: list[tuple[str, object]]) -> None:
    play(World(keyed=True), steps)


@settings(max_examples=80)
@given(st.lists(UNKEYED_STEPS, max_size=8) | st.lists(UNKEYED_STEPS, min_size=10, max_size=20))
def test_a_view_equals_the_confirmed_history_and_what_is_pending(steps: list[tuple[str, object]]) -> None:
    play(World(keyed=False), steps)


def wrote(replica: Replica, *ops: StateIncr | StateMerge | LogAdd | LogAppend, key: str | None = None) -> Pending:
    return replica.write(asked(Apply(context="c", ops=list(ops), key=key)))


def change_of(state: ContextState, *ops: StateIncr | StateMerge | LogAdd) -> Change:
    worked = work_out(state, asked(Apply(context="c", ops=list(ops))))
    return Change(state.position, worked.parts)


def test_others_changes_go_below_what_is_pending() -> None:
    record, replica = created(), Replica(created(), DEFAULT_LIMITS, keyed=False)
    wrote(replica, StateIncr("/n", 1))
    replica.follow(change_of(record, StateMerge({"n": 10})))
    assert replica.state.document["state"] == {"n": 11}
    assert replica.position == Position("e1", 2)
    assert replica.state.position == Position("e1", 3)


def test_a_write_that_stands_already_is_confirmed_without_work() -> None:
    record, replica = created(), Replica(created(), DEFAULT_LIMITS, keyed=False)
    first, second = wrote(replica, StateIncr("/n", 1)), wrote(replica, StateIncr("/n", 1))
    worked = second.worked
    change = change_of(record, StateIncr("/n", 1))
    first.at = change.position
    assert replica.follow(change) == []
    assert replica.pending == [second]
    assert second.worked is worked
    assert replica.state.document["state"] == {"n": 2}


def test_a_write_that_was_confirmed_otherwise_takes_the_records_way() -> None:
    record, replica = created(state={"n": 5}), Replica(created(), DEFAULT_LIMITS, keyed=False)
    mine = wrote(replica, StateIncr("/n", 1))
    change = change_of(record, StateIncr("/n", 1))
    mine.at = change.position
    with pytest.raises(DoesNotFit):  # this record has another past
        replica.follow(change)
    assert replica.pending == [mine]
    assert replica.state.document["state"] == {"n": 1}


def test_a_write_whose_answer_came_late_is_in_the_history_already() -> None:
    record, replica = created(), Replica(created(), DEFAULT_LIMITS, keyed=False)
    mine = wrote(replica, StateIncr("/n", 1))
    replica.follow(change_of(record, StateIncr("/n", 1)))
    mine.at = Position("e1", 2)
    replica.follow(change_of(record, StateMerge({"m": 1})))
    assert replica.pending == []
    assert replica.state.document["state"] == {"n": 1, "m": 1}


def test_what_cannot_stand_on_others_changes_is_returned() -> None:
    record, replica = created(), Replica(created(), DEFAULT_LIMITS, keyed=False)
    mine, after = wrote(replica, LogAdd("info", id="e")), wrote(replica, LogAppend("e", "x"))
    refused = replica.follow(change_of(record, LogAdd("info", "theirs", id="e")))
    assert [(pending, error.code) for pending, error in refused] == [(mine, "exists")]
    assert replica.pending == [after]
    assert replica.state.log.find("e").content == "x"


def test_dropping_a_write_drops_what_needs_it() -> None:
    replica = Replica(created(), DEFAULT_LIMITS, keyed=False)
    first, gone, needs, last = (
        wrote(replica, StateIncr("/n")),
        wrote(replica, LogAdd("info", id="e")),
        wrote(replica, LogAppend("e", "x")),
        wrote(replica, StateIncr("/n")),
    )
    assert [(pending, error.code) for pending, error in replica.drop(gone)] == [(needs, "not_found")]
    assert replica.pending == [first, last]
    assert replica.drop(gone) == []
    assert replica.state.document["state"] == {"n": 2}
    assert replica.state.log.length == 0


def test_a_change_that_does_not_fit_leaves_everything() -> None:
    replica = Replica(created(), DEFAULT_LIMITS, keyed=False)
    wrote(replica, StateIncr("/n"))
    before = whole(replica.state)
    for change in (
        Change(Position("e1", 3), []),
        Change(Position("e2", 2), []),
        Change(
            Position("e1", 2),
            [{"kind": "data", "key": "a", "value": 1}, {"kind": "log.append", "id": "x", "at": 0, "text": ""}],
        ),
    ):
        with pytest.raises(DoesNotFit):
            replica.follow(change)
        assert whole(replica.state) == before


def test_the_confirmed_view_comes_back_even_if_the_reader_fails() -> None:
    replica = Replica(created(), DEFAULT_LIMITS, keyed=True)
    wrote(replica, StateIncr("/n"), key="w/1")
    before = whole(replica.state)

    def read() -> None:
        with replica.confirmed() as state:
            assert state.document["state"] == {}
            raise KeyError

    with pytest.raises(KeyError):
        read()
    assert whole(replica.state) == before
    replica.take_back()
    assert replica.state.document["state"] == {}


def test_a_duplicate_of_a_pending_write_is_worked_out_again_with_it() -> None:
    replica = Replica(created(), DEFAULT_LIMITS, keyed=True)
    first, again = wrote(replica, StateIncr("/n"), key="w/1"), wrote(replica, StateIncr("/n"), key="w/1")
    assert again.worked.duplicate
    assert again.worked.result == first.worked.result
    record = created()
    replica.follow(change_of(record, StateMerge({"m": 1})))
    assert replica.state.document["state"] == {"n": 1, "m": 1}
    assert again.worked.result == first.worked.result
    assert first.worked.result["seq"] == 3


def test_parts_stay_as_they_are_when_what_they_moved_is_changed_after_taking_back() -> None:
    """A message is the document's own object; parts that move it must have a copy, since it comes back as that object."""
    state = furnished()
    first, second = (item["id"] for item in state.document["queue"])
    start = RunStart(context="c", agent="demo", worker="w1", node="n1")
    run = RunRef("active", 0)
    steps: list[list[AnyBody]] = [
        [start],
        [QueueSend(context="c", id=second)],
        [QueueSend(context="c", joined=True)],
        [start, RunEnd(context="c", run=run, status="interrupted", again=True), QueueRemove(context="c", id=second)],
        [start, RunEnd(context="c", run=run, status="interrupted"), Control(context="c", action="nudge"), start],
    ]
    for bodies in steps:
        replica = Replica(furnished(), DEFAULT_LIMITS, keyed=True)
        for number, body in enumerate(bodies):
            replica.write(asked(bind(body, replica.state), nonce=str(number)))
        made = [change.parts for change in replica.changes()]
        texts = [encoded(parts) for parts in made]
        while replica.pending:
            replica.drop(replica.pending[-1])
            for id in (first, second):
                edited = asked(QueueEdit(context="c", id=id, text="edited"))
                undo = None
                if any(item["id"] == id for item in replica.state.document["queue"]):
                    undo = work_out(replica.state, edited, DEFAULT_LIMITS).undo
                assert [encoded(parts) for parts in made] == texts
                if undo:
                    undo()
