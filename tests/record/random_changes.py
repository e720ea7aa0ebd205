"""Random changes that fit a state, of all kinds that a record has to carry."""

from __future__ import annotations

import random
from typing import Any

from hub.core.changes import Part
from hub.core.state import ContextState
from tests.record.writer import log_add, put

NAMES = ["a", "b", "c/d", "e~f", "ä", ""]


def value(rng: random.Random) -> Any:
    kind = rng.randrange(6)
    if kind == 0:
        return {"x": rng.randrange(9), "list": [1, None, True]}
    if kind == 1:
        return ["text", 1.5, rng.randrange(-(2**53), 2**53)]
    if kind == 2:
        return {"text": "z" * rng.choice([10, 9_000, 20_000]), "list": []}
    return rng.choice([None, True, False, 0, -1, 2.25, "", "ünï", "x" * 300])


def pointer(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def parts(rng: random.Random, state: ContextState, key: int) -> list[Part]:
    """The parts of the next change."""
    document, log = state.document, state.log
    hash = rng.choice(["state", "output"])
    held = [name for name, item in document[hash].items() if isinstance(item, dict) and "list" in item]
    kind = rng.randrange(14)
    if kind < 2:
        return put(f"/{hash}/{pointer(rng.choice(NAMES))}", value(rng))
    if kind < 4 and held:
        name = rng.choice(held)
        return [*put(f"/{hash}/{pointer(name)}/list/-", rng.randrange(99)), *put(f"/versions/{hash}", f"v:{key}")]
    if kind == 4 and document[hash]:
        name = rng.choice(list(document[hash]))
        return [{"kind": "patch", "ops": [{"op": "remove", "path": f"/{hash}/{pointer(name)}"}]}]
    if kind == 5:
        return log_add(log.length, f"l{key}", "y" * rng.choice([5, 100, 12_000]), n=key)
    if kind in (6, 7) and log.entries:
        entry = rng.choice(log.entries[-3:])
        return [
            {"kind": "log.append", "id": entry.id, "at": entry.units, "text": "wörter 𝄞 " * rng.choice([1, 5, 900])}
        ]
    if kind == 8 and log.entries:
        return [{"kind": "log.update", "id": rng.choice(log.entries).id, "heading": f"h{key}", "kvps": {"k": key}}]
    if kind == 9 and rng.random() < 0.2:
        return [{"kind": "log.reset", "log_id": f"log{key}"}]
    if kind == 9 and log.entries and rng.random() < 0.6:
        before = rng.randrange(log.begin, log.length) + 1
        return [{"kind": "log.trim", "before": before, "ids": log.ids(before)}]
    if kind == 10:
        name = rng.choice(NAMES)
        if name in state.data and rng.random() < 0.4:
            return [{"kind": "data", "key": name}]
        return [{"kind": "data", "key": name, "value": value(rng)}]
    if kind == 11:
        return [
            *put("/queue/-", {"id": f"m{key}", "text": "q" * rng.choice([10, 4_000]), "attachments": []}),
            *put("/last_message", f"2026-11-29T14:18:{key % 60:02}.000Z"),
        ]
    if kind == 12:
        name, item = rng.choice([("name", f"n{key}"), ("running", key % 2 == 0), ("agent", rng.choice([None, "demo"]))])
        return [{"kind": "patch", "ops": [{"op": "replace", "path": f"/{name}", "value": item}]}]
    if kind == 13 and rng.random() < 0.1:
        return put(f"/{hash}", {"fresh": key, "list": {"list": []}})
    return [
        {
            "kind": "key",
            "key": f"w{rng.randrange(3)}/{key}",
            "digest": f"d{key}",
            "result": {"seq": key, "pad": "p" * 150},
        },
        {"kind": "key", "key": f"free text {key}", "digest": f"d{key}", "result": {}},
    ]
