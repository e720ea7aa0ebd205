"""Strategies for requests that mostly fit a small context, and sometimes do not.

What a request can only name once the context is there stands in it as a placeholder, and is filled in by ``bind``: the
message ``queue/1`` is the second one that waits, the entry ``entry/1`` the last but one of the log, the log ``log`` the one
there is, the run ``active`` the one that is going on, if one is.
"""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

from hub.core.enums import EntryType, WhenBusy
from hub.core.operations import (
    AnyOperation,
    AskClose,
    AskOpen,
    DataDelete,
    DataSet,
    LogAdd,
    LogAppend,
    LogReset,
    LogUpdate,
    MetadataSet,
    OutputDelete,
    OutputSet,
    ProgressSet,
    RunSet,
    SessionContextDelete,
    SessionContextSave,
    StateAppend,
    StateDelete,
    StateIncr,
    StateMerge,
    StateRemove,
)
from hub.core.requests import (
    AnyBody,
    Apply,
    AskAnswer,
    Attachment,
    Author,
    Control,
    Expected,
    Message,
    QueueClear,
    QueueEdit,
    QueueRemove,
    QueueSend,
    RunEnd,
    RunMove,
    RunOpen,
    RunRef,
    RunStart,
    Trim,
    Update,
)
from hub.core.runs import ACTIVE
from hub.core.state import ContextState
from tests.core.making import AGENT, OPERATOR, USER

NAMES = st.sampled_from(["a", "b", "l", "", "0", "x/y", "m~n", "é"])
TEXTS = st.sampled_from(["", "text", "ä€", "😀", "a\n\tb", "x" * 30, "word " * 40])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([0.5, -1e300, 2**53 - 1]), TEXTS)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=3)
PATHS = st.one_of(
    st.lists(NAMES, min_size=1, max_size=3).map(
        lambda tokens: "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in tokens)
    ),
    st.sampled_from(["/l", "/l/0", "/l/-", "", "no pointer", "/~2", "/a" * 70]),
)
NEW_ENTRIES = st.sampled_from(["e0", "e1", "e2"])
ENTRIES = st.sampled_from(["entry/0", "entry/0", "entry/1", "e0"])
QUESTIONS = st.sampled_from(["q0", "q1"])
STEPS = st.sampled_from(["think", "build", "test"])

OPERATIONS: st.SearchStrategy[AnyOperation] = st.one_of(
    st.builds(StateMerge, OBJECTS, st.sampled_from(["shallow", "deep", "replace"])),
    st.builds(StateDelete, PATHS),
    st.builds(StateIncr, PATHS, st.one_of(st.integers(-5, 5), st.sampled_from([0.25, 2**53 - 1]))),
    st.builds(StateAppend, PATHS, VALUES),
    st.builds(StateRemove, PATHS, SCALARS),
    st.builds(OutputSet, NAMES, VALUES),
    st.builds(OutputDelete, NAMES),
    st.builds(DataSet, NAMES, VALUES),
    st.builds(DataDelete, NAMES),
    st.builds(MetadataSet, NAMES, VALUES),
    st.builds(LogAdd, st.sampled_from(EntryType), TEXTS, TEXTS, OBJECTS, st.none() | NEW_ENTRIES),
    st.builds(LogAdd, st.just("info"), id=NEW_ENTRIES),
    st.builds(
        LogUpdate,
        ENTRIES,
        st.none() | st.just("error"),
        st.none() | TEXTS,
        st.none() | TEXTS,
        st.none() | OBJECTS,
        st.booleans(),
    ),
    st.builds(LogAppend, ENTRIES, TEXTS),
    st.builds(LogAppend, ENTRIES, TEXTS),
    st.builds(LogReset),
    st.builds(ProgressSet, TEXTS, st.booleans(), st.none() | ENTRIES),
    st.builds(
        SessionContextSave,
        st.fixed_dictionaries(
            {},
            optional={
                "summary": TEXTS,
                "goal": TEXTS,
                "plan": st.lists(
                    STEPS
                    | st.fixed_dictionaries({"text": STEPS, "status": st.sampled_from(["pending", "active", "done"])}),
                    max_size=3,
                ),
                "progress": st.lists(STEPS, max_size=3),
                "custom": VALUES,
            },
        ),
    ),
    st.builds(SessionContextDelete),
    st.builds(RunSet, st.sampled_from(["running", "waiting", "finished", "failed", "stopped"]), st.none() | TEXTS),
    st.builds(
        AskOpen,
        QUESTIONS,
        st.sampled_from(["Which one?", "Which one?", ""]),
        st.none() | st.lists(SCALARS, max_size=2),
        st.sampled_from([None, None, "2026-01-01T00:00:00Z", "2126-01-01T00:00:00Z", "soon"]),
    ),
    st.builds(AskClose, QUESTIONS, st.sampled_from(["withdrawn", "expired"])),
)
RUNS = st.sampled_from([None, None, RunRef("active", 0), RunRef("active", 0), RunRef("other", 1)])
QUEUED = st.sampled_from(["queue/0", "queue/0", "queue/1", "none"])
LOGGED = st.one_of(
    st.builds(LogAdd, st.just("info"), content=TEXTS, id=st.none() | NEW_ENTRIES),
    st.builds(LogAppend, ENTRIES, TEXTS),
    st.builds(LogUpdate, ENTRIES, heading=TEXTS),
)
ATTACHMENTS = st.lists(st.builds(Attachment, st.sampled_from(["u1", "u2"]), TEXTS, st.integers(0, 9)), max_size=2)
KEYS = st.sampled_from([None, "next", "next", "next", "v/1", "v/70", "other"])
"""``next`` is the writer's next one."""
VERSIONS = st.sampled_from(["e1:1", "e1:2", "e1:3"])


def _apply(ops: list[AnyOperation], run: RunRef | None, expected: Expected | None) -> Apply:
    return Apply(context="c", ops=ops, run=run, expected=expected)


BODIES: st.SearchStrategy[AnyBody] = st.one_of(
    st.builds(
        _apply,
        st.lists(OPERATIONS, min_size=1, max_size=4),
        RUNS,
        st.none() | st.none() | st.builds(Expected, st.none() | VERSIONS, st.none() | VERSIONS, st.none() | VERSIONS),
    ),
    st.builds(_apply, st.lists(OPERATIONS, min_size=1, max_size=1), st.just(RunRef("active", 0)), st.none()),
    st.builds(_apply, st.lists(OPERATIONS, min_size=1, max_size=2), st.just(RunRef("active", 0)), st.none()),
    st.builds(_apply, st.lists(OPERATIONS, min_size=1, max_size=3), st.none(), st.none()),
    st.builds(_apply, st.lists(LOGGED, min_size=1, max_size=4), st.just(RunRef("active", 0)), st.none()),
    st.builds(Update, context=st.just("c"), name=TEXTS, metadata=st.none() | OBJECTS),
    st.builds(Update, context=st.just("c"), when_busy=st.sampled_from(WhenBusy)),
    st.builds(Message, context=st.just("c"), text=TEXTS, attachments=ATTACHMENTS),
    st.builds(QueueEdit, context=st.just("c"), id=QUEUED, text=TEXTS),
    st.builds(QueueRemove, context=st.just("c"), id=QUEUED),
    st.builds(QueueClear, context=st.just("c")),
    st.builds(QueueSend, context=st.just("c"), id=st.none() | QUEUED, joined=st.booleans()),
    st.builds(AskAnswer, context=st.just("c"), ask=QUESTIONS, value=SCALARS),
    st.builds(
        Control, context=st.just("c"), action=st.sampled_from(["stop", "pause", "resume", "nudge", "nudge", "reset"])
    ),
    st.builds(Trim, context=st.just("c"), log=st.sampled_from(["log", "log", "gone"]), before=st.integers(-1, 9)),
    st.builds(RunOpen, context=st.just("c")),
    st.builds(
        RunStart,
        context=st.just("c"),
        agent=st.just("demo"),
        worker=st.just("w1"),
        node=st.just("n1"),
        attempts=st.sampled_from([1, 1, 2]),
    ),
    st.builds(
        RunEnd,
        context=st.just("c"),
        run=st.just(RunRef("active", 0)),
        status=st.sampled_from(["interrupted", "stopped", "failed"]),
        error=st.none() | TEXTS,
        again=st.booleans(),
        node=st.sampled_from([None, None, "n1", "n2"]),
    ),
    st.builds(
        RunMove,
        context=st.just("c"),
        run=st.just(RunRef("active", 0)),
        worker=st.just("w2"),
        node=st.sampled_from(["n1", "n2"]),
    ),
)
AUTHORS: st.SearchStrategy[Author] = st.sampled_from([OPERATOR, AGENT, USER])


def bind(body: AnyBody, state: ContextState) -> AnyBody:
    """The body with its placeholders filled in from the state."""
    document = state.document
    if isinstance(body, Apply):
        body = msgspec.structs.replace(body, ops=[_bind_entry(op, state) for op in body.ops])
    if isinstance(body, Trim) and body.log == "log":
        return msgspec.structs.replace(body, log=state.log.id)
    if isinstance(body, (Apply, RunMove, RunEnd)) and body.run is not None and body.run.id == "active":
        run = document["run"]
        if run and (not isinstance(body, Apply) or run["status"] in ACTIVE):
            return msgspec.structs.replace(body, run=RunRef(run["id"], run["fence"]))
        return msgspec.structs.replace(body, run=None) if isinstance(body, Apply) else body
    if isinstance(body, (QueueEdit, QueueRemove, QueueSend)) and body.id is not None and body.id.startswith("queue/"):
        index = int(body.id[6:])
        if index < len(document["queue"]):
            return msgspec.structs.replace(body, id=document["queue"][index]["id"])
    return body


def _bind_entry(op: AnyOperation, state: ContextState) -> AnyOperation:
    if isinstance(op, (LogUpdate, LogAppend)) and op.id.startswith("entry/"):
        index = int(op.id[6:])
        if index < len(state.log.entries):
            return msgspec.structs.replace(op, id=state.log.entries[-1 - index].id)
    return op
