"""The ways in which a value comes into a context: byte for byte over the wire, by JavaScript, by agents' code."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

import msgpack

from hub import AgentContext, HubError
from tests.raw import Raw
from tests.trials.stock import NodeStock

PLACES = ("state", "output", "data", "metadata", "session context", "pairs")


class AtTheSender(Exception):
    """The client's own library does not encode it."""


class Way(Protocol):
    """A way for values into context ``c``."""

    async def put(self, value: Any) -> tuple[str, str] | None:
        """Write ``value`` everywhere under key ``k``; the code and path of the refusal, or None."""


def operations(value: Any) -> list[dict[str, Any]]:
    return [
        {"op": "state.merge", "value": {"k": value}},
        {"op": "output.set", "key": "k", "value": value},
        {"op": "data.set", "key": "k", "value": value},
        {"op": "metadata.set", "key": "k", "value": value},
        {"op": "session_context.save", "value": {"k": value}},
        {"op": "log.add", "type": "info", "content": "entry", "kvps": {"k": value}},
    ]


def refusal_of(reply: Any) -> tuple[str, str] | None:
    """The code and the path of a refusing reply; None for a good one."""
    if reply["ok"]:
        return None
    assert "details" in reply["error"], reply
    return reply["error"]["code"], reply["error"]["details"]["path"]


class Wire:
    """What is sent byte for byte, so that no client's library stands in between."""

    def __init__(self, client: Raw, encode: Callable[[Any], str | bytes], decode: Callable[[Any], Any]) -> None:
        self._client, self._encode, self._decode = client, encode, decode

    async def put(self, value: Any) -> tuple[str, str] | None:
        return refusal_of(await self.ask("apply", {"context": "c", "ops": operations(value)}))

    async def ask(self, name: str, payload: dict[str, Any]) -> Any:
        """The answer to any request."""
        try:
            frame = self._encode([name, payload])
        except (TypeError, OverflowError, ValueError, RecursionError) as error:
            raise AtTheSender from error
        await self._client.send(frame)
        while (reply := self._decode(await self._client.receive())) is None:
            pass
        return reply


def json_text(event: Any) -> str:
    # Python's encoder makes text of keys that are none; the value is then another one, at the sender.
    if has_other_keys(event):
        raise TypeError("keys that are no text")
    return "4277" + json.dumps(event)


def has_other_keys(value: Any, depth: int = 0) -> bool:
    if depth > 100:
        return False
    if isinstance(value, dict):
        return any(not isinstance(key, str) or has_other_keys(item, depth + 1) for key, item in value.items())
    return isinstance(value, (list, tuple)) and any(has_other_keys(item, depth + 1) for item in value)


def from_json(frame: Any) -> Any:
    return json.loads(frame[4:])[0] if isinstance(frame, str) and frame.startswith("4377") else None


def packed(event: Any) -> bytes:
    packet = {"type": 2, "data": event, "nsp": "/", "id": 77}
    return bytes(msgpack.packb(packet, unicode_errors="surrogatepass"))


def from_msgpack(frame: Any) -> Any:
    packet = msgpack.unpackb(frame)
    return packet["data"][0] if packet["type"] == 3 else None


class Facade:
    """An AgentContext, wherever its code runs."""

    def __init__(self, ctx: AgentContext) -> None:
        self.ctx = ctx

    async def put(self, value: Any) -> tuple[str, str] | None:
        outcomes = {self.put_into(place, value) for place in PLACES}
        await self.ctx.flush()
        assert len({outcome and outcome[0] for outcome in outcomes}) == 1, outcomes
        return min(outcomes, key=str)

    def put_into(self, place: str, value: Any) -> tuple[str, str] | None:
        """The same for one place."""
        ctx = self.ctx
        write: dict[str, Callable[[], Any]] = {
            "state": lambda: ctx.state.update({"k": value}),
            "output": lambda: ctx.set_output_data("k", value),
            "data": lambda: ctx.set_data("k", value),
            "metadata": lambda: ctx.metadata.update({"k": value}),
            "session context": lambda: ctx.session_context.save(k=value),
            "pairs": lambda: ctx.log.log("info", content="entry", kvps={"k": value}),
        }
        try:
            write[place]()
        except HubError as error:
            return error.code, str(error.details["path"]).removeprefix("/kvps")
        return None


class JavaScript:
    """A stock client of JavaScript; only JSON can be handed to it."""

    def __init__(self, client: NodeStock, endpoint: str) -> None:
        self.client, self.endpoint = client, endpoint

    async def put(self, value: Any) -> tuple[str, str] | None:
        if is_garbled(value, self.endpoint):
            raise AtTheSender
        try:
            text = json.dumps(json_text(["apply", {"context": "c", "ops": operations(value)}])[4:])
        except (TypeError, ValueError, RecursionError) as error:
            raise AtTheSender from error
        reply = await self.client.evaluate("apply", f"JSON.parse({text}).slice(1)")
        if "thrown" in reply:  # NaN, say, is no JSON for JavaScript
            raise AtTheSender
        return refusal_of(reply)


def is_garbled(value: Any, endpoint: str, depth: int = 0) -> bool:
    """Whether JavaScript sends another value, in good form, so that no hub can tell. Its own JSON.parse makes rounded floats
    of integers. socket.io-msgpack-parser takes halves of a character for whole ones, and of whole numbers of 65 bits and
    more the lower bits (PROTOCOL.md warns of it)."""
    if isinstance(value, str) and endpoint == "msgpack":
        return value != value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, int) and endpoint == "json":
        return abs(value) >= 10**21
    if isinstance(value, (int, float)) and endpoint == "msgpack":
        return abs(value) >= 2**64 and (isinstance(value, int) or value.is_integer())
    if depth > 100 or not isinstance(value, (dict, list, tuple)):
        return False
    inside = [*value, *value.values()] if isinstance(value, dict) else value
    return any(is_garbled(item, endpoint, depth + 1) for item in inside)
