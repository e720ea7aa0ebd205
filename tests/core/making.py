"""Contexts and requests for tests of the core."""

from __future__ import annotations

from typing import Any

import msgspec

from hub.core.limits import DEFAULT_LIMITS, Limits
from hub.core.operations import AnyOperation, LogAdd, SessionContextSave
from hub.core.position import Position
from hub.core.requests import AnyBody, Apply, Author, Create, Message, Request, Role, RunRef
from hub.core.state import ContextState
from hub.core.work_out import Worked, work_out

T = "2026-11-29T14:18:00.123Z"
LATER = "2026-11-29T14:19:00.000Z"
OPERATOR = Author("olga", Role.OPERATOR)
AGENT = Author("worker-1", Role.AGENT)
USER = Author("ute", Role.USER)


def asked(body: AnyBody, author: Author = OPERATOR, *, now: str = T, nonce: str = "n", no: int = 0) -> Request:
    return Request(body, author, now, nonce, no)


def created(**fields: Any) -> ContextState:
    """A new context ``c`` at position e1:1."""
    state = ContextState(Position("e1", 0))
    work_out(state, asked(Create(context="c", **fields), nonce="creation"))
    return state


def furnished() -> ContextState:
    """A context that has something of most things: state, data, entries, messages that wait, a plan."""
    state = created(state={"a": {"b": 1}, "l": [1]}, data={"a": 1}, output={"a": [1]})
    do(state, LogAdd("info", "first", "text", id="f0"), LogAdd("agent", content="ä😀", kvps={"a": 1}, id="f1"))
    do(state, SessionContextSave({"goal": "g", "plan": ["think", "build"]}))
    for number in range(2):
        ask(state, Message(context="c", text=f"message {number}"), USER, nonce=f"m{number}")
    return state


def do(
    state: ContextState,
    *ops: AnyOperation,
    author: Author = OPERATOR,
    now: str = T,
    nonce: str = "n",
    key: str | None = None,
    run: RunRef | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Worked:
    """Work out one apply."""
    return work_out(
        state, asked(Apply(context="c", ops=list(ops), key=key, run=run), author, now=now, nonce=nonce), limits
    )


def ask(state: ContextState, body: AnyBody, author: Author = OPERATOR, **how: Any) -> Worked:
    """Work out one request."""
    return work_out(state, asked(body, author, **how))


def run_of(state: ContextState) -> RunRef:
    return RunRef(state.document["run"]["id"], state.document["run"]["fence"])


def whole(state: ContextState) -> dict[str, Any]:
    """Everything that a state is, sharing nothing with it."""
    copy: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(state.snapshot()))
    copy["closed"] = state.closed
    copy["size"] = state.size
    copy["first"], copy["begin"] = state.log.first, state.log.begin
    copy["numbers"] = [(entry.no, state.log.no_of(entry.id)) for entry in state.log.entries]
    copy["counts"] = [(entry.length, entry.units) for entry in state.log.entries]
    copy["keys"] = {field: state.keys.dump(field) for field in sorted(state.keys.fields())}
    return copy


def encoded(value: object) -> bytes:
    return msgspec.json.encode(value, order="deterministic")
