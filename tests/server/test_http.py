"""The HTTP side: health, uploads, headers, origins, the page."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from hub import __version__
from hub.core.errors import Unavailable
from hub.core.requests import Role
from hub.node.settings import Settings
from hub.record.memory import MemoryRecord
from hub.server import http, load
from tests.clients import People, refusal, serving
from tests.support import until

LIMIT = 1_000_000


@pytest.fixture
async def people(tmp_path: Path) -> AsyncIterator[People]:
    async with serving(tmp_path / "hub", settings=Settings(upload_bytes=LIMIT)) as people:
        yield people


@pytest.fixture
async def web(people: People) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(people.server.url) as session:
        yield session


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def upload(web: aiohttp.ClientSession, token: str, data: Any, name: str = "a.txt", **headers: str) -> Any:
    async with web.post("/api/v1/uploads", params={"name": name}, data=data, headers=bearer(token) | headers) as answer:
        return answer.status, await answer.json()


async def test_health(people: People, web: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch) -> None:
    await (await people.operator()).ok("context.create", id="c")
    async with web.get("/healthz") as answer:
        body = await answer.json()
        assert answer.status == 200
        assert (body["status"], body["contexts"], body["connections"]) == ("ok", 1, 1)
        assert body["record"]["durability"] == "memory"

    async def away() -> float:
        raise Unavailable("no answer")

    monkeypatch.setattr(people.server.node.record, "ping", away)
    async with web.get("/healthz") as answer:
        assert answer.status == 503
        assert (await answer.json())["status"] == "degraded"


async def test_a_record_that_takes_no_writes_is_not_well(
    people: People, web: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people.server.node.presence, "refused", "its memory is full")
    async with web.get("/healthz") as answer:
        assert answer.status == 503
        assert (await answer.json())["reason"] == "the record takes no writes: its memory is full"


async def test_health_says_what_an_answered_change_survives(everywhere: People) -> None:
    in_memory = isinstance(everywhere.server.node.record, MemoryRecord)
    async with aiohttp.ClientSession(everywhere.server.url) as web, web.get("/healthz") as answer:
        durability = (await answer.json())["record"]["durability"]
    assert durability == ("memory" if in_memory else "aof always")


async def test_a_node_that_does_not_hear_the_others_is_not_well(
    people: People, web: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    following = people.server.node.hearing._following
    op = await people.operator()
    with monkeypatch.context() as deaf:
        deaf.setattr(type(following), "is_deaf", True)
        async with web.get("/healthz") as answer:
            body = await answer.json()
            assert (answer.status, body["status"]) == (503, "degraded")
            assert "does not hear the others" in body["reason"]
    async with web.get("/healthz") as answer:
        assert answer.status == 200
    assert not op.of("hub.degraded"), "reads and writes go on"


async def test_operators_see_the_nodes(people: People, web: aiohttp.ClientSession) -> None:
    node = people.server.node
    async with web.get("/api/v1/nodes", headers=bearer(people.server.token)) as answer:
        assert answer.status == 200
        (row,) = (await answer.json())["nodes"]
    assert row["name"] == node.name
    assert 0 <= row["age"] < 10
    info = row["info"]
    assert (info["version"], info["pid"], info["draining"]) == (__version__, os.getpid(), False)
    assert people.server.info().keys() <= info.keys()
    for role in (Role.USER, Role.AGENT, Role.VIEWER):
        token = people.token("ann", role, "*")
        for method, path in (("GET", "/api/v1/nodes"), ("POST", "/api/v1/drain")):
            async with web.request(method, path, headers=bearer(token)) as answer:
                assert answer.status == 403
                refusal(await answer.json(), "forbidden")
    async with web.get("/api/v1/nodes") as answer:
        assert answer.status == 401
    async with web.post("/api/v1/drain", json={"node": "x"}, headers=bearer(people.server.token)) as answer:
        assert answer.status == 404
        assert node.name in refusal(await answer.json(), "not_found")["message"]


async def test_what_a_node_says_of_itself(people: People) -> None:
    op = await people.operator()
    await op.ok("agent.serve", agent="bot", capacity=1)
    await op.ok("context.create", id="c", agent="bot")
    await op.ok("message", context="c", text="go")
    await op.next("run.start")
    info = people.server.info()
    assert {name: info[name] for name in ("contexts", "connections", "agents", "runs")} == {
        "contexts": 1,
        "connections": 1,
        "agents": ["bot"],
        "runs": 1,
    }
    assert info["record_lag"] == 0.0


async def test_how_busy_a_process_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "TICK", 0.02)
    monkeypatch.setattr(load, "SECONDS", 0.2)
    busy = load.Load()
    busy.start()
    await until(lambda: busy.lag_ms > 0)
    time.sleep(0.3)  # noqa: ASYNC251 the loop is blocked, without work
    await until(lambda: busy.lag_ms >= 200)
    assert busy.cpu < 0.7
    idle, end = busy.cpu, time.process_time() + 0.5
    while time.process_time() < end:  # blocked, with work; other processes may take most of the time
        pass
    await until(lambda: busy.cpu > idle + 0.05)
    busy.stop()


async def test_a_file_goes_up_and_comes_down(tmp_path: Path) -> None:
    async with serving(tmp_path / "hub", record="embedded") as people, aiohttp.ClientSession(people.server.url) as web:
        ann = people.token("ann", Role.USER)
        data = bytes(range(256)) * 5000
        status, reply = await upload(web, ann, io.BytesIO(data), "report.csv")
        assert status == 200
        kept = reply["upload"]
        assert (kept["name"], kept["size"], kept["type"]) == ("report.csv", len(data), "text/csv")
        client = await people.user("ann")
        await client.ok("context.create", id="c", agent="nobody")
        await client.ok("message", context="c", attachments=[{"id": kept["id"], "name": "../etc/passwd", "size": 1}])
        attachment = (await client.ok("context.get", context="c"))["document"]["queue"][0]["attachments"][0]
        assert attachment == {"id": kept["id"], "name": "report.csv", "size": len(data), "type": "text/csv"}
        agent = people.token("bot", Role.AGENT, "c")
        for token in (ann, agent, people.server.token):
            async with web.get(f"/api/v1/uploads/{kept['id']}", headers=bearer(token)) as answer:
                assert answer.status == 200
                assert await answer.read() == data
                assert answer.headers["Content-Type"] == "application/octet-stream"
                assert answer.headers["Content-Disposition"] == "attachment; filename*=UTF-8''report.csv"
        bob = people.token("bob", Role.USER)
        async with web.get(f"/api/v1/uploads/{kept['id']}", headers=bearer(bob)) as answer:
            assert answer.status == 404
            refusal(await answer.json(), "not_found")
        other = await people.user("bob")
        await other.ok("context.create", id="d", agent="nobody")
        await other.refused("message", "not_found", context="d", attachments=[{"id": kept["id"]}])


@pytest.mark.parametrize("size", [0, 1, LIMIT - 1, LIMIT])
async def test_sizes_up_to_the_limit(people: People, web: aiohttp.ClientSession, size: int) -> None:
    status, reply = await upload(web, people.server.token, b"x" * size)
    assert (status, reply["upload"]["size"]) == (200, size)


@pytest.mark.parametrize("chunked", [False, True])
async def test_one_byte_above_the_limit(people: People, web: aiohttp.ClientSession, chunked: bool) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(LIMIT // 50_000):
            yield b"x" * 50_000
        yield b"x"

    status, reply = await upload(web, people.server.token, pieces() if chunked else b"x" * (LIMIT + 1))
    assert status == 413
    assert refusal(reply, "too_large")["details"] == {"limit": LIMIT}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\temp\\evil.exe", "evil.exe"),
        ("a\r\nSet-Cookie: x=1", "aSet-Cookie: x=1"),
        ("\u202etxt.exe", "txt.exe"),
        ("ü 😀.txt", "ü 😀.txt"),
        ('quo"te;.txt', 'quo"te;.txt'),
        ("n" * 300, "n" * 200),
        ("a\0b", "ab"),
    ],
)
async def test_names_are_made_harmless(people: People, web: aiohttp.ClientSession, given: str, kept: str) -> None:
    status, reply = await upload(web, people.server.token, b"x", given)
    assert (status, reply["upload"]["name"]) == (200, kept)
    async with web.get(f"/api/v1/uploads/{reply['upload']['id']}", headers=bearer(people.server.token)) as answer:
        assert answer.headers["Content-Disposition"].startswith("attachment; filename*=UTF-8''")
        assert "Set-Cookie" not in answer.headers
        assert await answer.read() == b"x"


@pytest.mark.parametrize("name", ["", "/", "..", ".", "a/..", "\n"])
async def test_a_file_has_a_name(people: People, web: aiohttp.ClientSession, name: str) -> None:
    status, reply = await upload(web, people.server.token, b"x", name)
    assert status == 400
    refusal(reply, "invalid_request")


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer x", "Basic x", "bearer  "])
async def test_nobody_without_a_token(people: People, web: aiohttp.ClientSession, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    async with web.post("/api/v1/uploads?name=a", data=b"x", headers=headers) as answer:
        assert answer.status == 401
        refusal(await answer.json(), "unauthorized")
    async with web.get("/api/v1/uploads/x", headers=headers) as answer:
        assert answer.status == 401
    viewer = people.token("eve", Role.VIEWER, "*")
    assert (await upload(web, viewer, b"x"))[0] == 403
    assert (await upload(web, people.token("ann", Role.USER, ttl=-5), b"x"))[0] == 401


async def test_an_upload_expires(people: People, web: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch) -> None:
    status, reply = await upload(web, people.server.token, b"x")
    assert status == 200
    record: Any = people.server.node.record
    later = record._clock() + http.UPLOAD_SECONDS + 1
    monkeypatch.setattr(record._uploads, "_clock", lambda: later)
    async with web.get(f"/api/v1/uploads/{reply['upload']['id']}", headers=bearer(people.server.token)) as answer:
        assert answer.status == 404
    op = await people.operator()
    await op.ok("context.create", id="c")
    error = await op.refused("message", "not_found", context="c", attachments=[{"id": reply["upload"]["id"]}])
    assert "expired" in error["message"]


async def test_security_headers_on_every_answer(
    people: People, web: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*args: Any) -> Any:
        raise RuntimeError("a fault for the test")

    monkeypatch.setattr(people.server.node.record, "get_upload", broken)
    token = bearer(people.server.token)
    status = {}
    for method, path, headers in (
        ("GET", "/", {}),
        ("GET", "/c/aB3d9XqZ", {}),
        ("GET", "/healthz", {}),
        ("GET", "/nothing/here", {}),
        ("GET", "/assets/nothing.js", {}),
        ("GET", "/assets/../../server.py", {}),
        ("PUT", "/healthz", {}),
        ("POST", "/api/v1/uploads?name=a", {}),
        ("POST", "/api/v1/uploads?name=a", token),
        ("GET", "/api/v1/uploads/x", token),
        ("GET", "/socket.io/?EIO=4&transport=polling", {}),
        ("GET", "/socket.io/?EIO=4&transport=polling", {"Origin": "https://evil.example"}),
        ("GET", "/socket.io/?EIO=3&transport=polling", {}),
        ("POST", "/socket.io/?EIO=4&transport=polling&sid=x", {}),
    ):
        async with web.request(method, path, headers=headers) as answer:
            status[method, path, bool(headers)] = answer.status
            assert answer.headers["X-Content-Type-Options"] == "nosniff", path
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'self'" in policy, path
            assert "unsafe" not in policy
    assert status["GET", "/nothing/here", False] == 404
    assert status["PUT", "/healthz", False] == 405
    assert status["GET", "/api/v1/uploads/x", True] == 500
    async with web.get("/nothing/here") as answer:
        refusal(await answer.json(), "not_found")
    async with web.get("/api/v1/uploads/x", headers=token) as answer:
        assert "a fault" not in refusal(await answer.json(), "internal")["message"]


OWN, NAMED, FOREIGN = "own", "https://named.example", "https://evil.example"


@pytest.mark.parametrize("transport", ["polling", "websocket"])
@pytest.mark.parametrize("path", ["/socket.io/", "/msgpack/socket.io/"])
@pytest.mark.parametrize(
    ("origins", "allowed", "refused"),
    [
        (None, [OWN, None], [NAMED, FOREIGN, "null", "http://127.0.0.1", "http://localhost:1"]),
        ([], [OWN], [FOREIGN, "null"]),
        ([NAMED], [OWN, NAMED], [FOREIGN, "null", NAMED + ".evil.example"]),
    ],
)
async def test_origins(
    tmp_path: Path, transport: str, path: str, origins: list[str] | None, allowed: list[Any], refused: list[Any]
) -> None:
    async with serving(tmp_path / "hub", origins=origins) as people, aiohttp.ClientSession(people.server.url) as web:
        for origin, passes in [(origin, True) for origin in allowed] + [(origin, False) for origin in refused]:
            own = people.server.url if origin == OWN else origin
            headers = {} if own is None else {"Origin": own}
            address = f"{path}?EIO=4&transport={transport}"
            if transport == "polling":
                async with web.get(address, headers=headers) as answer:
                    assert (answer.status == 200) is passes, origin
                    if not passes:
                        assert "Access-Control-Allow-Origin" not in answer.headers
            elif passes:
                async with web.ws_connect(address, headers=headers) as ws:
                    assert json.loads((await ws.receive_str(timeout=5))[1:])["sid"]
            else:
                with pytest.raises(aiohttp.WSServerHandshakeError):
                    await web.ws_connect(address, headers=headers)


async def test_same_origin_behind_a_tls_proxy(people: People, web: aiohttp.ClientSession) -> None:
    headers = {"Host": "hub.example", "X-Forwarded-Proto": "https"}
    for origin, status in (("https://hub.example", 200), ("http://hub.example", 400), ("https://x.example", 400)):
        async with web.get("/socket.io/?EIO=4&transport=polling", headers=headers | {"Origin": origin}) as answer:
            assert answer.status == status, origin


async def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    static = tmp_path / "static"
    (static / "assets").mkdir(parents=True)
    (static / "index.html").write_text("<!doctype html><title>hub</title>")
    (static / "assets" / "main-1a2b.js").write_text("export {};")
    (static / "favicon.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (tmp_path / "secret").write_text("no")
    monkeypatch.setattr(http, "STATIC", static)
    async with serving(tmp_path / "hub") as people, aiohttp.ClientSession(people.server.url) as web:
        for path, kind in (
            ("/", "text/html"),
            ("/c/aB3d9XqZ", "text/html"),
            ("/assets/main-1a2b.js", ("text/javascript", "application/javascript")),
            ("/favicon.svg", "image/svg+xml"),
        ):
            async with web.get(path) as answer:
                assert answer.status == 200, path
                assert answer.headers["Content-Type"].startswith(kind)
                assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
        for path in ("/assets/", "/assets/%2e%2e/%2e%2e/secret", "/index.html", "/c/", "/c/a/b"):
            async with web.get(path) as answer:
                assert answer.status in (403, 404), path
                assert "default-src" in answer.headers["Content-Security-Policy"]
