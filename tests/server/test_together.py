"""What one append brought to many contexts goes to each connection in one piece, and stays in order with everything else."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.fanout.together import TOGETHER
from hub.server.outbox import SocketOutbox
from hub.wire.codec import Encoded, Variant, encode_frame
from tests.clients import serving

LIMIT = 1_000_000


class Pipe(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self.waits = 0
        self.closed = False

    def write(self, data: Any) -> None:
        if self.closed:
            raise RuntimeError("closed")
        self.pieces.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return self.waits

    def is_closing(self) -> bool:
        return self.closed


class Nowhere:
    def shut(self) -> None:
        return None


def outbox(pipe: Pipe) -> SocketOutbox:
    return SocketOutbox("sid", Nowhere(), Variant.JSON, LIMIT, transport=pipe, polled=None)


def event(n: int) -> Encoded:
    return Encoded("e", {"n": n})


def stream(box: SocketOutbox, n: int) -> bool:
    return box.stream(event(n).frame(Variant.JSON), [event(n)])


def whole(*numbers: int) -> bytes:
    return b"".join(event(n).frame(Variant.JSON) for n in numbers)


async def test_what_is_streamed_in_a_block_is_one_piece_for_each_connection() -> None:
    pipes = [Pipe(), Pipe(), Pipe()]
    first, second, _ = [outbox(pipe) for pipe in pipes]
    stream(first, 0)
    with TOGETHER:
        for n in (1, 2, 3):
            assert stream(first, n)
        assert stream(second, 4)
        assert pipes[0].pieces == [whole(0)]
    stream(first, 5)
    assert [pipe.pieces for pipe in pipes] == [[whole(0), whole(1, 2, 3), whole(5)], [whole(4)], []]


@given(st.lists(st.sampled_from(["stream", "send", "put", "begin", "end"]), max_size=30))
def test_the_order_stays(steps: list[str]) -> None:
    async def run() -> None:
        pipe = Pipe()
        box = outbox(pipe)
        wanted = b""
        for n, step in enumerate(steps):
            match step:
                case "begin" if TOGETHER.held is None:
                    TOGETHER.__enter__()
                case "end" if TOGETHER.held is not None:
                    TOGETHER.__exit__()
                case "stream":
                    assert stream(box, n)
                    wanted += whole(n)
                case "send":
                    box.send(event(n))
                    wanted += whole(n)
                case "put":
                    box.put(str(n))
                    wanted += encode_frame(Variant.JSON, str(n))
        if TOGETHER.held is not None:
            TOGETHER.__exit__()
        assert b"".join(pipe.pieces) == wanted

    asyncio.run(run())


async def test_a_connection_that_is_behind_or_has_ended_costs_the_others_nothing() -> None:
    late, gone, good = Pipe(), Pipe(), Pipe()
    boxes = [outbox(pipe) for pipe in (late, gone, good)]
    late.waits = LIMIT
    with TOGETHER:
        assert [stream(box, 1) for box in boxes] == [False, True, True]
        gone.closed = True
        boxes[1].stop()
    assert [pipe.pieces for pipe in (late, gone, good)] == [[], [], [whole(1)]]
    assert TOGETHER.held is None


async def test_what_is_raised_in_a_block_holds_nothing_back() -> None:
    pipe = Pipe()
    box = outbox(pipe)

    def fail() -> None:
        with TOGETHER:
            stream(box, 1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert pipe.pieces == [whole(1)]
    stream(box, 2)
    assert pipe.pieces == [whole(1), whole(2)]


async def test_who_follows_many_contexts_reads_their_changes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And after the answer to what changed them."""
    pieces: list[int] = []
    write = SocketOutbox.write

    def counted(self: SocketOutbox, frames: bytes) -> None:
        if b'42["change"' in frames:
            pieces.append(frames.count(b'42["change"'))
        write(self, frames)

    monkeypatch.setattr(SocketOutbox, "write", counted)
    async with serving(tmp_path) as people:
        agent = await people.operator()
        ids = [f"c{n}" for n in range(20)]
        for id in ids:
            await agent.call("context.create", {"id": id})
            await agent.call("subscribe", {"topic": f"context:{id}", "deliver": "patch"})
        ops = [{"op": "state.incr", "path": "/n"}]
        pieces.clear()
        changes = len(agent.of("change"))
        batches = [{"context": id, "ops": ops} for id in ids]
        reply, before = await agent.call_in_line("apply.many", {"batches": batches})
        assert reply["ok"]
        assert len([name for name, _ in agent.events[:before] if name == "change"]) == changes
        await agent.until(lambda: len(agent.of("change")) == changes + 20)
    assert pieces == [20]
