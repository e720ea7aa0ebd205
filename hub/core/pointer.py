"""JSON Pointers (RFC 6901): places in a JSON value."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from hub.core.changes import Json
from hub.core.errors import InvalidRequest

_BAD_ESCAPE: Final = re.compile("~(?![01])")


def join(tokens: Iterable[str]) -> str:
    """The pointer made of ``tokens``."""
    path = ""
    for token in tokens:
        if "~" in token or "/" in token:
            token = token.replace("~", "~0").replace("/", "~1")
        path += "/" + token
    return path


def split(path: str) -> list[str]:
    """The tokens of a pointer. Raises InvalidRequest if it is none."""
    if not path:
        return []
    if path[0] != "/":
        raise InvalidRequest(f"{shown(path)} is not a JSON Pointer: it begins with '/' or is empty")
    tokens = path[1:].split("/")
    if "~" not in path:
        return tokens
    if _BAD_ESCAPE.search(path):
        raise InvalidRequest(f"{shown(path)} is not a JSON Pointer: '~' is written '~0', and '/' in a key '~1'")
    return [token.replace("~1", "/").replace("~0", "~") for token in tokens]


def find(document: Json, tokens: Iterable[str]) -> Json:
    """The value at a place. Raises LookupError if there is none."""
    for token in tokens:
        document = document[token] if isinstance(document, dict) else document[index_of(document, token)]
    return document


def index_of(array: Json, token: str) -> int:
    """The index that a token names in an array. Raises LookupError for any other thing or token."""
    if not isinstance(array, list) or not (token == "0" or (token.isascii() and token.isdigit() and token[0] != "0")):
        raise LookupError(token)
    index = int(token) if len(token) < 10 else len(array)
    if index >= len(array):
        raise LookupError(token)
    return index


def own(value: Json) -> Json:
    """A copy that its new holder may change in place; what cannot be changed is not copied."""
    if isinstance(value, dict):
        return {key: own(item) for key, item in value.items()}
    if isinstance(value, list):
        return [own(item) for item in value]
    return value


def shown(text: str) -> str:
    """A text that somebody sent, quoted for an error's message and cut if it is long."""
    return repr(text) if len(text) <= 80 else repr(text[:80]) + " ..."
