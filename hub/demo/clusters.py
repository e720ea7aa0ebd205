"""Messages that are the same but for their numbers, put together."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hub.demo.steps import Steps, spans
from hub.demo.table import Column, Table

LONGEST = 400
"""Characters of a message that are looked at."""
DISTINCT = 5_000
"""Templates that are told apart; messages of further ones are counted as "others"."""

_MASK = re.compile(
    r"(?P<quoted>\"[^\"]{0,200}\"|(?<![\w'])'[^']{1,200}'(?!\w))"
    r"|(?P<uuid>\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b)"
    r"|(?P<time>\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?)?\b)"
    r"|(?P<ip>\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b|\b(?:[0-9a-fA-F]{1,4}:){3,7}[0-9a-fA-F]{1,4}\b)"
    r"|(?P<hex>\b0x[0-9a-fA-F]+\b|\b(?=[0-9a-fA-F]*\d)(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{8,}\b)"
    r"|(?P<n>(?<![A-Za-z])\d+(?:[.,]\d+)*|(?<=[A-Za-z])\d{3,})"
)


@dataclass(frozen=True)
class Cluster:
    """Messages of one template: how many, and the first of them."""

    template: str
    count: int
    row: int
    example: str


@dataclass(frozen=True)
class Clusters:
    """The most frequent templates, how many there are, and how many messages have none of their own."""

    found: tuple[Cluster, ...]
    distinct: int
    total: int
    others: int


def template(message: str) -> str:
    """`user 42 at 10.0.0.1 said "hi"` -> `user <n> at <ip> said <quoted>`."""
    return _MASK.sub(lambda match: f"<{match.lastgroup}>", message[:LONGEST]).strip()


def cluster(table: Table, rows: Sequence[int], limit: int = 10) -> Steps[Clusters | None]:
    """Group these rows by the template of their message; requests by method, path and status. None without either."""
    message, path = table.role("message"), table.role("path")
    parts = [message] if message is not None else [table.role("method"), path, table.role("status")] if path else []
    columns = [column for column in parts if column is not None]
    if not columns:
        return None
    counts: dict[str, int] = {}
    first: dict[str, int] = {}
    masked: dict[str, str] = {}
    others = 0
    for start, stop in spans(len(rows), 5_000):
        for row in rows[start:stop]:
            key = _key(columns, row, masked)
            if key in counts:
                counts[key] += 1
            elif len(counts) < DISTINCT:
                counts[key], first[key] = 1, row
            else:
                others += 1
        yield
    best = sorted(counts, key=lambda key: (-counts[key], first[key]))[:limit]
    found = tuple(
        Cluster(key, counts[key], first[key], " ".join(table.text(column, first[key]) for column in columns).strip())
        for key in best
    )
    return Clusters(found, len(counts), len(rows), others)


def _key(columns: Sequence[Column], row: int, masked: dict[str, str]) -> str:
    pieces: list[str] = []
    for column in columns:
        value = column.values[row]
        if not isinstance(value, str):
            continue
        if column.kind == "code" or len(value) < 3:
            pieces.append(value)
            continue
        text = masked.get(value)
        if text is None:
            text = template(value)
            if len(masked) < DISTINCT:
                masked[value] = text
        pieces.append(text)
    return " ".join(pieces) or "(empty)"
