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
├── Internal                 internal            a fault of the hub; it is in the hub's log
└── StartError               start_error         the hub cannot start; the message says what to do
"""

from __future__ import annotations

from typing import Any, ClassVar


class HubError(Exception):
    """The root. ``code`` is for programs, ``message`` for people, ``retryable`` says whether the same request may succeed later."""

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False

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


class InvalidRequest(HubError):
    code = "invalid_request"


class UnknownRequest(InvalidRequest):
    code = "unknown_request"


class UnknownOperation(InvalidRequest):
    code = "unknown_operation"


class UnknownType(InvalidRequest):
    code = "unknown_type"


class InvalidValue(InvalidRequest):
    """A value outside JSON. ``details["path"]`` is the JSON Pointer of the place, "" for the value itself."""

    code = "invalid_value"


class Unsupported(HubError):
    code = "unsupported"


class TooLarge(HubError):
    code = "too_large"


class Unauthorized(HubError):
    code = "unauthorized"


class Forbidden(HubError):
    code = "forbidden"


class NotFound(HubError):
    code = "not_found"


class Exists(HubError):
    code = "exists"


class Removed(HubError):
    code = "removed"


class LogReset(HubError):
    code = "log_reset"


class Conflict(HubError):
    code = "conflict"


class KeyReused(HubError):
    code = "key_reused"


class KeyExpired(HubError):
    code = "key_expired"


class RunRequired(HubError):
    code = "run_required"


class RunLost(HubError):
    code = "run_lost"


class AlreadyAnswered(HubError):
    code = "already_answered"


class Overloaded(HubError):
    code = "overloaded"
    retryable = True


class RateLimited(HubError):
    code = "rate_limited"
    retryable = True


class Unavailable(HubError):
    code = "unavailable"
    retryable = True


class Busy(HubError):
    code = "busy"
    retryable = True


class Internal(HubError):
    code = "internal"


class StartError(HubError):
    code = "start_error"


def _codes(root: type[HubError]) -> dict[str, type[HubError]]:
    found = {root.code: root}
    for cls in root.__subclasses__():
        found |= _codes(cls)
    return found


_BY_CODE = _codes(HubError)


def error_from_wire(error: dict[str, Any]) -> HubError:
    """The exception that a refused reply stands for. A code from a newer hub becomes a plain HubError."""
    cls = _BY_CODE.get(str(error.get("code")), HubError)
    details = error.get("details")
    return cls(str(error.get("message", "")), **(details if isinstance(details, dict) else {}))
