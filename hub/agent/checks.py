"""What authors give, as requests take it: each function returns a checked value, or raises InvalidRequest or one below it.

What a context's own state decides (lengths, say) is checked where a request is worked out, in ``hub.core``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from hub.core.enums import WhenBusy
from hub.core.errors import InvalidRequest, InvalidValue, UnknownType
from hub.core.log_operations import check_entry_type
from hub.core.requests import Attachment, ContextId, ContextType, Id, UserId
from hub.core.values import MAX_DEPTH, check, clean_text


def checked_context_id(id: object) -> str | None:
    """``id`` if it can be one of a context; None for None and ""."""
    if id is None or id == "":
        return None
    if not isinstance(id, str) or not _is(id, ContextId):
        raise InvalidRequest(f"{str(id)[:140]!r} cannot be a context's id: 1-128 characters of A-Za-z0-9._:@-")
    return id


def checked_entry_id(id: object) -> str:
    """``id`` if it can be one of an entry or a notification."""
    if not isinstance(id, str) or not _is(id, Id):
        raise InvalidRequest(f"{str(id)[:140]!r} cannot be an id: 1-128 characters of A-Za-z0-9._:@/-")
    return id


def checked_user_id(id: object) -> str | None:
    """``id`` if it can be one of a user; None for None."""
    if id is None:
        return None
    if not isinstance(id, str) or not _is(id, UserId):
        raise InvalidRequest("a user id is text of 1 to 256 characters")
    return clean_text(id)


def checked_context_type(type: ContextType | str) -> ContextType:
    """A context's type by name. Raises UnknownType."""
    try:
        return ContextType(type)
    except ValueError:
        raise UnknownType(
            f"{str(type)[:60]!r} is not a type of context; the types are {', '.join(ContextType)}"
        ) from None


def checked_when_busy(when_busy: WhenBusy | str) -> WhenBusy:
    """What becomes of messages that come while the agent works, by name. Raises UnknownType."""
    try:
        return WhenBusy(when_busy)
    except ValueError:
        raise UnknownType(f"when_busy is one of {', '.join(WhenBusy)}, not {str(when_busy)[:60]!r}") from None


def checked_entry_type(type: str) -> str:
    """An entry's type. Raises UnknownType."""
    check_entry_type(type)
    return str(type)


def checked_text(text: str, name: str) -> str:
    """A text that every encoder takes; ``name`` is what it is given as. Raises InvalidValue for anything else."""
    if not isinstance(text, str):
        raise InvalidValue(f"/{name}: a {type(text).__name__}, not text", path=f"/{name}")
    return clean_text(text)


def checked_members(value: Any, more: Mapping[str, Any] | None = None, *, depth: int = MAX_DEPTH) -> dict[str, Any]:
    """Members that are given as a mapping or as pairs, and by keywords; ``depth`` counts the mapping itself. Raises
    InvalidValue, which names the place."""
    if isinstance(value, Mapping):
        pairs: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        pairs = value
    else:
        raise InvalidValue(f"the value: a {type(value).__name__}, not a mapping", path="")
    checked: dict[str, Any] = check({**dict(pairs), **(more or {})}, depth=depth)
    return checked


def checked_attachments(attachments: Any) -> list[Attachment]:
    """Attachments of a message, mappings each."""
    plain = [check(item, f"/attachments/{index}") for index, item in enumerate(attachments)]
    try:
        return msgspec.convert(plain, list[Attachment])
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"attachments: {error}") from None


def _is(value: str, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True
