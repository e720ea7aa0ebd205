"""What can be set of a node. Every field has an environment variable ``HUB_<NAME>``."""

from __future__ import annotations

from dataclasses import dataclass

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
    drain_seconds: float = 10.0
    """Seconds that runs have to come to a step and move to another node, when this one is to end."""
    idle: float = 600.0
    """Seconds after which a context that nothing uses leaves memory; it stays for 30 s after its last change."""
    keep_sessions: float = 0.0
    """Seconds for which a session is kept that nothing uses, from when it left memory; then it is removed. At least 60; 0: for
    ever. All nodes on one record have the same."""
    keep_entries: int = 0
    """Entries of a log that are kept, the newest; a tenth more, and those that are being written to, may be there. 0: all."""
    message_bytes: int = 1_048_576
    """Bytes of one request."""
    upload_bytes: int = 20 * 1_048_576
    """Bytes of one uploaded file."""
    subscriptions: int = 1_000
    """Topics that one connection may subscribe to."""
    connections: int = 10_000
    """Connections that this node takes."""
    outbox_bytes: int = 1_048_576
    """Bytes that may wait for one connection, and one snapshot besides; a quarter of it of what is streamed."""
    ring_bytes: int = 67_108_864
    """Bytes of changes that are kept ready for those who come back, of all contexts together; in each at most 512 changes or
    256 KiB."""
    recent_bytes: int = 1_048_576
    """Bytes of requests that are kept for 30 s after their answer, of all contexts together: what the record loses is
    appended again from them."""
    requests_per_second: float = 5_000.0
    """Requests that one connection may make; an ``apply.many`` is one. 0: any number."""
    bytes_per_second: float = 134_217_728.0
    """Bytes that the requests of one connection may have. 0: any number."""
    rate_burst: float = 2.0
    """Seconds of either rate that may come at once."""
    connects_per_second: float = 1_000.0
    """Connections that this node takes a second, after a first burst of four seconds' worth; 0: as many as come."""
    ping_seconds: float = 25.0
    """Seconds between two pings of a connection."""
    ping_timeout: float = 20.0
    """Seconds that a client has to answer one."""
    stall_seconds: float = 1.0
    """Seconds for which the event loop may be blocked before that is logged with a stack; 0: it is not watched."""
