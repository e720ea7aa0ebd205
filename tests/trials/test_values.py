"""The same value, or the same error, whatever way it comes in, and whoever looks: hub/core/values.py has the one rule.

Trials P1, P2, P3, P4, R6, R7.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgpack
import pytest
import redis.asyncio as redis

import hub
from hub import AgentContext, HubError
from hub.core.values import same
from hub.node.inprocess import NodeLink
from hub.record.embedded import socket_url
from tests.clients import Follower, People, Talk, refusal, serving
from tests.core.odd import endless, nested
from tests.raw import raw
from tests.registries import own_registry
from tests.support import until
from tests.trials.stock import Node, node
from tests.trials.ways import (
    PLACES,
    AtTheSender,
    Facade,
    JavaScript,
    Way,
    Wire,
    from_json,
    from_msgpack,
    json_text,
    operations,
    packed,
)

LONG_KEY = "k" * 20_000
GOOD: dict[str, tuple[Any, Any]] = {
    name: given if isinstance(given, tuple) else (given, given)
    for name, given in {
        "null": None,
        "booleans": [True, False],
        "empty": ["", [], {}, [[]], [{}]],
        "text": "plain ä 語 😀 \u2028 \x7f \ufeff <b>&",
        "NUL": "a\0b\0",
        "controls": "\x01\x1f\t\r\n\x1b[31m",
        "noncharacters": "\ufffe\uffff\U0010ffff",
        "lone high surrogate": ("a\ud800b", "a\ufffdb"),
        "lone low surrogate": ("\udfff", "\ufffd"),
        "surrogates in the wrong order": ("\ude00\ud83d", "\ufffd\ufffd"),
        "a surrogate pair": ("\ud83d\ude00", "😀"),
        "a surrogate in a key": ({"\ud800k": 1}, {"\ufffdk": 1}),
        "keys that become one": (dict([("\ud800", 1), ("\udfff", 2)]), {"\ufffd": 2}),  # noqa: C406
        "largest integer": 2**53 - 1,
        "smallest integer": -(2**53) + 1,
        "integers": [0, 127, 128, 255, 256, 65_536, 2**31, 2**32, 2**40, -1, -32, -33, -129, -(2**31) - 1, -(2**40)],
        "minus zero": -0.0,
        "one as float": 1.0,
        "floats": [0.1, -1.5e-7, 5e-324, 2.5, 2**52 + 0.5, 0.1 + 0.2],
        "large floats": [1e308, 1.7976931348623157e308, 1e21, -1.5e300],
        "empty key": {"": {"": 1}},
        "key with NUL": {"a\0b": 1, "\0": 2},
        "numeric keys": {"2": "b", "1": "a", "-1": 0, "01": 1},
        "keys of objects": {"constructor": {"prototype": 1}, "toString": 2, "hasOwnProperty": [3], "__class__": 4},
        "keys of pointers": {"a/b": 1, "~": {"~1": 2}, "/": 3, "-": 4},
        "surprises": {"$ref": "#", "_placeholder": True, "num": 0, "toJSON": "x", "then": 1, "length": -1},
        "a long key": {"k" * 60: 1},
        "nested": nested(63),
    }.items()
}

BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "2**53": (lambda: 2**53, ""),
    "-(2**53)": (lambda: [-(2**53)], "/0"),
    "2**53+1": (lambda: {"n": 2**53 + 1}, "/n"),
    "2**64": (lambda: [0, 2**64], "/1"),
    "-2**63-1": (lambda: -(2**63) - 1, ""),
    "a hundred digits": (lambda: {"a": [10**100]}, "/a/0"),
    "ten thousand digits": (lambda: {"a": 10**9_999}, "/a"),
    "NaN": (lambda: float("nan"), ""),
    "Infinity": (lambda: {"x": [1, float("inf")]}, "/x/1"),
    "-Infinity": (lambda: {"a/b": {"~": -float("inf")}}, "/a~1b/~0"),
    "key 1": (lambda: {"k": {1: 2}}, "/k"),
    "key None": (lambda: [{None: 2}], "/0"),
    "key (1,2)": (lambda: {(1, 2): 3}, ""),
    "key True": (lambda: {"k": {True: 2}}, "/k"),
    "key 1.5": (lambda: {1.5: 2}, ""),
    "bytes as a key": (lambda: {b"k": 2}, ""),
    "__proto__": (lambda: {"a": {"__proto__": {"polluted": True}}}, "/a/__proto__"),
    "a set": (lambda: {"s": {1}}, "/s"),
    "a Decimal": (lambda: [decimal.Decimal("1.5")], "/0"),
    "a cycle": (endless, "/0/again"),
    "bytes": (lambda: {"b": [b"x"]}, "/b/0"),
    "a bytearray": (lambda: [bytearray(b"x")], "/0"),
    "a datetime": (lambda: {"d": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)}, "/d"),
    "a date": (lambda: [datetime.date(2026, 1, 1)], "/0"),
    "an object": (lambda: [[object()]], "/0/0"),
    "a complex number": (lambda: [1j], "/0"),
    "a timestamp": (lambda: {"t": msgpack.Timestamp(1, 2)}, "/t"),
    "an extension": (lambda: {"e": msgpack.ExtType(5, b"abc")}, "/e"),
    "nested deeper": (lambda: nested(65), ""),
    "nested very deep": (lambda: nested(400), ""),
}


@pytest.fixture
async def people(tmp_path: Path) -> AsyncIterator[People]:
    async with serving(tmp_path / "hub", record="embedded") as people:
        yield people


@pytest.fixture
async def second(request: pytest.FixtureRequest, people: People, tmp_path: Path) -> AsyncIterator[People]:
    """Whom half of the ways and viewers go to: the same node, or another one that shares its record."""
    if getattr(request, "param", None) != "another node":
        yield people
        return
    redis_url = socket_url(people.server.options.data_dir)
    async with serving(tmp_path / "second", redis=redis_url) as second:
        yield second


NODES = pytest.mark.parametrize("second", ["the same node", "another node"], indirect=True)


@pytest.fixture
async def javascript() -> AsyncIterator[Node]:
    async with node() as running:
        yield running


@pytest.fixture
async def ways(people: People, second: People, javascript: Node) -> AsyncIterator[dict[str, Way]]:
    """All ways into the context ``c``, which is there."""
    first, other = people.server, second.server
    async with AsyncExitStack() as stack:
        op = await people.operator()
        await op.ok("context.create", id="c", agent="nobody")
        plain = await stack.enter_async_context(raw(first.url, first.token))
        binary = await stack.enter_async_context(raw(other.url, other.token, path="/msgpack/socket.io/"))
        found: dict[str, Way] = {
            "json": Wire(plain, json_text, from_json),
            "msgpack": Wire(binary, packed, from_msgpack),
        }
        for endpoint, server in (("json", other), ("msgpack", first)):
            client = await javascript.client().open(server.url, server.token, endpoint, "websocket")
            found[f"javascript {endpoint}"] = JavaScript(client, endpoint)
        registry = stack.enter_context(own_registry())
        registry.bind(NodeLink(first.node))
        found["in process"] = Facade(await hub.open("c"))
        stack.enter_context(own_registry())
        remote = await stack.enter_async_context(hub.connect(other.url, token=other.token))
        found["agent process"] = Facade(await remote.open("c"))
        yield found


def rule(place: Any) -> Any:
    """What stands for a value of one's own in the places where it was put."""
    return {
        "state": place["document"]["state"].get("k"),
        "output": place["document"]["output"].get("k"),
        "data": place["data"].get("k"),
        "metadata": place["document"]["metadata"].get("k"),
        "session context": place["document"]["session_context"].get("k"),
        "pairs": place["log"]["entries"][-1]["kvps"]["k"],
    }


@NODES
async def test_the_same_value_everywhere(
    people: People, second: People, ways: dict[str, Way], javascript: Node
) -> None:
    """Trials P1, P2, P3, R7: what is taken is the same by all ways in, for all viewers, in Redis and in hashes."""
    server, other = people.server, second.server
    viewers: dict[str, tuple[Talk, Follower]] = {}
    for name, viewer in {
        "json": await people.operator(),
        "polling": await second.operator("polling"),
        "msgpack": await second.operator("msgpack"),
        "javascript json": await javascript.client().open(other.url, other.token, "json", "websocket"),
        "javascript msgpack": await javascript.client().open(server.url, server.token, "msgpack", "websocket"),
        "javascript polling": await javascript.client().open(other.url, other.token, "msgpack", "polling"),
    }.items():
        follower = Follower("c")
        await follower.subscribe(viewer)
        viewers[name] = (viewer, follower)
    op = viewers["json"][0]
    ops = [op, viewers["msgpack"][0]]
    url = socket_url(server.options.data_dir)
    async with redis.Redis.from_url(url) as raw_hashes, hub.MirrorReader(server.options.data_dir) as mirror:
        for name, (given, expected) in GOOD.items():
            for way, put in ways.items():
                context = f"{name}, by {way}"
                try:
                    assert await put.put(given) is None, context
                except AtTheSender:
                    assert isinstance(put, JavaScript)
                    continue
                ends = [await one.ok("context.get", context="c") for one in ops]
                place = max((at["epoch"], at["seq"]) for at in ends)
                for viewer_name, (viewer, follower) in viewers.items():
                    await viewer.until(lambda: follower.read(viewer).position == place)  # noqa: B023 - at once
                    for where, value in rule(follower.state.snapshot()).items():
                        wanted = None if where == "metadata" and expected is None else expected
                        assert same(value, wanted), f"{context}, seen by {viewer_name}: {where} is {value!r}"
                mirrored = await mirror.get("c")
                assert mirrored is not None
                assert same(rule(mirrored), rule(viewers["json"][1].state.snapshot())), context
                # Another value between, so that the next way's write is one.
                await op.ok("apply", context="c", ops=[*operations("between"), {"op": "log.reset"}])

            async def in_hashes() -> bool:
                found = await raw_hashes.hget("hub:ctx:{c}:state", "k")
                return found is not None and same(msgpack.unpackb(found)[1], "between")

            await until(in_hashes, "the hash")
        assert await ways["json"].put(GOOD["floats"][0]) is None

        async def floats() -> bool:
            found = await raw_hashes.hget("hub:ctx:{c}:state", "k")
            return same(msgpack.unpackb(found)[1], GOOD["floats"][0])

        await until(floats, "the hash")


@NODES
async def test_the_same_error_everywhere(people: People, ways: dict[str, Way]) -> None:
    """Trials P2, P3, P4, R6, R7: what is refused is refused at once, by its place; nothing is done, and the next one works."""
    op = await people.operator()
    before = await op.ok("context.get", context="c")
    for name, (make, path) in BAD.items():
        taken = 0
        for way, put in ways.items():
            context = f"{name}, by {way}"
            try:
                refused = await put.put(make())
            except AtTheSender:
                assert not isinstance(put, Facade)
                continue
            taken += 1
            assert refused is not None, context
            code, place = refused
            assert code == "invalid_value", context
            base = "/k" if isinstance(put, Facade) else "/ops/0/value/k"
            if name == "an extension" and isinstance(put, Facade):
                path = "/e/1"  # for Python it is a tuple
            if name in ("nested deeper", "nested very deep"):
                assert place.startswith(base + "/"), context
            else:
                assert place == base + path, context
        assert taken >= 2, name
    assert await op.ok("context.get", context="c") == before
    for way, put in ways.items():
        assert await put.put(way) is None

        async def is_there(way: str = way) -> bool:  # another node hears of it a moment later
            state: dict[str, Any] = (await op.ok("context.get", context="c"))["document"]["state"]
            return state == {"k": way}

        await until(is_there)


async def test_levels(people: People, ways: dict[str, Way]) -> None:
    """Trial R7: so deep and no deeper, counted the same in each place by all ways in."""
    wires = {kind: await people.operator(kind) for kind in ("websocket", "msgpack")}
    for levels in (63, 64, 65):
        value = nested(levels)
        for place, operation in zip(PLACES, operations(value), strict=True):
            codes = {}
            for kind, client in wires.items():
                reply = await client.ask("apply", context="c", ops=[operation])
                codes[kind] = None if reply["ok"] else reply["error"]["code"]
            for way, put in ways.items():
                if isinstance(put, Facade):
                    refused = put.put_into(place, value)
                    await put.ctx.flush()
                    codes[way] = refused and refused[0]
            assert len(set(codes.values())) == 1, (place, levels, codes)
        for member in ("state", "output", "data", "metadata"):
            holder = {"k": value}
            codes = {}
            for kind, client in wires.items():
                reply = await client.ask("context.create", id=f"{kind}-{member}-{levels}", **{member: holder})
                codes[kind] = None if reply["ok"] else reply["error"]["code"]
            name = {"output": "output_data"}.get(member, member)
            fields: Any = {name: holder}
            try:
                AgentContext(**fields)
                codes["facade"] = None
            except HubError as error:
                codes["facade"] = error.code
            assert set(codes.values()) == {None if levels < 64 else "invalid_value"}, (member, levels, codes)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("NaN", ""),
        ("[Infinity]", "/0"),
        ("-Infinity", ""),
        ("1e999", ""),
        ('{"a":-1e400}', "/a"),
        ("18446744073709551616", ""),
        ("-9223372036854775809", ""),
        ("9007199254740993", ""),
        ("1" * 5000, ""),
        ('{"__proto__":{"polluted":true}}', "/__proto__"),
        ('{"\\u005f_proto__":1}', "/__proto__"),
    ],
)
async def test_in_the_text_of_json(people: People, text: str, place: str) -> None:
    """Trials P2, P4: what no encoder writes, but a client can."""
    op = await people.operator()
    await op.ok("context.create", id="c")
    async with raw(people.server.url, people.server.token) as client:
        await client.send('421["apply",{"context":"c","ops":[{"op":"state.merge","value":{"k":' + text + "}}]}]")
        error = refusal(await client.acknowledgement(1), "invalid_value")
        assert error["details"]["path"] == "/ops/0/value/k" + place
        await client.send('422["apply",{"context":"c","ops":[{"op":"state.merge","value":{"k":1,"k":2,"n":1.0e2}}]}]')
        assert (await client.acknowledgement(2))["ok"]
    document = (await op.ok("context.get", context="c"))["document"]
    assert document["state"] == {"k": 2, "n": 100.0}, "of two members of one name the last one counts"


def with_data(data: bytes) -> bytes:
    """A msgpack packet around an ``apply`` whose value for ``k`` is given in bytes."""
    value = b"\x81\xa1k" + data
    ops = b"\x91\x82\xa2op" + msgpack.packb("state.merge") + b"\xa5value" + value
    body = b"\x82\xa7context\xa1c\xa3ops" + ops
    packet: bytes = b"\x84\xa4type\x02\xa4data\x92\xa5apply" + body + b"\xa3nsp\xa1/\xa2id\x07"
    return packet


@pytest.mark.parametrize(
    ("data", "code", "state"),
    [
        (b"\xa3\xed\xa0\x80", None, "\ufffd"),  # a lone surrogate, as some encoders write it
        (b"\x81\xa3\xed\xbf\xbf\x01", None, {"\ufffd": 1}),
        (b"\xa6\xed\xa0\xbd\xed\xb8\x80", None, "😀"),
        (b"\xa2\xff\xfe", "invalid_request", None),  # no UTF-8 at all
        (b"\x81\xa2\xff\xfe\x01", "invalid_request", None),
        (b"\xd9\x05plain", None, "plain"),
        (b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", "invalid_value", None),  # NaN
        (b"\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00", "invalid_value", None),  # Infinity
        (b"\xca\x7f\x80\x00\x00", "invalid_value", None),
        (b"\xca\x3f\x80\x00\x00", None, 1.0),
        (b"\xcf\x00\x20\x00\x00\x00\x00\x00\x00", "invalid_value", None),  # 2**53
        (b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "invalid_value", None),
        (b"\xd3\x80\x00\x00\x00\x00\x00\x00\x00", "invalid_value", None),
        (b"\xcf\x00\x00\x00\x00\x00\x00\x00\x05", None, 5),
        (b"\xc4\x01x", "invalid_value", None),
        (b"\xd4\x00\x00", "invalid_value", None),  # JavaScript's undefined
        (b"\xd6\xff\x00\x00\x00\x01", "invalid_value", None),  # a timestamp
        (b"\xc7\x03\xff\x01\x02\x03", "invalid_request", None),  # a broken one
        (b"\x82\xa1a\x01\xa1a\x02", None, {"a": 2}),
        (b"\x81\x01\x02", "invalid_value", None),
        (b"\x81\x81\x01\x02\x03", "invalid_request", None),  # an object as a key
        (b"\x81\xa9__proto__\x01", "invalid_value", None),
        (b"\xc1", "ended", None),  # no msgpack at all
    ],
)
async def test_in_the_bytes_of_msgpack(people: People, data: bytes, code: str | None, state: Any) -> None:
    """Trials P1, P2, P3, P4: what other encoders than ours may write."""
    op = await people.operator()
    await op.ok("context.create", id="c")
    async with raw(people.server.url, people.server.token, path="/msgpack/socket.io/") as client:
        await client.send(with_data(data))
        if code == "ended":
            assert await client.ended()
        else:
            reply = msgpack.unpackb(
                await client.until(lambda frame: isinstance(frame, bytes) and msgpack.unpackb(frame)["type"] == 3)
            )["data"][0]
            assert reply["ok"] if code is None else refusal(reply, code)
    found = (await op.ok("context.get", context="c"))["document"]["state"]
    assert same(found, {} if code else {"k": state})


@pytest.mark.parametrize(
    "op",
    [
        {"op": "output.set", "key": "__proto__", "value": 1},
        {"op": "data.set", "key": "__proto__", "value": 1},
        {"op": "metadata.set", "key": "__proto__", "value": 1},
        {"op": "state.incr", "path": "/__proto__"},
        {"op": "state.incr", "path": "/a/__proto__/polluted"},
        {"op": "state.append", "path": "/__proto__/a", "value": 1},
        {"op": "log.add", "type": "info", "kvps": {"a": {"__proto__": 1}}},
        {"op": "session_context.save", "value": {"__proto__": 1}},
    ],
    ids=lambda op: op["op"],
)
async def test_no_way_to_a_key_that_browsers_lose(people: People, op: dict[str, Any]) -> None:
    """Trial P3: as a member, as an operation's key or on a path."""
    client = await people.operator()
    await client.ok("context.create", id="c")
    before = await client.ok("context.get", context="c")
    error = await client.refused("apply", "invalid_value", context="c", ops=[op])
    assert "__proto__" in str(error["details"]["path"])
    assert await client.ok("context.get", context="c") == before


async def test_sums_stay_exact(people: People) -> None:
    """Trial P2: what adds up beyond what a browser can hold is refused."""
    op = await people.operator()
    await op.ok("context.create", id="c", state={"n": 2**53 - 2, "f": 1e308})
    await op.ok("apply", context="c", ops=[{"op": "state.incr", "path": "/n"}])
    for path, by in (("/n", 1), ("/n", 2**53 - 1), ("/f", 1e308), ("/f", 1)):
        await op.refused("apply", "invalid_request", context="c", ops=[{"op": "state.incr", "path": path, "by": by}])
    assert (await op.ok("context.get", context="c"))["document"]["state"] == {"n": 2**53 - 1, "f": 1e308}


async def test_a_key_of_any_length(people: People, javascript: Node) -> None:
    """Trial P3: whole in the state; in an entry's pairs cut, and said so."""
    op = await people.operator()
    viewer = await javascript.client().open(people.server.url, people.server.token, "msgpack", "websocket")
    await op.ok("context.create", id="c")
    follower = Follower("c")
    await follower.subscribe(viewer)
    ops = [
        {"op": "state.merge", "value": {LONG_KEY: {LONG_KEY: 1}}},
        {"op": "log.add", "type": "info", "kvps": {LONG_KEY: 1}},
    ]
    await op.ok("apply", context="c", ops=ops)
    await viewer.until(lambda: follower.read(viewer).position.seq == 2)
    assert follower.state.document["state"] == {LONG_KEY: {LONG_KEY: 1}}
    [key] = follower.state.log.entries[0].kvps
    assert len(key) <= 60
    assert "characters" in key


ASTRAL = ["a", "😀", "é", "\ud83d", "\ude00", "👩‍👩‍👧", "\U0010ffff", "語\0", "", "z"]
WHOLE = "a😀é\ufffd\ufffd👩‍👩‍👧\U0010ffff語\0z"


async def test_text_that_streams(people: People, ways: dict[str, Way], javascript: Node) -> None:
    """Trial P1: an append begins where the text ends, counted in UTF-16, whatever characters came before; halves of a
    character that come apart are replaced, each."""
    server = people.server
    op, binary = await people.operator(), await people.operator("msgpack")
    browser = await javascript.client().open(server.url, server.token, "msgpack", "websocket")
    followers = {client: Follower("c") for client in (op, binary, browser)}
    for client, follower in followers.items():
        await follower.subscribe(client)
    expected = []
    for way, put in ways.items():
        if isinstance(put, Facade):
            entry = put.ctx.log.log("agent", id=f"{way.replace(' ', '-')}")
            for piece in ASTRAL:
                entry.stream(piece)
            await put.ctx.flush()
        else:
            await op.ok("apply", context="c", ops=[{"op": "log.add", "type": "agent", "id": way.replace(" ", "-")}])
            for piece in ASTRAL:
                if isinstance(put, JavaScript) and piece in ("\ud83d", "\ude00") and "msgpack" in way:
                    piece = "\ufffd"  # its parser writes halves as other characters, which no hub can see
                ops = [{"op": "log.append", "id": way.replace(" ", "-"), "text": piece}]
                await append(put, ops)
        expected.append(way.replace(" ", "-"))
    at = (await op.ok("context.get", context="c"))["seq"]
    for client, follower in followers.items():
        await client.until(lambda: follower.read(client).position.seq == at)  # noqa: B023 - waited for right here
        entries = {entry.id: entry.content for entry in follower.state.log.entries if entry.id in expected}
        assert entries == dict.fromkeys(expected, WHOLE)


async def append(put: Any, ops: list[dict[str, Any]]) -> None:
    payload = {"context": "c", "ops": ops}
    reply = await (put.client.call("apply", payload) if isinstance(put, JavaScript) else put.ask("apply", payload))
    assert reply["ok"], reply


HALF, WHOLE_AGAIN = "x\ud800y 😀\udfff", "x\ufffdy 😀\ufffd"


async def test_halves_of_characters_in_every_text(people: People, ways: dict[str, Way], javascript: Node) -> None:
    """Trial P1: replaced and delivered, in whatever text they come."""
    server = people.server
    op = await people.operator()
    viewer = await javascript.client().open(server.url, server.token, "msgpack", "websocket")
    await viewer.ok("subscribe", topic="notices")
    for way, put in ways.items():
        id = way.replace(" ", "-")
        if isinstance(put, Wire):
            asked: list[tuple[str, dict[str, Any]]] = [
                ("context.create", {"id": id, "name": HALF, "agent": "nobody", "metadata": {HALF: HALF}}),
                ("context.update", {"context": id, "name": HALF + "!"}),
                ("message", {"context": id, "text": HALF}),
                ("apply", {"context": id, "ops": [{"op": "progress.set", "text": HALF}]}),
                (
                    "apply",
                    {"context": id, "ops": [{"op": "log.add", "type": "info", "heading": HALF, "content": HALF}]},
                ),
                ("notice.post", {"id": id, "message": HALF, "title": HALF, "detail": HALF, "group": HALF}),
            ]
            for name, payload in asked:
                assert (await put.ask(name, payload))["ok"], (way, name)
        elif isinstance(put, Facade):
            link = put.ctx.writer.link
            ctx = AgentContext(id=id, name=HALF, agent="nobody", metadata={HALF: HALF}, link=link)
            ctx.name = HALF + "!"
            ctx.communicate(HALF)
            ctx.set_progress(HALF)
            ctx.log.log("info", HALF, HALF)
            await ctx.flush()
            manager = AgentContext.get_notification_manager()
            manager.send_notification("info", HALF, HALF, HALF, group=HALF, id=id, context=id)
        else:
            continue
        follower = Follower(id)
        await follower.subscribe(viewer)
        document, [entry] = follower.state.document, follower.state.log.entries
        assert document == (await op.ok("context.get", context=id))["document"]
        assert (document["name"], document["metadata"]) == (WHOLE_AGAIN + "!", {WHOLE_AGAIN: WHOLE_AGAIN})
        assert document["queue"][0]["text"] == document["progress"]["text"] == WHOLE_AGAIN
        assert (entry.heading, entry.content) == (WHOLE_AGAIN, WHOLE_AGAIN)
        row = (await viewer.next("row", lambda row: row["id"] == id))["row"]  # noqa: B023 - waited for right here
        assert {row[name] for name in ("message", "title", "detail", "group")} == {WHOLE_AGAIN}


# JavaScript text of a value, and what becomes of it on either endpoint: its own parsers change some before they leave.
OF_JAVASCRIPT = [
    ("2 ** 53", "invalid_value", "invalid_value"),
    ("-(2 ** 53)", "invalid_value", "invalid_value"),
    ("2 ** 53 - 1", 2**53 - 1, 2**53 - 1),
    ("1 - 2 ** 53", 1 - 2**53, 1 - 2**53),
    ("2 ** 40 + 0.5", 2**40 + 0.5, 2**40 + 0.5),
    ("-0", 0, 0),
    ("NaN", None, "invalid_value"),
    ("[Infinity]", [None], "invalid_value"),
    ("[undefined]", [None], "invalid_value"),
    ("new Date(0)", "1970-01-01T00:00:00.000Z", "invalid_value"),
    ("2n ** 64n", "thrown", "thrown"),
    ("new Uint8Array(3)", "invalid_request", "invalid_value"),
    ("Object.fromEntries([['__proto__', 1]])", "invalid_value", "invalid_value"),
    ("JSON.parse('{\"constructor\": 1}')", {"constructor": 1}, {"constructor": 1}),
    ("'\\u{1F600}'.repeat(20)", "😀" * 20, "😀" * 20),
]


@pytest.mark.parametrize("endpoint", ["json", "msgpack"])
async def test_values_of_javascript(people: People, javascript: Node, endpoint: str) -> None:
    """Trials P2, P3, P4: by stock clients of JavaScript."""
    client = await javascript.client().open(people.server.url, people.server.token, endpoint, "websocket")
    await client.ok("context.create", id="c")
    for source, in_json, in_msgpack in OF_JAVASCRIPT:
        expected = in_json if endpoint == "json" else in_msgpack
        await client.ok("apply", context="c", ops=[{"op": "state.merge", "value": {}, "mode": "replace"}])
        args = f"[{{context: 'c', ops: [{{op: 'state.merge', value: {{k: {source}}}}}]}}]"
        reply = await client.evaluate("apply", args)
        if expected == "thrown":
            assert reply["thrown"], source
        elif isinstance(expected, str) and expected.startswith("invalid"):
            refusal(reply, expected)
        else:
            assert reply["ok"], (source, reply)
            state = (await client.ok("context.get", context="c"))["document"]["state"]
            assert same(state, {"k": expected}), source
