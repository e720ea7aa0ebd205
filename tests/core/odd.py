"""Strategies for values and payloads that no sensible client sends."""

from __future__ import annotations

import datetime
from typing import Any

from hypothesis import strategies as st

from hub.core.requests import AnyBody, Create
from hub.wire.messages import ASKED, BODIES, LATER, name_of, to_payload
from tests.core.random_requests import BODIES as SENSIBLE
from tests.core.random_requests import NAMES, PATHS, VALUES


def nested(levels: int) -> Any:
    value: Any = "deep"
    for level in range(levels):
        value = {"a": value} if level % 2 else [value]
    return value


def endless() -> Any:
    value: list[Any] = []
    value.append({"again": value})
    return value


ODD = st.one_of(
    VALUES,
    st.text(alphabet=st.characters(exclude_categories=[]), max_size=5),
    st.sampled_from(
        [
            "\ud800",
            "a\udfff\ud83d",
            "\x00",
            "x" * 100_000,
            "/" * 3_000,
            "~",
            "/state",
            "__proto__",
            "' OR 1=1",
            b"bytes",
            {1, 2},
            float("nan"),
            float("inf"),
            -float("inf"),
            2**53,
            -(2**53),
            2**53 - 1,
            10**400,
            1e308,
            {1: "key"},
            {None: 1},
            {(1, 2): 3},
            {10**5000: 1},
            {"\ud800": 1},
            (1, (2, 3)),
            object(),
            datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
            "2026-01-01T00:00:00+01:00",
            "0001-01-01T00:00:00+23:59",
            "9999-12-31T23:59:59-23:59",
            {"id": "active", "fence": 10**20},
            {"id": "r", "fence": -1},
            [{"op": "state.merge", "value": {"a": nested(50)}, "mode": "deep"}],
            [{"op": "state.append", "path": "/" + "a/" * 40, "value": nested(50)}],
            [{"op": "state.append", "path": "/l/0", "value": 1}, {"op": "state.incr", "path": "/l"}],
            [{"op": "log.append", "id": "f1", "text": "\ud83d"}, {"op": "log.append", "id": "f1", "text": "\ude00"}],
            [{"op": "log.reset"}, {"op": "log.append", "id": "f1", "text": "late"}],
            [{"op": "log.add", "type": "info"}] * 200,
            [{"op": "session_context.save", "value": {"plan": ["a"] * 300, "progress": ["a"] * 200}}],
            [],
        ]
    ),
    st.integers(0, 70).map(nested),
    st.builds(endless),
)

# fmt: off
FIELDS = st.sampled_from([
    "context", "key", "id", "text", "ops", "run", "expected", "name", "type", "agent", "state", "output", "data", "metadata",
    "paused", "user_id", "created_at", "last_message", "value", "path", "op", "mode", "by", "kvps", "heading", "content",
    "entry", "active", "attachments", "action", "joined", "request", "topic", "from", "tail", "before", "limit", "filter",
    "log", "batches", "message", "priority", "display_time", "audience", "starts_at", "expires_at", "ids", "capacity",
    "runs", "extra",
])
# fmt: on
PAYLOADS = st.dictionaries(FIELDS, ODD, max_size=5)


@st.composite
def spoiled(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A sensible request of which some member, however deep, is another one now, or gone, or one too many."""
    body: AnyBody = draw(SENSIBLE | st.builds(Create, context=st.just("d"), name=NAMES))
    payload = to_payload(body)
    place: Any = payload
    while True:
        names = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not names:
            break
        name = draw(st.sampled_from(names))
        if isinstance(place[name], (dict, list)) and draw(st.integers(0, 3)):
            place = place[name]
            continue
        match draw(st.integers(0, 4)):
            case 0:
                del place[name]
            case 1 if isinstance(place, dict):
                place[draw(FIELDS)] = draw(ODD)
            case _:
                place[name] = draw(ODD)
        break
    return name_of(body), payload


ODD_TEXTS = st.one_of(
    st.text(alphabet=st.characters(exclude_categories=[]), max_size=6),
    st.sampled_from(
        [
            "\ud800",
            "a\udfff\ud83d",
            "\ud83d\ude00",
            "\x00\x1f",
            "x" * 70_000,
            "😀" * 300,
            "/",
            "~",
            "-",
            "0",
            "__proto__",
        ]
    ),
)
_NUMBERS = st.integers(-(2**53 - 1), 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
ODD_JSON = st.one_of(
    st.recursive(
        ODD_TEXTS
        | st.none()
        | st.booleans()
        | st.integers(-(2**53 - 1), 2**53 - 1)
        | st.floats(allow_nan=False, allow_infinity=False),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ODD_TEXTS, inner, max_size=3),
        max_leaves=5,
    ),
    st.integers(0, 62).map(nested),
)
ODD_OBJECTS = st.dictionaries(ODD_TEXTS, ODD_JSON, max_size=3)
ODD_PATHS = st.one_of(
    PATHS, ODD_TEXTS, st.lists(st.sampled_from(["a", "b", "l", "0", "-", "~1", ""]), max_size=70).map("/".join)
)
_ENTRY = st.sampled_from(["f0", "f1"])
_KINDS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "state.merge": {"value": ODD_OBJECTS, "mode": st.sampled_from(["shallow", "deep", "replace"])},
    "state.delete": {"path": ODD_PATHS},
    "state.incr": {"path": ODD_PATHS, "by": st.integers(-(2**53 - 1), 2**53 - 1) | st.floats(allow_nan=False)},
    "state.append": {"path": ODD_PATHS, "value": ODD_JSON},
    "state.remove": {"path": ODD_PATHS, "value": ODD_JSON},
    "output.set": {"key": ODD_TEXTS, "value": ODD_JSON},
    "output.delete": {"key": ODD_TEXTS},
    "data.set": {"key": ODD_TEXTS, "value": ODD_JSON},
    "data.delete": {"key": ODD_TEXTS},
    "metadata.set": {"key": ODD_TEXTS, "value": ODD_JSON},
    "log.add": {"type": st.just("info"), "heading": ODD_TEXTS, "content": ODD_TEXTS, "kvps": ODD_OBJECTS},
    "log.update": {"id": _ENTRY, "heading": ODD_TEXTS, "content": ODD_TEXTS, "kvps": ODD_OBJECTS},
    "log.append": {"id": _ENTRY, "text": ODD_TEXTS},
    "progress.set": {"text": ODD_TEXTS, "entry": _ENTRY | st.none()},
    "session_context.save": {
        "value": ODD_OBJECTS | st.fixed_dictionaries({"plan": st.lists(ODD_TEXTS), "x": ODD_JSON})
    },
}
_OPERATIONS = st.sampled_from(sorted(_KINDS)).flatmap(
    lambda name: st.fixed_dictionaries({"op": st.just(name), **_KINDS[name]})
)
STRETCHED = st.one_of(
    st.tuples(
        st.just("apply"),
        st.fixed_dictionaries({"context": st.just("c"), "ops": st.lists(_OPERATIONS, min_size=1, max_size=3)}),
    ),
    st.tuples(st.just("message"), st.fixed_dictionaries({"context": st.just("c"), "text": ODD_TEXTS})),
    st.tuples(
        st.just("context.update"),
        st.fixed_dictionaries({"context": st.just("c"), "name": ODD_TEXTS, "metadata": ODD_OBJECTS}),
    ),
    st.tuples(
        st.just("context.create"),
        st.fixed_dictionaries({"name": ODD_TEXTS, "state": ODD_OBJECTS, "output": ODD_OBJECTS, "data": ODD_OBJECTS}),
    ),
)
"""Requests that are in order, with values at the edge of what JSON holds."""

NAMED = st.one_of(
    spoiled(),
    STRETCHED,
    STRETCHED,
    st.tuples(
        st.sampled_from([*BODIES, *ASKED, *LATER, "run.start", "run.end", "nonsense", "x" * 5_000]), PAYLOADS | ODD
    ),
)
