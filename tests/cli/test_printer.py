"""What a live view prints: each entry once, in order, whole in the end, however it grew."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hub.cli.printer import LogPrinter, Piece
from hub.core.changes import Change, Part
from hub.core.log import LogState
from hub.core.state import ContextState
from hub.core.values import utf16_length


def _state(entries: int = 0, log: str = "log") -> ContextState:
    document = {"id": "x", "log": {"id": log, "length": entries}}
    kept = [_entry(no) for no in range(entries)]
    return ContextState.from_snapshot(
        {"epoch": "e", "seq": 1, "document": document, "log": {"id": log, "entries": kept}}
    )


def _entry(no: int, content: str = "") -> dict[str, Any]:
    time = "2026-11-29T14:18:00.123Z"
    return {"no": no, "id": f"id{no}", "type": "info", "heading": "", "content": content, "kvps": {}, "timestamp": time}


class _Log:
    """A context's log that is written to, and a printer that follows it."""

    def __init__(self, entries: int = 0) -> None:
        self.state = _state(entries)
        self.printer = LogPrinter()
        self.printer.begin(self.state.log)

    def _do(self, part: Any) -> None:
        change = Change(self.state.position.after(), [part])
        self.state.apply(change)
        self.printer.follow(self.state.log, change)

    def add(self, content: str = "") -> None:
        self._do({"kind": "log.add", "entry": _entry(self.state.log.length, content)})

    def append(self, no: int, text: str) -> None:
        at = utf16_length(self.state.log.find(f"id{no}").content)
        self._do({"kind": "log.append", "id": f"id{no}", "at": at, "text": text})

    def update(self, no: int, content: str) -> None:
        self._do({"kind": "log.update", "id": f"id{no}", "content": content})

    def trim(self, before: int) -> None:
        self._do({"kind": "log.trim", "before": before, "ids": self.state.log.ids(before)})

    def reset(self) -> None:
        part: Part = {"kind": "log.reset", "log_id": f"log{self.state.position.seq}"}
        self._do(part)


def _brief(pieces: list[Piece]) -> list[tuple[str, int, str]]:
    return [(piece.kind, piece.entry["no"], piece.text or piece.entry["content"]) for piece in pieces]


def test_an_entry_waits_until_another_follows() -> None:
    log = _Log()
    log.add("a")
    assert log.printer.take(settled=False) == []
    assert log.printer.open_entry is not None
    log.append(0, "b")
    log.add("c")
    assert _brief(log.printer.take(settled=False)) == [("whole", 0, "ab")]
    assert _brief(log.printer.take(settled=True)) == [("whole", 1, "c")]
    assert log.printer.open_entry is None


def test_what_comes_after_it_was_printed_follows() -> None:
    log = _Log()
    log.add("a")
    log.printer.take(settled=True)
    log.append(0, "b")
    assert log.printer.take(settled=False) == []
    assert _brief(log.printer.take(settled=True)) == [("more", 0, "b")]
    log.update(0, "z")
    log.add("c")
    assert _brief(log.printer.take(settled=True)) == [("again", 0, "z"), ("whole", 1, "c")]
    assert log.printer.take(settled=True) == []


def test_a_reset_begins_anew() -> None:
    log = _Log(3)
    log.printer.take(settled=True)
    log.reset()
    log.add("new")
    assert _brief(log.printer.take(settled=True)) == [("whole", 0, "new")]


def test_entries_that_are_not_kept_any_more_are_printed_if_there_was_time() -> None:
    log = _Log(3)
    log.printer.take(settled=True)
    log.add("a")
    log.append(1, "b")
    log.trim(2)
    assert _brief(log.printer.take(settled=True)) == [("whole", 3, "a")]
    log.append(2, "c")
    log.add("d")
    log.add("e")
    log.trim(5)
    log.add("f")
    assert _brief(log.printer.take(settled=False)) == [("whole", 5, "e")]
    assert _brief(log.printer.take(settled=True)) == [("whole", 6, "f")]
    log.trim(7)
    assert log.printer.open_entry is None
    assert log.printer.take(settled=True) == []
    log.add("g")
    assert _brief(log.printer.take(settled=True)) == [("whole", 7, "g")]
    assert log.printer.begin(log.state.log)


def test_a_snapshot_shows_only_what_is_new() -> None:
    log = _Log(2)
    assert len(log.printer.take(settled=True)) == 2
    assert log.printer.begin(_state(5).log)
    assert [piece.entry["no"] for piece in log.printer.take(settled=True)] == [2, 3, 4]


def test_a_snapshot_with_another_history_is_shown_anew() -> None:
    log = _Log(3)
    log.printer.take(settled=True)
    other = _state(3)
    first, second, third = (entry.to_json() for entry in other.log.entries)
    other.log = LogState(other.log.id, [first, {**second, "id": "other"}, third])
    assert not log.printer.begin(other.log)
    assert [piece.entry["no"] for piece in log.printer.take(settled=True)] == [0, 1, 2]
    assert not log.printer.begin(_state(1, "another").log)
    assert [piece.entry["no"] for piece in log.printer.take(settled=True)] == [0]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.text(max_size=5)),
        st.tuples(st.just("append"), st.integers(0, 9), st.text(min_size=1, max_size=5)),
        st.tuples(st.just("update"), st.integers(0, 9), st.text(max_size=5)),
        st.tuples(st.just("take"), st.booleans()),
    ),
    max_size=40,
)


@given(STEPS)
def test_the_paper_has_the_log_in_the_end(steps: list[Any]) -> None:
    log = _Log()
    paper: dict[int, str] = {}
    order: list[int] = []
    for name, *arguments in [*steps, ("take", True)]:
        if name == "take":
            for kind, entry, text in log.printer.take(settled=arguments[0]):
                if kind == "whole":
                    order.append(entry["no"])
                paper[entry["no"]] = paper[entry["no"]] + text if kind == "more" else entry["content"]
        elif name == "add":
            log.add(*arguments)
        elif log.state.log.length:
            getattr(log, name)(arguments[0] % log.state.log.length, arguments[1])
    assert order == list(range(log.state.log.length))
    assert [paper[no] for no in order] == [entry.content for entry in log.state.log.entries]
