"""Whether a Redis or Valkey server can hold a record, and what it survives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from redis.exceptions import AuthenticationError, ResponseError

from hub.core.errors import HubError, StartError, Unavailable
from hub.record import names
from hub.record.connection import Connection, causes, pairs, reason_of

ANSWER_SECONDS: Final = 4.0
"""A server that does not answer at all within this is given up."""
_LOOK_SECONDS: Final = 0.2

KEYS: Final = {
    names.CONTEXTS: "zset",
    names.USED: "zset",
    names.NODES: "hash",
    names.NOTICES: "hash",
    names.UPLOADS: "hash",
    names.BROADCASTS: "stream",
    names.NO: "string",
}
"""The types of the keys that all contexts share."""

Progress = Callable[[str], None]
"""Told now and then how far a server is with loading its data."""

Info = dict[str, str]


async def check_server(connection: Connection, progress: Progress | None = None) -> str:
    """Wait until the server has loaded its data, and check it. Returns the durability.

    Raises StartError that says what to do.
    """
    info = await _loaded_info(connection, progress)
    _check_kind(info, connection.address)
    settings = await _settings(connection)
    policy = settings.get("maxmemory-policy") or info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise StartError(
            f"the Redis at {connection.address} may drop keys when its memory is full (maxmemory-policy {policy}), and "
            "what the hub has answered must stay: set maxmemory-policy to noeviction"
        )
    await _check_keys(connection)
    return _durability(info, settings)


async def _check_keys(connection: Connection) -> None:
    types = await connection.many([("TYPE", key) for key in KEYS])
    for (key, wanted), raw in zip(KEYS.items(), types, strict=True):
        found = raw.decode()
        if found not in (wanted, "none"):
            raise StartError(
                f"the key {key} in the record at {connection.address} is a {found}, and the hub keeps a {wanted} there: "
                f"something else wrote it. Move it away (RENAME {key} NEWKEY) or delete it (DEL {key}), or give the hub a "
                "database of its own"
            )


async def _loaded_info(connection: Connection, progress: Progress | None) -> Info:
    while True:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                info = parse_info(await connection.run("INFO"))
        except (HubError, TimeoutError) as error:
            cause = None if isinstance(error, TimeoutError) else error.__cause__
            reason = reason_of(cause) if cause else "it says nothing"
            if any(isinstance(one, ResponseError | AuthenticationError) for one in causes(error)):
                raise StartError(
                    f"the Redis at {connection.address} refuses the hub ({reason}): is --redis (HUB_REDIS_URL) right?"
                ) from error
            raise StartError(
                f"no Redis answers at {connection.address} ({reason}). Is it running, and is --redis (HUB_REDIS_URL) "
                "right? Without it the hub brings a server of its own"
            ) from error
        if info.get("loading", "0") == "0":
            return info
        if progress is not None:
            progress(f"loading the record: {info.get('loading_loaded_perc', '?')} %")
        await asyncio.sleep(_LOOK_SECONDS)


def _check_kind(info: Info, address: str) -> None:
    name, version, least = "Redis", info.get("redis_version", "0"), 7
    if "valkey_version" in info:
        name, version, least = "Valkey", info["valkey_version"], 8
    if int(version.partition(".")[0] or 0) < least:
        raise StartError(f"the server at {address} is {name} {version}: the hub needs Redis 7 or Valkey 8, or newer")
    if info.get("redis_mode", info.get("server_mode", "standalone")) == "cluster":
        raise StartError(f"the server at {address} is a node of a cluster, which this version of the hub cannot use")


async def _settings(connection: Connection) -> dict[str, str]:
    """The settings that matter; none where the server does not tell (some hosted ones do not)."""
    try:
        found: list[bytes] = []
        for name in ("appendonly", "appendfsync", "maxmemory-policy", "save"):
            found += await connection.run("CONFIG", "GET", name)
    except Unavailable:
        raise
    except HubError:
        return {}
    return {name.decode(): value.decode() for name, value in pairs(found).items()}


def _durability(info: Info, settings: dict[str, str]) -> str:
    if settings.get("appendonly", "yes" if info.get("aof_enabled") == "1" else "no") == "yes":
        return f"aof {settings.get('appendfsync', 'unknown')}"
    if not settings:
        return "unknown"
    return "snapshots" if settings.get("save") else "none"


def parse_info(raw: bytes) -> Info:
    """What INFO answers, by name."""
    lines = (line.partition(":") for line in raw.decode(errors="replace").splitlines() if not line.startswith("#"))
    return {name: value for name, colon, value in lines if colon}
