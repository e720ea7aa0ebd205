"""The bad network that other tests use does what it says."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.proxy import Proxy


class Echo:
    """A server that sends back what it is sent, on 127.0.0.1."""

    def __init__(self, stack: ExitStack) -> None:
        self._server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.url = f"redis://127.0.0.1:{self._server.getsockname()[1]}/0"
        self.taken = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            self.taken += 1
            threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with client:
            try:
                while data := client.recv(4096):
                    client.sendall(data)
            except OSError:
                return


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def echo(stack: ExitStack) -> Echo:
    return Echo(stack)


@pytest.fixture
def proxy(stack: ExitStack, echo: Echo) -> Proxy:
    return stack.enter_context(Proxy(echo.url))


def connect(stack: ExitStack, proxy: Proxy) -> socket.socket:
    port = int(proxy.url.rpartition(":")[2].partition("/")[0])
    client = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
    client.settimeout(5)
    return client


def receive(client: socket.socket, count: int) -> bytes:
    """So many bytes, however many pieces they come in: MSG_WAITALL says nothing to a socket that has a time-out."""
    got = b""
    while len(got) < count and (piece := client.recv(count - len(got))):
        got += piece
    return got


def test_what_goes_through_is_counted(stack: ExitStack, proxy: Proxy) -> None:
    client = connect(stack, proxy)
    client.sendall(b"hello")
    assert receive(client, 5) == b"hello"
    assert (proxy.to_server.bytes, proxy.to_client.bytes) == (5, 5)
    assert proxy.url.endswith("/0"), "the rest of the URL stays"


def test_each_direction_takes_its_time_and_keeps_its_order(stack: ExitStack, proxy: Proxy) -> None:
    client = connect(stack, proxy)
    proxy.to_server.delay, proxy.to_client.delay = 0.1, 0.2
    began = time.monotonic()
    for n in range(20):
        client.sendall(b"%02d" % n)
    assert receive(client, 40) == b"".join(b"%02d" % n for n in range(20))
    assert 0.3 <= time.monotonic() - began < 2.0, "it delays, and lets nothing wait for what came before"


@pytest.mark.parametrize("cut", [True, False])
def test_silence(stack: ExitStack, proxy: Proxy, echo: Echo, cut: bool) -> None:
    client = connect(stack, proxy)
    client.sendall(b"a")
    assert client.recv(1) == b"a"
    with proxy.silent(cut=cut):
        client.sendall(b"b")
        late = connect(stack, proxy)
        late.sendall(b"c")
        for one in (client, late):
            one.settimeout(0.2)
            with pytest.raises(TimeoutError):
                one.recv(1)
            one.settimeout(5)
        assert echo.taken == 1
    if cut:
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    else:
        assert client.recv(1) == b"b"
        assert late.recv(1) == b"c"
    again = connect(stack, proxy)
    again.sendall(b"d")
    assert again.recv(1) == b"d"


def test_a_cut_and_a_refusal(stack: ExitStack, proxy: Proxy, echo: Echo) -> None:
    client = connect(stack, proxy)
    client.sendall(b"a")
    assert client.recv(1) == b"a"
    proxy.cut()
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    proxy.refuses = True
    assert ended(connect(stack, proxy))
    assert echo.taken == 1


def ended(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def test_the_next_target_is_taken_when_one_is_away(stack: ExitStack, echo: Echo) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        away = f"redis://127.0.0.1:{free.getsockname()[1]}/0"
    proxy = stack.enter_context(Proxy(away, echo.url))
    for _ in range(8):
        client = connect(stack, proxy)
        client.sendall(b"a")
        assert client.recv(1) == b"a"
