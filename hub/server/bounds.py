"""How much may wait for one connection, and for how long."""

from __future__ import annotations

from typing import Final

SOFT: Final = 4
"""This part of the bound is how much may wait of a stream: more is replaced by a snapshot later."""
HARD: Final = 4
"""So many times the bound end a connection at once; or may be unanswered of what it asks."""
SLOW_SECONDS: Final = 10.0
"""How long more than the bound may wait before the connection is ended."""
LOOK_SECONDS: Final = 0.02
"""How often a connection that is behind is looked at."""
TOO_SLOW: Final = 4008
"""The code with which a connection is ended that does not take what waits for it."""
UNREADABLE: Final = 4014
"""The code with which one is ended that sends what is no packet, or is far too large."""
