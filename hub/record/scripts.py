"""The Lua scripts that run inside Redis, one a file in ``hub/record/lua``."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import NamedTuple


class Script(NamedTuple):
    """A script's text, and the name that Redis knows it by once it was loaded."""

    text: str
    sha: str


def _script(name: str) -> Script:
    text = files("hub.record").joinpath("lua", f"{name}.lua").read_text("utf-8")
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


APPEND = _script("append")
MIRROR = _script("mirror")
RESERVE = _script("reserve")
