"""From a request and the state to the change: everything a context can be asked, in two tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from hub.core import asks, contexts, log_operations, messages, requests, runs, session_context, state_operations
from hub.core.changes import Change, Part, Undo
from hub.core.draft import VERSIONED, Draft
from hub.core.errors import Conflict, Exists, HubError, NotFound, Removed, TooLarge
from hub.core.limits import DEFAULT_LIMITS, Limits
from hub.core.position import Position
from hub.core.requests import Apply, Create, Expected, Request
from hub.core.state import ContextState, DoesNotFit


class Worked(NamedTuple):
    """What a request did: its parts are applied to the state already, ``undo`` takes them back, ``result`` is answered.

    No parts and no ``change``: it changed nothing, because there was nothing to do or because it is a ``duplicate``.
    """

    parts: list[Part]
    result: dict[str, Any]
    undo: Undo | None = None
    duplicate: bool = False
    change: Change | None = None
    """The parts at their position."""

    @property
    def position(self) -> Position | None:
        """Where the change stands."""
        return self.change and self.change.position


def work_out(state: ContextState, request: Request, limits: Limits = DEFAULT_LIMITS, *, keyed: bool = True) -> Worked:
    """Work a request out on ``state``. All or nothing: whatever is raised, the state is as it was.

    ``keyed=False`` leaves keys aside: for a local replica, which has none. Raises HubError.
    """
    body = request.body
    if keyed and body.key is not None:
        known = state.keys.find(body.key, request.digest)
        if known is not None:
            return Worked([], dict(known), duplicate=True)
    if state.closed is not None:
        raise Removed(f"context {body.context!r} was removed")
    if isinstance(body, Create):
        if state.document:
            raise Exists(f"context {body.context!r} exists already")
    elif not state.document:
        raise NotFound(f"no context {body.context!r}; create it first")
    draft = Draft(state, request, limits)
    try:
        result = draft.finish(REQUESTS[type(body)](draft, body), keyed)
    except DoesNotFit as error:
        draft.take_back()
        raise HubError(f"the request does not fit the context: {error}") from error
    except BaseException:
        draft.take_back()
        raise
    if not draft.parts:
        return Worked([], result)
    change = tuple.__new__(Change, (draft.position, draft.parts))  # twice as fast as Change(...), on the hot path
    return tuple.__new__(Worked, (draft.parts, result, draft.take_back, False, change))


def apply(draft: Draft, body: Apply) -> dict[str, Any]:
    """All operations in order. Raises Conflict, RunLost, RunRequired before the first one."""
    if len(body.ops) > draft.limits.operations:
        raise TooLarge(
            f"at most {draft.limits.operations:,} operations go into one apply", limit=draft.limits.operations
        )
    runs.check_run(draft, body.run)
    if body.expected is not None:
        _check_versions(draft, body.expected)
    for draft.index, op in enumerate(body.ops):
        if op.names is not None and op.names not in draft.named:
            draft.named += (op.names,)
        OPERATIONS[type(op)](draft, op)
    return {}


def _check_versions(draft: Draft, expected: Expected) -> None:
    versions = draft.document["versions"]
    stale = [n for n in VERSIONED if getattr(expected, n) is not None and getattr(expected, n) != versions[n]]
    if stale:
        raise Conflict(f"{', '.join(stale)}: changed since the expected version", versions=dict(versions))


_Handler = Callable[[Draft, Any], dict[str, Any]]
_Operator = Callable[[Draft, Any], None]

REQUESTS: Final[dict[type, _Handler]] = {
    requests.Create: contexts.create,
    requests.Update: contexts.update,
    requests.Remove: contexts.remove,
    requests.Control: contexts.control,
    requests.Apply: apply,
    requests.Message: messages.message,
    requests.QueueEdit: messages.queue_edit,
    requests.QueueRemove: messages.queue_remove,
    requests.QueueClear: messages.queue_clear,
    requests.QueueSend: messages.queue_send,
    requests.AskAnswer: asks.answer,
    requests.Trim: log_operations.trim,
    requests.RunOpen: runs.run_open,
    requests.RunStart: runs.run_start,
    requests.RunMove: runs.run_move,
    requests.RunEnd: runs.run_end,
}
"""What does each request: gives the members of its answer besides the position."""

OPERATIONS: Final[dict[type, _Operator]] = {
    requests.StateMerge: state_operations.state_merge,
    requests.StateDelete: state_operations.state_delete,
    requests.StateIncr: state_operations.state_incr,
    requests.StateAppend: state_operations.state_append,
    requests.StateRemove: state_operations.state_remove,
    requests.OutputSet: state_operations.output_set,
    requests.OutputDelete: state_operations.output_delete,
    requests.DataSet: state_operations.data_set,
    requests.DataDelete: state_operations.data_delete,
    requests.MetadataSet: state_operations.metadata_set,
    requests.LogAdd: log_operations.log_add,
    requests.LogUpdate: log_operations.log_update,
    requests.LogAppend: log_operations.log_append,
    requests.LogReset: log_operations.log_reset,
    requests.ProgressSet: log_operations.progress_set,
    requests.SessionContextSave: session_context.save,
    requests.SessionContextDelete: session_context.delete,
    requests.RunSet: runs.run_set,
    requests.AskOpen: asks.ask_open,
    requests.AskClose: asks.ask_close,
}
"""What does each operation."""
