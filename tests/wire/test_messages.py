"""Requests as they come in, and what is said of those that are wrong."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.core.errors import (
    HubError,
    InvalidRequest,
    InvalidValue,
    UnknownOperation,
    UnknownRequest,
    UnknownType,
    Unsupported,
)
from hub.core.operations import AnyOperation
from hub.core.position import Position
from hub.core.requests import (
    AnyBody,
    Apply,
    Attachment,
    Create,
    Expected,
    LogAdd,
    Message,
    RunEnd,
    RunMove,
    RunRef,
    RunStart,
    StateMerge,
    Trim,
)
from hub.core.work_out import OPERATIONS, REQUESTS
from hub.wire.messages import (
    ASKED,
    BODIES,
    AgentServe,
    Asked,
    ContextsPage,
    From,
    HeldRun,
    NoticePost,
    Subscribe,
    name_of,
    parse,
    to_payload,
)
from tests.core.random_requests import BODIES as ANY_BODY


def new_id(key: str | None) -> str:
    return f"made-{key}".replace("/", ".")


def test_every_request_and_operation_has_its_handler() -> None:
    assert set(REQUESTS) == set(get_args(AnyBody))
    assert set(OPERATIONS) == set(get_args(AnyOperation))
    assert set(BODIES.values()) == set(REQUESTS) - {Trim, RunStart, RunMove, RunEnd}
    assert {name_of_class(cls) for cls in BODIES.values()} == set(BODIES)


def name_of_class(cls: type[Any]) -> str:
    return str(cls.__struct_config__.tag)


@given(
    ANY_BODY.filter(lambda body: not isinstance(body, (Trim, RunStart, RunMove, RunEnd))),
    st.sampled_from([None, "w/1", "é 😀"]),
)
def test_a_request_comes_back_from_its_payload(body: AnyBody, key: str | None) -> None:
    keyed = msgspec.structs.replace(body, key=key)
    name, payload = name_of(keyed), to_payload(keyed)
    assert parse(name, msgspec.json.decode(msgspec.json.encode(payload)), new_id) == keyed
    assert parse(name, msgspec.msgpack.decode(msgspec.msgpack.encode(payload)), new_id) == keyed


@pytest.mark.parametrize(
    "body",
    [
        Subscribe(topic="context:c", from_=From("e", 3), deliver="patch", tail=5),
        ContextsPage(before="x", filter={"type": "all"}),
        NoticePost(message="m", expires_at="2026-11-29T14:18:00Z"),
        AgentServe(agent="demo", capacity=4, runs=[HeldRun("c", RunRef("r", 1))]),
    ],
)
def test_other_requests_come_back_too(body: Asked) -> None:
    name = next(name for name, cls in ASKED.items() if type(body) is cls)
    assert parse(name, msgspec.json.decode(msgspec.json.encode(to_payload(body))), new_id) == body


def test_a_creation_gets_an_id() -> None:
    assert "/id" in refusal("context.create", {"id": "a b"}).message
    for payload in ({"key": "w/1"}, {"id": None, "key": "w/1"}, {"id": "", "key": "w/1"}):
        body = parse("context.create", payload, new_id)
        assert isinstance(body, Create)
        assert body.context == "made-w.1"
    named = parse("context.create", {"id": "mine"}, new_id)
    assert isinstance(named, Create)
    assert named.context == "mine"
    assert to_payload(named) == {"id": "mine"}
    with pytest.raises(InvalidRequest, match="id"):
        parse("context.create", {"context": "mine"}, new_id)


@pytest.mark.parametrize("id", ["a b", "ä", "x" * 129, "a/b", "a\n", 5, ["a"], "{a}", "../x"])
def test_ids_of_contexts(id: Any) -> None:
    with pytest.raises(InvalidRequest):
        parse("context.create", {"id": id}, new_id)
    with pytest.raises(InvalidRequest):
        parse("message", {"context": id, "text": "x"}, new_id)


def test_a_full_request() -> None:
    payload = {
        "context": "c",
        "ops": [{"op": "state.merge", "value": {"a": (1, 2)}}, {"op": "log.add", "type": "info", "kvps": {"k": None}}],
        "expected": {"state": "e:1"},
        "run": {"id": "r", "fence": 2},
        "key": "w/1",
    }
    assert parse("apply", payload, new_id) == Apply(
        context="c",
        key="w/1",
        ops=[StateMerge({"a": [1, 2]}), LogAdd("info", kvps={"k": None})],
        expected=Expected(state="e:1"),
        run=RunRef("r", 2),
    )
    message = parse("message", {"context": "c", "attachments": [{"id": "u"}]}, new_id)
    assert message == Message(context="c", attachments=[Attachment("u")])


def refusal(name: str, payload: Any) -> HubError:
    with pytest.raises(HubError) as refused:
        parse(name, payload, new_id)
    assert len(refused.value.message) < 1_500
    return refused.value


@pytest.mark.parametrize(
    ("name", "payload", "error", "said"),
    [
        ("nonsense", {}, UnknownRequest, "'nonsense'"),
        ("run.start", {"context": "c"}, UnknownRequest, "run.start"),
        ("token.refresh", {}, Unsupported, "token.refresh"),
        ("token.refresh", {"token": "t"}, Unsupported, "token.refresh"),
        (
            "apply",
            {"context": "c", "ops": [{"op": "log.reset"}, {"op": "eval"}]},
            UnknownOperation,
            "'eval' (at /ops/1/op)",
        ),
        ("apply", {"context": "c", "ops": [{"op": "x" * 9_999}]}, UnknownOperation, "(at /ops/0/op)"),
        ("apply", {"context": "c", "ops": [{"op": 5}]}, InvalidRequest, "/ops/0/op"),
        ("apply", {"context": "c", "ops": [{"value": {}}]}, InvalidRequest, "`op` (at /ops/0)"),
        ("apply", {"context": "c", "ops": [{"op": "log.reset", "x" * 9_999: 1}]}, InvalidRequest, "/ops/0"),
        ("apply", {"context": "c"}, InvalidRequest, "`ops`"),
        ("apply", {"ops": []}, InvalidRequest, "`context`"),
        ("apply", {"context": "c", "ops": [], "more": 1}, InvalidRequest, "`more`"),
        ("apply", {"context": "c", "ops": [], "key": ""}, InvalidRequest, "/key"),
        ("apply", {"context": "c", "ops": [], "key": "k" * 201}, InvalidRequest, "/key"),
        (
            "apply",
            {"context": "c", "ops": [{"op": "state.incr", "path": "/n", "by": True}]},
            InvalidRequest,
            "/ops/0/by",
        ),
        ("context.create", {"type": "zoo"}, UnknownType, "'zoo'"),
        ("notice.post", {"message": "m", "type": "zoo"}, UnknownType, "'zoo'"),
        ("broadcast", {"type": "zoo"}, UnknownType, "'zoo'"),
        ("context.create", {"agent": "two words"}, InvalidRequest, "/agent"),
        ("control", {"context": "c", "action": "explode"}, InvalidRequest, "/action"),
        ("subscribe", {"topic": "x" * 161}, InvalidRequest, "/topic"),
        ("subscribe", {"topic": "contexts", "from": {"epoch": "e", "seq": -1}}, InvalidRequest, "/from/seq"),
        ("contexts.page", {"limit": 0}, InvalidRequest, "/limit"),
        ("agent.serve", {"agent": "a", "capacity": -1}, InvalidRequest, "/capacity"),
        ("notice.post", {"message": "m" * 10_001}, InvalidRequest, "/message"),
        ("apply", None, InvalidRequest, "one object"),
        ("apply", [], InvalidRequest, "one object"),
        ("apply", "text", InvalidRequest, "one object"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(name: str, payload: Any, error: type[HubError], said: str) -> None:
    refused = refusal(name, payload)
    assert type(refused) is error
    assert said in refused.message


@pytest.mark.parametrize("value", [{1}, b"x", float("nan"), 2**53, {1: 2}, object()])
def test_values_outside_json_are_refused_by_their_path(value: Any) -> None:
    payload = {"context": "c", "ops": [{"op": "data.set", "key": "k", "value": {"a/b": [0, value]}}]}
    refused = refusal("apply", payload)
    assert isinstance(refused, InvalidValue)
    assert refused.details == {"path": "/ops/0/value/a~1b/1"}


def test_lone_surrogates_are_replaced_before_anything_sees_them() -> None:
    body = parse("message", {"context": "c", "text": "a\ud800"}, new_id)
    assert body == Message(context="c", text="a\ufffd")


def test_a_position() -> None:
    assert From("e", 3).position == Position("e", 3)
