"""Why connections were ended that could not be told: kept for a while, for when they come back."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from hub.core.times import iso
from hub.node.rights import Identity

KEPT_SECONDS: Final = 120.0
MOST: Final = 1_000


class Partings:
    """Found by the connection that a client says it had before; else by who it is, the oldest first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[tuple[str, str], float, dict[str, Any]]] = OrderedDict()  # by connection

    def keep(self, sid: str, identity: Identity, now: float, parting: tuple[int, str]) -> None:
        """A connection was ended, at ``now`` in seconds since 1970, with a code and a reason."""
        code, reason = parting
        self._kept[sid] = (_who(identity), now, {"code": code, "reason": reason, "at": iso(now)})
        while len(self._kept) > MOST:
            self._kept.popitem(last=False)

    def take(self, previous: object, identity: Identity, now: float) -> dict[str, Any] | None:
        """What there is to tell to somebody who connects; it is told once."""
        while self._kept and next(iter(self._kept.values()))[1] < now - KEPT_SECONDS:
            self._kept.popitem(last=False)
        who = _who(identity)
        if isinstance(previous, str):
            found = previous if previous in self._kept and self._kept[previous][0] == who else None
        else:
            found = next((sid for sid, kept in self._kept.items() if kept[0] == who), None)
        return None if found is None else self._kept.pop(found)[2]


def _who(identity: Identity) -> tuple[str, str]:
    return identity.sub, str(identity.role)
