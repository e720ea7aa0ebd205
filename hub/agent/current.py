"""Which context the running code works for: kept per task and per thread.

Child tasks, and the threads of ``run_task``, begin with a copy of what their parent had; nobody ever sees what another sets
later. A ``threading.Thread`` that is started by hand begins empty: run its target through
``contextvars.copy_context().run``, or call ``AgentContext.use`` in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final

from hub.core.requests import RunRef

CONTEXT_ID: Final = "agent_context_id"
"""Under which the id of the current context is kept."""

_EMPTY: Mapping[str, Any] = MappingProxyType({})
# A mapping here is never changed, only replaced: copies of the contextvars share it.
_data: ContextVar[Mapping[str, Any]] = ContextVar("hub_context_data", default=_EMPTY)
_run: ContextVar[tuple[str, RunRef] | None] = ContextVar("hub_run", default=None)


def set_context_data(key: str, value: Any) -> None:
    """Keep a value for this task (or thread) and those that it starts from now on."""
    _data.set({**_data.get(), key: value})


def get_context_data(key: str | None = None, default: Any = None) -> Any:
    """The value under ``key``, or ``default``. Without a key a dict of all values."""
    return dict(_data.get()) if key is None else _data.get().get(key, default)


def delete_context_data(key: str) -> None:
    """Forget a value; nothing happens if there is none."""
    _data.set({name: value for name, value in _data.get().items() if name != key})


def clear_context_data() -> None:
    """Forget all values, the current context's id among them."""
    _data.set(_EMPTY)


def current_id() -> str | None:
    """The id of the current context, or None."""
    id: str | None = _data.get().get(CONTEXT_ID)
    return id


def set_run(context: str, run: RunRef | None) -> None:
    """Say which run of a context this code is part of: its writes there name it, and are refused once it has ended."""
    _run.set(None if run is None else (context, run))


def run_of(context: str) -> RunRef | None:
    """The run of that context which this code is part of, or None."""
    running = _run.get()
    return running[1] if running is not None and running[0] == context else None
