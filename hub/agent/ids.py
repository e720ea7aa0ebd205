"""Ids of contexts and names of writers, from a cryptographic source."""

from __future__ import annotations

import re
import secrets
import string
from typing import Final

from hub.core.errors import InvalidRequest

_ALPHABET: Final = string.ascii_letters + string.digits
_CONTEXT_ID = re.compile(r"[A-Za-z0-9._:@-]{1,128}")
_ENTRY_ID = re.compile(r"[A-Za-z0-9._:@/-]{1,128}")


def generate_id() -> str:
    """8 characters of ``A-Za-z0-9``."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(8))


def writer_name() -> str:
    """A name that no other writer has: 12 characters of ``A-Za-z0-9``."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(12))


def check_context_id(id: object) -> str | None:
    """``id`` if it can be one of a context; None for None and "". Raises InvalidRequest."""
    if id is None or id == "":
        return None
    if not isinstance(id, str) or not _CONTEXT_ID.fullmatch(id):
        raise InvalidRequest(f"{str(id)[:140]!r} cannot be a context's id: 1-128 characters of A-Za-z0-9._:@-")
    return id


def check_entry_id(id: object) -> str:
    """``id`` if it can be one of an entry or a notification. Raises InvalidRequest."""
    if not isinstance(id, str) or not _ENTRY_ID.fullmatch(id):
        raise InvalidRequest(f"{str(id)[:140]!r} cannot be an id: 1-128 characters of A-Za-z0-9._:@/-")
    return id
