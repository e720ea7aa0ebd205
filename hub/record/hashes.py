"""Write a MirrorWrite to Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hub.record import names
from hub.record.connection import Connection
from hub.record.fields import MAIN
from hub.record.packing import pack
from hub.record.port import MirrorWrite
from hub.record.scripts import MIRROR

_SECONDS = 60.0


async def mirror(connection: Connection, writes: Sequence[MirrorWrite]) -> list[bool]:
    """Each write's outcome: False if the hashes hold something else than its ``base``."""
    answers = await connection.scripts(MIRROR, [_call(write) for write in writes], timeout=_SECONDS)
    return [bool(answer) for answer in answers]


def _call(write: MirrorWrite) -> tuple[list[str], list[Any]]:
    context = write.context
    keys = [names.main(context), names.part(context, "changes"), *(names.part(context, name) for name in names.HASHES)]
    complete = min([write.position.seq, *write.held.values()])
    held = pack(write.held) if write.held else b""
    args: list[Any] = [write.position.epoch, write.base, write.position.seq, held, complete, write.trim]
    for hash in (MAIN, *names.HASHES):
        gone, fields = write.deleted.get(hash, ()), write.set_fields.get(hash, {})
        args += (int(hash in write.cleared), len(gone), *gone, len(fields))
        for field, raw in fields.items():
            args += (field, raw)
    return keys, args
