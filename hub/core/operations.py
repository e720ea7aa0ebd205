"""The operations of ``apply``, as typed values. Their tags are the names on the wire; unknown fields are refused."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

Id = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9._:@/-]{1,128}\Z")]
"""An id of an entry, a message, a notice."""


class Operation(Struct, tag_field="op", forbid_unknown_fields=True, omit_defaults=True):
    """One operation of ``apply``. Paths are JSON Pointers."""

    names: ClassVar[str | None] = None
    """The versioned member of the document that it is about."""


class StateMerge(Operation, tag="state.merge"):
    """Put members into the state.

    ``shallow``: a member replaces the one of its key; ``deep``: objects merge member by member, all else replaces;
    ``replace``: the state is the value and nothing else.
    """

    names: ClassVar = "state"
    value: dict[str, Any]
    mode: Literal["shallow", "deep", "replace"] = "shallow"


class StateDelete(Operation, tag="state.delete"):
    """Take a member or an item away; nothing happens if there is none."""

    names: ClassVar = "state"
    path: str


class StateIncr(Operation, tag="state.incr"):
    """Add to a number; a missing one counts as 0, and objects that are missing on the way to it are made."""

    names: ClassVar = "state"
    path: str
    by: int | float = 1


class StateAppend(Operation, tag="state.append"):
    """Append a value to a list; a missing list is made."""

    names: ClassVar = "state"
    path: str
    value: Any


class StateRemove(Operation, tag="state.remove"):
    """Remove the first equal value from a list; nothing happens if there is none."""

    names: ClassVar = "state"
    path: str
    value: Any


class OutputSet(Operation, tag="output.set"):
    """Set a key of the output data."""

    names: ClassVar = "output"
    key: str
    value: Any


class OutputDelete(Operation, tag="output.delete"):
    """Delete a key of the output data; nothing happens if there is none."""

    names: ClassVar = "output"
    key: str


class DataSet(Operation, tag="data.set"):
    """Set a key of the private data, which only the context's agents and operators see."""

    key: str
    value: Any


class DataDelete(Operation, tag="data.delete"):
    """Delete a key of the private data; nothing happens if there is none."""

    key: str


class MetadataSet(Operation, tag="metadata.set"):
    """Set a key of the metadata; None deletes it."""

    key: str
    value: Any = None


class LogAdd(Operation, tag="log.add"):
    """Add an entry at the end of the log. Without ``id`` one is made from author, key and the operation's number."""

    type: str
    heading: str = ""
    content: str = ""
    kvps: dict[str, Any] = {}
    id: Id | None = None


class LogUpdate(Operation, tag="log.update"):
    """Replace what is named of an entry. Pairs are merged into its pairs, or with ``replace_kvps`` put in their place."""

    id: Id
    type: str | None = None
    heading: str | None = None
    content: str | None = None
    kvps: dict[str, Any] | None = None
    replace_kvps: bool = False


class LogAppend(Operation, tag="log.append"):
    """Append text to an entry's content."""

    id: Id
    text: str


class LogReset(Operation, tag="log.reset"):
    """Empty the log; it has another id then."""


class ProgressSet(Operation, tag="progress.set"):
    """Say what goes on; ``entry`` is the log entry that it belongs to."""

    text: str
    active: bool = True
    entry: Id | None = None


class SessionContextSave(Operation, tag="session_context.save"):
    """Replace the fields that ``value`` names, keep the others. A step of ``plan`` is a text or ``{text, status}``."""

    names: ClassVar = "session_context"
    value: dict[str, Any]


class SessionContextDelete(Operation, tag="session_context.delete"):
    """Forget the session context."""

    names: ClassVar = "session_context"


class RunSet(Operation, tag="run.set"):
    """Bring the active run to another status; ``error`` says why it failed, in at most 2,000 characters."""

    status: Literal["running", "waiting", "finished", "failed", "stopped", "interrupted"]
    error: str | None = None


class AskOpen(Operation, tag="ask.open"):
    """Ask people a question. With ``options`` the answer is one of them. ``expires_at``: ISO 8601; nobody can answer then."""

    id: Id
    question: str
    options: list[Any] | None = None
    expires_at: str | None = None


class AskClose(Operation, tag="ask.close"):
    """A question needs no answer any more."""

    id: Id
    status: Literal["expired", "withdrawn"] = "withdrawn"


AnyOperation = (
    StateMerge
    | StateDelete
    | StateIncr
    | StateAppend
    | StateRemove
    | OutputSet
    | OutputDelete
    | DataSet
    | DataDelete
    | MetadataSet
    | LogAdd
    | LogUpdate
    | LogAppend
    | LogReset
    | ProgressSet
    | SessionContextSave
    | SessionContextDelete
    | RunSet
    | AskOpen
    | AskClose
)
