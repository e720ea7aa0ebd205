"""Which servers are refused at start, and what is said about them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from hub.core.errors import StartError, Unavailable
from hub.record.connection import Connection
from hub.record.lane import Command
from hub.record.memory import MemoryRecord
from hub.record.redis import RedisRecord
from hub.record.server_check import KEYS, check_server
from hub.record.valkey import server_binary
from hub.wire.messages import NoticePost
from tests.node.support import node_on
from tests.record.servers import running
from tests.record.test_uploads import upload
from tests.record.writer import Writer, pieces


async def refused(url: str) -> str:
    began = time.monotonic()
    record = RedisRecord(url)
    with pytest.raises(StartError) as caught:
        await record.start()
    assert time.monotonic() - began < 5
    return caught.value.message


async def test_durability_is_what_the_server_does(server: str) -> None:
    record = RedisRecord(server)
    await record.start()
    assert record.durability == "aof always"
    assert await record.ping() < 1
    await record.close()
    assert MemoryRecord().durability == "memory"


@pytest.mark.parametrize(
    ("settings", "durability"),
    [
        (["appendfsync everysec"], "aof everysec"),
        (["appendonly no"], "none"),
        (["appendonly no", "save 60 1"], "snapshots"),
    ],
)
async def test_other_durabilities(settings: list[str], durability: str) -> None:
    with running(server_binary(), *settings) as url:
        record = RedisRecord(url)
        await record.start()
        assert record.durability == durability
        await record.close()


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
async def test_a_policy_that_drops_keys_is_refused(policy: str) -> None:
    with running(server_binary(), f"maxmemory-policy {policy}") as url:
        assert "noeviction" in await refused(url)


@pytest.mark.parametrize("key", [key for key, kind in KEYS.items() if kind != "string"])
async def test_a_key_of_another_type_is_named_with_what_to_do(server: str, connection: Connection, key: str) -> None:
    await connection.run("SET", key, "x")
    message = await refused(server)
    assert f"the key {key} in the record at {server} is a string" in message
    assert f"DEL {key}" in message
    await connection.run("DEL", key)
    record = RedisRecord(server)
    await record.start()
    await record.close()


async def test_what_a_hub_keeps_is_of_the_types_that_are_checked(server: str, connection: Connection) -> None:
    async with node_on(RedisRecord(server)) as node:
        await node.notices.post(NoticePost(message="m"), "operator", None)
        await node.record.add_broadcast({})
        await node.record.note_uses(True)
        await Writer().create(node.record)
        await node.record.used(["ctx1"])
        await node.record.next_no()
        await node.record.put_upload(upload("u1"), pieces(b"x"))
        assert await connection.run("EXISTS", *KEYS) == len(KEYS)
        again = RedisRecord(server)
        await again.start()
        await again.close()


class Says:
    """A server that says of itself what a test wants."""

    address = "redis://somewhere"

    def __init__(self, **info: str) -> None:
        self.info = "".join(f"{name}:{value}\r\n" for name, value in info.items()).encode()

    async def run(self, *words: str) -> Any:
        return self.info if words == ("INFO",) else []

    async def many(self, commands: Sequence[Command]) -> list[bytes]:
        return [b"none" for _ in commands]


OLD_REDIS = {"redis_version": "6.2.14"}
REDIS = {"redis_version": "7.0.0"}
OLD_VALKEY = {"redis_version": "7.2.4", "valkey_version": "7.2.9"}
VALKEY = {"redis_version": "7.2.4", "valkey_version": "8.0.0"}


@pytest.mark.parametrize(
    ("info", "what"),
    [
        (OLD_REDIS, r"Redis 6\.2\.14: the hub needs Redis 7 or Valkey 8"),
        (OLD_VALKEY, r"Valkey 7\.2\.9: the hub needs"),
        (REDIS | {"redis_mode": "cluster"}, "cluster"),
        (VALKEY | {"server_mode": "cluster"}, "cluster"),
    ],
)
async def test_old_versions_and_clusters_are_refused(info: dict[str, str], what: str) -> None:
    server: Any = Says(**info)
    with pytest.raises(StartError, match=what):
        await check_server(server)


@pytest.mark.parametrize("info", [REDIS, VALKEY])
async def test_the_oldest_that_will_do(info: dict[str, str]) -> None:
    server: Any = Says(**info)
    assert await check_server(server) == "unknown", "some servers do not tell their settings"


async def test_a_wrong_password_is_said_without_the_password() -> None:
    with running(server_binary(), "requirepass secret") as url:
        message = await refused(url)
        assert "NOAUTH" in message or "uthentication" in message
        message = await refused(url.replace("unix://", "unix://user:wrongsecret@"))
        assert "wrongsecret" not in message


async def test_nobody_there() -> None:
    assert "redis://127.0.0.1:1/0" in await refused("redis://:hidden@127.0.0.1:1/0")
    assert "hidden" not in await refused("redis://:hidden@127.0.0.1:1/0")
    assert "/nowhere/at/all (no such file or directory). Is it" in await refused("unix:///nowhere/at/all")


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "nonsense", "", "redis://127.0.0.1:port/0", "redis://[::1"])
def test_not_a_url(url: str) -> None:
    with pytest.raises(StartError):
        RedisRecord(url)


@pytest.fixture
async def mute() -> AsyncIterator[str]:
    """A server that takes connections and says nothing."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.read(1000):
                pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield f"redis://127.0.0.1:{listening.sockets[0].getsockname()[1]}/0"
    listening.close()


async def test_one_that_says_nothing_is_given_up_within_five_seconds(mute: str) -> None:
    assert "answer" in await refused(mute)


async def test_one_of_another_kind() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        await refused(f"redis://127.0.0.1:{listening.sockets[0].getsockname()[1]}/0")
    finally:
        listening.close()


async def test_a_server_that_goes_is_unavailable_and_comes_back(server: str) -> None:
    """Connections that the server closes while they are idle are made anew without an error."""
    record = RedisRecord(server)
    await record.start()
    writer = Writer("gone")
    await writer.create(record)
    other = RedisRecord(server)
    await other._connection.run("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    assert await record.end("gone") is not None
    await record.close()
    await other.close()


async def test_away_is_unavailable() -> None:
    with running(server_binary()) as url:
        record = RedisRecord(url, timeout=1.0)
        await record.start()
        await Writer().create(record)
    began = time.monotonic()
    with pytest.raises(Unavailable):
        await record.end("ctx1")
    with pytest.raises(Unavailable):
        await Writer().create(record)
    with pytest.raises(Unavailable):
        await record.take("demo", "n1", 0.1)
    assert time.monotonic() - began < 5
    await record.close()
