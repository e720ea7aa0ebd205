"""The connection for programs without an event loop, against a hub in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from hub import AgentContext, Conflict, NotFound, SyncClient, Unauthorized, connect_sync
from tests.support import HubProcess

memory = pytest.mark.parametrize("hub_process", ["memory"], indirect=True)


@pytest.fixture
def client(hub_process: HubProcess) -> Iterator[SyncClient]:
    with connect_sync(hub_process.url, token=hub_process.token) as client:
        yield client


@memory
def test_a_plain_program(client: SyncClient) -> None:
    ctx = client.create(id="one", data={"a": 1})
    ctx.log.log("info", "from a thread")
    ctx.state["n"] = 1
    ctx.wait_flush(5)
    assert ctx.run_task(lambda: ctx.state.incr("n")).result_sync(5) is None
    ctx.wait_flush(5)
    assert client.request("context.get", {"context": "one"})["document"]["state"] == {"n": 2}
    ctx.close()
    assert client.open("one").data == {"a": 1}
    kept = client.upload("a.txt", b"abc")
    assert client.download(kept["id"]) == b"abc"
    with pytest.raises(NotFound):
        client.open("none")


@memory
def test_how_it_ends(hub_process: HubProcess) -> None:
    with pytest.raises(Unauthorized):
        with connect_sync(hub_process.url, token="wrong"):
            pass

    def body(error: Exception | None) -> None:
        with connect_sync(hub_process.url, token=hub_process.token) as client:
            ctx = client.create()
            ctx.state.merge({"a": 1}, expected="other:1")
            deadline = time.monotonic() + 5
            while ctx.writer.unconfirmed and time.monotonic() < deadline:
                time.sleep(0.005)
            if error is not None:
                raise error

    with pytest.raises(Conflict):
        body(None)
    with pytest.raises(ValueError, match="mine") as raised:
        body(ValueError("mine"))
    assert "conflict" in str(raised.value.__notes__).lower() or "expected" in str(raised.value.__notes__)
    assert AgentContext.all() == []
