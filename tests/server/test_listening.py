"""The sockets that a hub listens on."""

from __future__ import annotations

import socket
from pathlib import Path

import aiohttp
import pytest

from hub.core.errors import StartError
from hub.server import listening
from tests.clients import serving
from tests.support import free_port


def test_all_addresses_of_a_name_have_one_port() -> None:
    sockets = listening.bind("localhost", 0)
    try:
        families = {sock.family for sock in sockets}
        assert len(families) == len(sockets) >= 1
        assert len({sock.getsockname()[1] for sock in sockets}) == 1
        assert listening.url_of("localhost", sockets) == f"http://localhost:{sockets[0].getsockname()[1]}"
    finally:
        listening.close(sockets)


@pytest.mark.parametrize(
    ("host", "what"),
    [("192.0.2.1", "cannot listen on 192.0.2.1"), ("no-such-host.invalid", "cannot listen on no-such")],
)
def test_what_is_no_address_here(host: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB_SECRET", "x" * 32)
    with pytest.raises(StartError, match=what):
        listening.bind(host, 0)


def test_two_that_are_bound_to_a_port_do_not_both_listen() -> None:
    port = free_port()
    first, second = listening.bind("127.0.0.1", port), listening.bind("127.0.0.1", port)
    try:
        listening.listen(first)
        with pytest.raises(StartError, match=f"port {port} .* in use"):
            listening.listen(second)
    finally:
        listening.close(first + second)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:"),
        ("::", "http://[::1]:"),
        ("::1", "http://[::1]:"),
        ("localhost", "http://localhost:"),
    ],
)
def test_where_it_is_reached(host: str, url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        assert listening.url_of(host, [sock]) == f"{url}{sock.getsockname()[1]}"


async def test_a_hub_on_localhost(tmp_path: Path) -> None:
    async with serving(tmp_path, host="localhost") as people, aiohttp.ClientSession() as web:
        for host in ("localhost", "127.0.0.1"):
            async with web.get(f"http://{host}:{people.server.port}/healthz") as answer:
                assert answer.status == 200
