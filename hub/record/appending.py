"""Compare-and-append to many contexts at once, and the indexes that list them.

An index entry is written before the context it lists and taken away after it: what must be found later comes first. A
reader of an index therefore skips what is not there (yet, or any more).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from hub.core.changes import ROOT
from hub.core.errors import HubError, InvalidRequest, TooLarge, Unavailable
from hub.record import names
from hub.record.connection import Connection
from hub.record.lane import Command
from hub.record.loading import entries_of
from hub.record.packing import Malformed, pack_changes, unpack
from hub.record.plain import ms_of, touched
from hub.record.port import Append, Appended, Outcome
from hub.record.scripts import APPEND

GROUP_CONTEXTS: Final = 64
GROUP_BYTES: Final = 1_048_576
"""What one call of the script takes at most; a single entry that is larger goes alone."""
LARGEST_ENTRY: Final = 64 * 1_048_576
LARGEST_MESSAGE: Final = 262_144
"""Packed changes that come along with the message on a live channel; larger ones are read from the record."""
_MISSED_BYTES: Final = 262_144

_APPENDED: Final = Outcome.APPENDED.encode()

_encode = msgspec.msgpack.Encoder().encode


@dataclass(slots=True)
class _Prepared:
    """An append as the script takes it."""

    append: Append
    head: bytes
    changes: bytes
    creates: bool
    closes: bool
    fields: dict[str, str | None]
    score: int  # in the indexes, if it creates or moves there

    @property
    def lists(self) -> bool:
        """Whether the indexes may have to follow it."""
        return self.creates or bool(self.fields)


async def append(connection: Connection, appends: Sequence[Append]) -> list[Appended]:
    """Append what stands at its record's end; an outcome for each. Raises Unavailable: any of them may have been appended."""
    results: list[Appended | None] = [None] * len(appends)
    ready: list[tuple[int, _Prepared]] = []
    for index, item in enumerate(appends):
        try:
            ready.append((index, _prepare(item)))
        except HubError as error:
            results[index] = Appended(Outcome.FAILED, error=error)
    if ready:
        await _write_index(connection, [prepared for _, prepared in ready if prepared.lists])
        after: list[Command] = []
        for (index, prepared), answer in zip(ready, await _run(connection, ready), strict=True):
            results[index] = _result(connection, prepared.append, answer)
            if prepared.lists:
                after += _index_after(prepared, answer)
        await connection.many(after)
    for result in results:
        # The server takes no writes now, whatever the context: all of them may come again, also those that it took before.
        if result is not None and isinstance(result.error, Unavailable):
            raise result.error
    return [result for result in results if result is not None]


async def _run(connection: Connection, ready: list[tuple[int, _Prepared]]) -> list[Any]:
    """The script's answer for each. All calls go out together, so that the server may keep them by one write to its disk."""
    calls: list[tuple[list[str], list[Any]]] = []
    for group in _groups(ready):
        args: list[Any] = [connection.channel(""), LARGEST_MESSAGE, _MISSED_BYTES]
        for _, prepared in group:
            args += (prepared.head, prepared.changes)
        calls.append(([names.main(prepared.append.context) for _, prepared in group], args))
    return [answer for answers in await connection.scripts(APPEND, calls) for answer in answers]


def _prepare(append: Append) -> _Prepared:
    """Encode an append, once. Raises HubError if it cannot be one."""
    entry, position = append.entry, append.position
    if not entry.changes:
        head = [position.epoch, str(position.seq), entry.before, append.born, "", entry.id, "", "", ""]
        return _Prepared(append, _encode(head), b"", False, False, {}, 0)
    check_place(append)
    last = position.seq + len(entry.changes)
    creates = position.seq == 0
    packed = pack_changes(entry.changes)
    if len(packed) > LARGEST_ENTRY:
        raise TooLarge(f"a change of {len(packed):,} bytes; at most {LARGEST_ENTRY:,} go into the record at once")
    fields, closed = touched(entry.changes)
    if closed is not None:
        fields = {"closed": closed}
    flags = ("c" if creates else "") + ("r" if creates and append.replace else "") + ("" if closed is None else "x")
    head = [
        position.epoch,
        str(position.seq),
        entry.before,
        append.born,
        flags,
        entry.id,
        str(last),
        append.since,
        append.key,
    ]
    for name, text in fields.items():
        head += (name, "-" if text is None else f"={text}")
    score = ms_of(fields.get("created_at")) if creates else 0
    return _Prepared(append, _encode(head), packed, creates, closed is not None, fields, score)


def check_place(append: Append) -> None:
    """Raises InvalidRequest if the entry is not the one after its writer's position."""
    position, entry = append.position, append.entry
    first, last = entry.changes[0].position, entry.changes[-1].position
    if first != position.after() or last.seq != position.seq + len(entry.changes):
        raise InvalidRequest(f"the entry begins at {first}, its writer stands at {position}")
    if " " in entry.id + entry.before + position.epoch or (position.seq == 0 and entry.before != ROOT):
        raise InvalidRequest(f"{entry.id!r} after {entry.before!r} in {position.epoch!r} is not an entry's place")


def _groups(ready: list[tuple[int, _Prepared]]) -> Iterator[list[tuple[int, _Prepared]]]:
    group: list[tuple[int, _Prepared]] = []
    room = GROUP_BYTES
    for item in ready:
        room -= len(item[1].changes)
        if group and (len(group) >= GROUP_CONTEXTS or room < 0):
            yield group
            group, room = [], GROUP_BYTES - len(item[1].changes)
        group.append(item)
    if group:
        yield group


async def _write_index(connection: Connection, group: list[_Prepared]) -> None:
    """What must be found later is written first. NX: the place in a list of an id that is taken must not move."""
    moving = [prepared for prepared in group if "user_id" in prepared.fields and not prepared.creates]
    commands: list[Command] = [("HGET", names.main(prepared.append.context), "created_at") for prepared in moving]
    for prepared, time in zip(moving, await connection.many(commands, apart=True), strict=True):
        # One whose hash is none is refused by the script.
        prepared.score = ms_of(time.decode(errors="replace")) if isinstance(time, bytes) else 0
    commands = []
    for prepared in group:
        if prepared.creates:
            commands.append(("ZADD", names.CONTEXTS, "NX", prepared.score, prepared.append.context))
        if user := prepared.fields.get("user_id"):
            commands.append(("ZADD", names.user_contexts(user), "NX", prepared.score, prepared.append.context))
    await connection.many(commands)


def _index_after(prepared: _Prepared, answer: list[Any]) -> list[Command]:
    """Take away what does not hold any more. What was written before is written again: a reader may have taken it for
    the rest of a creation that came to nothing."""
    context, user = prepared.append.context, prepared.fields.get("user_id") or ""
    outcome = answer[0].decode()
    owner = "" if outcome == Outcome.FAILED else answer[2].decode()
    if outcome != Outcome.APPENDED:
        return [("ZREM", names.user_contexts(user), context)] if user and user != owner else []
    commands: list[Command] = []
    if prepared.creates:
        commands.append(("ZADD", names.CONTEXTS, prepared.score, context))
    if user:
        commands.append(("ZADD", names.user_contexts(user), prepared.score, context))
    if prepared.closes:
        commands += [("ZREM", names.CONTEXTS, context), ("ZREM", names.USED, context)]
    if owner and (prepared.closes or ("user_id" in prepared.fields and owner != user)):
        commands.append(("ZREM", names.user_contexts(owner), context))
    return commands


def _result(connection: Connection, append: Append, answer: list[Any]) -> Appended:
    if answer[0] == _APPENDED:  # nearly always
        return Appended(Outcome.APPENDED, wanted=_writer(answer[1]) if answer[1] else "")
    outcome = Outcome(answer[0].decode())
    if outcome is Outcome.FAILED:
        return Appended(outcome, error=connection.refusal(answer[1].decode(errors="replace")))
    try:
        entries = entries_of(answer[3], append.position.epoch, append.position.seq)
    except HubError as error:
        return Appended(Outcome.FAILED, error=error)
    return Appended(outcome, entries, bool(answer[1]))


def _writer(mark: bytes) -> str:
    """Who was stale, by its mark; "" if that is none which a hub wrote."""
    try:
        return str(unpack(mark))
    except Malformed:
        return ""
