"""Requests as they come in: names, shapes, and the typed value that each becomes. PROTOCOL.md says what they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from hub.core import requests
from hub.core.errors import InvalidRequest, UnknownOperation, UnknownRequest, Unsupported
from hub.core.position import Position
from hub.core.requests import AnyBody, ContextId, Create, Id, Key, RunRef
from hub.core.values import check

PROTOCOL_VERSION: Final = "1.0"

NoticeType = Literal["info", "success", "warning", "error", "progress"]


class Asked(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A request that is not a change of one context."""


class From(Struct, forbid_unknown_fields=True):
    """A position, as a client sends it."""

    epoch: str
    seq: Annotated[int, Meta(ge=0)]

    @property
    def position(self) -> Position:
        return Position(self.epoch, self.seq)


class Subscribe(Asked):
    topic: Annotated[str, Meta(max_length=160)]
    from_: From | None = msgspec.field(default=None, name="from")
    deliver: Literal["snapshot", "patch"] = "snapshot"
    tail: Annotated[int, Meta(ge=0, le=1000)] = 50


class Unsubscribe(Asked):
    topic: Annotated[str, Meta(max_length=160)]


class ContextGet(Asked):
    context: ContextId


class ContextsPage(Asked):
    before: str | None = None
    """The cursor that the page before gave."""
    limit: Annotated[int, Meta(ge=1, le=500)] = 100
    filter: dict[str, Any] = {}
    """``type``: one of the context types, or ``all``; by default background contexts are left out."""


class LogPage(Asked):
    context: ContextId
    log: str
    before: int
    """Entries with a smaller number."""
    limit: Annotated[int, Meta(ge=1, le=500)] = 50


class ApplyMany(Asked):
    batches: list[Any]
    """Each an ``apply``; it stands alone."""


class Broadcast(Asked):
    type: str
    heading: str = ""
    content: str = ""
    kvps: dict[str, Any] = {}
    key: Key | None = None


class NoticePost(Asked):
    message: str
    type: NoticeType = "info"
    id: Id | None = None
    title: str = ""
    detail: str = ""
    priority: int = 10
    display_time: float = 3
    group: str = ""
    audience: str | None = None
    """A user id; None is everybody who may see the context, or everybody."""
    context: ContextId | None = None
    starts_at: str | None = None
    expires_at: str | None = None
    key: Key | None = None


class NoticeClear(Asked):
    id: Id
    key: Key | None = None


class NoticeRead(Asked):
    ids: list[Id]


class HeldRun(Struct, forbid_unknown_fields=True):
    """A run that a worker still executes."""

    context: ContextId
    run: RunRef


class AgentServe(Asked):
    agent: Annotated[str, Meta(pattern=r"\A[A-Za-z0-9._-]{1,64}\Z")]
    capacity: Annotated[int, Meta(ge=0, le=10_000)] = 1
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
    "control": requests.Control,
    "run.open": requests.RunOpen,
}

LATER: Final = frozenset({"answer", "token.refresh"})
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
    if not isinstance(payload, dict):
        raise InvalidRequest(f"{name} takes one object")
    fields: dict[str, Any] = check(payload)
    if cls is Create:
        id, key = fields.pop("id", None), fields.get("key")
        fields["context"] = id if id not in (None, "") else new_id(key if isinstance(key, str) else None)
    try:
        return msgspec.convert(fields, cls)
    except msgspec.ValidationError as error:
        raise _refusal(name, str(error)) from None


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


def _refusal(name: str, error: str) -> InvalidRequest:
    what, _, place = error.partition(" - at `$")
    place = place.rstrip("`").replace(".", "/").replace("[", "/").replace("]", "")
    text = f"{name}: {what}" + (f" (at {place})" if place else "")
    return UnknownOperation(text) if place.startswith("/ops/") and place.endswith("/op") else InvalidRequest(text)
