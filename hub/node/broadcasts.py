"""Broadcasts: an entry in every context that is live in some node.

A broadcast is kept in the record, then told to all nodes. Each reads on from where it stands among them and adds the entry to
its live contexts, by the broadcast's own key: a context that is live in two nodes gets one.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from hashlib import blake2b
from typing import Any, Final

import msgspec

from hub.core.errors import HubError, KeyReused, NotFound, Removed, Unavailable, error_from_wire
from hub.core.requests import Apply, LogAdd
from hub.node.contexts import GROUP, WAIT, Contexts
from hub.node.live import Answer
from hub.node.rights import HUB, covers
from hub.node.tasks import Background, Upkeep, until_answered
from hub.record.port import Record

_log = logging.getLogger(__name__)

OTHERS_SECONDS: Final = 2.0
"""How long the other nodes may take to say how many of their contexts took a broadcast."""
REMEMBERED: Final = 1_000
"""Broadcasts of which is known what became of them, for those that ask again."""


class Broadcast(msgspec.Struct, frozen=True, kw_only=True):
    """What the record keeps. ``ctx``: patterns of the contexts that get it; None: all do."""

    id: str
    op: LogAdd
    ctx: tuple[str, ...] | None

    @property
    def digest(self) -> bytes:
        """The same for the same broadcast."""
        return blake2b(msgspec.msgpack.encode(self, order="deterministic"), digest_size=9).digest()


class _Applied:
    """What became of a broadcast in this node's contexts, so far."""

    def __init__(self, broadcast: Broadcast) -> None:
        self.digest = broadcast.digest
        self.broadcast: Broadcast | None = broadcast
        """None: nothing is left to be done."""
        self.added = 0
        self.error: HubError | None = None
        """Why a context did not take it, if one did not."""
        self.done: asyncio.Future[None]
        self._missing = 0

    def begin(self) -> None:
        """The contexts will be asked."""
        self.error = None
        self.done = asyncio.get_running_loop().create_future()
        self._missing = 1  # that all are asked

    def ask(self) -> None:
        """A context will answer."""
        self._missing += 1

    def answered(self, answer: Answer) -> None:
        """A context that has gone counts as none. One that has the entry already was counted at another node, or before."""
        if isinstance(answer, HubError):
            if not isinstance(answer, NotFound | Removed):
                self.error = answer
        elif not answer.get("duplicate"):
            self.added += 1
        self.all_asked()

    def all_asked(self) -> None:
        """One answer less is missing."""
        self._missing -= 1
        if not self._missing:
            self.done.set_result(None)
            if self.error is None:
                self.broadcast = None


class _Question:
    """What the other nodes answer about a broadcast."""

    def __init__(self, nodes: Iterable[str]) -> None:
        self.added: dict[str, int] = {}
        self.error: HubError | None = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._missing = set(nodes)
        self._look()

    def answered(self, node: str, added: int, error: dict[str, Any] | None) -> None:
        self.added[node] = added
        if error is not None:
            self.error = error_from_wire(error)
        self._missing.discard(node)
        self._look()

    def _look(self) -> None:
        if not self._missing and not self.done.done():
            self.done.set_result(None)


class Broadcasts:
    """Makes broadcasts, and adds those of all nodes to the contexts that are live in this one.

    ``tell`` tells all nodes something, ``others`` names those that live now, without this one.
    """

    def __init__(
        self,
        record: Record,
        contexts: Contexts,
        *,
        node: str,
        tell: Callable[[dict[str, Any]], Awaitable[None]],
        others: Callable[[], Iterable[str]],
    ) -> None:
        self._record = record
        self._contexts = contexts
        self._node = node
        self._tell = tell
        self._others = others
        self._place: str | None = None  # where this node stands among all broadcasts
        self._applied: OrderedDict[str, _Applied] = OrderedDict()
        self._questions: dict[str, _Question] = {}
        self._reading = Upkeep("broadcasts", self._read)
        self._background = Background("answering about a broadcast")

    async def start(self) -> None:
        """From now on this node takes part. Raises Unavailable."""
        _, self._place = await self._record.broadcasts(None)

    async def close(self) -> None:
        await self._reading.end()
        await self._background.end()

    async def broadcast(self, id: str, op: LogAdd, ctx: tuple[str, ...] | None) -> int:
        """Add an entry to every live context that fits the patterns ``ctx`` (None: to all). Returns how many took it, in all
        nodes that answered in time. The same id again adds nothing, and gives the same number.

        Raises KeyReused if the id had another entry or other patterns, Unavailable, and what a context refused it with.
        """
        broadcast = Broadcast(id=id, op=op, ctx=ctx)
        there = self._applied.get(id)
        if there is None:
            await until_answered(lambda: self._record.add_broadcast(msgspec.to_builtins(broadcast)), WAIT)
        else:
            _check_same(there, broadcast)
        name, question = secrets.token_hex(6), _Question(self._others())
        self._questions[name] = question
        try:
            asks = {"kind": "broadcast", "id": id, "question": name, "node": self._node}
            await until_answered(lambda: self._tell(asks), WAIT)
            until = asyncio.get_running_loop().time() + OTHERS_SECONDS
            applied = await self._applied_here(id)
            _check_same(applied, broadcast)
            await asyncio.wait([question.done], timeout=max(until - asyncio.get_running_loop().time(), 0))
        finally:
            del self._questions[name]
        if error := applied.error or question.error:
            raise error
        return applied.added + sum(question.added.values())

    async def _applied_here(self, id: str) -> _Applied:
        """What became of a broadcast that the record has, once this node's contexts answered. Those that did not take it are
        asked again. Raises Unavailable."""
        await asyncio.wait([self._reading.call()], timeout=WAIT)
        applied = self._applied.get(id)
        if applied is None:
            raise Unavailable("the record cannot be reached; try again with the same key")
        if applied.done.done() and applied.broadcast is not None:
            await self._apply(applied, applied.broadcast)
        await asyncio.wait([applied.done])
        return applied

    # what other nodes tell

    def told(self, message: dict[str, Any]) -> None:
        """A node told all nodes something; if it is about a broadcast, act on it."""
        match message:
            case {"kind": "broadcast", "id": str(id), "question": str(name), "node": str(node)} if node != self._node:
                self._background.run(self._answer(id, name, node))
            case {"kind": "broadcast.added", "to": self._node, "question": str(name), "node": str(node)}:
                question, added = self._questions.get(name), message.get("added")
                if question is not None and isinstance(added, int):
                    question.answered(node, added, message.get("error"))

    def missed(self) -> None:
        """Something may have been told that this node did not hear: read on."""
        self._reading.call()

    async def _answer(self, id: str, name: str, node: str) -> None:
        applied = await self._applied_here(id)
        error = applied.error and applied.error.to_wire()
        answer = {"to": node, "question": name, "node": self._node, "added": applied.added, "error": error}
        await self._tell({"kind": "broadcast.added", **answer})

    # the contexts here

    async def _read(self) -> None:
        """Apply what came since the last time. Raises Unavailable."""
        found, self._place = await self._record.broadcasts(self._place)
        for kept in found:
            try:
                broadcast = msgspec.convert(kept, Broadcast)
            except msgspec.ValidationError as error:
                _log.warning("a broadcast that cannot be read is left out: %s", error)
                continue
            if broadcast.id not in self._applied:  # else it was kept twice, since it was asked for twice
                applied = self._applied[broadcast.id] = _Applied(broadcast)
                if len(self._applied) > REMEMBERED:
                    self._applied.popitem(last=False)
                await self._apply(applied, broadcast)

    async def _apply(self, applied: _Applied, broadcast: Broadcast) -> None:
        """Add the entry to the live contexts; their answers come later."""
        applied.begin()
        ctx = broadcast.ctx
        wanted = [live for live in self._contexts if ctx is None or covers(ctx, live.id)]
        for number, live in enumerate(wanted, 1):
            if live.closed is None and self._contexts.live.get(live.id) is live:
                applied.ask()
                request = self._contexts.stamp(Apply(context=live.id, ops=[broadcast.op], key=f"b/{broadcast.id}"), HUB)
                self._contexts.submit(live, request, applied.answered)
            if number % GROUP == 0:
                await asyncio.sleep(0)  # others have their turn, and the first appends are on their way
        applied.all_asked()


def _check_same(applied: _Applied, broadcast: Broadcast) -> None:
    """Raises KeyReused."""
    if applied.digest != broadcast.digest:
        raise KeyReused("that key was used for another broadcast; use a new key")
