"""Every error that the hub gives, one class a code.

HubError
├── InvalidRequest           invalid_request     the request's shape is wrong
│   ├── UnknownRequest       unknown_request
│   ├── UnknownOperation     unknown_operation
│   ├── UnknownType          unknown_type        of an entry, a context or a notice
│   └── InvalidValue         invalid_value       not JSON; ``details.path`` names the place
├── Unsupported              unsupported         known by name, not offered by this hub
├── TooLarge                 too_large
├── Unauthorized             unauthorized        no token, or a bad one
├── Forbidden                forbidden
├── NotFound                 not_found           no such context, entry, message, notice ... for this caller
├── Exists                   exists
├── Removed                  removed             the context was removed
├── LogReset                 log_reset           that log is gone
├── Conflict                 conflict            stale ``expected``; ``details.versions`` has the current ones
├── KeyReused                key_reused          the same key with another payload
├── KeyExpired               key_expired         the key is older than what is remembered
├── RunRequired              run_required        an agent writes without naming the active run
├── RunLost                  run_lost            the named run is not the active one
├── AlreadyAnswered          already_answered
├── Overloaded               overloaded          retryable: a queue is at its bound
├── RateLimited              rate_limited        retryable
├── Unavailable              unavailable         retryable: the record or the hub cannot be reached
├── Busy                     busy                retryable: the worker has no room
├── AgentBusy                agent_busy          the context takes no message while its agent works
├── Internal                 internal            a fault of the hub; it is in the hub's log
└── StartError               start_error         the hub cannot start; the message says what to do
"""

from __future__ import annotations

from typing import Any, Self


class HubError(Exception):
    """The root. ``code`` is for programs, ``message`` for people; ``retryable``: the same request may succeed later."""

    code: str = "error"
    retryable: bool = False

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def to_wire(self) -> dict[str, Any]:
        """The ``error`` of a refused reply."""
        error: dict[str, Any] = {"code": self.code, "message": self.message, "retryable": self.retryable}
        if self.details:
            error["details"] = self.details
        return error

    def bare(self) -> Self:
        """This error to be kept as an answer, without the way it came. The frames on that way have the request and, somewhere,
        the error: megabytes in a cycle would wait for the collector."""
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)


class InvalidRequest(HubError):
    """The request's shape or values are wrong."""

    code = "invalid_request"


class UnknownRequest(InvalidRequest):
    """There is no request of that name."""

    code = "unknown_request"


class UnknownOperation(InvalidRequest):
    """There is no operation of that name."""

    code = "unknown_operation"


class UnknownType(InvalidRequest):
    """There is no entry, context or notice of that type."""

    code = "unknown_type"


class InvalidValue(InvalidRequest):
    """A value outside JSON. ``details["path"]`` is the JSON Pointer of the place, "" for the value itself."""

    code = "invalid_value"


class Unsupported(HubError):
    """The name is known, and not offered by this hub."""

    code = "unsupported"


class TooLarge(HubError):
    """Something is over its limit, which ``details["limit"]`` names."""

    code = "too_large"


class Unauthorized(HubError):
    """There is no token, or it is bad or expired."""

    code = "unauthorized"


class Forbidden(HubError):
    """The token does not allow it."""

    code = "forbidden"


class NotFound(HubError):
    """There is no such thing for this caller."""

    code = "not_found"


class Exists(HubError):
    """There is one already."""

    code = "exists"


class Removed(HubError):
    """The context was removed."""

    code = "removed"


class LogReset(HubError):
    """The log that was asked for is gone."""

    code = "log_reset"


class Conflict(HubError):
    """A version that was expected is stale; ``details["versions"]`` has the current ones."""

    code = "conflict"


class KeyReused(HubError):
    """The key was used for another payload."""

    code = "key_reused"


class KeyExpired(HubError):
    """The key is older than what is remembered."""

    code = "key_expired"


class RunRequired(HubError):
    """A run is active, and an agent wrote without naming it; ``details["run"]`` is its id."""

    code = "run_required"


class RunLost(HubError):
    """The named run is not the active one."""

    code = "run_lost"


class AlreadyAnswered(HubError):
    """Somebody answered the question before."""

    code = "already_answered"


class Overloaded(HubError):
    """A queue is at its bound."""

    code = "overloaded"
    retryable = True


class RateLimited(HubError):
    """Too many requests in too short a time."""

    code = "rate_limited"
    retryable = True


class Unavailable(HubError):
    """The record or the hub cannot be reached."""

    code = "unavailable"
    retryable = True


class AgentBusy(HubError):
    """The agent works on another message, and the context takes none meanwhile."""

    code = "agent_busy"


class Busy(HubError):
    """The worker has no room."""

    code = "busy"
    retryable = True


class Internal(HubError):
    """A fault of the hub, which is in the hub's log."""

    code = "internal"


class StartError(HubError):
    """The hub cannot start; the message says what to do."""

    code = "start_error"


def _codes(root: type[HubError]) -> dict[str, type[HubError]]:
    found = {root.code: root}
    for cls in root.__subclasses__():
        found |= _codes(cls)
    return found


_BY_CODE = _codes(HubError)


def error_from_wire(error: dict[str, Any]) -> HubError:
    """The exception that a refused reply stands for. A code from a newer hub becomes a HubError that says the same."""
    code, details = str(error.get("code", HubError.code)), error.get("details")
    made = _BY_CODE.get(code, HubError)(str(error.get("message", "")))
    if made.code != code:
        made.code, made.retryable = code, error.get("retryable") is True
    if isinstance(details, dict):
        made.details = details
    return made
