"""Settings of a node from the environment: ``HUB_<NAME>`` for a field, ``HUB_LIMITS_<NAME>`` for a limit of contexts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from hub.core.errors import StartError
from hub.core.limits import Limits
from hub.node.settings import Settings

LEAST_KEPT = 60.0
"""Seconds that a session is kept at least: a node that uses it may be held up for some."""


def settings_from(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings with what the environment says. Raises StartError that names the variable."""
    settings, limits = Settings(), Limits()
    changes = _changes(settings, "HUB_", environment)
    if 0 < changes.get("keep_sessions", 0) < LEAST_KEPT:
        raise StartError(
            f"HUB_KEEP_SESSIONS takes 0 (for ever) or at least {LEAST_KEPT:g} seconds: less could take one in use"
        )
    return replace(settings, limits=replace(limits, **_changes(limits, "HUB_LIMITS_", environment)), **changes)


def _changes(defaults: Any, prefix: str, environment: Mapping[str, str]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for field in fields(defaults):
        name, default = prefix + field.name.upper(), getattr(defaults, field.name)
        if name in environment and isinstance(default, int | float | str):
            changes[field.name] = _value(name, environment[name], type(default))
    return changes


def _value(name: str, text: str, kind: type) -> Any:
    if kind is str:
        return text
    try:
        value = kind(text)
    except ValueError:
        raise StartError(f"{name} takes a number, not {text[:40]!r}") from None
    if not 0 <= value < 1e12:
        raise StartError(f"{name} takes a number that is not negative, not {text[:40]!r}")
    return value
