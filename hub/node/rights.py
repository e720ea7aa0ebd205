"""Who may do what. An identity is checked on every request, for as long as the connection lives."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from hub.core.errors import Forbidden, NotFound, Unauthorized
from hub.core.requests import (
    Apply,
    Author,
    LogAdd,
    LogAppend,
    LogReset,
    LogUpdate,
    Role,
)


def covers(patterns: Iterable[str], context: str) -> bool:
    """Whether a context's id fits one of the patterns (``*`` and ``?``)."""
    return any(fnmatchcase(context, pattern) for pattern in patterns)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a token stands for. ``ctx``: patterns of context ids (``*`` and ``?``); ``expires_at``: seconds since 1970."""

    sub: str
    role: Role
    ctx: tuple[str, ...] = ()
    expires_at: float | None = None
    jti: str = ""

    @property
    def author(self) -> Author:
        return Author(self.sub, self.role)

    def covers(self, context: str) -> bool:
        """Whether the token names the context by pattern."""
        return covers(self.ctx, context)

    def sees(self, context: str, user_id: str | None) -> bool:
        """Whether this identity may read a context of that user."""
        if self.role is Role.OPERATOR:
            return True
        if self.role is Role.USER and user_id is not None and user_id == self.sub:
            return True
        return self.covers(context)

    def check_alive(self, now: float) -> None:
        """Raises Unauthorized once the token's time is over."""
        if self.expires_at is not None and now >= self.expires_at:
            raise Unauthorized("the token has expired; connect with a new one")


HUB: Final = Author("hub", Role.OPERATOR)
"""The author of what the hub asks itself."""

_READS: Final = frozenset({"subscribe", "unsubscribe", "context.get", "contexts.page", "log.page", "notice.read"})
_TALKS: Final = frozenset(
    {
        "context.create",
        "context.update",
        "context.remove",
        "apply",
        "apply.many",
        "message",
        "queue.edit",
        "queue.remove",
        "queue.clear",
        "queue.send",
        "answer",
        "control",
    }
)

ALLOWED: Final[dict[Role, frozenset[str]]] = {
    Role.VIEWER: _READS,
    Role.USER: _READS | _TALKS,
    Role.AGENT: _READS | _TALKS | {"agent.serve", "run.open", "broadcast", "notice.post", "notice.clear"},
    Role.OPERATOR: _READS | _TALKS | {"agent.serve", "run.open", "broadcast", "notice.post", "notice.clear"},
}
"""Requests by role. Of a context they also need that the identity sees it."""


def check_request(identity: Identity, name: str) -> None:
    """Raises Forbidden if the role may not ask this at all."""
    if name not in ALLOWED[identity.role]:
        raise Forbidden(f"{name} is not for the role {identity.role}")


def check_sees(identity: Identity, context: str, document: dict[str, Any] | None) -> None:
    """Raises NotFound, as if the context did not exist, if the identity may not see it."""
    if document is None or not identity.sees(context, document.get("user_id")):
        raise NotFound(f"no context {context!r} that you may see")


def check_operations(identity: Identity, body: Apply) -> None:
    """A user may do all but log operations. Raises Forbidden."""
    if identity.role is Role.USER and any(isinstance(op, LogAdd | LogUpdate | LogAppend | LogReset) for op in body.ops):
        raise Forbidden("log operations are for agents and operators; send a message instead")
