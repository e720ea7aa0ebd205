"""The short way in gives what the long way gives, or leaves it to the long way."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hub.core.errors import HubError
from hub.core.requests import Apply
from hub.core.values import MAX_DEPTH
from hub.wire.codec import Packed
from hub.wire.messages import ApplyMany, parse
from hub.wire.typed import read_applies, read_apply

_pack = msgspec.msgpack.Encoder().encode


def packed(payload: Any) -> Packed:
    return Packed(msgspec.Raw(_pack(payload)))


def outcome(payload: Any, *, name: str = "apply") -> Any:
    """What comes of a payload: the request, or the error that refuses it."""
    try:
        return parse(name, payload, lambda key: "id")
    except HubError as error:
        return error.to_wire()


leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=3)
)
keys = st.sampled_from(["a", "b", "__proto__", ""]) | st.text(max_size=3) | st.integers(0, 3)
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3))
operations = st.one_of(
    st.fixed_dictionaries({"op": st.just("state.merge"), "value": st.dictionaries(keys, values, max_size=3)}),
    st.fixed_dictionaries(
        {"op": st.sampled_from(["state.append", "state.remove"]), "path": st.just("/l"), "value": values}
    ),
    st.fixed_dictionaries({"op": st.just("state.incr"), "path": st.just("/n"), "by": leaves}),
    st.fixed_dictionaries(
        {"op": st.sampled_from(["data.set", "output.set", "metadata.set"]), "key": keys, "value": leaves | values}
    ),
    st.fixed_dictionaries({"op": st.just("session_context.save"), "value": values}),
    st.fixed_dictionaries({"op": st.just("log.update"), "id": st.just("e"), "kvps": st.none() | values}),
    st.fixed_dictionaries({"op": st.just("ask.open"), "id": st.just("a"), "question": leaves, "options": values}),
    st.fixed_dictionaries({"op": st.just("log.add"), "type": st.just("info"), "kvps": values}),
    st.fixed_dictionaries({"op": st.just("log.append"), "id": st.text(max_size=4), "text": st.text(max_size=9)}),
    st.fixed_dictionaries({"op": st.text(max_size=4), "value": values}),
    values,
)
runs = st.none() | st.fixed_dictionaries({"id": st.just("r"), "fence": st.integers(-(2**63), 2**64 - 1)})
applies = st.fixed_dictionaries(
    {"context": st.sampled_from(["c", "", "é"]), "ops": st.lists(operations, max_size=3)},
    optional={"key": st.text(max_size=3), "run": runs, "odd": values},
)


@example({"context": "c", "ops": [{"op": "data.set", "key": "k", "value": b""}]})
@given(applies)
def test_packed_and_unpacked_mean_the_same(payload: dict[str, Any]) -> None:
    assert repr(outcome(packed(payload))) == repr(outcome(packed(payload).read()))  # 1, 1.0 and True are equal


@given(st.lists(applies | values, max_size=3))
def test_so_do_many(batches: list[Any]) -> None:
    """Each stands alone: in many as by itself."""
    many = outcome(packed({"batches": batches}), name="apply.many")
    assert isinstance(many, ApplyMany)
    found = [batch if isinstance(batch, Apply) else outcome(batch) for batch in many.batches]
    assert found == [outcome(packed(batch).read()) for batch in batches]


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 500])
def test_the_same_depth_is_allowed(levels: int) -> None:
    payload = {"context": "c", "ops": [{"op": "data.set", "key": "k", "value": nested(levels)}]}
    found = outcome(packed(payload))
    assert found == outcome(payload)
    assert isinstance(found, Apply) == (levels <= MAX_DEPTH)
    many = outcome(packed({"batches": [payload]}), name="apply.many")
    assert isinstance(many.batches[0], Apply) == (levels <= MAX_DEPTH)


def test_nearly_everything_takes_the_short_way() -> None:
    payload = {"context": "c", "ops": [{"op": "log.append", "id": "e", "text": "é"}], "key": "w/1"}
    assert read_apply(msgspec.Raw(_pack(payload))) == outcome(payload)
    assert read_applies(msgspec.Raw(_pack({"batches": [payload, payload]}))) == [outcome(payload)] * 2
