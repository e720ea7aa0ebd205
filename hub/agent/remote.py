"""The link of a process to a hub: its contexts' traffic over one connection."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Any, Final

from hub.agent.announcements import Announcements
from hub.agent.channel import Channel
from hub.agent.connection import Connection, Lost
from hub.agent.link import Linked
from hub.agent.on_loop import OnLoop
from hub.agent.waiting import spread
from hub.core.changes import Change
from hub.core.errors import HubError, Internal, NotFound, TooLarge, Unavailable, error_from_wire
from hub.core.position import Position
from hub.core.requests import Apply, Author, Create, LogAdd, Request, Role
from hub.core.times import iso
from hub.core.values import json_size
from hub.wire.messages import name_of, to_payload

_log = logging.getLogger(__name__)

RETRY: Final = 0.5
"""Seconds, about, until something is tried again that the hub could not do just now."""
EVENT_BYTES: Final = 262_144
"""Bytes that go into one event, about, if no single request is larger."""
SMALL: Final = 65_536
"""Bytes of an event of applies below which it is small. While one of those has no answer, what is written waits, and goes
together: many contexts that each get a little would cost an event each."""

_Applies = list[tuple[Channel, list[Request], list[dict[str, Any]]]]
_INTERNAL: Final = {"ok": False, "error": Internal("the hub's answer makes no sense").to_wire()}


class RemoteLink:
    """``Link`` over a connection. Its thread is the event loop that the client was made on."""

    decides: Final = False
    names_broadcasts: Final = False
    """The hub makes the ids of entries that go to every context."""

    def __init__(self) -> None:
        self.connection: Connection
        self.announcements: Announcements
        self.author = Author("", Role.AGENT)
        self.message_bytes = 1_048_576
        self.subscriptions = 1_000
        """Contexts that the hub lets one connection follow. Further ones are written to, and follow when there is room."""
        self._loop = asyncio.get_running_loop()
        self._on_loop = OnLoop()
        self._channels: dict[str, Channel] = {}
        self._ready: dict[Channel, None] = {}
        self._held: dict[Channel, None] = {}  # wait until no small event is under way
        self._small = 0
        self._following: set[Channel] = set()
        self._no_room: dict[Channel, None] = {}
        self._pumping = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._gone: HubError | None = None

    def use(self, connection: Connection) -> None:
        """Send over ``connection``, from before it is up."""
        self.connection = connection
        self.announcements = Announcements(connection, self.run)

    # Link, from any thread

    def now(self) -> str:
        """The time here; the hub has its own."""
        return iso(time.time())

    def attach(self, context: Linked, *, create: bool, replace: bool) -> None:
        """Begin to serve a context, or load it anew."""
        self._soon(self._attach, context, create, replace)

    def detach(self, context: Linked) -> None:
        """Serve it no more once everything is sent."""
        self._soon(self._detach, context)

    def wake(self, context: Linked) -> None:
        """There are outgoing requests."""
        self._soon(self._woken, context)

    def broadcast(self, id: str, op: LogAdd, before: Sequence[Future[None]] = ()) -> None:
        """Ask for an entry in every live context that the token covers."""
        payload = {"type": op.type, "heading": op.heading, "content": op.content, "kvps": op.kvps, "key": id}
        self._soon(self.announcements.add, "broadcast", payload, before)

    def post_notice(self, notice: dict[str, Any]) -> None:
        """Announce."""
        self._soon(self.announcements.add, "notice.post", notice)

    def clear_notice(self, id: str) -> None:
        """Take an announcement back."""
        self._soon(self.announcements.add, "notice.clear", {"id": id, "key": f"clear-{id}-{random.getrandbits(48):x}"})

    def _soon(self, what: Any, *args: Any) -> None:
        try:
            self._on_loop(what, *args)
        except RuntimeError:  # the loop has ended, and with it the link
            for arg in args:
                if hasattr(arg, "closed"):
                    arg.closed("the connection to the hub was closed")

    # contexts

    def _attach(self, context: Linked, create: bool, replace: bool) -> None:
        if self._gone is not None:
            context.closed(self._gone.message)
            return
        channel = self._channels.get(context.id)
        if channel is not None and channel.context is context:
            channel.start_over()
        else:
            if channel is not None and not channel.over:
                channel.leaving = True
            channel = self._channels[context.id] = Channel(context, create=create, replace=replace)
        self._look_at(channel)

    def _detach(self, context: Linked) -> None:
        channel = self._channels.get(context.id)
        if channel is not None and channel.context is context:
            channel.leaving = True
            self._look_at(channel)

    def _woken(self, context: Linked) -> None:
        channel = self._channels.get(context.id)
        if channel is not None and channel.context is context:
            self._look_at(channel)

    def _look_at(self, channel: Channel) -> None:
        """See soon, with others, what there is to do for a context."""
        self._ready[channel] = None
        if not self._pumping:
            self._pumping = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Send what may go, applies of all contexts together."""
        self._pumping = False
        if not self.connection.up:
            return
        ready, self._ready = list(self._ready), {}
        applies: _Applies = []
        size = 0
        for channel in ready:
            if channel.wants_subscription and self._may_follow(channel):
                self.run(self._subscribe(channel, channel.subscription()))
            if self._small and not channel.creating:
                self._held[channel] = None
                continue
            group = channel.next()
            if not group:
                if channel.done:
                    self._drop(channel)
                continue
            if not isinstance(group[0].body, Apply):
                self.run(self._send_one(channel, group[0]))
                continue
            fitting, payloads, bytes_taken = self._fit(channel, group)
            if not fitting:
                self._look_at(channel)
                continue
            if applies and size + bytes_taken > EVENT_BYTES:
                self._send_applies(applies, small=False)
                applies, size = [], 0
            applies.append((channel, fitting, payloads))
            size += bytes_taken
        if applies:
            self._send_applies(applies, small=size < SMALL)

    def _fit(self, channel: Channel, group: list[Request]) -> tuple[list[Request], list[dict[str, Any]], int]:
        """What of a group goes into one event. A request that the hub would not take is refused here."""
        fitting: list[Request] = []
        payloads: list[dict[str, Any]] = []
        size = 0
        for index, request in enumerate(group):
            payload = to_payload(request.body)
            length = json_size(payload)
            if length > self.message_bytes - 1024:
                if fitting:
                    channel.give_back(group[index:])
                else:
                    channel.give_back(group[1:])
                    channel.replied([request], [_too_large(length, self.message_bytes)])
                break
            if fitting and size + length > EVENT_BYTES:
                channel.give_back(group[index:])
                break
            fitting.append(request)
            payloads.append(payload)
            size += length
        return fitting, payloads, size

    def _send_applies(self, applies: _Applies, *, small: bool) -> None:
        self._small += small
        self.run(self._finish_applies(applies, small))

    async def _finish_applies(self, applies: _Applies, small: bool) -> None:
        batches = [payload for _, _, payloads in applies for payload in payloads]
        try:
            reply = await self._request("apply.many", {"batches": batches})
        finally:
            self._small -= small
            if not self._small:
                held, self._held = self._held, {}
                for channel in held:
                    self._look_at(channel)
        if reply is None:
            return
        replies = reply.get("replies") if reply.get("ok") else [reply] * len(batches)
        if not isinstance(replies, list) or len(replies) != len(batches):
            replies = [_INTERNAL] * len(batches)
        for channel, requests, _ in applies:
            self._replied(channel, requests, replies[: len(requests)])
            replies = replies[len(requests) :]

    async def _send_one(self, channel: Channel, request: Request) -> None:
        if isinstance(request.body, Create) and channel.replace:
            key = f"{request.body.key}-replace"
            reply = await self._request("context.remove", {"context": request.body.context, "key": key})
            if reply is None:
                return
            error = error_from_wire(reply.get("error") or {})
            if not reply.get("ok") and not isinstance(error, NotFound):
                self._replied(channel, [request], [reply])
                return
            channel.replace = False
        payload = to_payload(request.body)
        length = json_size(payload)
        if length > self.message_bytes - 1024:
            self._replied(channel, [request], [_too_large(length, self.message_bytes)])
            return
        reply = await self._request(name_of(request.body), payload)
        if reply is not None:
            self._replied(channel, [request], [reply])

    async def _request(self, name: str, payload: dict[str, Any]) -> dict[str, Any] | None:
        """A request's answer, or None if the connection went: ``down`` has seen to what it was for."""
        try:
            return await self.connection.request(name, payload)
        except Lost:
            return None

    def _replied(self, channel: Channel, requests: list[Request], replies: list[dict[str, Any]]) -> None:
        if channel.replied(requests, replies):
            self._rest(channel)
        self._look_at(channel)

    def _rest(self, channel: Channel) -> None:
        channel.resting = True
        self._loop.call_later(spread(RETRY), self._rested, channel)

    def _rested(self, channel: Channel) -> None:
        channel.resting = False
        self._look_at(channel)

    def _may_follow(self, channel: Channel) -> bool:
        """Whether there is room for another subscription. A context that was not made here cannot do without."""
        if channel in self._following or len(self._following) < self.subscriptions:
            self._following.add(channel)
            self._no_room.pop(channel, None)
            return True
        if channel.position is None:
            channel.closed("rate_limited")
        else:
            self._no_room[channel] = None
        return False

    def _drop(self, channel: Channel) -> None:
        self._following.discard(channel)
        self._no_room.pop(channel, None)
        for waiting in islice(self._no_room, max(0, self.subscriptions - len(self._following))):
            self._look_at(waiting)
        if self._channels.get(channel.context.id) is channel:
            del self._channels[channel.context.id]
            if channel.subscribed:
                self.run(self._unsubscribe(channel.context.id))

    async def _unsubscribe(self, id: str) -> None:
        if id not in self._channels:
            await self._request("unsubscribe", {"topic": f"context:{id}"})

    # what comes in

    def event(self, name: str, payload: dict[str, Any]) -> bool:
        """An event of the hub. Returns whether it was about a context's state."""
        topic = payload.get("topic")
        if name not in ("change", "snapshot") or not isinstance(topic, str):
            return False
        channel = self._channels.get(topic.partition(":")[2])
        if channel is None or not (channel.subscribed or channel.subscribing):
            return True
        if name == "change":
            channel.change(Change(Position(payload["epoch"], payload["seq"]), payload["parts"]))
        else:  # the hub could not keep up, or the record has another history
            channel.start_over()
        if not channel.subscribed or channel.over:
            self._look_at(channel)
        return True

    async def _subscribe(self, channel: Channel, asked: dict[str, Any]) -> None:
        reply = await self._request("subscribe", asked)
        if reply is None:
            return
        snapshot = None
        if reply.get("ok") and not reply.get("recovered"):
            snapshot, reply = await self._whole(channel, reply)
        if reply is None or not channel.subscribing:
            return
        if not reply.get("ok"):
            self._not_subscribed(channel, error_from_wire(reply.get("error") or {}))
        elif snapshot is not None:
            channel.state(snapshot)
        else:
            channel.recovered()
        self._look_at(channel)

    async def _whole(
        self, channel: Channel, reply: dict[str, Any]
    ) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """The state of a subscribe reply with the whole log: older entries are fetched page by page."""
        entries: list[dict[str, Any]] = reply["entries"]
        told = reply["document"]["log"]
        begin = told.get("first", 0)
        pages = [entries]
        while pages[-1] and pages[-1][0]["no"] > begin:
            before = pages[-1][0]["no"]
            asked = {"context": channel.context.id, "log": reply["log_id"], "before": before, "limit": 500}
            page = await self._request("log.page", asked)
            if page is None or not page.get("ok"):
                return None, page
            pages.append(page["entries"][::-1])
        if sum(map(len, pages)) != told["length"] - begin:
            return None, {"ok": False, "error": Unavailable("the log changed").to_wire()}
        log = {"id": reply["log_id"], "entries": [entry for page in reversed(pages) for entry in page]}
        state = {name: reply[name] for name in ("epoch", "seq", "document")}
        return {**state, "log": log, "data": reply.get("data") or {}}, reply

    def _not_subscribed(self, channel: Channel, error: HubError) -> None:
        if error.retryable or error.code == "log_reset":
            channel.subscribing = False
            self._rest(channel)
        elif isinstance(error, NotFound):
            channel.closed("not_found" if channel.position is None else "removed")
        else:
            channel.closed(error.code)

    # the connection

    def up(self, hello: dict[str, Any]) -> None:
        """The connection is there, again."""
        self.author = Author(str(hello.get("sub", "")), Role(hello.get("role", "agent")))
        limits = hello.get("limits") or {}
        self.message_bytes = int(limits.get("message_bytes", self.message_bytes))
        self.subscriptions = int(limits.get("subscriptions", self.subscriptions))
        for channel in list(self._channels.values()):
            self._look_at(channel)
        self.announcements.up()

    def down(self, error: HubError | None) -> None:
        """The connection is gone; with an error, for good."""
        for channel in list(self._channels.values()):
            channel.down()
        self._following.clear()
        if error is not None:
            self.end(error)

    def end(self, error: HubError) -> None:
        """Serve nothing any more."""
        self._gone = self._gone or error
        for channel in list(self._channels.values()):
            channel.closed(error.message)
        self._channels.clear()

    async def stop(self) -> None:
        """End what is under way."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a coroutine on the loop; ``stop`` ends it, the log has what it raises."""
        task = self._loop.create_task(_logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _logged(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception:
        _log.exception("in the connection to the hub")


def _too_large(length: int, limit: int) -> dict[str, Any]:
    error = TooLarge(f"the request has {length:,} bytes; the hub takes {limit:,} at most", limit=limit)
    return {"ok": False, "error": error.to_wire()}
