"""When a live context's hashes are written, and what is written then (RECORD.md, "Hashes").

One MirrorState a live context. It knows neither clock nor Redis: times are given to it, in seconds of any steady clock.

    mirror = MirrorState.of(loaded)              # after load; MirrorState() after a creation
    mirror.note(change, now)                     # every confirmed change, in order
    if mirror.due(now):                          # or sleep until mirror.due_at, a time or None
        write = mirror.write(confirmed_state, now)
        if write is not None:
            try:
                [done] = await record.mirror([write])
            except Unavailable:
                done = False
            mirror.wrote(done, now)              # always, before the next write
            [there] = await record.mirrored([context]) if not done else [None]
            if there is not None:
                mirror.moved(*there)             # a lost answer of mine, or another node wrote

``write`` packs the values, so the state may go on at once. A field of up to 8 KB is written at most 100 ms after its
change. A larger one when the bytes of its changes reach its size, or after 1 s without change; until then it is *held*:
the write names the seq that the hash has it at. So the cost stays in proportion to the changes. ``everything=True``
holds nothing back and keeps a short stream, also if nothing else is to be written: for a context that goes to sleep.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from hub.core.changes import Change, Json, Part, PatchOp
from hub.core.state import ContextState
from hub.core.values import json_size
from hub.record.fields import MAIN, Place, entry_place, fields_of, is_there, key_place, packed_of, touch_of
from hub.record.names import HASHES
from hub.record.packing import pack
from hub.record.plain import PLAIN
from hub.record.port import Loaded, MirrorWrite

LARGE: Final = 8_192
"""Bytes of a field beyond which it is written less often."""
SMALL_SECONDS: Final = 0.1
QUIET_SECONDS: Final = 1.0
KEEP_CHANGES: Final = 2_048
KEEP_BYTES: Final = 1_048_576
KEEP_ASLEEP: Final = 64
_BLOCK_CHANGES: Final = 64
_BLOCK_BYTES: Final = 16_384
"""How exactly it is known how many bytes the newest changes take: changes are counted in blocks up to this."""
_KEY_BYTES: Final = 200
"""About what an outcome takes; weighing each would cost more than it tells."""


@dataclass(slots=True)
class _Dirty:
    """A field that the hash lacks changes of."""

    first: int  # seq of the first of them
    last: int
    bytes: int  # about what they take
    since: float  # when the first one came
    at: float  # when the last one came
    whole: bool  # set anew: written whatever its size

    def join(self, later: _Dirty) -> None:
        self.last, self.at = later.last, later.at
        self.bytes += later.bytes
        self.whole = self.whole or later.whole


@dataclass(slots=True)
class _Flight:
    """A write that has no answer yet."""

    seq: int
    written: dict[Place, _Dirty]
    cleared: Mapping[str, int]
    sizes: dict[Place, int]


_NOTHING: Final[Mapping[str, int]] = MappingProxyType({})


class MirrorState:
    """Which fields of a context's hashes are behind. See the module's docstring for its use.

    There is one for every live context, most of them idle: what is empty is not there, or shared.
    """

    __slots__ = ("_block", "_block_bytes", "_blocks", "_cleared", "_closed", "_dirty", "_flight", "_keys",
                 "_recent_bytes", "_sizes", "due_at", "mirrored")  # fmt: skip

    def __init__(self, mirrored: int = 0) -> None:
        self.mirrored = mirrored
        """The seq that the hashes hold, held fields aside."""
        self.due_at: float | None = None
        """When ``write`` may have something to write."""
        self._dirty: dict[Place, _Dirty] = {}
        self._cleared = _NOTHING  # hashes to be written anew, and since which seq; MAIN: the whole context
        self._sizes: dict[Place, int] | None = None  # of large fields, as the hash has them
        self._keys: set[str] | None = None  # fields that the keys hash has, once some may leave the table
        self._blocks: list[tuple[int, int]] | None = None  # first seq and bytes of blocks that the stream keeps
        self._block = self._block_bytes = 0  # the newest block, which grows
        self._recent_bytes = 0  # of all of them
        self._flight: _Flight | None = None
        self._closed = False

    @classmethod
    def of(cls, loaded: Loaded, now: float = 0.0) -> MirrorState:
        """For a context that was loaded. What its hashes lack is due at once."""
        self = cls(loaded.mirrored)
        if loaded.state.keys.full and not loaded.behind:  # else some may have left it that the hash still has
            self._keys = set(loaded.state.keys.fields())
        for change in loaded.behind:
            self.note(change, now)
        self._take_held(loaded.held, now)
        self.due_at = now if self.behind else None
        return self

    @property
    def behind(self) -> bool:
        """The hashes lack something."""
        return bool(self._dirty or self._cleared) and not self._closed

    @property
    def busy(self) -> bool:
        """A write is under way."""
        return self._flight is not None

    def due(self, now: float) -> bool:
        """``write`` may have something to write, and no write is under way."""
        return self.due_at is not None and self.due_at <= now and self._flight is None

    def note(self, change: Change, now: float) -> None:
        """A change was confirmed."""
        seq = change.position.seq
        total = 0
        for part in change.parts:
            total += self._note_part(part, seq, now)
        self._recent_bytes += total
        self._block_bytes += total
        self._block = self._block or seq
        if self._block_bytes >= _BLOCK_BYTES or seq - self._block >= _BLOCK_CHANGES - 1:
            self._end_block(seq)

    def _end_block(self, seq: int) -> None:
        blocks = self._blocks = self._blocks or []
        blocks.append((self._block, self._block_bytes))
        self._block, self._block_bytes = seq + 1, 0
        while len(blocks) > 1:
            bytes_without = self._recent_bytes - blocks[0][1]
            if seq - blocks[1][0] + 1 < KEEP_CHANGES and bytes_without < KEEP_BYTES:
                break
            self._recent_bytes = bytes_without
            del blocks[0]

    def write(self, state: ContextState, now: float, *, everything: bool = False) -> MirrorWrite | None:
        """What is to be written now, or None. ``state`` is confirmed, and stands at the last noted change."""
        if self._flight is not None:
            raise RuntimeError("the last write has no answer yet")
        picked: dict[str, dict[str, bytes]] = {}
        deleted: dict[str, list[str]] = {}
        held: dict[str, int] = {}
        if self._keys is None and state.keys.full:  # from now on some leave it, and which the hash has must be known
            self._keys = set()
            self._cleared = {**self._cleared, "keys": state.position.seq}
        flight = _Flight(state.position.seq, {}, self._cleared, {})
        self._cleared = _NOTHING
        anew = (MAIN, *HASHES) if MAIN in flight.cleared else tuple(flight.cleared)
        for hash in anew:
            picked[hash] = {field: pack(value) for field, value in fields_of(state, hash)}
            sizes = ((Place(hash, field), len(raw)) for field, raw in picked[hash].items())
            flight.sizes |= {place: size for place, size in sizes if size > LARGE}
        for place, dirty in self._dirty.items():
            if place.hash in anew:
                flight.written[place] = dirty
                continue
            size = self._sizes.get(place) if self._sizes else None
            if size is not None and not everything and not self._ripe(dirty, size, now) and is_there(state, place):
                held[str(place)] = dirty.first - 1
                continue
            raw = packed_of(state, place)
            if raw is None:
                deleted.setdefault(place.hash, []).append(place.field)
                flight.written[place] = dirty
                continue
            if size is None:  # never large before; what it had without its changes is about what the hash has
                size = max(len(raw) - dirty.bytes, 0)
            if everything or len(raw) <= LARGE or self._ripe(dirty, size, now):
                picked.setdefault(place.hash, {})[place.field] = raw
                flight.written[place] = dirty
                if len(raw) > LARGE:
                    flight.sizes[place] = len(raw)
            else:
                held[str(place)] = dirty.first - 1
                self._sizes = self._sizes or {}
                self._sizes[place] = size
        self._forget_keys(state, picked, deleted, flight)
        if self._closed or not (flight.written or flight.cleared or everything):
            self._plan(now)
            return None
        for place in flight.written:
            self._dirty.pop(place, None)
        if not self._dirty:
            self._dirty = {}  # an emptied one keeps its room
        self._flight = flight
        cleared = tuple(hash for hash in anew if hash != MAIN)
        trim = self._trim(flight.seq, everything)
        return MirrorWrite(state.document["id"], self.mirrored, state.position, picked, deleted, cleared, held, trim)

    def wrote(self, done: bool, now: float) -> None:
        """What became of the last write. After False everything that it had is due again, a little later."""
        flight, self._flight = self._flight, None
        if flight is None:
            return
        if done:
            self.mirrored = flight.seq
            self._take_sizes(flight)
        else:
            for place, dirty in flight.written.items():
                later = self._dirty.get(place)
                if later is not None:
                    dirty.join(later)
                if place.hash not in self._cleared:
                    self._dirty[place] = dirty
            self._cleared = {**flight.cleared, **self._cleared}
        self._plan(now)
        if not done and self.due_at is not None:
            self.due_at = max(self.due_at, now + SMALL_SECONDS)

    def _take_sizes(self, flight: _Flight) -> None:
        sizes = self._sizes or {}
        if sizes:
            for place in flight.written:
                sizes.pop(place, None)
        sizes.update(flight.sizes)
        self._sizes = sizes or None

    def moved(self, mirrored: int, held: dict[str, int], now: float = 0.0) -> None:
        """The hashes hold something else than this writer thought: its own lost write, or another's."""
        self.mirrored = mirrored
        self._cleared = {hash: seq for hash, seq in self._cleared.items() if seq > mirrored}
        for place, dirty in list(self._dirty.items()):
            if str(place) in held:
                continue
            dirty.first = max(dirty.first, mirrored + 1)
            if dirty.last <= mirrored:
                del self._dirty[place]
                if self._keys is not None and place.hash == "keys":
                    self._keys.add(place.field)
        self._take_held(held, now)
        self._plan(now)

    # ------------------------------------------------------------------ inside

    def _note_part(self, part: Part, seq: int, now: float) -> int:
        """Mark what a part touches. Returns about how many bytes it takes."""
        size = _KEY_BYTES
        match part["kind"]:
            case "log.append":
                size = len(part["text"])
                self._touch(entry_place(part["id"]), seq, size, False, now)
            case "key":
                self._touch(key_place(part["key"]), seq, size, False, now)
            case "patch":
                return sum([self._note_op(op, seq, now) for op in part["ops"]])
            case "log.add":
                entry = part["entry"]
                size = len(entry["content"]) + _size(entry["kvps"])
                self._touch(entry_place(entry["id"]), seq, size, True, now)
                self._touch(Place(MAIN, "log"), seq, 0, True, now)
            case "log.update":
                size = len(part.get("content", "")) + _size(part.get("kvps"))
                self._touch(entry_place(part["id"]), seq, size, False, now)
            case "log.reset":
                self._clear("log", seq, now)
                self._touch(Place(MAIN, "log"), seq, 0, True, now)
            case "log.trim":
                size = sum(map(len, part["ids"]))
                for id in part["ids"]:
                    self._touch(entry_place(id), seq, 0, True, now)
                self._touch(Place(MAIN, "log"), seq, 0, True, now)
            case "data":
                size = _size(part.get("value"))
                self._touch(Place("data", part["key"]), seq, size, True, now)
            case "closed":
                self._closed = True
                self.due_at = None
        return size

    def _note_op(self, op: PatchOp, seq: int, now: float) -> int:
        hash, place, whole = touch_of(op["path"])
        size = _size(op.get("value"))
        if place is None:
            self._clear(hash, seq, now)
        elif hash != MAIN or place.field not in PLAIN:  # the plain ones are written by the append itself
            self._touch(place, seq, size, whole, now)
        return size

    def _clear(self, hash: str, seq: int, now: float) -> None:
        self._cleared = {**self._cleared, hash: seq}
        for place in [place for place in self._dirty if place.hash == hash or hash == MAIN]:
            del self._dirty[place]
        self._soon(now + SMALL_SECONDS)

    def _touch(self, place: Place, seq: int, size: int, whole: bool, now: float) -> None:
        dirty = self._dirty.get(place)
        if dirty is None:
            dirty = self._dirty[place] = _Dirty(seq, seq, size, now, now, whole)
        else:
            dirty.last, dirty.at = seq, now
            dirty.bytes += size
            dirty.whole = dirty.whole or whole
        if self.due_at is None or self.due_at > dirty.since + SMALL_SECONDS:
            self._soon(self._time_of(place, dirty))

    def _time_of(self, place: Place, dirty: _Dirty) -> float:
        size = self._sizes.get(place) if self._sizes else None
        if size is None or dirty.whole or dirty.bytes >= size:
            return dirty.since + SMALL_SECONDS
        return dirty.at + QUIET_SECONDS

    def _ripe(self, dirty: _Dirty, size: int, now: float) -> bool:
        """A large field is written: set anew, its changes took as much as it does, or it is quiet."""
        return dirty.whole or dirty.bytes >= size or now - dirty.at >= QUIET_SECONDS

    def _soon(self, at: float) -> None:
        if not self._closed and (self.due_at is None or at < self.due_at):
            self.due_at = at

    def _plan(self, now: float) -> None:
        self.due_at = None
        for place, dirty in self._dirty.items():
            self._soon(self._time_of(place, dirty))
        if self._cleared:
            self._soon(now)

    def _take_held(self, held: dict[str, int], now: float) -> None:
        for text, seq in held.items():
            place = Place.parse(text)
            dirty = self._dirty.setdefault(place, _Dirty(seq + 1, self.mirrored, 0, now, now, True))
            dirty.first, dirty.whole = seq + 1, True

    def _forget_keys(
        self, state: ContextState, picked: dict[str, dict[str, bytes]], deleted: dict[str, list[str]], flight: _Flight
    ) -> None:
        """Writers that were pushed out of the table by others leave no trace in a change."""
        if self._keys is None:
            return
        self._keys.update(picked.get("keys", ()))
        gone = self._keys.difference(state.keys.fields())
        self._keys -= gone
        for field in gone:
            dirty = _Dirty(flight.seq, flight.seq, 0, 0.0, 0.0, True)
            if flight.written.setdefault(Place("keys", field), dirty) is dirty:
                deleted.setdefault("keys", []).append(field)

    def _trim(self, seq: int, asleep: bool) -> int:
        """The seq up to which the stream may be trimmed as far as its length is concerned."""
        if asleep:
            return max(seq - KEEP_ASLEEP, 0)
        first = self._blocks[0][0] if self._blocks else self._block
        if seq - first + 1 < KEEP_CHANGES and self._recent_bytes < KEEP_BYTES:
            return 0  # this process has not seen enough of it to know
        return first - 1


def _size(value: Json) -> int:
    """About how many bytes a value takes."""
    if isinstance(value, str):
        return len(value) + 2
    return json_size(value) if isinstance(value, (dict, list)) and value else 8
