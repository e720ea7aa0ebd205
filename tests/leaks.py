"""What a hub keeps: to be the same again when what came has gone."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

from hub.server.carriers import PollingSocket
from hub.server.line import WebSocketLine
from tests.clients import People
from tests.support import until


def kept(people: People) -> dict[str, Any]:
    """Everything that grows with connections and what they ask."""
    hub: Any = people.server
    node = hub.node
    found: dict[str, Any] = {}
    gc.collect()
    alive = gc.get_objects()
    for path, server in hub.sockets.servers.items():
        found[path] = {
            "engine sockets": len(server.eio.sockets),
            "outboxes": len(server.outboxes),
            "lines": sum(isinstance(thing, WebSocketLine) and thing._owner is server for thing in alive),
            "polling": sum(isinstance(thing, PollingSocket) and thing.server is server.eio for thing in alive),
        }
    found["sessions"] = len(hub.sockets._sessions)
    found["expiry"] = len(hub.sockets._expiry)
    found["viewers"] = sum(len(live.audience.room.members) for live in node.contexts)
    for topic in (node.rows, node.notices.topic):
        found[topic.topic] = (len(topic._rooms), len(topic._identities), len(topic._patterned))
    dispatch = node.dispatch
    found["dispatch"] = [dispatch._workers.runs, len(dispatch._workers._held)]
    found["dispatch"] += [len(dispatch._timers), len(dispatch._starting), len(dispatch._stopping)]
    found["workers"] = dispatch.agents
    return found


def own_tasks() -> int:
    """Tasks of the hub and of its engine; stock clients' own do not count."""
    names = [str(task.get_coro()) for task in asyncio.all_tasks()]
    return sum("hub/" in name or "_websocket_handler" in name or "RequestHandler" in name for name in names)


async def settled(people: People, baseline: dict[str, Any]) -> None:
    await until(lambda: kept(people) == baseline, "the baseline", 10)
