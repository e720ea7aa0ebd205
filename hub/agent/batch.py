"""Several writes that stand or fall together: seen at once by whoever made them, sent as one when the block ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from hub.core.replica import Pending
from hub.core.requests import AnyOperation, RunRef

if TYPE_CHECKING:
    from hub.agent.writer import Writer


class Batch:
    """An open block: its operations, and what each of them did to the view so far."""

    __slots__ = ("members", "open", "operations", "owner", "run", "weight", "writer")

    def __init__(self, writer: Writer, run: RunRef | None) -> None:
        self.writer = writer
        self.run = run
        self.operations: list[AnyOperation] = []
        self.members: list[Pending] = []
        self.weight = 0
        self.open = True
        self.owner = _here()


_open: ContextVar[tuple[Batch, ...]] = ContextVar("hub_batches", default=())


def batch_of(writer: Writer) -> Batch | None:
    """The block that this task or thread has open on a writer."""
    for batch in _open.get():
        # Tasks and threads that were started in the block have a copy of the variable, but are not part of the block.
        if batch.writer is writer and batch.open and batch.owner == _here():
            return batch
    return None


def _here() -> tuple[int, object]:
    try:
        return threading.get_ident(), asyncio.current_task()
    except RuntimeError:
        return threading.get_ident(), None


@contextmanager
def batched(writer: Writer, run: RunRef | None) -> Iterator[None]:
    """Open a block; one inside another of the same writer is part of the outer one. An exception drops all of it."""
    if batch_of(writer) is not None:
        yield
        return
    batch = Batch(writer, run)
    token = _open.set((*_open.get(), batch))
    writer.begin(batch)
    try:
        yield
    except BaseException:
        writer.drop(batch)
        raise
    else:
        writer.send(batch)
    finally:
        _open.reset(token)
