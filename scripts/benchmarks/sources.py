"""Where changes come from: an agent of the hub, or the client of a peer that relays to rooms.

Both say the same: a peer's event has the shape and the size of the hub's change.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import count
from typing import Any, Protocol, TypeVar

import msgspec

from scripts.benchmarks.link import Link, LinkError

T = TypeVar("T")
_MOST_OPEN = 64
"""Requests that are under way while contexts are made."""
_EPOCH = "bEnChEpO"
ENTRY = "e"


class Refusal(msgspec.Struct):
    """What refuses a request."""

    code: str
    message: str = ""


class Reply(msgspec.Struct):
    """The answer to a request; of ``apply.many`` with one for each batch."""

    ok: bool
    seq: int = 0
    """Of the position at which it is kept."""
    error: Refusal | None = None
    replies: list["Reply"] = []  # noqa: UP037  msgspec copies it


class Entry(msgspec.Struct):
    """A log entry."""

    content: str


class LogSize(msgspec.Struct):
    """What a document says of its log."""

    length: int


class Document(msgspec.Struct):
    """A session's document."""

    log: LogSize


class Whole(msgspec.Struct):
    """The answer to a subscription, with the state."""

    seq: int
    log_id: str
    document: Document


class Page(msgspec.Struct):
    """A piece of a log, newest entry first."""

    entries: list[Entry]


_whole = msgspec.msgpack.Decoder(list[Whole])
_page = msgspec.msgpack.Decoder(list[Page])
_replies = msgspec.msgpack.Decoder(list[Reply])
_encode = msgspec.msgpack.Encoder().encode
_json = msgspec.json.Encoder().encode

Token = tuple[int, str]
"""A session's number, and the text that is appended to its entry."""


def stamp(at_us: int | None = None) -> str:
    """The time that viewers read: microseconds of the monotonic clock, 16 digits."""
    return f"@t{time.monotonic_ns() // 1000 if at_us is None else at_us:016d}"


class Source(Protocol):
    """What a row asks of either."""

    link: Link

    def prepare(self, sessions: int, first: int = 0) -> None:
        """Make so many sessions, numbered on."""

    def begin_entries(self, sessions: int, name: str) -> None:
        """Begin a log entry in each; tokens go there from now on."""

    def mark(self, sessions: int, text: str) -> None:
        """Append the same text to the entry of each; returns when it is kept, where anything is."""

    def say(self, session: int, texts: Sequence[str]) -> None:
        """Set a state key of a session so many times, each a change of its own, sent as one; waits for the answer."""

    def tokens(self, tokens: Sequence[Token]) -> int | None:
        """Append to entries, each a change of its own, sent as one. The id that will be answered, if any will."""

    def answered(self) -> list[int]:
        """The ids that were answered by now."""

    def everybody(self, text: str) -> None:
        """Tell every session the same; returns when the server has taken it."""


class HubSource:
    """An agent's connection to the hub, over msgpack. Its replies are checked."""

    def __init__(self, link: Link, name: str = "s") -> None:
        self.link = link
        self._name = name
        self._ids = count(1)
        self._keys = count(1)
        self._writer = f"bench{time.monotonic_ns()}"
        self._entry = ENTRY

    def prepare(self, sessions: int, first: int = 0) -> None:
        created = [
            self._event("context.create", {"id": self._id(n), "key": f"bench/{n}"}) for n in range(first, sessions)
        ]
        self._all(created)

    def begin_entries(self, sessions: int, name: str) -> None:
        self._entry = name
        self._each(sessions, {"op": "log.add", "id": name, "type": "response", "content": ""})

    def fill(self, session: int, keys: int, size: int) -> None:
        """Give a session a state of so many keys of so many bytes each."""
        for at in range(0, keys, 200):
            value = {f"k{n}": "x" * size for n in range(at, min(keys, at + 200))}
            self._many([self._batch(session, {"op": "state.merge", "value": value})])

    def write_log(self, session: int, entries: int) -> None:
        """Give a session so many short log entries."""
        texts = {"type": "info", "heading": "A step of the work", "content": "42 rows read, none of them bad"}
        ops = [{"op": "log.add", **texts, "kvps": {"rows": n}} for n in range(entries)]
        batch = {"context": self._id(session), "ops": ops, "key": self._key()}
        self._many([batch])

    def set_key(self, session: int, key: str, value: str) -> None:
        """Replace one top-level key of a session's state."""
        self._many([self._batch(session, {"op": "state.merge", "value": {key: value}})])

    def mark(self, sessions: int, text: str) -> None:
        self._each(sessions, {"op": "log.append", "id": self._entry, "text": text})

    def _each(self, sessions: int, op: dict[str, Any]) -> None:
        for at in range(0, sessions, 500):
            self._many([self._batch(n, op) for n in range(at, min(sessions, at + 500))])

    def snapshot_bytes(self, session: int) -> int:
        """How many bytes a session takes as it is sent: the answer to a subscription."""
        asked = {"topic": f"context:{self._id(session)}", "tail": 1_000}
        self.link.send(self._event("subscribe", asked))
        data = self.link.acknowledgement()[1]
        _check(data)
        return len(bytes(data))

    def recorded(self, session: int) -> tuple[int, int, int]:
        """What the hub has of a session: how many changes, log entries, and characters in those."""
        topic = f"context:{self._id(session)}"
        whole = self._ask("subscribe", {"topic": topic, "tail": 0}, _whole)
        self._ask("unsubscribe", {"topic": topic}, _replies)
        characters, before = 0, whole.document.log.length
        while before:
            asked = {"context": self._id(session), "log": whole.log_id, "before": before, "limit": 100}
            entries = self._ask("log.page", asked, _page).entries
            characters += sum(len(entry.content) for entry in entries)
            before -= len(entries)
        return whole.seq, whole.document.log.length, characters

    def _ask(self, name: str, payload: dict[str, Any], decoder: msgspec.msgpack.Decoder[list[T]]) -> T:
        self.link.send(self._event(name, payload))
        (reply,) = decoder.decode(self.link.acknowledgement()[1])
        return reply

    def append_one(self, session: int, text: str) -> None:
        """Append to a session's entry, and wait for the answer."""
        self._many([self._batch(session, {"op": "log.append", "id": self._entry, "text": text})])

    def count_up(self, session: int, times: int) -> None:
        """Add 1 to a counter of a session so many times, each by a request of its own."""
        op = {"op": "state.incr", "path": "/n"}
        self.link.send(*(self._event("apply", self._batch(session, op)) for _ in range(times)))

    def counted(self) -> list[int]:
        """Of the requests that were answered by now, the seq of each one's change."""
        return [reply.seq for _, data in self.link.acknowledgements() for reply in _check(data)]

    def say(self, session: int, texts: Sequence[str]) -> None:
        self._many([self._batch(session, {"op": "state.merge", "value": {"beat": text}}) for text in texts])

    def tokens(self, tokens: Sequence[Token]) -> int:
        return self._send([self._batch(n, {"op": "log.append", "id": self._entry, "text": text}) for n, text in tokens])

    def answered(self) -> list[int]:
        answers = self.link.acknowledgements()
        for _, data in answers:
            _check(data)
        return [id for id, _ in answers]

    def everybody(self, text: str) -> None:
        self._all([self._event("broadcast", {"type": "warning", "content": text, "key": self._key()})])

    def _id(self, session: int) -> str:
        return f"{self._name}{session}"

    def _key(self) -> str:
        return f"{self._writer}/{next(self._keys)}"

    def _batch(self, session: int, op: dict[str, Any]) -> dict[str, Any]:
        return {"context": self._id(session), "ops": [op], "key": self._key()}

    def _event(self, name: str, payload: dict[str, Any]) -> bytes:
        return _encode({"type": 2, "data": [name, payload], "nsp": "/", "id": next(self._ids)})

    def _send(self, batches: list[dict[str, Any]]) -> int:
        id = next(self._ids)
        self.link.send(_encode({"type": 2, "data": ["apply.many", {"batches": batches}], "nsp": "/", "id": id}))
        return id

    def _many(self, batches: list[dict[str, Any]]) -> None:
        id = self._send(batches)
        while True:
            answered, data = self.link.acknowledgement()
            _check(data)
            if answered == id:
                return

    def _all(self, events: list[bytes]) -> None:
        """Send events, some at a time, until all are answered."""
        under_way = 0
        for event in events:
            if under_way >= _MOST_OPEN:
                _check(self.link.acknowledgement()[1])
                under_way -= 1
            self.link.send(event)
            under_way += 1
        for _ in range(under_way):
            _check(self.link.acknowledgement()[1])


def _check(data: msgspec.Raw) -> list[Reply]:
    replies = _replies.decode(data)
    for reply in replies:
        for one in (reply, *reply.replies):
            if not one.ok:
                raise LinkError(f"refused: {one.error}")
    return replies


def append_to_relay(room: str, seq: int, text: str) -> dict[str, Any]:
    """What a peer relays for a token: of the shape and the size of the hub's change."""
    return _change(room, seq, {"kind": "log.append", "id": ENTRY, "at": 8 * seq, "text": text})


def _change(room: str, seq: int, part: dict[str, Any]) -> dict[str, Any]:
    return {"topic": f"context:{room}", "epoch": _EPOCH, "seq": seq, "parts": [part]}


class RelaySource:
    """A client of a peer, whose server relays what it is told to the rooms that it names."""

    def __init__(self, link: Link, name: str = "s") -> None:
        self.link = link
        self._name = name
        self._seq: dict[int, int] = {}

    def prepare(self, sessions: int, first: int = 0) -> None:
        return None  # a room is there when somebody is in it

    def begin_entries(self, sessions: int, name: str) -> None:
        return None

    def mark(self, sessions: int, text: str) -> None:
        return None  # it is not kept for those who are away

    def say(self, session: int, texts: Sequence[str]) -> None:
        changes = []
        for text in texts:
            seq = self._next(session)
            value = {"op": "replace", "path": "/state/beat", "value": text}
            version = {"op": "replace", "path": "/versions/state", "value": f"{_EPOCH}:{seq}"}
            changes.append(_change(f"{self._name}{session}", seq, {"kind": "patch", "ops": [value, version]}))
        self.link.send(self._relayed(session, changes))

    def tokens(self, tokens: Sequence[Token]) -> None:
        packets = []
        for n, text in tokens:
            packets.append(self._relayed(n, [append_to_relay(f"{self._name}{n}", self._next(n), text)]))
        self.link.send(*packets)

    def answered(self) -> list[int]:
        self.link.packets()
        return []

    def everybody(self, text: str) -> None:
        entry = {"no": 0, "id": "b", "type": "warning", "heading": "", "content": text, "kvps": {}, "timestamp": ""}
        change = _change(f"{self._name}0", 1, {"kind": "log.add", "entry": entry})
        self.link.send(b"42" + _json(["each", change]))

    def _next(self, session: int) -> int:
        seq = self._seq[session] = self._seq.get(session, 0) + 1
        return seq

    def _relayed(self, session: int, changes: list[dict[str, Any]]) -> bytes:
        return b"42" + _json(["relay", f"{self._name}{session}", *changes])
