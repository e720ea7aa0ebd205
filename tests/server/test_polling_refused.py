"""B2: a hub that takes WebSockets only tells a client which polls so, once and clearly; with WebSocket all works."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgpack
import pytest

from hub.server.sockets import NO_POLLING, WEBSOCKET_NEEDED
from tests.clients import People, serving
from tests.trials.stock import ENDPOINTS, STOCK, NodeStock, stock

QUIET_SECONDS = 1.0
"""How long nothing more may be asked: stock clients here come back after 0.1 s."""


@pytest.fixture
async def people(tmp_path: Path) -> AsyncIterator[People]:
    async with serving(tmp_path / "hub", websocket_only=True) as people:
        yield people


class Requests:
    """Counts what comes to the endpoints by polling."""

    def __init__(self, people: People, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened = 0
        for server in people.server.sockets.servers.values():
            monkeypatch.setattr(server.eio, "_handle_connect", self._counted(server.eio._handle_connect))

    def _counted(self, handle: Any) -> Any:
        async def counted(environ: dict[str, Any], transport: str, jsonp_index: int | None = None) -> Any:
            self.opened += transport == "polling"
            return await handle(environ, transport, jsonp_index)

        return counted


@pytest.mark.parametrize("transport", ["upgrading", "polling"])
@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("kind", STOCK)
async def test_a_client_that_polls_gets_one_clear_error(
    people: People, monkeypatch: pytest.MonkeyPatch, kind: str, endpoint: str, transport: str
) -> None:
    requests = Requests(people, monkeypatch)
    async with stock(kind) as client:
        await client.open(people.server.url, people.server.token, endpoint, transport)
        await asyncio.sleep(QUIET_SECONDS)
        (error,) = client.of("connect_error")
        assert not client.of("connect")
        assert requests.opened == 1
        assert error["message"] == WEBSOCKET_NEEDED
        assert error["data"] == {"code": NO_POLLING, "reason": WEBSOCKET_NEEDED, "reconnect": False}
        if isinstance(client, NodeStock):
            assert error["active"] is False, "it would try again"
    assert all(not server.eio.sockets and not server.outboxes for server in people.server.sockets.servers.values())


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("kind", STOCK)
async def test_by_websocket_all_works(people: People, kind: str, endpoint: str) -> None:
    async with stock(kind) as client:
        await client.open(people.server.url, people.server.token, endpoint, "websocket")
        await client.next("hello")
        await client.ok("context.create", id="c")
        assert (await client.ok("subscribe", topic="context:c"))["document"]["id"] == "c"


async def test_what_the_one_answer_says(people: People) -> None:
    async with aiohttp.ClientSession(people.server.url) as web:
        refused = {}
        for name, path in ENDPOINTS.items():
            async with web.get(f"{path}/?EIO=4&transport=polling") as answer:
                assert answer.status == 200
                opened, refused[name] = (await answer.text()).split("\x1e")
                assert (opened[0], json.loads(opened[1:])["upgrades"]) == ("0", [])
    said = json.loads(refused["json"].removeprefix("44"))
    assert said["message"] == WEBSOCKET_NEEDED
    packed = msgpack.unpackb(base64.b64decode(refused["msgpack"].removeprefix("b")))
    assert packed == {"type": 4, "data": said, "nsp": "/"}
