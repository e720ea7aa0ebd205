"""Messages to an agent: they wait in the context's queue, and none overwrites another."""

from __future__ import annotations

from typing import Any

import msgspec

from hub.core.draft import Draft
from hub.core.errors import Exists, InvalidRequest, NotFound, Overloaded, TooLarge
from hub.core.pointer import own
from hub.core.requests import Message, QueueClear, QueueEdit, QueueRemove, QueueSend


def message(draft: Draft, body: Message) -> dict[str, Any]:
    """Put a message at the queue's end; answers its id. Raises Overloaded if too many wait."""
    if not body.text.strip() and not body.attachments:
        raise InvalidRequest("a message needs text or an attachment")
    _check_text(draft, body.text)
    if len(draft.document["queue"]) >= draft.limits.queue:
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
    draft.set(item, "queue", "-")
    draft.replace(draft.request.now, "last_message")
    return {"id": item_id}


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
