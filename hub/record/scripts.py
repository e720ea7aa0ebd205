"""The Lua scripts that run inside Redis, one a file in ``hub/record/lua``."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import NamedTuple

from hub.core.contexts import ROW_FIELDS


class Script(NamedTuple):
    """A script's text, and the name that Redis knows it by once it was loaded."""

    text: str
    sha: str


def _script(*names: str, head: str = "") -> Script:
    """Files one after the other, behind ``head``."""
    text = head + "".join(files("hub.record").joinpath("lua", f"{name}.lua").read_text("utf-8") for name in names)
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


_ROW = f"local ROW = {{{', '.join(map(repr, ROW_FIELDS))}}}\n"  # what row.lua reads

APPEND = _script("row", "append", head=_ROW)
BEAT = _script("beat")
DIFFER = _script("differ")
MIRROR = _script("mirror")
NEW_EPOCH = _script("row", "new_epoch", head=_ROW)
NEXT_NO = _script("next_no")
RESERVE = _script("reserve")
TAKE_UNUSED = _script("take_unused")
UNMIRRORED = _script("unmirrored")
