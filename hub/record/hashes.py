"""Write MirrorWrites to Redis, many contexts in one call."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgpack

from hub.core.errors import Unavailable
from hub.record import names
from hub.record.connection import Connection
from hub.record.fields import MAIN
from hub.record.packing import pack
from hub.record.port import MirrorWrite
from hub.record.scripts import MIRROR

_log = logging.getLogger(__name__)

_SECONDS: Final = 5.0
_GROUP_BYTES: Final = 1_048_576
"""What one call of the script takes; a single write that is larger goes alone."""

_encode: Final = msgpack.Packer(use_bin_type=False).pack  # texts and bytes alike: Lua's reader knows no other


async def mirror(connection: Connection, writes: Sequence[MirrorWrite]) -> list[bool]:
    """Each write's outcome: False if the hashes hold something else than its ``base``, or cannot be written. Raises
    Unavailable: any of them may have been written."""
    calls = list(_calls(writes))
    done: list[bool] = []
    for answers in await connection.scripts(MIRROR, calls, timeout=_SECONDS):
        for answer in answers:
            if isinstance(answer, bytes):
                error = connection.refusal(answer.decode(errors="replace"))
                if isinstance(error, Unavailable):
                    raise error
                _log.error("the hashes of %s: %s", writes[len(done)].context, error)
            done.append(answer == 1)
    return done


def _calls(writes: Sequence[MirrorWrite]) -> Iterator[tuple[list[str], list[bytes]]]:
    keys: list[str] = []
    args: list[bytes] = []
    size = 0
    for write in writes:
        packed = _pack(write)
        if keys and size + len(packed) > _GROUP_BYTES:
            yield keys, args
            keys, args, size = [], [], 0
        keys.append(names.main(write.context))
        args.append(packed)
        size += len(packed)
    if keys:
        yield keys, args


def _pack(write: MirrorWrite) -> bytes:
    held = pack(write.held) if write.held else b""
    complete = min([write.position.seq, *write.held.values()])
    whole: list[Any] = [write.position.epoch, str(write.base), str(write.position.seq), held, complete, write.trim]
    for hash in (MAIN, *names.HASHES):
        fields, gone = write.set_fields.get(hash), write.deleted.get(hash)
        if fields or gone or hash in write.cleared:
            flat = [item for pair in fields.items() for item in pair] if fields else []
            whole.append(["" if hash == MAIN else f":{hash}", hash in write.cleared, gone or [], flat])
    return bytes(_encode(whole))
