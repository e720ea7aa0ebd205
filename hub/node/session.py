"""One connection's session: its identity, and the answer to each of its requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from hub.core.errors import Forbidden, HubError, Internal, NotFound, TooLarge, Unavailable
from hub.core.requests import AnyBody, Apply, Create, Message, Remove, Role, RunOpen, Update
from hub.fanout.outbox import Outbox
from hub.node.asked import Asked
from hub.node.contexts import WAIT
from hub.node.live import Answer, Done, LiveContext
from hub.node.node import Node
from hub.node.rights import Identity, check_operations, check_request, check_sees
from hub.node.worker import Call
from hub.wire import messages as wire
from hub.wire.messages import parse

_log = logging.getLogger(__name__)

Reply = Callable[[dict[str, Any]], None]
MOST_BATCHES = 4_096
"""Batches of one ``apply.many``."""
RETRY = 0.1
"""Seconds between two tries while the record is away."""
T = TypeVar("T")
_tasks: set[asyncio.Task[None]] = set()
"""Answers under way, of all sessions: the event loop alone would not keep them."""


class Session:
    """Answers requests by what its identity may do, for as long as its connection lives.

    Requests for one context are worked out in the order in which they came; a read that comes right behind a creation finds
    what it creates. A reply goes out before the change that the request made is told to anybody.
    """

    __slots__ = ("_asked", "_author", "_turns", "identity", "node")

    def __init__(self, node: Node, identity: Identity, outbox: Outbox, call: Call) -> None:
        self.node = node
        self.identity = identity
        self._author = identity.author
        self._asked = Asked(node, identity, outbox, call)
        self._turns: dict[str, _Turn] = {}

    def request(self, name: str, payload: object, reply: Reply) -> None:
        """Answer a request by ``{ok: true, ...}`` or ``{ok: false, error}``. Never raises, and replies once."""
        done = partial(_reply, reply)
        try:
            self.identity.check_alive(self.node.clock())
            body = parse(name, payload, self._asked.new_id)
            check_request(self.identity, name)
            if isinstance(body, wire.ApplyMany):
                self._apply_many(body, done)
            elif isinstance(body, wire.Subscribe):
                self._later(self._subscribe(body, done), done)
            elif isinstance(body, wire.Asked):
                self._later(self._ask(body), done)
            else:
                self._change(body, done)
        except HubError as error:
            done(error)
        except Exception:
            _log.exception("request %s", name[:60])
            done(_internal())

    def close(self) -> None:
        """The connection is gone: leave every topic, give up the runs."""
        self._asked.close()

    def _later(self, work: Coroutine[Any, Any, dict[str, Any] | None], done: Done) -> None:
        """Answer when some work is done. If it gives None, it sees to the answer itself."""

        async def answer() -> None:
            try:
                result = await work
            except HubError as error:
                done(error.bare())
            except Exception:
                _log.exception("a request of %s", self.identity.sub)
                done(_internal())
            else:
                if result is not None:
                    done(result)

        task = asyncio.get_running_loop().create_task(answer())
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)

    async def _subscribe(self, body: wire.Subscribe, done: Done) -> None:
        until = self._deadline()
        await self._after_creation(body.topic.removeprefix("context:"))
        reply, send_missed = await self._patiently(until, lambda: self._asked.subscribe(body))
        done(reply)
        await send_missed()

    async def _ask(self, body: wire.Asked) -> dict[str, Any]:
        if isinstance(body, wire.Broadcast):  # its changes wait by themselves
            return await self._asked.answer(body)
        until = self._deadline()
        await self._after_creation(getattr(body, "context", None))
        return await self._patiently(until, lambda: self._asked.answer(body))

    async def _after_creation(self, context: str | None) -> None:
        """Of a context that is not live, wait for what this connection asked for before: it may create it."""
        if context in self._turns and context not in self.node.contexts.live:
            async with self._turn(context):
                pass

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + WAIT

    async def _patiently(self, until: float, ask: Callable[[], Awaitable[T]]) -> T:
        """What the record answers; while it is away it is asked again until the loop's time ``until``."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout_at(until):
                    return await ask()
            except TimeoutError:
                raise Unavailable("the record cannot be reached; try again with the same key") from None
            except Unavailable:
                if self._asked.closed or loop.time() + RETRY >= until:
                    raise
                await asyncio.sleep(RETRY)

    # changes of one context

    def _change(self, body: AnyBody, done: Done) -> None:
        if isinstance(body, Apply):
            check_operations(self.identity, body)
        elif isinstance(body, Message):
            self._later(self._message(body, done), done)
            return
        elif isinstance(body, Create):
            self._prepare_creation(body)
            self._later(self._create(body, done), done)
            return
        elif isinstance(body, RunOpen):
            self._later(self._open_run(body, done), done)
            return
        elif isinstance(body, Update) and body.user_id is not None and self.identity.role is Role.USER:
            raise Forbidden("whose session it is can be changed by agents and operators only")
        live = self.node.contexts.live.get(body.context)
        if live is None or live.created is not None or body.context in self._turns:
            self._later(self._change_in_turn(body, done), done)
        else:
            check_sees(self.identity, body.context, live.replica.state.document)
            self._submit(live, body, done)

    async def _change_in_turn(self, body: AnyBody, done: Done) -> None:
        until = self._deadline()
        async with self._turn(body.context):
            try:
                live = await self._open(body.context, until)
            except NotFound:
                if not isinstance(body, Remove):
                    raise
                done(await self._patiently(until, lambda: self._removed_before(body)))
            else:
                self._submit(live, body, done)

    async def _removed_before(self, body: Remove) -> dict[str, Any]:
        """The first outcome of a removal whose answer was lost. Raises NotFound if it is not that."""
        request = self.node.contexts.stamp(body, self._author)
        entry = await self.node.record.farewell(body.context)
        for part in entry.changes[-1].parts if entry is not None and body.key is not None else ():
            if part["kind"] == "key" and (part["key"], part["digest"]) == (body.key, request.digest):
                return {**part["result"], "duplicate": True}
        raise NotFound(f"no context {body.context!r} that you may see")

    async def _create(self, body: Create, done: Done) -> None:
        until = self._deadline()
        async with self._turn(body.context):
            no = await self._patiently(until, self.node.contexts.next_no)
            request = self.node.contexts.stamp(body, self._author, no)
            live = await self._patiently(until, lambda: self.node.contexts.open_for(request))
            self.node.contexts.submit(live, request, done)

    async def _message(self, body: Message, done: Done) -> None:
        until = self._deadline()
        async with self._turn(body.context):
            live = await self._open(body.context, until)
            for attachment in body.attachments:
                upload = await self._patiently(until, partial(self.node.record.get_upload, attachment.id))
                if upload is None or not self._owns(upload.owner):
                    raise NotFound(f"no upload {attachment.id!r}; it may have expired: upload the file again")
                attachment.name, attachment.size, attachment.type = upload.name, upload.size, upload.type
            await self._patiently(until, lambda: self.node.dispatch.offer_first(live))
            self._submit(await self._open(body.context, until), body, done)

    async def _open_run(self, body: RunOpen, done: Done) -> None:
        until = self._deadline()
        async with self._turn(body.context):
            live = await self._open(body.context, until)
            await self._patiently(until, lambda: self.node.dispatch.expect(live.id))
            self._submit(live, body, partial(self._run_opened, live.id, done))

    def _submit(self, live: LiveContext, body: AnyBody, done: Done) -> None:
        request = self.node.contexts.stamp(body, self._author, node=self.node.name)
        self.node.contexts.submit(live, request, done)

    def _prepare_creation(self, body: Create) -> None:
        if self.identity.role is Role.USER:
            if body.user_id not in (None, self.identity.sub):
                raise Forbidden("a user opens sessions of their own; leave user_id out")
            body.user_id = self.identity.sub
        elif self.identity.role is Role.AGENT and not self.identity.covers(body.context):
            raise Forbidden(f"this token does not cover the context {body.context!r}")

    def _owns(self, owner: str) -> bool:
        return self.identity.role in (Role.OPERATOR, Role.AGENT) or owner == self.identity.sub

    def _run_opened(self, context: str, done: Done, answer: Answer) -> None:
        self.node.dispatch.opened(context, answer, None if self._asked.closed else self._asked.worker(""))
        done(answer)

    def _apply_many(self, body: wire.ApplyMany, done: Done) -> None:
        """Each batch stands alone; those of one context are applied in their order."""
        if len(body.batches) > MOST_BATCHES:
            raise TooLarge(f"at most {MOST_BATCHES:,} batches go into one apply.many", limit=MOST_BATCHES)
        replies: list[dict[str, Any]] = [{}] * len(body.batches)
        left = len(body.batches)

        def answered(index: int, answer: Answer) -> None:
            nonlocal left
            replies[index] = _wire(answer)
            left -= 1
            if not left:
                done({"replies": replies})

        if not left:
            done({"replies": []})
        for index, batch in enumerate(body.batches):
            try:
                apply = batch if isinstance(batch, Apply) else parse("apply", batch, self._asked.new_id)
                self._change(apply, partial(answered, index))  # type: ignore[arg-type]
            except HubError as error:
                answered(index, error)

    async def _open(self, id: str, until: float) -> LiveContext:
        """A context that this identity sees. Raises NotFound, Unavailable."""
        return await self._patiently(until, lambda: self._asked.open(id))

    @asynccontextmanager
    async def _turn(self, context: str) -> AsyncIterator[None]:
        """Wait until earlier requests of this connection for the context stand in its line."""
        turn = self._turns.setdefault(context, _Turn())
        turn.users += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[context]


class _Turn:
    """Who is next for a context, among the requests of one connection."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


def _reply(reply: Reply, answer: Answer) -> None:
    reply(_wire(answer))


def _wire(answer: Answer) -> dict[str, Any]:
    return {"ok": False, "error": answer.to_wire()} if isinstance(answer, HubError) else {"ok": True, **answer}


def _internal() -> Internal:
    return Internal("the hub failed at this request; it is in the hub's log")
