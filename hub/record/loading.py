"""Read a context out of the record: the entries after a position, or its whole state from hashes and stream.

The hashes may be behind the stream, each large field by an amount of its own (``held``). What a field lacks is replayed
on it from the stream, so the state is exact whenever it is read. While somebody writes the hashes they may move between
two commands: then all is read again, the third time in one MULTI.

A function without a docstring does what the method of the port does that calls it (port.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import intern
from typing import Any, Final

from hub.core.changes import Change, RecordEntry
from hub.core.errors import Conflict, Internal, NotFound, Unavailable
from hub.core.log import LogState
from hub.core.position import Position
from hub.core.state import ContextState, DoesNotFit
from hub.core.values import json_size
from hub.record import names, plain
from hub.record.connection import Connection, pairs
from hub.record.fields import FieldFilter
from hub.record.lane import Command
from hub.record.packing import Malformed, unpack, unpack_entry, unpack_mapping
from hub.record.port import Loaded
from hub.record.scripts import DIFFER

_PAGE: Final = 1000
_COMPARED: Final = 512
"""Contexts whose ends one call compares: about 1 ms of the server."""
_LOAD_SECONDS: Final = (3.0, 12.0, 60.0)
"""How long a step of loading may take: it is tried again, for longer, as long as the server answers at all. So a server that
hangs does not hold up who loads for longer than the first."""
_OWN_FIELDS: Final = frozenset({"epoch", "last", "tip", "born", "mirrored", "held", "closed", "since", "wanted"})
"""Fields of the main hash that are not members of the document."""


def entries_of(answer: Sequence[Any], epoch: str, after: int) -> list[RecordEntry]:
    """The entries in an answer to XRANGE, without the changes up to seq ``after``. Raises Malformed."""
    entries = []
    for stream_id, flat in answer:
        fields = pairs(flat)
        try:
            last = int(stream_id.partition(b"-")[0])
            entry = unpack_entry(fields[b"id"].decode(), fields[b"before"].decode(), epoch, last, fields[b"changes"])
        except (KeyError, ValueError, UnicodeDecodeError) as error:
            raise Malformed(f"an entry of the record is damaged: {error}") from error
        if entry.changes[0].position.seq <= after:
            entry = entry._replace(changes=entry.changes[after + 1 - entry.changes[0].position.seq :])
        entries.append(entry)
    return entries


async def end(connection: Connection, context: str) -> tuple[Position, str] | None:
    epoch, last, tip, closed = await connection.run("HMGET", names.main(context), "epoch", "last", "tip", "closed")
    if epoch is None or closed is not None:
        return None
    try:
        return Position(epoch.decode(), int(last)), tip.decode()
    except (TypeError, ValueError, AttributeError) as error:
        raise Malformed(f"the end of context {context!r} is damaged: {error}") from error


async def farewell(connection: Connection, context: str) -> RecordEntry | None:
    (epoch, closed), answer = await connection.many(
        [
            ("HMGET", names.main(context), "epoch", "closed"),
            ("XREVRANGE", names.part(context, "changes"), "+", "-", "COUNT", 1),
        ]
    )
    return None if closed is None or not answer else entries_of(answer, epoch.decode(), 0)[0]


async def differ(connection: Connection, ends: Sequence[tuple[str, Position, str]]) -> list[str]:
    found: list[str] = []
    for start in range(0, len(ends), _COMPARED):  # one after the other: other commands and tasks come in between
        group = ends[start : start + _COMPARED]
        keys = [names.main(context) for context, _, _ in group]
        known = [f"{position.epoch} {position.seq} {tip}" for _, position, tip in group]
        found += [group[place - 1][0] for place in await connection.script(DIFFER, keys, known)]
    return found


async def mirrored(connection: Connection, contexts: Sequence[str]) -> list[tuple[int, dict[str, int]] | None]:
    commands: list[Command] = [("HMGET", names.main(context), "mirrored", "held", "closed") for context in contexts]
    return [_mirrored(answer) for answer in await connection.many(commands, apart=True)]


def _mirrored(answer: Any) -> tuple[int, dict[str, int]] | None:
    if isinstance(answer, Internal):
        return None
    seq, held, closed = answer
    try:
        return None if seq is None or closed is not None else (int(seq), _held(held))
    except (Malformed, ValueError):
        return None  # it is none that a hub wrote


def _held(raw: bytes | None) -> dict[str, int]:
    """What the fields hold that are behind the others. Raises Malformed."""
    held = unpack_mapping(raw) if raw else {}
    if not all(type(seq) is int for seq in held.values()):
        raise Malformed(f"the large fields that are behind are {str(held)[:80]}")
    return held


async def read(connection: Connection, context: str, after: Position, limit: int) -> tuple[list[RecordEntry], bool]:
    ends, answer = await connection.many(
        [
            ("HMGET", names.main(context), "epoch", "last"),
            ("XRANGE", names.part(context, "changes"), f"{after.seq + 1}-0", "+", "COUNT", limit + 1),
        ]
    )
    if ends[0] is None:
        raise NotFound(f"no context {context!r}")
    epoch, last = ends[0].decode(), int(ends[1])
    entries = entries_of(answer[:limit], epoch, after.seq)
    first = entries[0].changes[0].position.seq if entries else last + 1
    if epoch != after.epoch or last < after.seq or first != after.seq + 1:
        raise Conflict(
            f"the record stands at {Position(epoch, last)} and does not continue {after}", end=f"{epoch}:{last}"
        )
    return entries, len(answer) > limit


async def load(connection: Connection, context: str) -> Loaded | None:
    """The state, exact at some moment of the call; None if there is no such context."""
    for seconds in _LOAD_SECONDS[:-1]:
        try:
            return await _load(connection, context, seconds)
        except Unavailable:
            await connection.run("PING")
    return await _load(connection, context, _LOAD_SECONDS[-1])


async def _load(connection: Connection, context: str, seconds: float) -> Loaded | None:
    for attempt in range(3):
        read_all = _read_at_once if attempt == 2 else _read_in_steps
        try:
            found = await read_all(connection, context, seconds)
            if found is None:
                return None
            loaded = _build(*found)
        except (DoesNotFit, LookupError, TypeError, ValueError, AttributeError) as error:
            raise Malformed(f"the record of context {context!r} is damaged: {error}") from error
        if loaded is not None:
            return loaded
    raise Unavailable(f"context {context!r} could not be read whole")


_Hashes = list[dict[bytes, bytes]]
_Found = tuple[_Hashes, list[Any], bool]
"""Main and other hashes, stream entries, and whether the hashes moved meanwhile."""


def _hash_commands(context: str) -> list[Command]:
    keys = [names.main(context), *(names.part(context, name) for name in names.HASHES)]
    return [("HGETALL", key) for key in keys]


async def _read_in_steps(connection: Connection, context: str, seconds: float) -> _Found | None:
    hashes = [pairs(flat) for flat in await connection.many(_hash_commands(context), timeout=seconds)]
    main = hashes[0]
    if b"epoch" not in main or b"closed" in main:
        return None
    stream: list[Any] = []
    start = _complete(main) + 1
    while True:
        page, now = await connection.many(
            [
                ("XRANGE", names.part(context, "changes"), f"{start}-0", "+", "COUNT", _PAGE),
                ("HMGET", names.main(context), "epoch", "mirrored", "held", "born"),
            ],
            timeout=seconds,
        )
        stream += page
        if now != [main.get(name) for name in (b"epoch", b"mirrored", b"held", b"born")]:
            return hashes, stream, True
        if len(page) < _PAGE:
            return hashes, stream, False
        start = int(page[-1][0].partition(b"-")[0]) + 1


async def _read_at_once(connection: Connection, context: str, seconds: float) -> _Found | None:
    commands = [*_hash_commands(context), ("XRANGE", names.part(context, "changes"), "-", "+")]
    *flat, stream = await connection.many(commands, atomic=True, timeout=seconds)
    hashes = [pairs(item) for item in flat]
    if b"epoch" not in hashes[0] or b"closed" in hashes[0]:
        return None
    complete = _complete(hashes[0])
    return hashes, [item for item in stream if int(item[0].partition(b"-")[0]) > complete], False


def _complete(main: dict[bytes, bytes]) -> int:
    """The seq up to which every field of the hashes is written."""
    return min([int(main[b"mirrored"]), *_held(main.get(b"held")).values()])


def _build(hashes: _Hashes, stream: list[Any], moved: bool) -> Loaded | None:
    """The state that hashes and stream stand for; None if they do not fit because the hashes moved. Raises what it meets
    where they are damaged."""
    if moved:
        return None
    main = {intern(name.decode()): value for name, value in hashes[0].items()}  # every document has these keys
    epoch, mirrored = main["epoch"].decode(), int(main["mirrored"])
    held = _held(main.get("held"))
    entries = entries_of(stream, epoch, min([mirrored, *held.values()]))
    state = _from_hashes(Position(epoch, mirrored), main, hashes[1:])
    changes = [change for entry in entries for change in entry.changes]
    if changes and changes[0].position.seq != min([mirrored, *held.values()]) + 1:
        raise DoesNotFit(f"its stream begins at {changes[0].position}, its hashes end before")
    _replay(state, changes, held)
    if state.position.seq < int(main["last"]):
        raise DoesNotFit(f"its stream ends at {state.position}, its end is {int(main['last'])}")
    state.size = json_size(state.document)
    tip = entries[-1].id if entries else main["tip"].decode()
    behind = tuple(change for change in changes if change.position.seq > mirrored)
    since = unpack(main["since"]) if "since" in main else ""
    return Loaded(state, tip, main["born"].decode(), mirrored, held, behind, since)


def _from_hashes(position: Position, main: dict[str, bytes], others: _Hashes) -> ContextState:
    state = ContextState(position)
    if not position.seq:
        return state
    document: dict[str, Any] = dict(plain.values({name: main[name].decode() for name in plain.PLAIN if name in main}))
    document |= {name: unpack(raw) for name, raw in main.items() if name not in plain.PLAIN and name not in _OWN_FIELDS}
    document["state"], document["output"], state.data, log, keys = (_unpacked(fields) for fields in others)
    state.document = document
    told, entries = document["log"], sorted(log.values(), key=lambda entry: int(entry["no"]))
    state.log = LogState(told["id"], entries, begin=told.get("first", 0))
    if (state.log.length, state.log.whole) != (told["length"], True):
        raise LookupError(f"{len(entries)} entries of a log from {state.log.begin} to {told['length']}")
    for field, value in keys.items():
        state.keys.load(field, value)
    return state


def _unpacked(fields: dict[bytes, bytes]) -> dict[str, Any]:
    return {name.decode(): unpack(raw) for name, raw in fields.items()}


def _replay(state: ContextState, changes: Sequence[Change], held: dict[str, int]) -> None:
    """Bring a state from hashes to the end of the stream."""
    mirrored = state.position
    lacking = FieldFilter(held)
    for change in changes:
        if change.position.seq > mirrored.seq:
            state.apply(change)
            continue
        state.position = change.position
        for part in lacking.of(change):
            state.apply_part(part)
        state.position = mirrored
