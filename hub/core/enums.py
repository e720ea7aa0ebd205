"""Names that may be chosen from, in one place: for requests, for agent code, and for the command line's help."""

from __future__ import annotations

from enum import StrEnum


class ContextType(StrEnum):
    """What a context is for."""

    USER = "user"
    TASK = "task"
    BACKGROUND = "background"
    """Left out of lists for people unless asked for."""


class WhenBusy(StrEnum):
    """What becomes of a message that comes while the agent works on another."""

    QUEUE = "queue"
    """It waits for its turn."""
    INTERRUPT = "interrupt"
    """The run is asked to stop, and the message waits for its turn."""
    REJECT = "reject"
    """It is refused."""
    REPLACE = "replace"
    """The run is asked to stop, and the message takes the place of those that wait."""


class EntryType(StrEnum):
    """What a log entry is about; viewers show each in its own way."""

    AGENT = "agent"
    BROWSER = "browser"
    CODE_EXE = "code_exe"
    SUBAGENT = "subagent"
    ERROR = "error"
    HINT = "hint"
    INFO = "info"
    PROGRESS = "progress"
    RESPONSE = "response"
    TOOL = "tool"
    MCP = "mcp"
    INPUT = "input"
    USER = "user"
    UTIL = "util"
    WARNING = "warning"


class NoticeType(StrEnum):
    """How a notice looks."""

    INFO = "info"
    SUCCESS = "success"
    WARNING = "warning"
    ERROR = "error"
    PROGRESS = "progress"


class Role(StrEnum):
    """What somebody may do at all."""

    USER = "user"
    AGENT = "agent"
    OPERATOR = "operator"
    VIEWER = "viewer"
