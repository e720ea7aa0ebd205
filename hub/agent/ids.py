"""Ids of contexts and names of writers, from a cryptographic source."""

from __future__ import annotations

import secrets
import string
from typing import Final

_ALPHABET: Final = string.ascii_letters + string.digits


def generate_id() -> str:
    """8 characters of ``A-Za-z0-9``."""
    return _random(8)


def writer_name() -> str:
    """A name that no other writer has: 12 characters of ``A-Za-z0-9``."""
    return _random(12)


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))
