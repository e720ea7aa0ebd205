"""The parts of a context as live mappings: reading gives copies, assigning and deleting are writes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, ClassVar, Literal, cast

from hub.agent.checks import checked_members
from hub.agent.writer import Writer
from hub.core.errors import InvalidRequest
from hub.core.pointer import join, own, split
from hub.core.requests import (
    AnyOperation,
    DataDelete,
    DataSet,
    Expected,
    MetadataSet,
    OutputDelete,
    OutputSet,
    StateAppend,
    StateDelete,
    StateIncr,
    StateMerge,
    StateRemove,
)
from hub.core.state import ContextState
from hub.core.values import MAX_DEPTH, check, json_size


class Section(MutableMapping[str, Any]):
    """A live mapping over one part of a context. ``update``, ``clear`` and ``replace`` are one change each.

    Values are JSON; anything else raises InvalidValue, which names the place. Nested values are copies: change one and
    assign it again.
    """

    _depth: ClassVar = MAX_DEPTH + 1
    """Levels that it may have: each value is set by itself."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    @abstractmethod
    def _part(self, state: ContextState) -> dict[str, Any]: ...

    @abstractmethod
    def _set(self, key: str, value: Any) -> AnyOperation: ...

    @abstractmethod
    def _delete(self, key: str) -> AnyOperation: ...

    def __getitem__(self, key: str) -> Any:
        with self._writer.lock:
            return own(self._part(self._writer.read())[key])

    def __setitem__(self, key: str, value: Any) -> None:
        self.update({key: value})

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self._writer.apply([self._delete(key)], 100)

    def __contains__(self, key: object) -> bool:
        with self._writer.lock:
            return key in self._part(self._writer.read())

    def __iter__(self) -> Iterator[str]:
        with self._writer.lock:
            return iter(list(self._part(self._writer.read())))

    def __len__(self) -> int:
        with self._writer.lock:
            return len(self._part(self._writer.read()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.copy()!r})"

    def copy(self) -> dict[str, Any]:
        """All of it, as a dict of one's own."""
        with self._writer.lock:
            return cast(dict[str, Any], own(self._part(self._writer.read())))

    def update(self, other: Any = (), /, **more: Any) -> None:
        """Set several keys in one change."""
        values = checked_members(other, more, depth=self._depth)
        if values:
            self._writer.apply(self._all(values), json_size(values) + 100)

    def clear(self) -> None:
        """Delete every key in one change."""
        self.replace({})

    def replace(self, value: Mapping[str, Any]) -> None:
        """Let it be exactly ``value``, in one change."""
        values = checked_members(value, depth=self._depth)
        operations = [self._delete(key) for key in self if key not in values] + self._all(values)
        if operations:
            self._writer.apply(operations, json_size(values) + 100)

    def _all(self, values: dict[str, Any]) -> list[AnyOperation]:
        return [self._set(key, value) for key, value in values.items()]


class DataMapping(Section):
    """Private data: seen by the context's agents and operators, never by viewers."""

    def _part(self, state: ContextState) -> dict[str, Any]:
        return state.data

    def _set(self, key: str, value: Any) -> AnyOperation:
        return DataSet(key=key, value=value)

    def _delete(self, key: str) -> AnyOperation:
        return DataDelete(key=key)


class OutputMapping(Section):
    """Output data: what the context has to show for itself, at the top level of ``output()``."""

    def _part(self, state: ContextState) -> dict[str, Any]:
        return _member(state, "output")

    def _set(self, key: str, value: Any) -> AnyOperation:
        return OutputSet(key=key, value=value)

    def _delete(self, key: str) -> AnyOperation:
        return OutputDelete(key=key)


class MetadataMapping(Section):
    """Metadata. A value of None deletes its key."""

    def _part(self, state: ContextState) -> dict[str, Any]:
        return _member(state, "metadata")

    def _set(self, key: str, value: Any) -> AnyOperation:
        return MetadataSet(key=key, value=value)

    def _delete(self, key: str) -> AnyOperation:
        return MetadataSet(key=key)


class StateMapping(Section):
    """Session state. Where a ``path`` is asked for, a text that begins with "/" is a JSON Pointer, any other a key."""

    _depth: ClassVar = MAX_DEPTH

    def _part(self, state: ContextState) -> dict[str, Any]:
        return _member(state, "state")

    def _set(self, key: str, value: Any) -> AnyOperation:
        return StateMerge(value={key: value})

    def _delete(self, key: str) -> AnyOperation:
        return StateDelete(path=join([key]))

    def _all(self, values: dict[str, Any]) -> list[AnyOperation]:
        return [StateMerge(value=values)] if values else []

    @property
    def version(self) -> str:
        """The position of the state's last change, ``epoch:seq``; accepted as ``expected``."""
        with self._writer.lock:
            return str(_member(self._writer.read(), "versions").get("state", ""))

    def merge(
        self,
        value: Mapping[str, Any] | None,
        mode: Literal["shallow", "deep", "replace"] = "shallow",
        *,
        expected: str | None = None,
    ) -> None:
        """Merge a value in. ``shallow``: its keys replace; ``deep``: dicts merge, all else replaces; ``replace``: the
        state becomes it. ``expected``: a version; another one there is a Conflict. Without a value nothing changes."""
        if mode not in ("shallow", "deep", "replace"):
            raise InvalidRequest(f"{str(mode)[:40]!r} is not a way to merge: shallow, deep or replace")
        if value is None:
            return
        values = checked_members(value)
        wanted = None if expected is None else Expected(state=expected)
        self._writer.apply([StateMerge(value=values, mode=mode)], json_size(values) + 100, expected=wanted)

    def delete(self, path: str) -> None:
        """Delete a member, however deep; nothing happens if there is none."""
        self._writer.apply([StateDelete(path=_path(path))], 100)

    def incr(self, path: str, by: float = 1) -> None:
        """Add to a number; a missing one counts as 0. Increments of several writers all count."""
        self._writer.apply([StateIncr(path=_path(path), by=check(by, "/by"))], 100)

    def append(self, path: str, value: Any) -> None:
        """Append to a list; a missing one is made."""
        checked = check(value, _path(path))
        self._writer.apply([StateAppend(path=_path(path), value=checked)], json_size(checked) + 100)

    def remove(self, path: str, value: Any) -> None:
        """Remove the first equal value from a list; nothing happens if there is none."""
        checked = check(value, _path(path))
        self._writer.apply([StateRemove(path=_path(path), value=checked)], json_size(checked) + 100)

    def replace(self, value: Mapping[str, Any]) -> None:
        """Let the state be exactly ``value``, in one change."""
        self.merge(value, "replace")


def _member(state: ContextState, name: str) -> dict[str, Any]:
    member: dict[str, Any] = state.document.get(name, {})
    return member


def _path(path: object) -> str:
    if not isinstance(path, str) or not path:
        raise InvalidRequest("a path is a key or a JSON Pointer, not empty")
    if not path.startswith("/"):
        return join([path])
    split(path)
    return path
