"""Questions that agents ask people. The first answer is the one. A question stands in the document until a run for other messages
begins, so whoever asks it again in another attempt finds its answer; the log has it as an entry of the same id, for good."""

from __future__ import annotations

import contextlib
from typing import Any

from hub.core.draft import Draft
from hub.core.errors import AlreadyAnswered, Exists, InvalidRequest, InvalidValue, NotFound, Overloaded, TooLarge
from hub.core.log_operations import log_add, log_update
from hub.core.operations import AskClose, AskOpen, LogAdd, LogUpdate
from hub.core.pointer import own, shown
from hub.core.requests import AskAnswer
from hub.core.runs import active_run, move
from hub.core.times import iso, seconds
from hub.core.values import json_size, same


def ask_open(draft: Draft, op: AskOpen) -> None:
    """Ask people; the run waits for them. The same question again changes nothing, whatever has become of it. Raises Exists,
    Overloaded, InvalidRequest, TooLarge."""
    if not op.question.strip():
        raise InvalidRequest("a question needs text")
    if len(op.question) > draft.limits.value:
        raise TooLarge(f"a question has at most {draft.limits.value:,} characters", limit=draft.limits.value)
    if op.options is not None and not op.options:
        raise InvalidRequest("options are at least one, or left out: then any answer will do")
    expires_at = iso(seconds(op.expires_at)) if op.expires_at else None
    known, run = draft.document["asks"].get(op.id), active_run(draft.document)
    if known is not None:
        if known["question"] != op.question or not same(known["options"], op.options):
            raise Exists(f"there is another question {op.id!r}")
        if known["status"] == "open" and run is not None:
            if known["run"] != run["id"]:  # an earlier attempt asked it
                draft.replace(run["id"], "asks", op.id, "run")
            _wait(draft)
        return
    _make_room(draft)
    ask = {
        "question": op.question,
        "options": own(op.options),
        "status": "open",
        "run": run["id"] if run else None,
        "asked_at": draft.request.now,
        "expires_at": expires_at,
    }
    draft.set(ask, "asks", op.id)
    options = {"options": own(op.options)} if op.options else {}
    log_add(draft, LogAdd(type="input", id=op.id, content=op.question, kvps=options))
    if run is not None:
        _wait(draft)


def _wait(draft: Draft) -> None:
    if draft.document["run"]["status"] in ("starting", "running"):
        move(draft, "waiting")


def _make_room(draft: Draft) -> None:
    """Forget the oldest that is done with, if there are as many as are kept."""
    asks: dict[str, Any] = draft.document["asks"]
    if len(asks) < draft.limits.asks:
        return
    done = sorted((ask["asked_at"], id) for id, ask in asks.items() if ask["status"] != "open")
    if not done:
        raise Overloaded(f"{draft.limits.asks} questions wait for an answer in this context already")
    draft.remove("asks", done[0][1])


def ask_close(draft: Draft, op: AskClose) -> None:
    """Nobody is to answer any more: it is too late, or the agent goes on without. Nothing happens to one that is answered."""
    ask = draft.document["asks"].get(op.id)
    if ask is not None and ask["status"] == "open":
        draft.replace(op.status, "asks", op.id, "status")
        _go_on(draft)


def answer(draft: Draft, body: AskAnswer) -> dict[str, Any]:
    """Answer a question. Raises NotFound, AlreadyAnswered (``details``: ``by``, ``at``), InvalidValue."""
    ask = draft.document["asks"].get(body.ask)
    if ask is None:
        raise NotFound(f"there is no question {shown(body.ask)} in this context")
    if ask["status"] == "answered":
        by, at = ask["by"], ask["answered_at"]
        raise AlreadyAnswered(f"{shown(by)} has answered that before", by=by, at=at)
    if ask["status"] != "open" or (ask["expires_at"] is not None and draft.request.now >= ask["expires_at"]):
        raise NotFound(f"question {shown(body.ask)} does not wait for an answer any more")
    if ask["options"] is not None and not any(same(body.value, option) for option in ask["options"]):
        raise InvalidValue(f"the answer is one of {shown(ask['options'])}", path="/value")
    if json_size(body.value) > draft.limits.message:
        raise TooLarge(f"an answer has at most {draft.limits.message:,} bytes", limit=draft.limits.message)
    author = draft.request.author.sub
    with draft.free():
        answered = {
            **own(ask),
            "status": "answered",
            "value": body.value,
            "by": author,
            "answered_at": draft.request.now,
        }
        draft.replace(answered, "asks", body.ask)
    with contextlib.suppress(NotFound):  # the log was emptied
        log_update(draft, LogUpdate(id=body.ask, kvps={"answer": body.value, "answered_by": author}))
    _go_on(draft)
    return {}


def _go_on(draft: Draft) -> None:
    """The run that waited goes on, unless it still waits."""
    run = active_run(draft.document)
    waits = any(
        ask["status"] == "open" and ask["run"] == (run and run["id"]) for ask in draft.document["asks"].values()
    )
    if run is not None and run["status"] == "waiting" and not waits:
        move(draft, "running")
