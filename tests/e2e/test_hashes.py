"""Another process reads plain hashes from Redis while a hub works on it (hub/record/README.md)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgpack
import pytest
import redis.asyncio as redis

from tests.clients import Client
from tests.support import HubProcess, redis_process

SMALL_SECONDS, LARGE_SECONDS = 0.2, 2.0
PLAIN = ("id", "name", "type", "no", "user_id", "agent", "created_at", "last_message", "running", "paused")


def read_plain(name: str, raw: bytes | None) -> Any:
    if raw is None:
        return None
    text = raw.decode()
    if name in ("running", "paused"):
        return text == "true"
    return int(text) if name == "no" else text


async def read_document(server: Any, id: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The document and the log by HGETALL alone."""
    key = f"hub:ctx:{{{id}}}"
    main = await server.hgetall(key)
    document = {name: read_plain(name, main.pop(name.encode(), None)) for name in PLAIN}
    for name, raw in main.items():
        if name not in (b"epoch", b"last", b"tip", b"born", b"mirrored", b"held"):
            document[name.decode()] = msgpack.unpackb(raw)[1]
    for part in ("state", "output"):
        found = await server.hgetall(f"{key}:{part}")
        document[part] = {name.decode(): msgpack.unpackb(raw)[1] for name, raw in found.items()}
    log = [msgpack.unpackb(raw)[1] for raw in (await server.hgetall(f"{key}:log")).values()]
    return document, sorted(log, key=lambda entry: int(entry["no"]))


@pytest.mark.redis
@pytest.mark.timeout(90)
async def test_plain_hashes_equal_the_document(tmp_path: Path) -> None:
    folder = tmp_path / "redis"
    folder.mkdir()
    with redis_process(folder) as url, HubProcess(tmp_path, HUB_REDIS_URL=url) as hub:
        client = await Client(hub.url, hub.token).connect()
        server = redis.Redis.from_url(url)
        id = (await client.ok("context.create", name="hashes", state={"kept": 1}, key="a/1"))["id"]

        async def compare(seconds: float) -> None:
            await asyncio.sleep(seconds)  # not an effect that is waited for: the bound itself is what is tested
            reply = await client.ok("subscribe", topic=f"context:{id}", tail=1000)
            document, log = await read_document(server, id)
            assert document == reply["document"]
            assert log == reply["entries"]

        small = [
            {"op": "state.merge", "value": {"n": 1, "deep": {"x": [1, None, "ü"]}}},
            {"op": "output.set", "key": "result", "value": {"rows": 3}},
            {"op": "log.add", "id": "one", "type": "info", "heading": "A heading", "kvps": {"a": 1}},
            {"op": "log.append", "id": "one", "text": "some text"},
            {"op": "session_context.save", "value": {"goal": "to be read", "plan": ["first"]}},
            {"op": "progress.set", "text": "half way", "entry": "one"},
        ]
        for n, op in enumerate(small, 2):
            await client.ok("apply", context=id, ops=[op], key=f"a/{n}")
        await compare(SMALL_SECONDS)
        await client.ok("apply", context=id, ops=[{"op": "state.delete", "path": "/n"}], key="a/20")
        await client.ok("message", context=id, text="waits", key="a/21")
        await client.ok("context.update", context=id, name="renamed", key="a/22")
        await compare(SMALL_SECONDS)
        large = {"op": "output.set", "key": "large", "value": ["x" * 1000] * 200}
        await client.ok("apply", context=id, ops=[large], key="a/23")
        for n in range(24, 124):
            text = {"op": "log.append", "id": "one", "text": "streamed text " * 20}
            await client.ok("apply", context=id, ops=[text], key=f"a/{n}")
        await compare(LARGE_SECONDS)
        await server.aclose()
        await client.close()
