"""A process that sends many requests as fast as it is let, counts the answers, and tells what came of it in JSON."""

from __future__ import annotations

import json
import select
import sys
from collections import Counter

from scripts.benchmarks.frames import client_frame
from scripts.benchmarks.link import Link, LinkError
from scripts.benchmarks.viewers import Way
from tests.trials.load import JSON


def flood(link: Link, count: int) -> dict[str, object]:
    """Ask for ``count`` subscriptions. Answers by their code, and what the hub said when it ended the connection."""
    out = b"".join(
        client_frame(f'42{n}["subscribe",{{"topic":"context:s{n}","deliver":"patch"}}]'.encode()) for n in range(count)
    )
    codes: Counter[str] = Counter()
    at, farewell = 0, None
    link.sock.setblocking(False)
    try:
        while codes.total() < count:
            ready = select.select([link.sock], [link.sock] if at < len(out) else [], [], 20)
            if ready[1]:
                at += link.sock.send(out[at : at + 65_536])
            if not ready[0]:
                if not ready[1]:
                    break
                continue
            for packet in link.packets():
                if packet.startswith(b"43"):
                    reply = json.loads(packet[packet.index(b"[") :])[0]
                    codes["ok" if reply["ok"] else reply["error"]["code"]] += 1
                elif packet.startswith(b'42["hub.disconnect"'):
                    farewell = json.loads(packet[2:])[1]
    except (LinkError, OSError):
        pass
    return {"codes": dict(codes), "farewell": farewell}


if __name__ == "__main__":
    port, token, count = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    link = Link(Way(port, JSON, json.dumps({"token": token}), None), binary=False)
    print(json.dumps(flood(link, count)))  # noqa: T201
