"""How much of each thing a context takes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of a context. Longer texts of a log are cut, and say how much was; everything else is refused."""

    heading: int = 120
    """Characters of an entry's heading."""
    content: int = 250_000
    """Characters of an entry's content."""
    key: int = 60
    """Characters of a key of an entry's pairs."""
    value: int = 5_000
    """Characters of a text among an entry's pairs, nested ones too."""
    progress: int = 120
    """Characters of the progress text."""
    name: int = 200
    """Characters of a context's name."""
    message: int = 262_144
    """Characters of a message's text; longer ones go as an upload."""
    queue: int = 1_000
    """Messages that wait in one context."""
    asks: int = 50
    """Questions that are kept in one context; of those that are done with, the oldest goes first."""
    document: int = 1_048_576
    """Bytes of the document as JSON."""
    operations: int = 10_000
    """Operations of one ``apply``."""


DEFAULT_LIMITS = Limits()


def cut_content(text: str, limits: Limits) -> tuple[str, int]:
    """An entry's content within its limit, and how many characters were cut off."""
    return text[: limits.content], max(0, len(text) - limits.content)


def cut(text: str, limit: int) -> str:
    """``text`` within ``limit`` characters; a cut one ends with how many characters went."""
    if len(text) <= limit:
        return text
    kept = limit
    while kept > 0:
        mark = f"… +{len(text) - kept:,} characters"
        if kept + len(mark) <= limit:
            return text[:kept] + mark
        kept -= kept + len(mark) - limit
    return text[:limit]
