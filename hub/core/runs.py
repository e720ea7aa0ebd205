"""A run: one execution of an agent on a context. All its transitions stand in ``TRANSITIONS``."""

from __future__ import annotations

from typing import Any, Final

from hub.core.changes import Entry
from hub.core.draft import Draft
from hub.core.errors import InvalidRequest, RunLost, RunRequired
from hub.core.limits import cut_content
from hub.core.pointer import own, shown
from hub.core.requests import Role, RunEnd, RunMove, RunOpen, RunRef, RunSet, RunStart

_LONGEST_ERROR: Final = 2_000

ACTIVE: Final = frozenset({"starting", "running", "waiting", "stopping"})

TRANSITIONS: Final[dict[str, frozenset[str]]] = {
    "starting": frozenset({"running", "waiting", "stopping", "finished", "failed", "stopped", "interrupted"}),
    "running": frozenset({"waiting", "stopping", "finished", "failed", "stopped", "interrupted"}),
    "waiting": frozenset({"running", "stopping", "finished", "failed", "stopped", "interrupted"}),
    "stopping": frozenset({"finished", "failed", "stopped", "interrupted"}),
    "finished": frozenset(),
    "failed": frozenset(),
    "stopped": frozenset(),
    "interrupted": frozenset(),
}
"""From a status to those that may follow. Nothing follows the last four: another execution is another run."""


def active_run(document: dict[str, Any]) -> dict[str, Any] | None:
    """The context's run, if it is still going on."""
    run: dict[str, Any] | None = document.get("run")
    return run if run and run["status"] in ACTIVE else None


def check_run(draft: Draft, named: RunRef | None) -> None:
    """A write that names a run must name the active one; an agent's write must name it while there is one."""
    run = active_run(draft.document)
    if named is not None:
        if run is None or (run["id"], run["fence"]) != (named.id, named.fence):
            raise RunLost(f"run {shown(named.id)} is not this context's active run; its writes are refused")
    elif run is not None and draft.request.author.role is Role.AGENT:
        raise RunRequired("a run is active in this context: an agent's write must name it", run=run["id"])


def move(draft: Draft, status: str, error: str | None = None, *, again: bool = False) -> None:
    """Bring the active run to another status. If it is over now its messages wait ``again``; also if it is interrupted and the
    agent wants another attempt. Raises RunLost if there is none, InvalidRequest if it cannot go there."""
    run = active_run(draft.document)
    if run is None:
        raise RunLost("this context has no active run")
    if status == run["status"]:
        return
    if status not in TRANSITIONS[run["status"]]:
        raise InvalidRequest(f"a run that is {run['status']} cannot become {status}")
    with draft.free():
        draft.replace(status, "run", "status")
        if error is not None:
            draft.set(error[:_LONGEST_ERROR], "run", "error")
        if status not in ACTIVE:
            _ended(draft, status, again)


def _ended(draft: Draft, status: str, again: bool) -> None:
    run = draft.document["run"]
    draft.set(draft.request.now, "run", "ended_at")
    if status != "interrupted":  # else another attempt may ask for the answers
        for id, ask in draft.document["asks"].items():
            if ask["status"] == "open" and ask["run"] == run["id"]:
                draft.replace("withdrawn", "asks", id, "status")
    if status == "finished" and run["messages"]:
        draft.replace([], "run", "messages")
    draft.replace(False, "running")
    if draft.document["progress"]["active"]:
        draft.replace(False, "progress", "active")
    if again or (status == "interrupted" and run["attempt"] < run.get("attempts", 1)):
        requeue(draft)


def run_set(draft: Draft, op: RunSet) -> None:
    """The worker says how its run goes."""
    move(draft, op.status, op.error)


def run_open(draft: Draft, body: RunOpen) -> dict[str, Any]:
    """A run of the author's own; answers run and attempt."""
    _none_active(draft)
    with draft.free():
        worker, node = draft.request.author.sub, draft.request.node
        started = _begin(draft, agent=draft.document["agent"], worker=worker, node=node, messages=[])
    move(draft, "running")
    return started


def run_start(draft: Draft, body: RunStart) -> dict[str, Any]:
    """A run for the first waiting message, which the log shows from now on; answers run and attempt."""
    _none_active(draft)
    if not draft.document["queue"]:
        raise InvalidRequest("no message waits in this context")
    message = own(draft.document["queue"][0])
    with draft.free():
        draft.remove("queue", "0")
        show(draft, message)
        started = _begin(draft, agent=body.agent, worker=body.worker, node=body.node, messages=[message])
        if body.attempts > 1:
            draft.set(body.attempts, "run", "attempts")
        if body.version is not None:
            draft.set(body.version, "run", "version")
        return started


def run_move(draft: Draft, body: RunMove) -> dict[str, Any]:
    """Another worker has the run, or the same one at another node. Raises RunLost."""
    check_run(draft, body.run)
    with draft.free():
        for name, value in (("worker", body.worker), ("node", body.node)):
            if draft.document["run"][name] != value:
                draft.replace(value, "run", name)
    return {}


def run_end(draft: Draft, body: RunEnd) -> dict[str, Any]:
    """The hub ends a run; with ``again`` its messages wait once more. Raises RunLost, also if it moved on to another node."""
    check_run(draft, body.run)
    if body.node is not None and body.node != draft.document["run"]["node"]:
        raise RunLost(f"run {shown(body.run.id)} has moved from node {shown(body.node)} to another")
    move(draft, body.status, body.error, again=body.again)
    return {}


def stop(draft: Draft) -> None:
    """Ask the run to stop, if one goes on. The worker ends it at its next checkpoint, so a pause must not hold it."""
    if active_run(draft.document) is not None:
        move(draft, "stopping")
        if draft.document["paused"]:
            draft.replace(False, "paused")


def requeue(draft: Draft) -> None:
    """Put the messages of the run that has ended back at the head of the queue, for another attempt."""
    messages = draft.document["run"]["messages"]
    if not messages:
        return
    with draft.free():
        for message in reversed(messages):
            draft.set({**own(message), "attempt": message.get("attempt", 1) + 1}, "queue", "0")
        draft.replace([], "run", "messages")


def _begin(
    draft: Draft, *, agent: str | None, worker: str, node: str, messages: list[dict[str, Any]]
) -> dict[str, Any]:
    """Make a run and make it the active one."""
    before = draft.document["run"]
    attempt = max((message.get("attempt", 1) for message in messages), default=1)
    run = {
        "id": draft.request.make_id("run"),
        "fence": (before["fence"] if before else 0) + 1,
        "status": "starting",
        "agent": agent,
        "attempt": attempt,
        "worker": worker,
        "node": node,
        "started_at": draft.request.now,
        "messages": messages,
    }
    if attempt == 1 and draft.document["asks"]:
        draft.replace({}, "asks")
    draft.replace(run, "run")
    draft.replace(True, "running")
    return {"run": {"id": run["id"], "fence": run["fence"]}, "attempt": attempt}


def show(draft: Draft, message: dict[str, Any]) -> None:
    """The message as an entry of the log, under its own id. A message that comes again is there already, unless the log
    was reset; it may have been edited since."""
    content, over = cut_content(message["text"], draft.limits)
    known = draft.state.log.get(message["id"])
    if known is not None:
        if known.content != content:
            draft.add({"kind": "log.update", "id": known.id, "content": content, "cut": over})
        return
    entry: Entry = {
        "no": draft.state.log.length,
        "id": message["id"],
        "type": "user",
        "heading": "",
        "content": content,
        "kvps": {"attachments": own(message["attachments"])} if message["attachments"] else {},
        "timestamp": draft.request.now,
    }
    if over:
        entry["cut"] = over
    draft.add({"kind": "log.add", "entry": entry})


def _none_active(draft: Draft) -> None:
    run = active_run(draft.document)
    if run is not None:
        raise InvalidRequest(f"run {run['id']} is active in this context; one runs at a time", run=run["id"])
