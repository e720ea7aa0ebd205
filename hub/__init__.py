"""Session Hub: a realtime session hub for AI agents.

What authors of agents use is re-exported here, and loaded when it is first used: importing a part of the hub does not bring
the rest along.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from hub.agent.config import AgentConfig, AgentContextType, UserMessage
    from hub.agent.connect import Client, connect
    from hub.agent.context import AgentContext
    from hub.agent.errors import NoAnswer, RunStopped, Unconfirmed
    from hub.agent.log import Log
    from hub.agent.log_item import LogItem
    from hub.agent.notifications import Notification, NotificationManager, NotificationPriority, NotificationType
    from hub.agent.opening import create, open
    from hub.agent.portal import SyncClient, connect_sync
    from hub.agent.secret import forget_secret, register_secret
    from hub.agent.tasks import DeferredTask
    from hub.core.enums import WhenBusy
    from hub.core.errors import (
        AgentBusy,
        Conflict,
        Exists,
        Forbidden,
        HubError,
        InvalidRequest,
        InvalidValue,
        NotFound,
        Overloaded,
        Removed,
        RunLost,
        RunRequired,
        TooLarge,
        Unauthorized,
        Unavailable,
        UnknownType,
    )
    from hub.record.reader import MirrorReader
    from hub.server.inside import InsideHub

__version__: Final = "0.1.0"

__all__ = [
    "AgentBusy",
    "AgentConfig",
    "AgentContext",
    "AgentContextType",
    "Client",
    "Conflict",
    "DeferredTask",
    "Exists",
    "Forbidden",
    "HubError",
    "InsideHub",
    "InvalidRequest",
    "InvalidValue",
    "Log",
    "LogItem",
    "MirrorReader",
    "NoAnswer",
    "NotFound",
    "Notification",
    "NotificationManager",
    "NotificationPriority",
    "NotificationType",
    "Overloaded",
    "Removed",
    "RunLost",
    "RunRequired",
    "RunStopped",
    "SyncClient",
    "TooLarge",
    "Unauthorized",
    "Unavailable",
    "Unconfirmed",
    "UnknownType",
    "UserMessage",
    "WhenBusy",
    "connect",
    "connect_sync",
    "create",
    "forget_secret",
    "open",
    "register_secret",
]

_MODULES: Final = {
    "hub.agent.config": (
        "AgentConfig",
        "AgentContextType",
        "UserMessage",
    ),
    "hub.agent.connect": (
        "Client",
        "connect",
    ),
    "hub.agent.context": ("AgentContext",),
    "hub.agent.errors": (
        "NoAnswer",
        "RunStopped",
        "Unconfirmed",
    ),
    "hub.agent.log": ("Log",),
    "hub.agent.log_item": ("LogItem",),
    "hub.agent.notifications": (
        "Notification",
        "NotificationManager",
        "NotificationPriority",
        "NotificationType",
    ),
    "hub.agent.opening": (
        "create",
        "open",
    ),
    "hub.agent.portal": (
        "SyncClient",
        "connect_sync",
    ),
    "hub.agent.secret": (
        "forget_secret",
        "register_secret",
    ),
    "hub.agent.tasks": ("DeferredTask",),
    "hub.core.enums": ("WhenBusy",),
    "hub.core.errors": (
        "AgentBusy",
        "Conflict",
        "Exists",
        "Forbidden",
        "HubError",
        "InvalidRequest",
        "InvalidValue",
        "NotFound",
        "Overloaded",
        "Removed",
        "RunLost",
        "RunRequired",
        "TooLarge",
        "Unauthorized",
        "Unavailable",
        "UnknownType",
    ),
    "hub.record.reader": ("MirrorReader",),
    "hub.server.inside": ("InsideHub",),
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'hub' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
