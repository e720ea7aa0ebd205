"""Agent code inside the hub: contexts of this process linked to its node."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from math import inf
from typing import Any

from hub.agent.link import Linked
from hub.agent.on_loop import OnLoop
from hub.core.errors import Busy, Exists, HubError
from hub.core.position import Position
from hub.core.requests import Author, LogAdd, Request, RunOpen
from hub.core.times import iso
from hub.node.audience import owned_snapshot
from hub.node.live import Answer, LiveContext
from hub.node.node import Node
from hub.node.rights import HUB
from hub.node.tasks import Background
from hub.wire.messages import NoticePost


class _InProcess:
    """Holds the runs of this process's own code; they end with the process."""

    agent = ""
    name = "hub"
    capacity = 0
    attempts = 1
    version = None
    gone = False

    def covers(self, context: str) -> bool:
        return True

    async def start(self, run: dict[str, Any]) -> dict[str, Any]:
        return {"ok": False, "error": Busy("this process takes no runs of others").to_wire()}

    async def control(self, order: dict[str, Any]) -> None:
        """A context of this process sees its stop in its document."""


class NodeLink:
    """The Link between the contexts of this process and its node. Its thread is the node's event loop."""

    decides = False
    names_broadcasts = True

    def __init__(self, node: Node) -> None:
        self._node = node
        self._loop = asyncio.get_running_loop()
        self._soon = OnLoop()
        self._lives: dict[Linked, LiveContext] = {}
        self._worker = _InProcess()
        self._background = Background("for a context of this process")

    @property
    def author(self) -> Author:
        return HUB

    def now(self) -> str:
        return iso(self._node.clock())

    # contexts

    def attach(self, context: Linked, *, create: bool, replace: bool) -> None:
        self._soon(self._attach, context, create, replace)

    def _attach(self, context: Linked, create: bool, replace: bool) -> None:
        if not create:
            self._background.run(self._open(context))
            return
        try:
            live = self._node.contexts.begin(context.id, replace=replace)
        except Exists:
            context.closed("exists")
            return
        self._serve(context, live)
        self._pump(context)

    async def _open(self, context: Linked) -> None:
        try:
            live = await self._node.contexts.open(context.id)
        except HubError as error:
            context.closed(error.code)
            return
        with live.replica.confirmed() as state:
            context.loaded(owned_snapshot(state))
        self._serve(context, live)
        self._pump(context)

    def _serve(self, context: Linked, live: LiveContext) -> None:
        self._lives[context] = live
        if context not in live.audience.facades:
            live.audience.facades.append(context)

    def detach(self, context: Linked) -> None:
        self._soon(self._detach, context)

    def _detach(self, context: Linked) -> None:
        self._pump(context)
        live = self._lives.pop(context, None)
        if live is not None and context in live.audience.facades:
            live.audience.facades.remove(context)

    def wake(self, context: Linked) -> None:
        self._soon(self._pump, context)

    def _pump(self, context: Linked) -> None:
        """Hand what is outgoing to the live context, in order."""
        live = self._lives.get(context)
        if live is None:
            return
        for request in context.outgoing():
            self._submit(context, live, request)

    def _submit(self, context: Linked, live: LiveContext, request: Request) -> None:
        opens = isinstance(request.body, RunOpen)

        def done(answer: Answer) -> None:
            key = request.body.key or ""
            if opens:
                self._node.dispatch.opened(live.id, answer, self._worker)
            if isinstance(answer, HubError):
                context.refused(key, answer)
            else:
                context.answered(key, Position(answer["epoch"], answer["seq"]), answer)
            self._loop.call_soon(self._pump, context)

        if opens:
            request.node = self._node.name
            self._node.dispatch.expect_own(live.id)
        self._node.contexts.submit(live, request, done, wait=inf)  # nobody would write it again

    # the whole hub

    def broadcast(self, id: str, op: LogAdd, before: Sequence[Future[None]] = ()) -> None:
        self._soon(lambda: self._background.run(self._broadcast(id, op, before)))

    async def _broadcast(self, id: str, op: LogAdd, before: Sequence[Future[None]]) -> None:
        for done in before:
            await asyncio.wrap_future(done)
        await self._node.broadcasts.broadcast(id, op, None)

    def post_notice(self, notice: dict[str, Any]) -> None:
        self._soon(lambda: self._background.run(self._post_notice(notice)))

    async def _post_notice(self, notice: dict[str, Any]) -> None:
        post = NoticePost(**notice)
        audience = post.audience
        if post.context is not None and audience is None:
            live = await self._node.contexts.open(post.context)
            audience = live.replica.state.document["user_id"]
        await self._node.notices.post(post, "context", audience)

    def clear_notice(self, id: str) -> None:
        self._soon(lambda: self._background.run(self._clear_notice(id)))

    async def _clear_notice(self, id: str) -> None:
        await self._node.notices.drop(id)
