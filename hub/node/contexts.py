"""The contexts that are live in this node, and the appends of what waits in them: one under way a context, many contexts in
one call, so that load makes batches and not lag."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time as clock
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext

from hub.core.changes import ROOT, Change, Part, RecordEntry
from hub.core.errors import Exists, HubError, NotFound, Unavailable
from hub.core.limits import Limits
from hub.core.pointer import own
from hub.core.position import Position
from hub.core.requests import AnyBody, Author, Create, Request
from hub.core.state import ContextState
from hub.core.times import iso
from hub.fanout.ring import Budget
from hub.fanout.together import TOGETHER
from hub.node.live import Answer, Done, EntryIds, LiveContext, Settled, Waiting, Watcher
from hub.node.tasks import Background, end_tasks
from hub.record.port import Append, Appended, Outcome, Record

_log = logging.getLogger(__name__)

WAIT = 5.0
"""Seconds that a request waits for a record that is away."""
LOADS = 8
"""Contexts that are loaded at a time: appends must not wait for a connection to the record behind a crowd of them."""
LOOK = 1.0
"""Seconds between two looks at whether the record is there."""
REQUEST_BYTES = 100
"""What a request counts for while it waits, besides its payload."""
GROUP = 64
GROUP_REQUESTS = 512
GROUP_BYTES = 524_288
"""Contexts that go into one call of the record; fewer where so much waits in them, for nobody else is served meanwhile."""
MOST_APPENDS = 4
"""Calls of the record that are under way at a time, each for other contexts."""
WORTH_ANOTHER = 32
"""Contexts that must wait for a second one: small ones cost more than they gain."""
YIELD = 0.005
"""Seconds in which another writer goes first that was stale; it need not take as long."""
COMPARE = 5.0
"""Seconds between two comparisons of all ends: the last message of a context can be missed without a gap showing."""
ENDS = 500
"""Contexts whose ends are compared at a time."""
LOSS = 0.5
"""Seconds in which losses of many contexts count as one."""
UNSEEN = 600.0
"""Seconds without a comparison after which a context that is missing counts as removed: its tombstone may be gone."""


class Contexts:
    """Opens, creates and forgets live contexts; every change of a context goes through ``submit``."""

    def __init__(
        self, record: Record, limits: Limits, watcher: Watcher, time: Callable[[], float], budget: Budget
    ) -> None:
        self.live: dict[str, LiveContext] = {}
        self.highest_no = 0
        self.away_since: float | None = None
        """Loop time since which the record has not answered, or None."""
        self.on_away: Callable[[bool], None] = lambda away: None
        self.on_loss: Callable[[], None] = lambda: None
        """Called when the record turned out to have lost something, once for what comes together."""
        self.ids = EntryIds()
        self._record = record
        self._limits = limits
        self._watcher = watcher
        self._time = time
        self._budget = budget
        self._loading = asyncio.Semaphore(LOADS)
        self._opening: dict[str, asyncio.Task[LiveContext]] = {}
        self._ready: deque[LiveContext] = deque()  # each at most once: those whose ``ready`` is set
        self._starting = False
        self._ended = False
        self._appending: set[asyncio.Task[None]] = set()
        self._now: Callable[[], float] = clock.monotonic  # the running loop's time, once there is one
        self._tasks: list[asyncio.Task[None]] = []
        self._compared_at = 0.0
        self._loss: asyncio.TimerHandle | None = None
        self._background = Background("creations")
        self._in_doubt: dict[LiveContext, tuple[float, asyncio.Future[None]]] = {}

    def start(self) -> None:
        self._now = asyncio.get_running_loop().time
        self._compared_at = self._now()
        self._tasks = [
            asyncio.create_task(self._watch_forever(), name="watch"),
            asyncio.create_task(self._compare_forever(), name="compare"),
        ]

    async def close(self) -> None:
        """Append what waits, as long as the record answers, then stop."""
        if not self._tasks:
            return
        loop = asyncio.get_running_loop()
        until = loop.time() + WAIT
        while self.away_since is None and (self._ready or self._appending) and (left := until - loop.time()) > 0:
            if self._appending:
                await asyncio.wait(self._appending, timeout=left)
            else:
                await asyncio.sleep(0)
        self._ended = True
        if self._loss is not None:
            self._loss.cancel()
        await self._background.end()
        await end_tasks([*self._appending, *self._tasks])

    # which are live

    def __iter__(self) -> Iterator[LiveContext]:
        """Those whose creation is confirmed, as a list that later changes do not disturb."""
        return iter([live for live in self.live.values() if live.created is None])

    async def open(self, id: str) -> LiveContext:
        """The context, loaded if it is not live yet. Raises NotFound, Unavailable."""
        live = self.live.get(id)
        if live is not None:
            if live.created is not None:
                await asyncio.wait({live.created})
                return await self.open(id)
            live.touched = asyncio.get_running_loop().time()
            return live
        task = self._opening.get(id)
        if task is None:
            task = self._opening[id] = asyncio.create_task(self._load(id))
            task.add_done_callback(lambda _: self._opening.pop(id, None))
        return await asyncio.shield(task)

    async def _load(self, id: str) -> LiveContext:
        async with self._loading:
            loaded = await self._record.load(id)
        if loaded is None or not loaded.state.exists:
            raise NotFound(f"no context {id!r}; create it first")
        live = self.live.get(id)
        if live is None:
            live = self.live[id] = LiveContext(id, loaded, self._limits, self._watcher, self._budget, self.ids)
            self.highest_no = max(self.highest_no, live.replica.state.document["no"])
            self._watcher.loaded(live, loaded)
        return live

    def forget(self, live: LiveContext) -> None:
        """Let a context go from memory; whoever asks for it next loads it."""
        self._settle_doubt(live)
        if self.live.get(live.id) is live:
            del self.live[live.id]
            live.audience.end()

    # where the record ends

    def doubt(self, live: LiveContext) -> asyncio.Future[None]:
        """The record may have another end than this node thinks: read what is missing. The future is done once the context
        stands where the record stood at some moment from now on, or has ended."""
        there = self._in_doubt.get(live)
        if there is None:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            there = self._in_doubt[live] = (self._now(), done)
            if live.closed is not None:
                self._settle_doubt(live)
                return done
        live.doubted = True
        self._make_ready(live)
        return there[1]

    def heard(self, live: LiveContext, epoch: str, last: int, entry: RecordEntry | None) -> None:
        """An entry of a followed context, from whoever appended it."""
        live.heard(epoch, last, entry)
        if live.rest is not None and entry is not None and entry.id.startswith(live.yields_to):  # it has had its turn
            self._after_append(live)
        if live.doubted:
            self.doubt(live)

    def _settle_doubt(self, live: LiveContext) -> None:
        live.unseen = False
        there = self._in_doubt.pop(live, None)
        if there is not None and not there[1].done():
            there[1].set_result(None)

    async def renew(self, live: LiveContext) -> None:
        """A client stands past the record's end, in its epoch: the record lost something while no node had the context. It gets a
        new epoch, so that positions which were told are not given out again. Once only: nobody can prove where it stands.
        Raises Unavailable."""
        if not live.renewed:
            live.renewed = True
            await self._record.new_epoch(live.id, live.replica.position.epoch, secrets.token_urlsafe(6))
            await self.doubt(live)

    @property
    def doubt_seconds(self) -> float:
        """For how long some context may have been behind the record."""
        return max((self._now() - since for since, _ in self._in_doubt.values()), default=0.0)

    async def compare(self, lives: Iterable[LiveContext]) -> None:
        """Doubt those whose end is another in the record, and wait until they have read what is missing. Raises Unavailable."""
        waiting, doubts = list(lives), []
        for first in range(0, len(waiting), ENDS):
            ends: dict[str, LiveContext] = {}
            for live in waiting[first : first + ENDS]:
                if live.in_flight:
                    doubts.append(self.doubt(live))  # what comes next tells, or a comparison
                elif live.closed is None and live.created is None:
                    ends[live.id] = live
            if not ends:
                continue
            for id in await self._record.differ([(id, live.replica.position, live.tip) for id, live in ends.items()]):
                # Even if it went on meanwhile: by what it heard it need not have come to the end.
                ends[id].unseen = self._may_be_removed(ends[id])
                doubts.append(self.doubt(ends[id]))
        if doubts:
            await asyncio.wait(doubts, timeout=WAIT)  # one that cannot be read must not hold up the others

    async def _compare_forever(self) -> None:
        while True:
            await asyncio.sleep(COMPARE)
            try:
                await self.compare(self)
            except Unavailable:
                continue
            except Exception:
                _log.exception("comparing the ends of all contexts")
                continue
            self._compared_at = self._now()

    # requests

    async def request(self, request: Request) -> Answer:
        """Work a request out, append it, and give its answer: the result, or the error that refuses it."""
        try:
            live = await self.open_for(request)
        except HubError as error:
            return error
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def done(given: Answer) -> None:
            if not answer.done():
                answer.set_result(given)

        self.submit(live, request, done)
        return await answer

    async def open_for(self, request: Request) -> LiveContext:
        """The context that a request is for; a creation may make it. Raises NotFound, Unavailable."""
        if not isinstance(request.body, Create):
            return await self.open(request.body.context)
        try:
            return await self.open(request.body.context)
        except NotFound:
            if request.body.context in self.live:  # somebody began it meanwhile
                return await self.open_for(request)
            return self.begin(request.body.context)

    def begin(self, id: str, *, replace: bool = False) -> LiveContext:
        """A context that its first request will create. Raises Exists if it is live, unless it is to be replaced."""
        before = self.live.get(id)
        if before is not None:
            if not replace:
                raise Exists(f"context {id!r} exists already")
            before.close("replaced")
        live = self.live[id] = LiveContext(id, None, self._limits, self._watcher, self._budget, self.ids)
        live.replace = replace
        self._watcher.loaded(live, None)
        return live

    async def next_no(self) -> int:
        """The number of a context that is about to be created. Raises Unavailable."""
        return await self._record.next_no(self.highest_no + 1)

    def stamp(self, body: AnyBody, author: Author, no: int = 0, node: str = "") -> Request:
        """A request that is made now; ``no`` is the context's number, with a creation; ``node`` where its run will be."""
        nonce = secrets.token_urlsafe(6) if body.key is None else ""
        return Request(body, author, iso(self._time()), nonce, no, node)

    def submit(self, live: LiveContext, request: Request, done: Done, *, wait: float | None = None) -> None:
        """Let a request wait for the next append; ``done`` gets its answer, in the order of the requests. ``wait``: seconds
        that it waits for a record that is away; by default as long as one of a client."""
        live.touched = self._now()
        until = live.touched + (WAIT if wait is None else wait)
        live.submit(request, done, request.size + REQUEST_BYTES, until)
        self._make_ready(live)

    def _make_ready(self, live: LiveContext) -> None:
        """Put a context into the line for an append, unless it is there, or its append is under way: then it is looked at
        again behind it."""
        if not live.ready:
            live.ready = True
            self._ready.append(live)
            self._start_later()

    # the appends

    def _start_appends(self) -> None:
        """What came in one iteration of the event loop goes together, and while an append is under way it collects. Only
        when much has collected it does not wait: then the hub works while the record writes."""
        self._starting = False
        under_way = len(self._appending)
        if self._ended or not self._ready or under_way >= MOST_APPENDS:
            return
        if under_way and len(self._ready) < WORTH_ANOTHER:
            return
        task = asyncio.create_task(self._append_group(self._next_group()), name="append")
        self._appending.add(task)
        task.add_done_callback(self._appended)
        if self._ready:
            self._start_later()  # one an iteration: others have their turn

    def _start_later(self) -> None:
        if not self._starting:
            self._starting = True
            asyncio.get_running_loop().call_soon(self._start_appends)

    def _next_group(self) -> list[LiveContext]:
        group: list[LiveContext] = []
        requests = size = 0
        while self._ready and len(group) < GROUP and requests < GROUP_REQUESTS and size < GROUP_BYTES:
            live = self._ready.popleft()
            group.append(live)
            requests += len(live.waiting)
            size += live.waiting_bytes
        return group

    def _appended(self, task: asyncio.Task[None]) -> None:
        self._appending.discard(task)
        self._start_appends()

    async def _append_group(self, group: list[LiveContext]) -> None:
        try:
            await self._append(group)
        except Unavailable:  # while what the record has was read again
            await asyncio.sleep(0.1)
        except Exception:
            _log.exception("appending to %s", ", ".join(live.id for live in group))
            await asyncio.sleep(0.2)
        finally:
            for live in group:
                if live.yields_to:
                    live.rest = asyncio.get_running_loop().call_later(YIELD, self._after_append, live)
                else:
                    self._after_append(live)

    def _after_append(self, live: LiveContext) -> None:
        live.ready = False
        live.yields_to = ""
        if live.rest is not None:
            live.rest.cancel()
            live.rest = None
        if live.closed is None and not live.idle:
            self._make_ready(live)
        if not live.doubted and not live.in_flight:
            self._settle_doubt(live)

    async def _append(self, group: list[LiveContext]) -> None:
        appends: list[Append] = []
        lives: list[LiveContext] = []
        for live in group:
            append = live.prepare()
            if append is not None:
                appends.append(append)
                lives.append(live)
        if not appends:
            return
        try:
            outcomes = await self._record.append(appends)
        except Unavailable:
            await self._wait_for_record()
            return
        self._set_away(False)
        unsettled: list[tuple[LiveContext, Appended, Settled]] = []
        for live, appended in zip(lives, outcomes, strict=True):
            if live.closed is not None:  # it was replaced meanwhile, and what waited was told
                continue
            try:
                settled = live.settle(appended)
            except Exception:
                _log.exception("settling context %s", live.id)
                settled = Settled.LOAD
            if settled is not Settled.DONE:
                unsettled.append((live, appended, settled))
        # After all answers: who wrote to several contexts hears them before the changes.
        with TOGETHER if len(lives) > 1 else nullcontext():
            for live in lives:
                try:
                    live.tell()
                except Exception:
                    _log.exception("telling what changed in context %s", live.id)
        for live, appended, settled in unsettled:
            if live.closed is None:
                await self._start_over(live, appended, settled)

    async def _wait_for_record(self) -> None:
        """The record is away: what waits keeps waiting within its bound, and the same appends go out again later."""
        self._set_away(True)
        await asyncio.sleep(0.1)
        now = asyncio.get_running_loop().time()
        for live in list(self.live.values()):
            live.expire(now)

    async def _watch_forever(self) -> None:
        """Notice that the record went, or that it is back, when nobody asks anything of it."""
        while True:
            await asyncio.sleep(LOOK)
            try:
                await self._record.ping()
            except Unavailable:
                self._set_away(True)
            else:
                if not self._ready and not self._appending:  # else the next append shows whether it takes writes, too
                    self._set_away(False)

    def _set_away(self, away: bool) -> None:
        if away == (self.away_since is not None):
            return
        self.away_since = asyncio.get_running_loop().time() if away else None
        self.on_away(away)

    async def _start_over(self, live: LiveContext, appended: Appended, settled: Settled) -> None:
        """The record is not where this node thought: stand on what it has, or give it what it lost."""
        epoch = live.replica.position.epoch
        if settled is Settled.LOST:
            _log.warning(
                "the record of context %s does not go on from %s: it lost changes", live.id, live.replica.position
            )
            self._lost()
            await self._record.new_epoch(live.id, epoch, secrets.token_urlsafe(6))
        try:
            loaded = await self._record.load(live.id)
        except Unavailable:
            raise
        except HubError as error:  # nobody can stand on it: who asks for it next is told why
            _log.error("context %s cannot be read: %s", live.id, error.message)
            live.close("unreadable", error)
            return
        if live.created is not None and not (loaded and loaded.tip == live.last_entry):
            requests = live.hand_over()
            live.close("exists")
            # Not waited for: they may wait for a creation, which waits for the end of this append.
            self._background.run(self._hand(requests))
        elif loaded is not None and loaded.state.exists and loaded.born == live.born:
            same = loaded.state.position.epoch == epoch
            live.start_over(loaded, "too_far_behind" if same else "epoch_changed")
        elif loaded is None and appended.outcome is Outcome.MISSING and not self._may_be_removed(live):
            await self._write_anew(live)
        else:
            live.close("removed")

    def create(self, waiting: Waiting) -> None:
        """Let a creation wait for the context that takes the place of one that was in its way."""
        self._background.run(self._hand([waiting]))

    async def _hand(self, requests: Sequence[Waiting]) -> None:
        """Let requests wait at the context that is there now."""
        for waiting in requests:
            try:
                live = await self.open_for(waiting.request)
            except HubError as error:
                waiting.done(error)
            else:
                live.submit(*waiting)
                self._make_ready(live)

    def _lost(self) -> None:
        if self._loss is None:
            self._loss = asyncio.get_running_loop().call_later(LOSS, self._tell_loss)

    def _tell_loss(self) -> None:
        self._loss = None
        self.on_loss()

    def _may_be_removed(self, live: LiveContext) -> bool:
        return live.unseen or self._now() - self._compared_at > UNSEEN

    async def _write_anew(self, live: LiveContext) -> None:
        """The record lost the whole context: write it again from the state here, under a new epoch."""
        _log.warning("context %s is missing in the record; writing it anew", live.id)
        self._lost()
        position = Position(secrets.token_urlsafe(6), 0)
        with live.replica.confirmed() as state:
            parts: list[Part] = own(whole(state))  # what is pending comes back before the append
        entry = RecordEntry(secrets.token_urlsafe(9), ROOT, [Change(position.after(), parts)])
        since = str(live.replica.position)
        await self._record.append(
            [Append(live.id, position, entry, born=live.born, since=since)]
        )  # or another node was first
        loaded = await self._record.load(live.id)
        if loaded is None:
            raise Unavailable(f"context {live.id!r} could not be written again")
        live.start_over(loaded, "epoch_changed")


def whole(state: ContextState) -> list[Part]:
    """The parts that make a state out of nothing: what one change says that creates it anew."""
    begin = state.log.begin
    empty_log = {"id": state.log.id, "length": begin} | ({"first": begin} if begin else {})
    parts: list[Part] = [
        {"kind": "patch", "ops": [{"op": "replace", "path": "", "value": {**state.document, "log": empty_log}}]}
    ]
    parts += [{"kind": "log.add", "entry": entry} for entry in state.log.to_json()["entries"]]
    parts += [{"kind": "data", "key": key, "value": value} for key, value in state.data.items()]
    parts += state.keys.parts()
    return parts
