"""The requests that change one context, as typed values. Their tags are the names on the wire."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from hub.core.enums import ContextType, EntryType, Role, WhenBusy
from hub.core.keys import MAX_KEY
from hub.core.operations import (
    AnyOperation,
    AskClose,
    AskOpen,
    DataDelete,
    DataSet,
    Id,
    LogAdd,
    LogAppend,
    LogReset,
    LogUpdate,
    MetadataSet,
    Operation,
    OutputDelete,
    OutputSet,
    ProgressSet,
    RunSet,
    SessionContextDelete,
    SessionContextSave,
    StateAppend,
    StateDelete,
    StateIncr,
    StateMerge,
    StateRemove,
)

Key = Annotated[str, Meta(min_length=1, max_length=MAX_KEY)]
ContextId = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9._:@-]{1,128}\Z")]
UserId = Annotated[str, Meta(min_length=1, max_length=256)]
AgentName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9._-]{1,64}\Z")]


class Attachment(Struct, forbid_unknown_fields=True):
    """A file that a message names; its content is an upload of the hub. ``size`` in bytes."""

    id: Id
    name: str = ""
    size: int = 0
    type: str = ""


class RunRef(Struct, frozen=True, forbid_unknown_fields=True):
    """Which run writes. ``fence`` rises with every run of a context."""

    id: str
    fence: int


class Expected(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Versions that a writer has seen; another one there is a conflict."""

    state: str | None = None
    output: str | None = None
    session_context: str | None = None


class Body(Struct, tag_field="request", forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What a request says."""

    context: ContextId
    key: Key | None = None
    """Its idempotency key; without one a retry applies twice."""


class Create(Body, tag="context.create"):
    """Make a context. Times are ISO 8601; without them it is the request's."""

    name: str = ""
    type: ContextType = ContextType.USER
    agent: AgentName | None = None
    when_busy: WhenBusy = WhenBusy.QUEUE
    user_id: UserId | None = None
    state: dict[str, Any] = {}
    output: dict[str, Any] = {}
    data: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    paused: bool = False
    created_at: str | None = None
    last_message: str | None = None


class Update(Body, tag="context.update"):
    """What is None stays as it is."""

    name: str | None = None
    agent: AgentName | None = None
    when_busy: WhenBusy | None = None
    metadata: dict[str, Any] | None = None
    user_id: UserId | None = None


class Remove(Body, tag="context.remove"):
    """End a context for good."""


class Apply(Body, tag="apply"):
    """Operations that are done together or not at all."""

    ops: list[AnyOperation]
    expected: Expected | None = None
    run: RunRef | None = None


class Message(Body, tag="message"):
    """A message to the agent: text, files, or both."""

    text: str = ""
    attachments: list[Attachment] = []


class QueueEdit(Body, tag="queue.edit"):
    """Give a message that waits another text."""

    id: Id
    text: str


class QueueRemove(Body, tag="queue.remove"):
    """Take back a message that waits."""

    id: Id


class QueueClear(Body, tag="queue.clear"):
    """Take back all messages that wait."""


class QueueSend(Body, tag="queue.send"):
    """Put a message first, or join all that wait into one."""

    id: Id | None = None
    joined: bool = False


class AskAnswer(Body, tag="answer"):
    """What a person answers to a question of an agent."""

    ask: Id
    value: Any


class Control(Body, tag="control"):
    """What people ask of a run."""

    action: Literal["stop", "pause", "resume", "nudge", "reset"]


class Trim(Body, tag="log.trim"):
    """Keep entries with a number smaller than ``before`` no more. Only the hub itself says this."""

    log: str
    before: int


class RunOpen(Body, tag="run.open"):
    """Start a run of one's own, without a message."""


class RunStart(Body, tag="run.start"):
    """Hand the first waiting message to a worker. Only the hub itself says this."""

    agent: str
    worker: str
    node: str
    attempts: int = 1
    """How often the agent is given a message at most, while its runs are interrupted."""
    version: str | None = None
    """The agent's own, for people."""


class RunMove(Body, tag="run.move"):
    """A worker has the active run now, at this node. Only the hub itself says this."""

    run: RunRef
    worker: str
    node: str


class RunEnd(Body, tag="run.end"):
    """End a run whose worker is gone, or give its messages back. Only the hub itself says this."""

    run: RunRef
    status: Literal["interrupted", "stopped", "failed"]
    error: str | None = None
    again: bool = False
    """The messages go back to the head of the queue."""
    node: str | None = None
    """Where the run's worker was missed: a run that has moved to another node since goes on."""


AnyBody = (
    Create
    | Update
    | Remove
    | Apply
    | Message
    | QueueEdit
    | QueueRemove
    | QueueClear
    | QueueSend
    | AskAnswer
    | Control
    | Trim
    | RunOpen
    | RunStart
    | RunMove
    | RunEnd
)


@dataclass(frozen=True, slots=True)
class Author:
    """Who asks. ``sub`` names the user, agent or operator."""

    sub: str
    role: Role


_encode: Final = msgspec.json.Encoder(order="deterministic").encode


class Request:
    """A body with who asks and when; all stay as they are however often it is worked out.

    ``now`` is ISO 8601 UTC, from the one who received the request; ``nonce`` stands for the key in the ids that are made,
    when there is none; ``no`` is the context's number, with a creation; ``node`` is where a run of the author's own is.
    """

    __slots__ = ("_digest", "_encoded", "author", "body", "no", "node", "nonce", "now")

    def __init__(self, body: AnyBody, author: Author, now: str, nonce: str = "", no: int = 0, node: str = "") -> None:
        self.body = body
        self.author = author
        self.now = now
        self.nonce = nonce
        self.no = no
        self.node = node
        self._digest = ""
        self._encoded = b""

    @property
    def digest(self) -> str:
        """Of the payload: the same key with another digest is another request. 18 characters of ``0-9a-f``."""
        if not self._digest:
            self._digest = blake2b(self.encoded, digest_size=9).hexdigest()
        return self._digest

    @property
    def encoded(self) -> bytes:
        """The payload as JSON, always in the same way."""
        if not self._encoded:
            self._encoded = _encode(self.body)
        return self._encoded

    @property
    def size(self) -> int:
        """Bytes of the payload as JSON."""
        return len(self.encoded)

    def make_id(self, index: int | str = 0) -> str:
        """An id made from author and key, so that a retry makes the same one. 16 characters of ``0-9a-f``.

        Without key and nonce the time has to do: then requests of the same millisecond make the same.
        """
        seed = f"{self.author.sub}\0{self.body.context}\0{self.body.key or self.nonce or self.now}\0{index}"
        return blake2b(seed.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


__all__ = [
    "AgentName",
    "AnyBody",
    "AnyOperation",
    "Apply",
    "AskAnswer",
    "AskClose",
    "AskOpen",
    "Attachment",
    "Author",
    "Body",
    "ContextId",
    "ContextType",
    "Control",
    "Create",
    "DataDelete",
    "DataSet",
    "EntryType",
    "Expected",
    "Id",
    "Key",
    "LogAdd",
    "LogAppend",
    "LogReset",
    "LogUpdate",
    "Message",
    "MetadataSet",
    "Operation",
    "OutputDelete",
    "OutputSet",
    "ProgressSet",
    "QueueClear",
    "QueueEdit",
    "QueueRemove",
    "QueueSend",
    "Remove",
    "Request",
    "Role",
    "RunEnd",
    "RunMove",
    "RunOpen",
    "RunRef",
    "RunSet",
    "RunStart",
    "SessionContextDelete",
    "SessionContextSave",
    "StateAppend",
    "StateDelete",
    "StateIncr",
    "StateMerge",
    "StateRemove",
    "Trim",
    "Update",
    "UserId",
    "WhenBusy",
]
