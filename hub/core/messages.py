"""Messages to an agent: they wait in the context's queue, and none overwrites another."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec

from hub.core.draft import Draft
from hub.core.enums import WhenBusy
from hub.core.errors import AgentBusy, Exists, InvalidRequest, NotFound, Overloaded, TooLarge
from hub.core.log_operations import log_update
from hub.core.operations import LogUpdate
from hub.core.pointer import own
from hub.core.requests import Message, QueueClear, QueueEdit, QueueRemove, QueueSend
from hub.core.runs import active_run, show, stop


def message(draft: Draft, body: Message) -> dict[str, Any]:
    """Put a message at the queue's end, and do what the context says of messages that come while its agent works. Answers the
    message's id. Raises AgentBusy, and Overloaded if too many wait."""
    if not body.text.strip() and not body.attachments:
        raise InvalidRequest("a message needs text or an attachment")
    _check_text(draft, body.text)
    when_busy = draft.document.get("when_busy", WhenBusy.QUEUE)
    if when_busy == WhenBusy.REJECT and (draft.document["queue"] or active_run(draft.document) is not None):
        raise AgentBusy("the agent works on another message, and this session takes none meanwhile")
    if len(draft.document["queue"]) >= draft.limits.queue and when_busy != WhenBusy.REPLACE:
        raise Overloaded(f"{draft.limits.queue} messages wait in this context already")
    item_id = draft.request.make_id("message")
    if any(waiting["id"] == item_id for waiting in draft.document["queue"]):
        raise Exists(f"message {item_id!r} waits already")
    item = {
        "id": item_id,
        "text": body.text,
        "attachments": [msgspec.to_builtins(attachment) for attachment in body.attachments],
        "user_id": draft.request.author.sub,
        "created_at": draft.request.now,
    }
    if when_busy == WhenBusy.REPLACE:
        _give_way(draft, item_id)
    if when_busy in (WhenBusy.REPLACE, WhenBusy.INTERRUPT):
        stop(draft)
    draft.set(item, "queue", "-")
    draft.replace(draft.request.now, "last_message")
    return {"id": item_id}


def _give_way(draft: Draft, by: str) -> None:
    """What waits, and what the run works on, is not taken up again. The log keeps all of it, and says which message replaced
    it."""
    run, waiting = active_run(draft.document), draft.document["queue"]
    messages = [*(run["messages"] if run is not None else []), *waiting]
    with draft.free():
        for item in own(messages):
            show(draft, item)
            with contextlib.suppress(NotFound):  # the entry is not kept any more
                log_update(draft, LogUpdate(id=item["id"], kvps={"replaced_by": by}))
        if waiting:
            draft.replace([], "queue")
        if run is not None and run["messages"]:
            draft.replace([], "run", "messages")


def queue_edit(draft: Draft, body: QueueEdit) -> dict[str, Any]:
    """Give a waiting message another text."""
    _check_text(draft, body.text)
    index = _index(draft, body.id)
    item = draft.document["queue"][index]
    if not body.text.strip() and not item["attachments"]:
        raise InvalidRequest("a message needs text or an attachment; take it back with queue.remove")
    if item["text"] != body.text:
        draft.replace(body.text, "queue", str(index), "text")
    return {}


def queue_remove(draft: Draft, body: QueueRemove) -> dict[str, Any]:
    """Take back a waiting message."""
    draft.remove("queue", str(_index(draft, body.id)))
    return {}


def queue_clear(draft: Draft, body: QueueClear) -> dict[str, Any]:
    """Take back all waiting messages."""
    if draft.document["queue"]:
        draft.replace([], "queue")
    return {}


def queue_send(draft: Draft, body: QueueSend) -> dict[str, Any]:
    """Put a waiting message first, or join all of them into one; answers the id of the first one then."""
    if body.joined:
        return _join(draft)
    if body.id is None:
        raise InvalidRequest("queue.send names a message by id, or says joined: true")
    index = _index(draft, body.id)
    if index:
        item = own(draft.document["queue"][index])
        draft.remove("queue", str(index))
        draft.set(item, "queue", "0")
    return {"id": body.id}


def _join(draft: Draft) -> dict[str, Any]:
    """One message from all of them, with an id of its own: the log may show the first one already."""
    queue = draft.document["queue"]
    if len(queue) < 2:
        return {"id": queue[0]["id"]} if queue else {}
    text = "\n\n".join(item["text"] for item in queue if item["text"])
    _check_text(draft, text)
    joined = {
        "id": draft.request.make_id("joined"),
        "text": text,
        "attachments": own([attachment for item in queue for attachment in item["attachments"]]),
        "user_id": queue[0]["user_id"],
        "created_at": queue[0]["created_at"],
    }
    draft.replace([joined], "queue")
    return {"id": joined["id"]}


def _check_text(draft: Draft, text: str) -> None:
    if len(text) > draft.limits.message:
        raise TooLarge(
            f"a message has at most {draft.limits.message:,} characters; send longer text as an upload",
            limit=draft.limits.message,
        )


def _index(draft: Draft, id: str) -> int:
    for index, item in enumerate(draft.document["queue"]):
        if item["id"] == id:
            return index
    raise NotFound(f"no message {id!r} waits in this context; it was taken by the agent or removed")
