"""What can be set of a node. Every field has an environment variable ``HUB_<NAME>``."""

from __future__ import annotations

from dataclasses import dataclass, field

from hub.core.limits import DEFAULT_LIMITS, Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Bounds and times of a node."""

    limits: Limits = DEFAULT_LIMITS
    default_agent: str = "demo"
    """The agent of a context that names none."""
    run_grace: float = 15.0
    """Seconds in which a worker that went away may come back to its runs."""
    stop_grace: float = 10.0
    """Seconds that an agent has to stop."""
    idle: float = 600.0
    """Seconds after which a context that nothing uses leaves memory."""
    message_bytes: int = 1_048_576
    """Bytes of one request."""
    upload_bytes: int = 20 * 1_048_576
    """Bytes of one uploaded file."""
    subscriptions: int = 1_000
    """Topics that one connection may subscribe to."""
    connections: int = 10_000
    """Connections that this node takes."""
    outbox_bytes: int = field(default=1_048_576)
    """Bytes that may wait for one connection before it is ended; it resumes by its positions."""
