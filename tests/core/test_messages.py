"""The queue of messages that wait: none overwrites another."""

from __future__ import annotations

from typing import Any

import pytest

from hub.core.errors import Exists, InvalidRequest, NotFound, Overloaded, TooLarge
from hub.core.limits import Limits
from hub.core.requests import Attachment, Message, QueueClear, QueueEdit, QueueRemove, QueueSend
from hub.core.state import ContextState
from hub.core.work_out import work_out
from tests.core.making import LATER, USER, T, ask, asked, created, whole


def queued(*texts: str) -> tuple[ContextState, list[str]]:
    state = created()
    for number, text in enumerate(texts):
        ask(state, Message(context="c", text=text, attachments=[Attachment(f"u{number}")]), USER, nonce=f"m{number}")
    return state, [item["id"] for item in state.document["queue"]]


def texts(state: ContextState) -> list[str]:
    return [item["text"] for item in state.document["queue"]]


def test_a_message() -> None:
    state = created()
    result = ask(
        state, Message(context="c", text="hello", attachments=[Attachment("u", "f", 3, "t")]), USER, now=LATER
    ).result
    assert state.document["queue"] == [
        {
            "id": result["id"],
            "text": "hello",
            "attachments": [{"id": "u", "name": "f", "size": 3, "type": "t"}],
            "user_id": "ute",
            "created_at": LATER,
        }
    ]
    assert state.document["last_message"] == LATER
    assert state.document["created_at"] == T


def test_they_queue_up() -> None:
    state, ids = queued("a", "b", "a")
    assert texts(state) == ["a", "b", "a"]
    assert len(set(ids)) == 3


@pytest.mark.parametrize("text", ["", "  \n\t"])
def test_an_empty_message(text: str) -> None:
    with pytest.raises(InvalidRequest):
        ask(created(), Message(context="c", text=text))
    state = created()
    ask(state, Message(context="c", text=text, attachments=[Attachment("u")]))
    assert texts(state) == [text]


def test_the_same_message_cannot_wait_twice() -> None:
    state = created()
    ask(state, Message(context="c", text="a"), nonce="same")
    with pytest.raises(Exists):
        ask(state, Message(context="c", text="a"), nonce="same")


def test_bounds() -> None:
    state = created()
    ask(state, Message(context="c", text="x" * 262_144))
    with pytest.raises(TooLarge):
        ask(state, Message(context="c", text="x" * 262_145), nonce="2")
    few = Limits(queue=1)
    with pytest.raises(Overloaded) as refused:
        work_out(state, asked(Message(context="c", text="y"), nonce="3"), few)
    assert refused.value.retryable


def test_editing() -> None:
    state, ids = queued("a", "b")
    ask(state, QueueEdit(context="c", id=ids[1], text="B"))
    assert texts(state) == ["a", "B"]
    assert ask(state, QueueEdit(context="c", id=ids[1], text="B")).parts == []
    with pytest.raises(TooLarge):
        ask(state, QueueEdit(context="c", id=ids[1], text="x" * 262_145))
    ask(state, QueueEdit(context="c", id=ids[1], text=""))  # its attachment stays
    without = ask(state, Message(context="c", text="c"), nonce="m").result["id"]
    with pytest.raises(InvalidRequest):
        ask(state, QueueEdit(context="c", id=without, text=" "))


def test_removing_and_clearing() -> None:
    state, ids = queued("a", "b", "c")
    ask(state, QueueRemove(context="c", id=ids[1]))
    assert texts(state) == ["a", "c"]
    ask(state, QueueClear(context="c"))
    assert texts(state) == []
    assert ask(state, QueueClear(context="c")).parts == []


def test_sending_one_first() -> None:
    state, ids = queued("a", "b", "c")
    assert ask(state, QueueSend(context="c", id=ids[2])).result["id"] == ids[2]
    assert texts(state) == ["c", "a", "b"]
    assert ask(state, QueueSend(context="c", id=ids[2])).parts == []


def test_sending_all_joined() -> None:
    state, ids = queued("a", "", "c")
    first = state.document["queue"][0]
    result = ask(state, QueueSend(context="c", joined=True)).result
    [joined] = state.document["queue"]
    assert joined["id"] == result["id"] not in ids
    assert joined["text"] == "a\n\nc"
    assert [attachment["id"] for attachment in joined["attachments"]] == ["u0", "u1", "u2"]
    assert (joined["user_id"], joined["created_at"]) == (first["user_id"], first["created_at"])
    assert ask(state, QueueSend(context="c", joined=True), nonce="2").parts == []
    assert ask(created(), QueueSend(context="c", joined=True)).parts == []


def test_joining_more_than_a_message_holds() -> None:
    state, _ = queued("x" * 200_000, "y" * 200_000)
    before = whole(state)
    with pytest.raises(TooLarge):
        ask(state, QueueSend(context="c", joined=True))
    assert whole(state) == before


@pytest.mark.parametrize(
    "body",
    [
        QueueEdit(context="c", id="none", text="x"),
        QueueRemove(context="c", id="none"),
        QueueSend(context="c", id="none"),
    ],
)
def test_a_message_that_does_not_wait(body: Any) -> None:
    state, _ = queued("a")
    with pytest.raises(NotFound):
        ask(state, body)
    with pytest.raises(InvalidRequest):
        ask(state, QueueSend(context="c"))
