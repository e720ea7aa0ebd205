"""A change while it is being worked out: its parts are applied as they come, and taken back if it is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from hub.core.changes import Json, Key, Part, Patch, PatchOp, Undo
from hub.core.errors import TooLarge
from hub.core.limits import Limits
from hub.core.pointer import join
from hub.core.position import Position
from hub.core.requests import Request
from hub.core.state import ContextState

VERSIONED: Final = ("state", "output", "session_context")
"""Members of the document that have a version."""


class Draft:
    """Collects the parts of one change. The state shows each part at once, so a later operation sees an earlier one.

    ``index`` is the number of the operation that is being worked out, ``named`` the versioned members that operations
    are about. A part's values must not be the state's own objects: a part never changes, the state does.
    """

    __slots__ = ("_free", "_patch", "_size", "_touched", "before", "index", "limits", "named", "parts", "position",
                 "request", "state", "undo")  # fmt: skip

    def __init__(self, state: ContextState, request: Request, limits: Limits) -> None:
        self.state = state
        self.request = request
        self.limits = limits
        self.index = 0
        self.named: tuple[str, ...] = ()
        self.before = state.position
        self.position = state.position = state.position.after()
        self.parts: list[Part] = []
        self.undo: list[Undo] = []
        self._patch: Patch | None = None  # the part that further patch operations go into
        self._touched: tuple[str, ...] = ()  # versioned members that were written
        self._size = state.size
        self._free = 0

    @property
    def document(self) -> dict[str, Any]:
        """The document as it is after the parts so far."""
        return self.state.document

    def add(self, part: Part) -> None:
        """Apply a part and keep it."""
        self.undo.append(self.state.apply_part(part))
        self.parts.append(part)
        self._patch = None

    def create(self, document: dict[str, Any]) -> None:
        """Make the document; it has its versions."""
        self._do({"op": "replace", "path": "", "value": document}, [])

    def set(self, value: Json, *tokens: str) -> None:
        """Put a value into an object of the document, or into an array: before an index, or at ``-``, the end."""
        self._write({"op": "add", "path": join(tokens), "value": value}, list(tokens))

    def replace(self, value: Json, *tokens: str) -> None:
        """Put a value where one is."""
        self._write({"op": "replace", "path": join(tokens), "value": value}, list(tokens))

    def remove(self, *tokens: str) -> None:
        """Take a member or an item away."""
        self._write({"op": "remove", "path": join(tokens)}, list(tokens))

    def _write(self, op: PatchOp, tokens: list[str]) -> None:
        self._do(op, tokens)
        if tokens[0] in VERSIONED and tokens[0] not in self._touched:
            self._touched += (tokens[0],)

    def _do(self, op: PatchOp, tokens: list[str]) -> None:
        self.undo.append(self.state.apply_op(op, tokens))
        if self._patch is None:  # neighbours share one part
            self._patch = {"kind": "patch", "ops": []}
            self.parts.append(self._patch)
        self._patch["ops"].append(op)

    @contextmanager
    def free(self) -> Iterator[None]:
        """What grows in this block does not count against the document's limit.

        A full document must not keep a run from starting or ending.
        """
        size, free = self.state.size, self._free
        yield
        self._free = free + self.state.size - size  # blocks within it do not count again

    def finish(self, result: dict[str, Any], keyed: bool) -> dict[str, Any]:
        """Move versions, check the size, add the key. Returns what is answered. Raises TooLarge."""
        state = self.state
        if not self.parts:
            state.position = self.before
            return self._answer(self.before, result)
        for name in self._touched:
            moved: PatchOp = {"op": "replace", "path": f"/versions/{name}", "value": str(self.position)}
            self._do(moved, ["versions", name])
        if state.size - self._free > self._size and state.size - self._free > self.limits.document:
            raise TooLarge(
                f"the context would take {state.size:,} bytes, more than the {self.limits.document:,} allowed; "
                "put large values into uploads or the log",
                limit=self.limits.document,
            )
        answer = self._answer(self.position, result)
        key = self.request.body.key
        if key is not None and keyed:
            part: Key = {"kind": "key", "key": key, "digest": self.request.digest, "result": dict(answer)}
            self.undo.append(state.keys.apply(part, self.position.seq))
            self.parts.append(part)
        return answer

    def _answer(self, position: Position, result: dict[str, Any]) -> dict[str, Any]:
        epoch, seq = position
        answer: dict[str, Any] = {"epoch": epoch, "seq": seq, **result}
        if self.named:
            versions = self.state.document["versions"]
            answer["versions"] = {name: versions[name] for name in self.named}
        return answer

    def take_back(self) -> None:
        """Leave the state as it was before the draft."""
        self.state.take_back(self.undo, self.before)
