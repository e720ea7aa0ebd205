"""What a record must be able to do. ``memory`` and ``redis`` implement it; one contract suite runs on both.

The record keeps each context's stream of changes and decides one thing only: whether the writer of an append still
stands at the stream's end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol

from hub.core.changes import Change, RecordEntry
from hub.core.errors import HubError
from hub.core.position import Position
from hub.core.state import ContextState

AGAIN_SECONDS: Final = 5.0
"""After this long, work that was taken and not acknowledged is given out again."""


class Outcome(StrEnum):
    """What became of an append."""

    APPENDED = "appended"
    STALE = "stale"  # others appended since; ``entries`` has them, or the first of them
    EPOCH = "epoch"  # the record has another epoch
    MISSING = "missing"  # no such context
    REMOVED = "removed"  # removed not long ago
    EXISTS = "exists"  # a creation, and the id is taken
    FAILED = "failed"  # nothing was written; ``error`` says why


@dataclass(slots=True)  # frozen ones take four times as long to make, and there is one for each append
class Append:
    """A writer's next entry, and where it stands. ``position.seq`` 0 creates the context in ``position.epoch``.

    An entry without changes only compares: APPENDED then means that the ends are equal and nothing was written.
    """

    context: str
    position: Position
    entry: RecordEntry
    replace: bool = False
    """Only with a creation: a context with that id is removed in the same step."""
    born: str = ""
    """The epoch that the writer's context was made with, if it knows: another one in the record means REMOVED. With a
    creation that writes a lost context anew: what ``born`` stays."""
    since: str = ""
    """Only with a creation that writes a lost context anew: the position, as text, up to which it has all there was."""
    key: str = ""
    """Of the request that created the context; only with a creation, and with the context's end, whose tombstone keeps it. A
    context that this key made and that was removed since is not made again, by a node that was paused and wakes with a
    request that was tried again elsewhere: REMOVED."""


@dataclass(slots=True)
class Appended:
    """An append's outcome.

    With STALE, and with REMOVED if it was the writer's own context, ``entries`` follow the writer's position, ``more`` says
    that there are others; no entries, or ones that do not fit: the record does not continue what the writer holds, which
    must load again. With EXISTS there are entries if the context that is there has the writer's own epoch: its creation
    came through, and the answer was lost.
    """

    outcome: Outcome
    entries: Sequence[RecordEntry] = ()
    more: bool = False
    error: HubError | None = None
    wanted: str = ""
    """With APPENDED: which other writer was the first that was stale since the last entry, by what the ids of its entries begin
    with, or "". Who wins lets it go first once (RECORD.md, "Append")."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A context as the record has it: its state (with its position) and the id of its last entry.

    ``mirrored``, ``held`` and ``behind`` are for MirrorState: the seq that the hashes hold, the fields that they hold
    at an earlier one, the changes after ``mirrored``.
    """

    state: ContextState
    tip: str
    born: str
    mirrored: int
    held: dict[str, int] = field(default_factory=dict)
    behind: Sequence[Change] = ()
    since: str = ""
    """Of a context that was written anew: see Append."""


@dataclass(slots=True)
class MirrorWrite:
    """What the hashes lack: the fields that changes after ``base`` touched, as they are at ``position``.

    MirrorState makes it. Fields go by hash name (main, state, output, data, log, keys), then by field; values are
    packed already. ``cleared`` hashes are emptied first. ``held`` names large fields that are left for later:
    ``hash/field`` -> the seq that the hash holds. ``trim`` is the seq up to which the stream is long enough without its
    changes; it is never trimmed past what a field lacks.
    """

    context: str
    base: int
    position: Position
    set_fields: dict[str, dict[str, bytes]] = field(default_factory=dict)
    deleted: dict[str, list[str]] = field(default_factory=dict)
    cleared: Sequence[str] = ()
    held: dict[str, int] = field(default_factory=dict)
    trim: int = 0


@dataclass(frozen=True, slots=True)
class Work:
    """A context that waits for an agent; ``item`` acknowledges it."""

    agent: str
    item: str
    context: str
    age: float = 0.0
    """Seconds since it was offered, by the record's clock: it is dropped when it is old."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that people gave to the hub for a while. ``size`` in bytes, ``expires_at`` ISO 8601."""

    id: str
    name: str
    type: str
    size: int
    owner: str
    expires_at: str


@dataclass(frozen=True, slots=True)
class RowTold:
    """A row of the contexts list changed, or is gone (``row`` None). ``owner`` and ``before``: whose the context is, and whose
    it was before this change."""

    id: str
    version: Position
    row: dict[str, Any] | None
    type: str
    owner: str | None
    before: str | None


@dataclass(frozen=True, slots=True)
class Beat:
    """A node's sign of life: seconds since it, by the record's clock, and what the node says of itself."""

    age: float
    info: dict[str, Any]


class Follower(Protocol):
    """Who hears what happens in the record, whichever node did it. Called on the event loop, in the order in which things
    happened; none of these may raise."""

    def followed(self, context: str) -> None:
        """From now on its entries come. What came before is not known: its end must be compared."""

    def appended(self, context: str, epoch: str, last: int, entry: RecordEntry | None) -> None:
        """A followed context has another end: ``last``, in ``epoch``. None: the entry was too large to come along, or it is a
        new epoch: the record must be read."""

    def row(self, row: RowTold) -> None:
        """A row changed."""

    def notice(self, id: str) -> None:
        """A notice was put or dropped."""

    def told(self, message: dict[str, Any]) -> None:
        """A node told all nodes something (``Following.tell``), perhaps this one."""

    def deaf(self) -> None:
        """The connection broke: what happens now is not heard."""

    def hearing(self) -> None:
        """Everything that was followed is followed again. What happened meanwhile was not heard."""


class Following(Protocol):
    """One node's subscription to what happens in the record. It mends itself, and says when it was deaf."""

    @property
    def is_deaf(self) -> bool:
        """Whether something may go unheard now."""

    @property
    def ignored(self) -> int:
        """Messages that came and that nobody could read."""

    async def start(self) -> None:
        """Begin to hear rows, notices and what nodes tell. Raises Unavailable."""

    async def close(self) -> None:
        """Hear nothing more."""

    def add(self, contexts: Sequence[str]) -> None:
        """Follow contexts; ``followed`` comes for each, also after the connection broke."""

    def drop(self, context: str) -> None:
        """Follow a context no longer. Harmless for one that is not followed."""

    async def tell(self, message: dict[str, Any]) -> None:
        """Tell all nodes, this one included. Raises Unavailable."""


class Record(Protocol):
    """All methods raise Unavailable while the record cannot be reached, and nothing else foreign."""

    @property
    def durability(self) -> str:
        """What an answered append survives: ``memory``, ``aof always``, ``aof everysec``, ``none`` ..."""

    async def start(self) -> None:
        """Connect and check that the record can be used. Raises StartError that says what to do."""

    async def close(self) -> None:
        """Let go of the record; what was answered stays in it."""

    async def ping(self) -> float:
        """Seconds that a round trip takes."""

    # contexts
    async def append(self, appends: Sequence[Append]) -> list[Appended]:
        """Append to many contexts at once, at most one entry each; every one has an outcome of its own."""

    async def read(self, context: str, after: Position, limit: int = 256) -> tuple[list[RecordEntry], bool]:
        """Entries after a position, and whether there are more.

        Raises Conflict if the record does not fit (other epoch, end behind ``after``, stream trimmed past it), NotFound
        if there is no such context."""

    async def end(self, context: str) -> tuple[Position, str] | None:
        """The record's end and tip, or None."""

    async def farewell(self, context: str) -> RecordEntry | None:
        """The last entry of a context that was removed not long ago, or None."""

    async def load(self, context: str) -> Loaded | None:
        """The state from hashes and stream, or None if there is no such context."""

    async def mirror(self, writes: Sequence[MirrorWrite]) -> list[bool]:
        """Write fields to the hashes of contexts, at most one write each; False where ``base`` is no longer what they
        hold."""

    async def mirrored(self, contexts: Sequence[str]) -> list[tuple[int, dict[str, int]] | None]:
        """Of each context the seq that its hashes hold, and the fields that they hold at an earlier one; or None."""

    async def differ(self, ends: Sequence[tuple[str, Position, str]]) -> list[str]:
        """Of contexts with the end and tip that a node knows, those whose record has another end, or none."""

    async def new_epoch(self, context: str, before: str, after: str) -> None:
        """Give a context the epoch ``after`` if it still has ``before``: its record lost something. The first one wins."""

    async def next_no(self, at_least: int = 1) -> int:
        """The number of the next context: each is given out once. ``at_least``: it is not lower."""

    async def rows(
        self, *, user_id: str | None = None, before: str | None = None, limit: int = 100
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Rows of the contexts list, newest (created_at, id) first, and the cursor of the next page. ``user_id`` limits
        them to one user's. A row has the fields of PROTOCOL.md and ``version``."""

    async def unmirrored(self) -> list[str]:
        """Contexts whose hashes are behind their stream or whose run is active (looked through after a start)."""

    # retention
    async def note_uses(self, on: bool) -> None:
        """Begin to note when contexts are used: those of which nothing was noted count as used now. Or end it, and forget
        all that was noted."""

    async def used(self, contexts: Sequence[str]) -> None:
        """Note that contexts are used now."""

    async def unused(self, seconds: float, limit: int = 64) -> list[tuple[str, Position, str]]:
        """Contexts that were not used for so long, with the end and tip that they had before they were found; each is found
        once. Those with an active run count as used."""

    # work
    async def offer(self, agent: str, context: str) -> None:
        """Put a context on an agent's stream. Offering twice is harmless."""

    async def take(self, agent: str, node: str, wait: float) -> Work | None:
        """The next context that waits for the agent, or None after ``wait`` seconds.

        Items that a dead node or an earlier call left unacknowledged for AGAIN_SECONDS come again."""

    async def done(self, work: Work) -> None:
        """Forget an item."""

    # nodes
    def follow(self, node: str, follower: Follower, *, own: str | None = None) -> Following:
        """What a node hears with. It is not told of entries whose id begins with ``own``: their answers say the same."""

    async def beat(self, node: str, info: dict[str, Any]) -> dict[str, Beat]:
        """Show that a node lives. Returns the last beat of every node that has not left, this one's included."""

    async def leave(self, node: str) -> None:
        """Forget a node, its beat and its runs."""

    async def hold_run(self, node: str, context: str) -> None:
        """Note that a worker of this node has a context's run: who finds the node dead looks there."""

    async def let_run(self, node: str, context: str) -> None:
        """Note that it has not any more."""

    async def runs_of(self, node: str) -> list[str]:
        """Contexts whose runs a node's workers have."""

    async def add_broadcast(self, broadcast: dict[str, Any]) -> str:
        """Keep a broadcast for all nodes. Returns its place among them."""

    async def broadcasts(self, after: str | None) -> tuple[list[dict[str, Any]], str]:
        """Broadcasts after a place (None: none, only where they end), and the place of the last one. Those of the last minutes
        are kept."""

    # notices
    async def notices(self) -> dict[str, dict[str, Any]]:
        """All of them, by id."""

    async def notice(self, id: str) -> dict[str, Any] | None:
        """One of them."""

    async def put_notice(self, notice: dict[str, Any]) -> None:
        """Keep a notice under its ``id``; one that was there is replaced, and unread for everybody."""

    async def drop_notices(self, ids: Sequence[str]) -> None:
        """Forget notices."""

    async def read_marks(self, user: str) -> set[str]:
        """Ids of the notices that a user has read as they are now."""

    async def mark_read(self, user: str, ids: Sequence[str]) -> None:
        """Note that a user has read notices as they are now; those that are not there are left out."""

    # uploads
    async def put_upload(self, upload: Upload, chunks: AsyncIterator[bytes]) -> Upload:
        """Keep a file's chunks with an expiry; the returned upload has the size that came.

        Nothing of a broken one stays. Raises TooLarge when all uploads together would have too many bytes."""

    async def get_upload(self, id: str) -> Upload | None:
        """An upload, until it expires."""

    def read_upload(self, id: str) -> AsyncIterator[bytes]:
        """Its bytes in order. Raises NotFound, also when it expires before it was read whole."""
