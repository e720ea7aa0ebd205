"""A node beside what no hub wrote: it starts, and its topics have everything else."""

from __future__ import annotations

import pytest

from hub.core.requests import Role
from hub.node.rights import Identity
from hub.record.connection import Connection
from hub.record.packing import pack
from hub.record.redis import RedisRecord
from hub.wire.messages import NoticePost
from tests.node.support import create, incr, node_on, ok

OPERATOR = Identity("op", Role.OPERATOR)


@pytest.mark.parametrize("when", ["before it starts", "while it serves"])
async def test_a_node_starts_and_serves_beside_it(valkey: Connection, valkey_server: str, when: str) -> None:
    async def spoil() -> None:
        await valkey.many(
            [
                ("SET", "hub:ctx:{broken}", "x"),
                ("HSET", "hub:ctx:{damaged}", "epoch", "e", "last", "zz", "tip", "t", "no", "NaN", "mirrored", "zz"),
                ("ZADD", "hub:contexts", 1, "broken", 2, "damaged", 3, b"\xff", "+inf", "never"),
                ("HSET", "hub:notices", "empty", pack(["m", {}]), b"\xff", b"\xff"),
                ("PUBLISH", "hub:notices", "empty"),
                ("HSET", "hub:nodes", "n1", b"1 " + pack({"agents": 5, "beat": [1]}), "n2", "x"),
                ("XADD", "hub:broadcasts", "*", "broadcast", b"\xff"),
            ]
        )

    async with node_on(RedisRecord(valkey_server)) as node:
        await create(node, "good")
        await node.notices.post(NoticePost(message="m", id="good"), "operator", None)
    if when == "before it starts":
        await spoil()
    async with node_on(RedisRecord(valkey_server)) as node:
        if when == "while it serves":
            await spoil()
        page = await node.listing.page(OPERATOR, None, 10, types=lambda kind: True)
        assert [row["id"] for row in page["rows"]] == ["good"]
        assert page.keys() == {"rows"}
        await ok(node, incr("good"))
        assert await node.notices.find("empty") is None
        assert [row["id"] for row in (await node.notices.rows(OPERATOR))["rows"]] == ["good"]
