"""One connection on which commands follow each other: whoever asks gets the own answer, or an error, and never another's."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import redis.exceptions as errors
from redis.asyncio import ConnectionPool

from hub.record.connection import Connection
from hub.record.lane import Lane
from tests.support import until

SECONDS = 20


def lane_to(url: str) -> Lane:
    pool: Any = ConnectionPool.from_url(url, protocol=2, client_name="lane")
    return Lane(pool.make_connection)


@pytest.fixture
async def lane(server: str) -> AsyncIterator[Lane]:
    lane = lane_to(server)
    yield lane
    await lane.close()


def readers() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task.get_name() == "redis answers"]


async def lanes_of(connection: Connection) -> list[bytes]:
    """The ids of the connections that lanes have at the server."""
    clients: bytes = await connection.run("CLIENT", "LIST")
    return [line.split()[0].removeprefix(b"id=") for line in clients.splitlines() if b"name=lane " in line]


async def test_answers_come_in_the_order_of_the_commands(lane: Lane) -> None:
    async with asyncio.timeout(SECONDS):
        answers = await asyncio.gather(*(lane.run([("ECHO", n), ("ECHO", f"{n}b")]) for n in range(100)))
    assert answers == [[b"%d" % n, b"%db" % n] for n in range(100)]


async def test_an_error_stands_in_the_place_of_its_answer(lane: Lane) -> None:
    first, second, third = await lane.run([("ECHO", "a"), ("NONSENSE",), ("ECHO", "b")])
    assert (first, third) == (b"a", b"b")
    assert isinstance(second, errors.ResponseError)


async def test_no_commands_have_no_answers(lane: Lane) -> None:
    async with asyncio.timeout(SECONDS):
        assert await lane.run([]) == []
        assert await lane.run([("ECHO", "a")]) == [b"a"]


async def test_what_cannot_be_sent_takes_nobodys_answer(lane: Lane) -> None:
    with pytest.raises(TypeError):
        await lane.run([("ECHO", "a"), ("ECHO", None)])
    async with asyncio.timeout(SECONDS):
        assert await lane.run([("ECHO", "b")]) == [b"b"]
        assert await lane.run([("ECHO", "c")]) == [b"c"]


@pytest.mark.parametrize("seed", range(4))
async def test_nobody_gets_an_answer_of_another(lane: Lane, connection: Connection, seed: int) -> None:
    """Callers that end early, connections that are cut, texts of every size, some of them larger than a socket takes."""
    rng = random.Random(seed)
    answered = 0

    async def ask(n: int) -> None:
        nonlocal answered
        text = f"{n}:".encode() + b"x" * rng.choice((0, 0, 10, 1_000, 300_000))
        commands = [("ECHO", text + b"%d" % part) for part in range(rng.randint(1, 4))]
        try:
            answers = await lane.run(commands)
        except errors.ConnectionError:
            return
        assert answers == [command[1] for command in commands]
        answered += 1

    async with asyncio.timeout(SECONDS):
        for round in range(60):
            asking = [asyncio.create_task(ask(round * 100 + n)) for n in range(rng.randint(1, 8))]
            for _ in range(rng.randint(0, 12)):
                await asyncio.sleep(0)
            if rng.random() < 0.4:
                rng.choice(asking).cancel()
            if rng.random() < 0.2:
                for id in await lanes_of(connection):
                    await connection.run("CLIENT", "KILL", "ID", id)
            for outcome in await asyncio.gather(*asking, return_exceptions=True):
                assert outcome is None or isinstance(outcome, asyncio.CancelledError), outcome
        assert await lane.run([("ECHO", "end")]) == [b"end"]
    assert answered > 60
    assert len(readers()) == 1
    assert len(await lanes_of(connection)) == 1


async def test_a_closed_one_connects_no_more(server: str, connection: Connection) -> None:
    lane = lane_to(server)
    asking = asyncio.create_task(lane.run([("ECHO", "a")]))  # connects still
    await asyncio.sleep(0)
    await lane.close()
    for late in (asking, lane.run([("ECHO", "b")])):
        with pytest.raises(errors.ConnectionError):
            await late
    assert readers() == []
    assert await lanes_of(connection) == []


async def test_who_waits_for_the_connection_and_ends_costs_the_others_nothing(lane: Lane) -> None:
    first = asyncio.create_task(lane.run([("ECHO", "a")]))
    await asyncio.sleep(0)
    second = asyncio.create_task(lane.run([("ECHO", "b")]))
    await asyncio.sleep(0)
    second.cancel()
    async with asyncio.timeout(SECONDS):
        assert await first == [b"a"]


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def speaking(path: Path, talk: Talk) -> AsyncIterator[Lane]:
    """A lane to a server that greets as it should, then talks like that."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while b"ECHO" not in (asked := await reader.read(65_536)):
                if not asked:
                    return
                writer.write(b"+OK\r\n" * asked.upper().count(b"\r\nCLIENT\r\n"))
            await talk(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_unix_server(serve, path)
    lane = lane_to(f"unix://{path}")
    try:
        yield lane
    finally:
        await lane.close()
        server.close()


async def test_an_answer_that_nobody_asked_for_ends_the_connection(tmp_path: Path) -> None:
    talked = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal talked
        talked += 1
        writer.write(b"+first\r\n+nobodys\r\n")
        await reader.read()

    async with speaking(tmp_path / "s", talk) as lane, asyncio.timeout(SECONDS):
        for n in range(1, 4):
            assert await lane.run([("ECHO", "a")]) == [b"first"]
            assert talked == n
            await until(lambda: not readers(), "the end of the connection")


@pytest.mark.parametrize("answer", [b"", b"+fi", b"$9\r\nfirst", b"?nonsense\r\n"])
async def test_what_breaks_in_the_middle_of_an_answer_is_an_error(tmp_path: Path, answer: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"+first\r\n" + answer)

    async with speaking(tmp_path / "s", talk) as lane, asyncio.timeout(SECONDS):
        with pytest.raises(errors.ConnectionError):
            await lane.run([("ECHO", "a"), ("ECHO", "b")])
        assert await lane.run([("ECHO", "a")]) == [b"first"]
