"""The names of everything that the record keeps in Redis (RECORD.md's key table), in one place."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

CONTEXTS: Final = "hub:contexts"
NOTICES: Final = "hub:notices"
"""The hash of notices, and the channel on which a changed one is named."""
NODES: Final = "hub:nodes"
"""The hash of nodes that live, and the channel of what they tell each other."""
ROWS: Final = "hub:rows"
"""The channel of rows of the contexts list."""
BROADCASTS: Final = "hub:broadcasts"
USED: Final = "hub:used"
"""When each context was used last, in ms since 1970; only while contexts that nobody uses are removed."""
NO: Final = "hub:no"
"""The number of the newest context."""
UPLOADS: Final = "hub:uploads"
GROUP: Final = "nodes"
"""The consumer group that nodes take work from."""

HASHES: Final = ("state", "output", "data", "log", "keys")
"""The hashes of a context besides the main one, in the order in which scripts take them."""

TOMBSTONE_SECONDS: Final = 3600


def main(context: str) -> str:
    """The main hash. The braces put everything of a context into one slot of a cluster."""
    return "hub:ctx:{" + context + "}"


def part(context: str, name: str) -> str:
    """One of a context's other keys: a hash of HASHES, ``changes`` or ``live``."""
    return "hub:ctx:{" + context + "}:" + name


def user_contexts(user: str) -> str:
    """The index of a user's contexts."""
    return "hub:user:{" + quote(user, safe="") + "}:contexts"


def user_notices(user: str) -> str:
    """Which notices a user has read."""
    return "hub:user:{" + quote(user, safe="") + "}:notices"


def agent(name: str) -> str:
    """The stream of contexts that wait for an agent."""
    return "hub:agent:{" + quote(name, safe="") + "}"


def channel(name: str, db: int) -> str:
    """A channel as it is called for one database: all databases of a server hear the same channels."""
    return f"{name}@{db}" if db else name


def context_of_live(channel: str) -> str:
    """The context of a live channel, whatever its database."""
    return channel[len("hub:ctx:{") :].rpartition("}:live")[0]


def node(node: str, name: str) -> str:
    """What is of one node: ``runs``, or the channel ``echo`` on which it hears itself."""
    return "hub:node:{" + quote(node, safe="") + "}:" + name


def upload(id: str) -> str:
    """What is known of a file."""
    return "hub:upload:{" + quote(id, safe="") + "}"


def upload_chunks(id: str) -> str:
    """A file's bytes, by the number of the chunk."""
    return upload(id) + ":chunks"
