"""What a hub keeps: to be the same again when what came has gone."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import hub
from hub.server.carriers import PollingSocket
from hub.server.line import WebSocketLine
from tests.clients import People
from tests.support import until

_OWN = (f"{Path(hub.__file__).parent}/", "/aiohttp/web_", "/engineio/async_server", "/engineio/async_socket")
"""Where the code of such tasks stands."""


def kept(people: People) -> dict[str, Any]:
    """Everything that grows with connections and what they ask."""
    server: Any = people.server
    node = server.node
    found: dict[str, Any] = {}
    gc.collect()
    alive = gc.get_objects()
    for path, sockets in server.sockets.servers.items():
        found[path] = {
            "engine sockets": len(sockets.eio.sockets),
            "outboxes": len(sockets.outboxes),
            "lines": sum(isinstance(thing, WebSocketLine) and thing._owner is sockets for thing in alive),
            "polling": sum(isinstance(thing, PollingSocket) and thing.server is sockets.eio for thing in alive),
        }
    found["sessions"] = len(server.sockets._sessions)
    found["expiry"] = len(server.sockets._expiry)
    found["viewers"] = sum(len(live.audience.room.members) for live in node.contexts)
    for topic in (node.listing.topic, node.notices.topic):
        found[topic.topic] = (len(topic._rooms), len(topic._identities), len(topic._patterned))
    dispatch = node.dispatch
    runs = dispatch._runs
    found["dispatch"] = [dispatch.runs, len(runs.workers._held)]
    found["dispatch"] += [len(runs.ends), len(runs._coming), len(runs._stopping), len(runs.notes._noted)]
    found["workers"] = dispatch.agents
    return found


def own_tasks(*, lanes: bool = True) -> int:
    """Tasks of the hub and of its engine; stock clients' own do not count. ``lanes``: also those of connections to the record,
    which are made when a script is run."""
    codes = [getattr(task.get_coro(), "cr_code", None) for task in asyncio.all_tasks()]
    files = [code.co_filename for code in codes if code is not None]
    return sum(any(part in file for part in _OWN) and (lanes or not file.endswith("/lane.py")) for file in files)


async def settled(people: People, baseline: dict[str, Any]) -> None:
    await until(lambda: kept(people) == baseline, "the baseline", 10)
