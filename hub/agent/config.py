"""What a context is made with, and what is said to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hub.core.enums import WhenBusy
from hub.core.limits import DEFAULT_LIMITS, Limits
from hub.core.requests import ContextType

AgentContextType = ContextType
"""``USER`` ("user"), ``TASK`` ("task") or ``BACKGROUND`` ("background", left out of lists for people)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """Settings of a context; every one has a default."""

    agent: str | None = None
    """The agent that answers its messages; None is the hub's default agent."""
    when_busy: WhenBusy = WhenBusy.QUEUE
    """What becomes of messages that come while the agent works."""
    limits: Limits = DEFAULT_LIMITS
    """How much of each thing the context takes. A hub that it is linked to has the last word."""
    stop_grace: float = 2.0
    """Seconds that a task has to end after it was asked to, before it is reported and its writes are refused."""


@dataclass(slots=True)
class UserMessage:
    """A message to an agent. ``attachments``: ``{"id", "name", "size", "type"}`` each, ``id`` names an upload of the hub.
    ``attempt``: 1, and more when runs before were interrupted."""

    message: str
    attachments: list[dict[str, Any]] = field(default_factory=list)
    id: str = ""
    attempt: int = 1
