"""Hubs on several databases of one server: its channels are the same for all of them, and none hears another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from hub.core.errors import StartError
from hub.record import names
from hub.record.connection import Connection
from hub.record.port import Following, Outcome
from hub.record.redis import RedisRecord
from hub.record.valkey import server_binary
from tests.record.conftest import KINDS
from tests.record.heard import Heard
from tests.record.servers import running, subscribers
from tests.record.writer import Writer, put
from tests.support import find_redis

Side = tuple[RedisRecord, Heard, Following]


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server with two databases."""
    with running(server_binary() if request.param == "valkey" else find_redis(), "databases 2") as url:
        yield url


@pytest.fixture
async def sides(server: str) -> AsyncIterator[list[Side]]:
    """A node on database 0, and one of the same name on database 1."""
    started: list[Side] = []
    for url in (server, f"{server}?db=1"):
        record, heard = RedisRecord(url), Heard()
        await record.start()
        following = record.follow("n1", heard)
        started.append((record, heard, following))
        await following.start()
        following.add(["ctx1"])
        await heard.until("followed", 1)
    yield started
    for record, _, hears in started:
        await hears.close()
        await record.close()


@pytest.mark.parametrize("speaks", [0, 1])
async def test_one_database_hears_nothing_of_another(sides: list[Side], speaks: int) -> None:
    record, heard, following = sides[speaks]
    writer = Writer()
    await writer.create(record, user_id="ann", name="a secret")
    assert (await writer.write(record, put("/state/a", 1))).outcome is Outcome.APPENDED
    await record.new_epoch("ctx1", "E1", "E2")
    await record.put_notice({"id": "put"})
    await record.drop_notices(["dropped"])
    await following.tell({"of": speaks})

    await heard.until("told", 1)
    assert [told.version.epoch for (told,) in await heard.until("row", 2)] == ["E1", "E2"]
    assert [epoch for _, epoch, *_ in await heard.until("appended", 3)] == ["E1", "E1", "E2"]
    assert await heard.until("notice", 2) == [("put",), ("dropped",)]

    _, other, others = sides[1 - speaks]
    await others.tell({"of": 1 - speaks})
    await other.until("told", 1)  # what was published before has come, or does not
    assert other.all == [("followed", "ctx1"), ("told", {"of": 1 - speaks})]
    assert not following.is_deaf
    assert not others.is_deaf


async def test_each_hears_its_own_echo_only(sides: list[Side], connection: Connection) -> None:
    for channel in (names.NODES, names.ROWS, names.NOTICES, names.node("n1", "echo")):
        assert await subscribers(connection, channel) == 1
        assert await subscribers(connection, f"{channel}@1") == 1


@pytest.mark.parametrize(
    ("url", "db"),
    [
        ("redis://h", 0),
        ("redis://h/", 0),
        ("redis://h/3", 3),
        ("redis://h?db=4", 4),
        ("unix:///a/b", 0),
        ("unix:///a/b?db=2", 2),
    ],
)
def test_the_database_of_a_url(url: str, db: int) -> None:
    connection = Connection(url)
    assert connection.db == db
    assert connection.channel("hub:rows") == ("hub:rows" if db == 0 else f"hub:rows@{db}")


@pytest.mark.parametrize("url", ["redis://:hidden@h/abc", "redis://h/1abc", "redis://h/3/4", "rediss://h/-1"])
def test_a_path_that_is_no_database_is_refused(url: str) -> None:
    with pytest.raises(StartError, match=r"redis://HOST:PORT/0") as caught:
        RedisRecord(url)
    assert "hidden" not in caught.value.message


async def test_a_database_that_the_server_has_not(server: str) -> None:
    with pytest.raises(StartError, match="DB index"):
        await RedisRecord(f"{server}?db=2").start()


def test_the_context_of_a_live_channel() -> None:
    for id in ("a", "}:live", "{x}@1"):
        for db in (0, 12):
            assert names.context_of_live(names.channel(names.part(id, "live"), db)) == id
