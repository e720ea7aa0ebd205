"""Settings of a node from the environment: ``HUB_<NAME>`` for a field, ``HUB_LIMITS_<NAME>`` for a limit of contexts."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, Final

from hub.core.errors import StartError
from hub.core.limits import Limits
from hub.node.settings import Settings

LEAST_KEPT = 60.0
"""Seconds that a session is kept at least: a node that uses it may be held up for some."""
_READ_ELSEWHERE: Final = {"HUB_SECRET", "HUB_PYTHON"}
"""By the server, where tokens are made, and by scripts/setup.sh."""
_OF_TESTS: Final = ("HUB_TEST_", "HUB_REQUIRE_")


def settings_from(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings with what the environment says. Raises StartError that names the variable."""
    settings, limits = Settings(), Limits()
    changes = _changes(settings, "HUB_", environment)
    if 0 < changes.get("keep_sessions", 0) < LEAST_KEPT:
        raise StartError(
            f"HUB_KEEP_SESSIONS takes 0 (for ever) or at least {LEAST_KEPT:g} seconds: less could take one in use"
        )
    return replace(settings, limits=replace(limits, **_changes(limits, "HUB_LIMITS_", environment)), **changes)


def unknown_variables(of_options: set[str], environment: Mapping[str, str] = os.environ) -> list[str]:
    """A line for each variable ``HUB_...`` that nothing reads. ``of_options``: those that options of commands read."""
    known = {name for name, _, _ in (*_variables(Settings(), "HUB_"), *_variables(Limits(), "HUB_LIMITS_"))}
    known |= of_options | _READ_ELSEWHERE
    lines = []
    for name in sorted(environment):
        if name.startswith("HUB_") and name not in known and not name.startswith(_OF_TESTS):
            close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.8)
            more = f"did you mean {close[0]}?" if close else "hub/node/settings.py has them all"
            lines.append(f"{name} is no setting and does nothing; {more}")
    return lines


def _changes(defaults: Any, prefix: str, environment: Mapping[str, str]) -> dict[str, Any]:
    return {
        field: _value(name, environment[name], type(default))
        for name, field, default in _variables(defaults, prefix)
        if name in environment
    }


def _variables(defaults: Any, prefix: str) -> Iterator[tuple[str, str, Any]]:
    """The variable, the field and its default, of each field that a variable can set."""
    for field in fields(defaults):
        default = getattr(defaults, field.name)
        if isinstance(default, int | float | str):
            yield prefix + field.name.upper(), field.name, default


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
