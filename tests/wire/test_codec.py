from __future__ import annotations

import json
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.core.changes import Part
from hub.wire import codec
from hub.wire.codec import Encoded, Variant, encode_event, encode_frame
from tests.core.making import do, furnished
from tests.core.random_requests import OBJECTS


def decoded(variant: Variant, packet: str | bytes) -> Any:
    """What a stock Socket.IO client makes of a packet."""
    if variant is Variant.JSON:
        assert isinstance(packet, str)
        assert packet[:2] == "2["
        return json.loads(packet[1:])
    assert isinstance(packet, bytes)
    whole = msgpack.unpackb(packet)
    assert (whole["type"], whole["nsp"]) == (2, "/")
    return whole["data"]


@pytest.mark.parametrize("variant", Variant)
@given(payload=OBJECTS, event=st.sampled_from(["change", "hub.lagged"]))
def test_an_event_is_one_object(variant: Variant, event: str, payload: dict[str, Any]) -> None:
    assert decoded(variant, Encoded(event, payload).get(variant)) == [event, payload]


@pytest.mark.parametrize("variant", Variant)
def test_a_snapshot(variant: Variant) -> None:
    snapshot = furnished().snapshot()
    assert decoded(variant, Encoded("snapshot", snapshot).get(variant)) == ["snapshot", snapshot]


@pytest.mark.parametrize("variant", Variant)
@pytest.mark.parametrize("around", [126, 65_536])
def test_the_frame_carries_the_packet(variant: Variant, around: int) -> None:
    for size in range(around - 80, around + 2):
        event = Encoded("e", {"text": "x" * size})
        assert event.frame(variant) == encode_frame(variant, event.get(variant))
        assert decoded(variant, event.get(variant)) == ["e", {"text": "x" * size}]


def test_an_event_is_encoded_once_and_not_before_somebody_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[Variant] = []

    def count(variant: Variant, event: str, payload: dict[str, Any]) -> bytes:
        encoded.append(variant)
        return encode_event(variant, event, payload)

    monkeypatch.setattr(codec, "encode_event", count)
    event = Encoded("change", {"seq": 1})
    assert encoded == []
    packets = [event.get(Variant.JSON) for _ in range(3)]
    assert packets[0] is packets[1] is packets[2]
    assert encoded == [Variant.JSON]
    event.encode_now()
    assert sorted(encoded) == [Variant.JSON, Variant.MSGPACK]


def test_encoded_now_it_does_not_follow_its_payload() -> None:
    parts: list[Part] = do(furnished()).parts
    payload: dict[str, Any] = {"parts": parts}
    event = Encoded("change", payload)
    event.encode_now()
    payload["parts"] = "other"
    assert decoded(Variant.MSGPACK, event.get(Variant.MSGPACK)) == ["change", {"parts": []}]
    assert decoded(Variant.JSON, event.get(Variant.JSON)) == ["change", {"parts": []}]
