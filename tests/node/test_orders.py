"""Orders to another node: told until it says that it heard."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hub.core.errors import Unavailable
from hub.node import orders as orders_module
from hub.node.orders import Orders


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orders_module, "TELL_SECONDS", 0.05)


class Channel:
    """What all nodes hear, but for the first messages, which are lost."""

    def __init__(self, lost: int = 0) -> None:
        self.said: list[dict[str, Any]] = []
        self.orders = {name: Orders(name, self._tell) for name in ("a", "b")}
        self._lost = lost

    async def _tell(self, message: dict[str, Any]) -> None:
        self.said.append(message)
        if len(self.said) > self._lost:
            for orders in self.orders.values():
                orders.told(message)

    async def close(self) -> None:
        for orders in self.orders.values():
            await orders.close()


@pytest.mark.parametrize("lost", [0, 1, 3])
async def test_a_node_drains_though_it_was_deaf(lost: int) -> None:
    channel = Channel(lost)
    drains: list[float | None] = []
    channel.orders["b"].on_drain = drains.append
    channel.orders["a"].on_drain = drains.append
    await channel.orders["a"].drain("b", 2.5)
    assert drains == [2.5]
    assert [message["kind"] for message in channel.said] == ["drain"] * (lost + 1) + ["draining"]
    await channel.orders["a"].drain("b", None)
    assert drains == [2.5, None]
    await channel.close()


async def test_two_who_ask_the_same_are_both_answered() -> None:
    channel = Channel(2)
    await asyncio.gather(*(channel.orders["a"].drain("b", None) for _ in range(2)))
    await channel.close()


async def test_a_node_that_never_answers_is_told() -> None:
    channel = Channel(1000)
    with pytest.raises(Unavailable, match="'b' does not answer; try again"):
        await channel.orders["a"].drain("b", None)
    assert len(channel.said) == orders_module.TELLS
    await channel.close()


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0])
async def test_seconds_that_are_none_do_nothing(seconds: float) -> None:
    channel = Channel()
    drains: list[float | None] = []
    channel.orders["b"].on_drain = drains.append
    channel.orders["b"].told({"kind": "drain", "node": "b", "seconds": seconds})
    await channel.close()
    assert drains == []
