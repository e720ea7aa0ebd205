from __future__ import annotations

import re

from hub.core.operations import StateMerge
from hub.core.requests import Apply, Author, Message, Request, Role
from tests.core.making import AGENT, LATER, USER, asked


def merge(value: dict[str, object], key: str | None = "w/1") -> Apply:
    return Apply(context="c", ops=[StateMerge(value)], key=key)


def test_the_digest_is_of_the_payload_alone() -> None:
    digest = asked(merge({"a": 1, "b": 2})).digest
    assert re.fullmatch("[0-9a-f]{18}", digest)
    assert asked(merge({"b": 2, "a": 1}), USER, now=LATER, nonce="other").digest == digest
    assert asked(merge({"a": 1, "b": 3})).digest != digest
    assert asked(merge({"a": 1, "b": 2}, "w/2")).digest != digest
    assert asked(Message(context="c", text="x")).digest != asked(Message(context="d", text="x")).digest


def test_ids_are_the_same_for_a_retry_and_for_nobody_else() -> None:
    request = asked(merge({}))
    ids = {
        request.make_id(),
        request.make_id(1),
        request.make_id("log"),
        asked(merge({}), AGENT).make_id(),
        asked(merge({}, "w/2")).make_id(),
        asked(merge({}, None), nonce="n1").make_id(),
        asked(merge({}, None), nonce="n2").make_id(),
        asked(merge({}, None), nonce="", now=LATER).make_id(),
    }
    assert len(ids) == 8
    assert asked(merge({"other": 1}), now=LATER, nonce="x").make_id() == request.make_id()
    assert all(re.fullmatch("[0-9a-f]{16}", id) for id in ids)


def test_any_text_names_an_author() -> None:
    assert Request(merge({}), Author("\ud800", Role.USER), LATER).make_id()
