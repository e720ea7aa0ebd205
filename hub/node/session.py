"""One connection's session: its identity, its subscriptions, and the answer to each of its requests."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from typing import Any

from hub.core.errors import (
    Forbidden,
    HubError,
    Internal,
    InvalidRequest,
    LogReset,
    NotFound,
    RateLimited,
    TooLarge,
    Unsupported,
)
from hub.core.requests import AnyBody, Apply, Create, LogAdd, Message, Role, RunOpen
from hub.fanout.outbox import Outbox
from hub.fanout.room import Viewer
from hub.node.live import LiveContext
from hub.node.node import Node
from hub.node.rights import Identity, check_operations, check_request, check_sees
from hub.node.subscribing import subscribe_context
from hub.wire import messages as wire
from hub.wire.messages import parse

_log = logging.getLogger(__name__)

Call = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Sends an event to the connection and waits for its acknowledgement. Raises Unavailable."""


class SessionWorker:
    """A connection that serves an agent."""

    def __init__(self, agent: str, name: str, capacity: int, call: Call) -> None:
        self.agent = agent
        self.name = name
        self.capacity = capacity
        self._call = call

    async def start(self, run: dict[str, Any]) -> dict[str, Any]:
        try:
            return await self._call("run.start", run)
        except HubError as error:
            return {"ok": False, "error": error.to_wire()}

    async def control(self, order: dict[str, Any]) -> None:
        await self._call("run.control", order)


class Session:
    """Answers requests by what its identity may do, for as long as its connection lives."""

    def __init__(self, node: Node, identity: Identity, outbox: Outbox, call: Call) -> None:
        self.node = node
        self.identity = identity
        self.id = secrets.token_hex(4)
        self._outbox = outbox
        self._call = call
        self._topics: set[str] = set()
        self._workers: dict[str, SessionWorker] = {}
        self._in_order = asyncio.Lock()  # messages are prepared one after the other, so that none overtakes another
        self._handlers: dict[type, Callable[[Any], Awaitable[dict[str, Any]]]] = {
            wire.Subscribe: self._subscribe,
            wire.Unsubscribe: self._unsubscribe,
            wire.ContextGet: self._context_get,
            wire.ContextsPage: self._contexts_page,
            wire.LogPage: self._log_page,
            wire.ApplyMany: self._apply_many,
            wire.Broadcast: self._broadcast,
            wire.NoticePost: self._notice_post,
            wire.NoticeClear: self._notice_clear,
            wire.NoticeRead: self._notice_read,
            wire.AgentServe: self._agent_serve,
        }

    async def request(self, name: str, payload: object) -> dict[str, Any]:
        """The acknowledgement of a request: ``{ok: true, ...}`` or ``{ok: false, error}``. Never raises."""
        try:
            self.identity.check_alive(self.node.clock())
            body = parse(name, payload, self._new_id)
            check_request(self.identity, name)
            handler = self._handlers.get(type(body))
            answer = await (handler(body) if handler else self._change(body))  # type: ignore[arg-type]
        except HubError as error:
            return {"ok": False, "error": error.to_wire()}
        except Exception:
            _log.exception("request %s", name)
            return {"ok": False, "error": Internal("the hub failed at this request; it is in the hub's log").to_wire()}
        return {"ok": True, **answer}

    def close(self) -> None:
        """The connection is gone: leave every topic, give up the runs."""
        for topic in list(self._topics):
            self._leave(topic)
        for worker in self._workers.values():
            self.node.dispatch.gone(worker)

    # contexts

    async def _open(self, id: str) -> LiveContext:
        """A context that this identity sees. Raises NotFound."""
        try:
            live = await self.node.contexts.open(id)
        except NotFound:
            check_sees(self.identity, id, None)
            raise
        check_sees(self.identity, id, live.replica.state.document)
        return live

    async def _change(self, body: AnyBody) -> dict[str, Any]:
        """A request that changes one context."""
        if isinstance(body, Message):
            async with self._in_order:
                await self._prepare_message(body)
                answer = self._submit(await self._open(body.context), body)
        elif isinstance(body, Create):
            self._prepare_creation(body)
            request = self.node.contexts.stamp(body, self.identity.author)
            return _result(await self.node.contexts.request(request))
        else:
            if isinstance(body, Apply):
                check_operations(self.identity, body)
            if (live := self.node.contexts.live.get(body.context)) and live.created is None:
                check_sees(self.identity, body.context, live.replica.state.document)
            else:
                live = await self._open(body.context)
            answer = self._submit(live, body)
        result = _result(await answer)
        if isinstance(body, RunOpen):
            self.node.dispatch.hold(body.context, self._worker("", 0))
        return result

    def _submit(self, live: LiveContext, body: AnyBody) -> asyncio.Future[dict[str, Any] | HubError]:
        future: asyncio.Future[dict[str, Any] | HubError] = asyncio.get_running_loop().create_future()

        def done(answer: dict[str, Any] | HubError) -> None:
            if not future.done():
                future.set_result(answer)

        self.node.contexts.submit(live, self.node.contexts.stamp(body, self.identity.author), done)
        return future

    def _prepare_creation(self, body: Create) -> None:
        if self.identity.role is Role.USER:
            if body.user_id not in (None, self.identity.sub):
                raise Forbidden("a user opens sessions of their own; leave user_id out")
            body.user_id = self.identity.sub
        elif self.identity.role is Role.AGENT and not self.identity.covers(body.context):
            raise Forbidden(f"this token does not cover the context {body.context!r}")

    async def _prepare_message(self, body: Message) -> None:
        live = await self._open(body.context)
        for attachment in body.attachments:
            upload = await self.node.record.get_upload(attachment.id)
            if upload is None or not self._owns(upload.owner):
                raise NotFound(f"no upload {attachment.id!r}; it may have expired: upload the file again")
            attachment.name, attachment.size, attachment.type = upload.name, upload.size, upload.type
        await self.node.dispatch.offer_first(live.id, live.replica.state.document["agent"])

    def _owns(self, owner: str) -> bool:
        return self.identity.role in (Role.OPERATOR, Role.AGENT) or owner == self.identity.sub

    async def _apply_many(self, body: wire.ApplyMany) -> dict[str, Any]:
        """Each batch stands alone; those of one context are applied in their order."""
        if len(body.batches) > 4096:
            raise TooLarge("at most 4,096 batches go into one apply.many")
        answers = []
        for index, batch in enumerate(body.batches):
            try:
                apply = parse("apply", batch, self._new_id)
                assert isinstance(apply, Apply)
                check_operations(self.identity, apply)
                answers.append(self._submit(await self._open(apply.context), apply))
            except HubError as error:
                answers.append(_done(error))
            except AssertionError:
                answers.append(_done(InvalidRequest(f"batch {index} is not an apply")))
        return {"replies": [_reply(answer) for answer in await asyncio.gather(*answers)]}

    async def _context_get(self, body: wire.ContextGet) -> dict[str, Any]:
        live = await self._open(body.context)
        return live.audience.get_reply(private=self._private)

    async def _contexts_page(self, body: wire.ContextsPage) -> dict[str, Any]:
        unknown = set(body.filter) - {"type"}
        wanted = body.filter.get("type")
        if unknown or wanted not in (None, "all", "user", "task", "background"):
            raise InvalidRequest("contexts.page: filter takes type: user, task, background or all")
        types = (lambda type: type != "background") if wanted is None else (lambda type: wanted in ("all", type))
        return await self.node.page(self.identity, body.before, body.limit, types=types)

    async def _log_page(self, body: wire.LogPage) -> dict[str, Any]:
        live = await self._open(body.context)
        with live.replica.confirmed() as state:
            if state.log.id != body.log:
                raise LogReset(f"log {body.log!r} is gone; the context's log is {state.log.id!r}", log=state.log.id)
            entries = state.log.tail(body.limit, 262_144, before=body.before)
        return {"log_id": body.log, "entries": entries[::-1]}

    # topics

    @property
    def _private(self) -> bool:
        return self.identity.role in (Role.AGENT, Role.OPERATOR)

    async def _subscribe(self, body: wire.Subscribe) -> dict[str, Any]:
        if body.topic not in self._topics and len(self._topics) >= self.node.settings.subscriptions:
            raise RateLimited(f"a connection has at most {self.node.settings.subscriptions} subscriptions")
        kind, colon, id = body.topic.partition(":")
        if kind == "context" and colon:
            live = await self._open(id)
            viewer = Viewer(patch=body.deliver == "patch", private=self._private)
            reply = await subscribe_context(self.node.record, live, self._outbox, viewer, body)
        elif body.topic == "contexts":
            self.node.rows.join(self._outbox, self.identity)
            reply = await self.node.page(self.identity, None, 100, types=lambda type: type != "background")
        elif body.topic == "notices":
            self.node.notices.topic.join(self._outbox, self.identity)
            reply = await self.node.notices.rows(self.identity)
        else:
            raise NotFound(f"no topic {body.topic[:80]!r}: topics are contexts, notices and context:<id>")
        self._topics.add(body.topic)
        return reply

    async def _unsubscribe(self, body: wire.Unsubscribe) -> dict[str, Any]:
        self._leave(body.topic)
        return {}

    def _leave(self, topic: str) -> None:
        self._topics.discard(topic)
        if topic == "contexts":
            self.node.rows.leave(self._outbox, self.identity)
        elif topic == "notices":
            self.node.notices.topic.leave(self._outbox, self.identity)
        elif (live := self.node.contexts.live.get(topic.partition(":")[2])) is not None:
            live.audience.leave(self._outbox)

    # the whole hub

    async def _broadcast(self, body: wire.Broadcast) -> dict[str, Any]:
        op = LogAdd(type=body.type, heading=body.heading, content=body.content, kvps=body.kvps)
        operator = self.identity.role is Role.OPERATOR
        count = await self.node.broadcast(
            self._new_id(body.key), op, lambda live: operator or self.identity.covers(live.id)
        )
        return {"contexts": count}

    async def _notice_post(self, body: wire.NoticePost) -> dict[str, Any]:
        audience = body.audience
        if self.identity.role is Role.AGENT:
            if body.context is None or audience is not None:
                raise InvalidRequest("an agent's notice names a context; its user is the audience")
        if body.context is not None:
            live = await self._open(body.context)
            audience = audience or live.replica.state.document["user_id"]
        source = "context" if self.identity.role is Role.AGENT else "operator"
        if body.id is not None and (there := self.node.notices.get(body.id)) and there["source"] != source:
            raise Forbidden(f"notice {body.id!r} is not yours to change")
        return await self.node.notices.post(body.id or self._new_id(body.key), body, source, audience)

    async def _notice_clear(self, body: wire.NoticeClear) -> dict[str, Any]:
        await self.node.notices.clear(body.id, self.identity)
        return {}

    async def _notice_read(self, body: wire.NoticeRead) -> dict[str, Any]:
        await self.node.notices.mark_read(self.identity, body.ids)
        return {}

    async def _agent_serve(self, body: wire.AgentServe) -> dict[str, Any]:
        if self.identity.role is Role.AGENT and not self.identity.ctx:
            raise Unsupported("this agent token covers no context; ask for one with ctx patterns")
        worker = self._worker(body.agent, body.capacity)
        lost = await self.node.dispatch.serve(worker, [(held.context, held.run) for held in body.runs])
        return {"worker": worker.name, "lost": lost}

    def _worker(self, agent: str, capacity: int) -> SessionWorker:
        worker = self._workers.get(agent)
        if worker is None:
            name = f"{self.identity.sub}/{self.id}"
            worker = self._workers[agent] = SessionWorker(agent, name, capacity, self._call)
        worker.capacity = capacity
        return worker

    def _new_id(self, key: str | None) -> str:
        """An id made from author and key; a random one without a key."""
        if key is None:
            return secrets.token_hex(8)
        return blake2b(f"{self.identity.sub}\0{key}".encode(), digest_size=8).hexdigest()


def _result(answer: dict[str, Any] | HubError) -> dict[str, Any]:
    if isinstance(answer, HubError):
        raise answer
    return answer


def _reply(answer: dict[str, Any] | HubError) -> dict[str, Any]:
    return {"ok": False, "error": answer.to_wire()} if isinstance(answer, HubError) else {"ok": True, **answer}


def _done(error: HubError) -> asyncio.Future[dict[str, Any] | HubError]:
    future: asyncio.Future[dict[str, Any] | HubError] = asyncio.get_running_loop().create_future()
    future.set_result(error)
    return future
