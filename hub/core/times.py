"""Times as the hub writes them: ISO 8601 UTC text with milliseconds, ``2026-11-29T14:18:00.123Z``."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from hub.core.errors import InvalidRequest


def iso(seconds: float) -> str:
    """The text of a moment in seconds since 1970. Raises OverflowError or ValueError outside of the years 1 to 9999."""
    return _iso(round(seconds * 1e6) // 1000)


@lru_cache(16)  # what happens in a millisecond has the same text
def _iso(ms: int) -> str:
    moment = datetime.fromtimestamp(ms // 1000, UTC)
    return f"{moment.isoformat()[:19]}.{ms % 1000:03d}Z"


def seconds(text: str) -> float:
    """Seconds since 1970 of ISO 8601 text; without a zone it is UTC. Raises InvalidRequest."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise InvalidRequest(f"{text[:60]!r} is not a time in ISO 8601, such as 2026-11-29T14:18:00Z") from None
