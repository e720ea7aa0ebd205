"""Times as authors give and get them: datetimes with a zone, or ISO 8601 text."""

from __future__ import annotations

from datetime import UTC, datetime

from hub.core.errors import InvalidRequest
from hub.core.times import iso, seconds


def to_text(moment: datetime | str | None) -> str | None:
    """The hub's text of a moment. Text must be ISO 8601; without a zone either is UTC. Raises InvalidRequest."""
    if moment is None:
        return None
    if isinstance(moment, datetime):
        return iso((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    if isinstance(moment, str):
        return iso(seconds(moment))
    raise InvalidRequest(f"a time is a datetime or ISO 8601 text, not a {type(moment).__name__}")


def to_datetime(text: str) -> datetime:
    """The moment of one of the hub's texts, in UTC."""
    return datetime.fromisoformat(text)
