"""Requests as they come in: names, shapes, and the typed value that each becomes. PROTOCOL.md says what they do."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from hub.core import requests
from hub.core.errors import InvalidRequest, UnknownOperation, UnknownRequest, UnknownType, Unsupported
from hub.core.log_operations import check_entry_type
from hub.core.pointer import find, shown, split
from hub.core.position import Position
from hub.core.requests import AgentName, AnyBody, ContextId, Create, Id, Key, RunRef, UserId
from hub.core.values import MAX_DEPTH, check
from hub.wire.codec import Packed
from hub.wire.typed import ENVELOPE, read_applies, read_apply

PROTOCOL_VERSION: Final = "1.0"

_OPERATION: Final = re.compile(r"/ops/[0-9]+/op")

NoticeType = Literal["info", "success", "warning", "error", "progress"]


class Asked(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A request that is not a change of one context."""


class From(Struct, forbid_unknown_fields=True):
    """A position, as a client sends it."""

    epoch: str
    seq: Annotated[int, Meta(ge=0)]

    @property
    def position(self) -> Position:
        """The position as one value."""
        return Position(self.epoch, self.seq)


class Subscribe(Asked):
    """Follow a topic: ``contexts``, ``notices`` or ``context:<id>``. ``tail``: how many of the newest entries."""

    topic: Annotated[str, Meta(max_length=160)]
    from_: From | None = msgspec.field(default=None, name="from")
    deliver: Literal["snapshot", "patch"] = "snapshot"
    tail: Annotated[int, Meta(ge=0, le=1000)] = 50


class Unsubscribe(Asked):
    """Follow a topic no more."""

    topic: Annotated[str, Meta(max_length=160)]


class ContextGet(Asked):
    """A context as it is now, without following it."""

    context: ContextId


class ContextsPage(Asked):
    """A page of the contexts list, newest first."""

    before: str | None = None
    """The cursor that the page before gave."""
    limit: Annotated[int, Meta(ge=1, le=500)] = 100
    filter: dict[str, Any] = {}
    """``type``: one of the context types, or ``all``; by default background contexts are left out."""


class LogPage(Asked):
    """Older entries of a log, newest first."""

    context: ContextId
    log: str
    before: int
    """Entries with a smaller number."""
    limit: Annotated[int, Meta(ge=1, le=500)] = 50


class ApplyMany(Asked):
    """Many ``apply`` in one event."""

    batches: list[Any]
    """Each an ``apply``, or what shall be one; it stands alone."""


class Broadcast(Asked):
    """An entry in the log of every live context that the author covers."""

    type: str
    heading: str = ""
    content: str = ""
    kvps: dict[str, Any] = {}
    key: Key | None = None

    def __post_init__(self) -> None:
        check_entry_type(self.type)


class NoticePost(Asked):
    """Announce something. ``display_time`` in seconds; times are ISO 8601. The same id again replaces the notice."""

    message: Annotated[str, Meta(max_length=10_000)]
    type: NoticeType = "info"
    id: Id | None = None
    title: Annotated[str, Meta(max_length=500)] = ""
    detail: Annotated[str, Meta(max_length=50_000)] = ""
    priority: int = 10
    display_time: float = 3
    group: Annotated[str, Meta(max_length=200)] = ""
    audience: UserId | None = None
    """A user id; None is everybody who may see the context, or everybody."""
    context: ContextId | None = None
    starts_at: str | None = None
    expires_at: str | None = None
    key: Key | None = None


class NoticeClear(Asked):
    """Take a notice back."""

    id: Id
    key: Key | None = None


class NoticeRead(Asked):
    """The user has read these notices."""

    ids: list[Id]


class HeldRun(Struct, forbid_unknown_fields=True):
    """A run that a worker still executes."""

    context: ContextId
    run: RunRef


class AgentServe(Asked):
    """This worker takes runs of an agent, ``capacity`` at a time; 0 takes no more. ``runs``: those it still executes.

    ``worker`` is its own id, by which it is known again after its connection was lost. A message whose run is interrupted is
    offered again, in so many ``attempts`` at most. ``version``: the agent's, which its runs show."""

    agent: AgentName
    capacity: Annotated[int, Meta(ge=0, le=10_000)] = 1
    worker: Id | None = None
    attempts: Annotated[int, Meta(ge=1, le=1_000)] = 1
    version: Annotated[str, Meta(min_length=1, max_length=100)] | None = None
    runs: list[HeldRun] = []


ASKED: Final[dict[str, type[Asked]]] = {
    "subscribe": Subscribe,
    "unsubscribe": Unsubscribe,
    "context.get": ContextGet,
    "contexts.page": ContextsPage,
    "log.page": LogPage,
    "apply.many": ApplyMany,
    "broadcast": Broadcast,
    "notice.post": NoticePost,
    "notice.clear": NoticeClear,
    "notice.read": NoticeRead,
    "agent.serve": AgentServe,
}

BODIES: Final[dict[str, type[AnyBody]]] = {
    "context.create": requests.Create,
    "context.update": requests.Update,
    "context.remove": requests.Remove,
    "apply": requests.Apply,
    "message": requests.Message,
    "queue.edit": requests.QueueEdit,
    "queue.remove": requests.QueueRemove,
    "queue.clear": requests.QueueClear,
    "queue.send": requests.QueueSend,
    "answer": requests.AskAnswer,
    "control": requests.Control,
    "run.open": requests.RunOpen,
}

LATER: Final = frozenset({"token.refresh"})
"""Names of the protocol that this version refuses."""


def parse(name: str, payload: object, new_id: Callable[[str | None], str]) -> Asked | AnyBody:
    """The typed request. ``new_id`` makes a context's id from the key (or None) of a creation that names none.

    Raises InvalidRequest and its kinds, with the place that is wrong.
    """
    cls = BODIES.get(name) or ASKED.get(name)
    if cls is None:
        if name in LATER:
            raise Unsupported(f"{name} is not offered by this version of the hub")
        raise UnknownRequest(f"there is no request {name[:60]!r}")
    if isinstance(payload, Packed):
        if cls is requests.Apply and (apply := read_apply(payload.raw)) is not None:
            return apply
        if cls is ApplyMany and (applies := read_applies(payload.raw)) is not None:
            return ApplyMany(batches=applies)
        payload = payload.read()
    if not isinstance(payload, dict):
        raise InvalidRequest(f"{name} takes one object")
    # Each batch of many is parsed by itself: what is wrong with one is that one's error.
    around = ENVELOPE if cls is requests.Apply else 1
    fields: dict[str, Any] = dict(payload) if cls is ApplyMany else check(payload, depth=MAX_DEPTH + around)
    if cls is Create:
        if "context" in fields:
            raise InvalidRequest(f"{name}: the new context's id is given as id, not as context")
        given, key = fields.pop("id", None), fields.get("key")
        fields["context"] = given if given not in (None, "") else new_id(key if isinstance(key, str) else None)
    try:
        return msgspec.convert(fields, cls)
    except msgspec.ValidationError as error:
        raise _refusal(name, fields, str(error)) from None


def to_payload(body: Asked | AnyBody) -> dict[str, Any]:
    """What goes over the wire for a typed request; ``parse`` of it gives an equal one."""
    payload: dict[str, Any] = msgspec.to_builtins(body)
    payload.pop("request", None)
    if isinstance(body, Create):
        payload["id"] = payload.pop("context")
    return payload


def name_of(body: AnyBody) -> str:
    """The request's name on the wire."""
    return str(type(body).__struct_config__.tag)


def _refusal(name: str, fields: dict[str, Any], error: str) -> InvalidRequest:
    """What a schema's error says, with the place as a pointer; an unknown operation or type by its name."""
    what, found, place = error.rpartition(" - at `$")
    if not found:
        what, place = error, ""
    place = place.rstrip("`").replace(".", "/").replace("[", "/").replace("]", "")
    if name == "context.create" and place == "/context":
        place = "/id"
    if _OPERATION.fullmatch(place) and isinstance(operation := find(fields, split(place)), str):
        return UnknownOperation(f"{name}: there is no operation {shown(operation)} (at {place})")
    if place == "/type" and isinstance(kind := fields["type"], str):
        return UnknownType(f"{name}: there is no type {shown(kind)}")
    what = what if len(what) <= 300 else what[:300] + " ..."
    return InvalidRequest(f"{name}: {what}" + (f" (at {place})" if place else ""))
