"""What a connection asks besides changes of one context: topics, pages, notices, broadcasts, serving an agent."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from hashlib import blake2b
from typing import Any, Final

import msgspec

from hub.core.errors import Forbidden, InvalidRequest, LogReset, NotFound, RateLimited, Unavailable, Unsupported
from hub.core.requests import ContextId, LogAdd, Role
from hub.fanout.outbox import Outbox, room_for_more
from hub.fanout.room import Viewer
from hub.node.live import LiveContext
from hub.node.node import Node
from hub.node.rights import Identity, check_sees
from hub.node.subscribing import Subscribed, nothing
from hub.node.worker import Call, SessionWorker
from hub.wire import messages as wire


class Asked:
    """Answers them, and keeps what they leave behind: subscriptions and workers."""

    __slots__ = ("_call", "_outbox", "_topics", "_workers", "closed", "identity", "node")

    def __init__(self, node: Node, identity: Identity, outbox: Outbox, call: Call) -> None:
        self.node = node
        self.identity = identity
        self.closed = False
        self._outbox = outbox
        self._call = call
        self._topics: dict[str, wire.Subscribe] = {}
        """What it follows, each with the latest request for it."""
        self._workers: dict[str, SessionWorker] = {}

    async def answer(self, body: wire.Asked) -> dict[str, Any]:
        """The members of the answer. Raises HubError; after Unavailable the same body may be asked again."""
        return await _HANDLERS[type(body)](self, body)

    def close(self) -> None:
        """The connection is gone: leave every topic, give up the runs."""
        self.closed = True
        for topic in list(self._topics):
            self._leave(topic)
        for worker in self._workers.values():
            self.node.dispatch.gone(worker)

    def _check_open(self) -> None:
        """Who has gone joins nothing: nobody would take it out again. Raises Unavailable."""
        if self.closed:
            raise Unavailable("the connection is closing")

    async def open(self, id: str) -> LiveContext:
        """A context that this identity sees. Raises NotFound, Unavailable."""
        try:
            live = await self.node.contexts.open(id)
        except NotFound as error:
            error.bare()
            check_sees(self.identity, id, None)
            raise
        check_sees(self.identity, id, live.replica.state.document)
        return live

    async def _open_anew(self, id: str) -> LiveContext:
        """The same for somebody who knows nothing of it yet: it has all that other nodes have shown."""
        live = await self.open(id)
        await self.node.hearing.catch_up(live)
        return live if self.node.contexts.live.get(id) is live else await self.open(id)

    # reading

    @property
    def _private(self) -> bool:
        return self.identity.role in (Role.AGENT, Role.OPERATOR)

    async def _context_get(self, body: wire.ContextGet) -> dict[str, Any]:
        live = await self._open_anew(body.context)
        await room_for_more(self._outbox)
        return live.audience.get_reply(self._outbox.variant, private=self._private)

    async def _contexts_page(self, body: wire.ContextsPage) -> dict[str, Any]:
        unknown = set(body.filter) - {"type"}
        wanted = body.filter.get("type")
        if unknown or wanted not in (None, "all", "user", "task", "background"):
            raise InvalidRequest("contexts.page: filter takes type: user, task, background or all")
        types = (lambda type: type != "background") if wanted is None else (lambda type: wanted in ("all", type))
        return await self.node.listing.page(self.identity, body.before, body.limit, types=types)

    async def _log_page(self, body: wire.LogPage) -> dict[str, Any]:
        live = await self.open(body.context)
        await room_for_more(self._outbox)
        with live.replica.confirmed() as state:
            if state.log.id != body.log:
                raise LogReset(f"log {body.log!r} is gone; the context's log is {state.log.id!r}", log=state.log.id)
            entries = state.log.tail(body.limit, 262_144, before=body.before)
            position = state.position
        return {"epoch": position.epoch, "seq": position.seq, "log_id": body.log, "entries": entries[::-1]}

    # topics

    async def subscribe(self, body: wire.Subscribe) -> Subscribed:
        """Join a topic. The reply, and what sends what was missed."""
        self._check_open()
        new = body.topic not in self._topics
        if new and len(self._topics) >= self.node.settings.subscriptions:
            most = self.node.settings.subscriptions
            raise RateLimited(f"a connection has at most {most} subscriptions", limit=most)
        self._topics[body.topic] = body
        try:
            return await self._join(body)
        except BaseException:
            if (
                new and self._topics.get(body.topic) is body
            ):  # else another one was asked behind it, which may have joined
                self._leave(body.topic)
            raise

    async def _join(self, body: wire.Subscribe) -> Subscribed:
        if body.topic == "contexts":
            self.node.listing.topic.join(self._outbox, self.identity)
            page = await self.node.listing.page(self.identity, None, 100, types=lambda type: type != "background")
            return page, nothing
        if body.topic == "notices":
            self.node.notices.topic.join(self._outbox, self.identity)
            return await self.node.notices.rows(self.identity), nothing
        kind, colon, id = body.topic.partition(":")
        if kind != "context" or not colon:
            raise NotFound(f"no topic {body.topic[:80]!r}: topics are contexts, notices and context:<id>")
        try:
            msgspec.convert(id, ContextId)
        except msgspec.ValidationError:
            raise NotFound(f"no context {id!r} that you may see") from None
        viewer = Viewer(patch=body.deliver == "patch", private=self._private, sees=partial(self.identity.sees, id))
        while True:
            live = await (self._open_anew(id) if body.from_ is None else self.open(id))
            self._check_open()
            if body.topic not in self._topics:
                raise InvalidRequest(f"topic {body.topic!r} was unsubscribed before it was joined")
            current = partial(self._is_current, live)
            subscribed = await self.node.subscribing.subscribe(live, self._outbox, viewer, body, current)
            if subscribed is not None:
                return subscribed

    def _is_current(self, live: LiveContext) -> bool:
        """Whether a subscription that waited may still join: else nobody would ever take it out of the room."""
        there = self.node.contexts.live.get(live.id) is live
        return there and not self.closed and live.audience.topic in self._topics

    async def _unsubscribe(self, body: wire.Unsubscribe) -> dict[str, Any]:
        self._leave(body.topic)
        return {}

    def _leave(self, topic: str) -> None:
        self._topics.pop(topic, None)
        if topic == "contexts":
            self.node.listing.topic.leave(self._outbox, self.identity)
        elif topic == "notices":
            self.node.notices.topic.leave(self._outbox, self.identity)
        elif (live := self.node.contexts.live.get(topic.partition(":")[2])) is not None:
            live.audience.leave(self._outbox)

    # the whole hub

    async def _broadcast(self, body: wire.Broadcast) -> dict[str, Any]:
        op = LogAdd(type=body.type, heading=body.heading, content=body.content, kvps=body.kvps)
        ctx = None if self.identity.role is Role.OPERATOR else self.identity.ctx
        return {"contexts": await self.node.broadcasts.broadcast(self.new_id(body.key), op, ctx)}

    async def _notice_post(self, body: wire.NoticePost) -> dict[str, Any]:
        audience, agent = body.audience, self.identity.role is Role.AGENT
        if agent and (body.context is None or audience is not None):
            raise InvalidRequest("an agent's notice names a context; its user is the audience")
        if body.context is not None:
            live = await self.open(body.context)
            audience = audience or live.replica.state.document["user_id"]
        if body.id is not None and (there := await self.node.notices.find(body.id)):
            if there["source"] != ("context" if agent else "operator") or not self._may_change(there):
                raise Forbidden(f"notice {body.id!r} is not yours to change")
        body.key = body.key or secrets.token_hex(8)  # the same if the record did not answer, and this is asked again
        body.id = body.id or self.new_id(body.key)
        posted = [self.new_id(body.key), _digest(body)]
        return await self.node.notices.post(body, "context" if agent else "operator", audience, posted)

    async def _notice_clear(self, body: wire.NoticeClear) -> dict[str, Any]:
        there = await self.node.notices.see(body.id, self.identity)
        if not self._may_change(there):
            raise Forbidden(f"notice {body.id!r} is not yours to clear")
        await self.node.notices.drop(body.id)
        return {}

    def _may_change(self, notice: dict[str, Any]) -> bool:
        if self.identity.role is Role.OPERATOR:
            return True
        return notice["source"] == "context" and self.identity.covers(notice["context"])

    async def _notice_read(self, body: wire.NoticeRead) -> dict[str, Any]:
        await self.node.notices.mark_read(self.identity, body.ids)
        return {}

    async def _agent_serve(self, body: wire.AgentServe) -> dict[str, Any]:
        if self.identity.role is Role.AGENT and not self.identity.ctx:
            raise Unsupported("this agent token covers no context; ask for one with ctx patterns")
        worker = self.worker(body.agent, body.worker)
        worker.capacity, worker.attempts, worker.version = body.capacity, body.attempts, body.version
        try:
            lost = await self.node.dispatch.serve(worker, [(held.context, held.run) for held in body.runs])
        finally:
            if self.closed:
                self.node.dispatch.gone(worker)
        self._check_open()
        return {"worker": worker.name, "lost": lost}

    def worker(self, agent: str, id: str | None = None) -> SessionWorker:
        """This connection as a worker of an agent; ``id``: what the worker calls itself."""
        worker = self._workers.get(agent)
        if worker is None:
            name = next((there.name for there in self._workers.values()), None)
            name = name or f"{self.identity.sub}/{id or secrets.token_hex(4)}"
            worker = self._workers[agent] = SessionWorker(agent, name, self._covers, self._call)
        return worker

    def _covers(self, context: str) -> bool:
        return self.identity.role is Role.OPERATOR or self.identity.covers(context)

    def new_id(self, key: str | None) -> str:
        """An id made from author and key; a random one without a key."""
        if key is None:
            return secrets.token_hex(8)
        return blake2b(f"{self.identity.sub}\0{key}".encode(), digest_size=8).hexdigest()


def _digest(body: wire.NoticePost) -> str:
    return blake2b(msgspec.json.encode(body, order="deterministic"), digest_size=9).hexdigest()


_HANDLERS: Final[dict[type, Callable[[Asked, Any], Awaitable[dict[str, Any]]]]] = {
    wire.Unsubscribe: Asked._unsubscribe,
    wire.ContextGet: Asked._context_get,
    wire.ContextsPage: Asked._contexts_page,
    wire.LogPage: Asked._log_page,
    wire.Broadcast: Asked._broadcast,
    wire.NoticePost: Asked._notice_post,
    wire.NoticeClear: Asked._notice_clear,
    wire.NoticeRead: Asked._notice_read,
    wire.AgentServe: Asked._agent_serve,
}
