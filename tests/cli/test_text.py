"""Texts of other people cannot steer the terminal."""

from __future__ import annotations

import io
import json
import unicodedata
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from hub.cli.entries import entry_view
from hub.cli.tables import contexts_table, nodes_table
from hub.cli.text import age, as_json, clean, duration, is_past, moment_of, one_line, seconds_of, value_text
from hub.core.errors import InvalidRequest

EVIL = "\x1b[31mred\x1b]0;title\x07 \x9b2J back\x08space \u202egnp.exe\u2066 [bold]not bold[/] :smile: bell\x07 nul\x00"


@given(st.text())
def test_clean_leaves_lines_and_nothing_that_steers(text: str) -> None:
    left = clean(text)
    assert {character for character in left if unicodedata.category(character) in ("Cc", "Cs")} <= {"\n"}
    assert "\u202e" not in left
    assert "\n" not in one_line(text)


@given(st.text(), st.integers(1, 40))
def test_one_line_keeps_its_width(text: str, width: int) -> None:
    assert len(one_line(text, width)) <= width


def test_clean_keeps_what_people_write() -> None:
    assert clean("Grüße\r\nzwei\tTab\u2028drei 👍🏽 日本") == "Grüße\nzwei    Tab\ndrei 👍🏽 日本"


@given(st.recursive(st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(), st.lists, max_leaves=5))
def test_json_is_one_line_of_ascii(value: object) -> None:
    line = as_json(value)
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line) == value


def test_markup_and_control_characters_in_an_entry_are_only_shown() -> None:
    entry = {"no": 3, "id": "a", "type": EVIL, "heading": EVIL, "content": EVIL, "kvps": {EVIL: [EVIL]}}
    for type in ("response", "tool", EVIL):
        shown = _shown(entry_view({**entry, "type": type, "timestamp": "2026-11-29T14:18:00.123Z"}))
        assert "[bold]not bold[/]" in shown
        assert ":smile:" in shown
        assert not set(shown) & set("\x00\x07\x08\x9b\u202e\u2066")
        assert "]0;title" in shown  # without the ESC before it that would make it an order
        assert "\x1b]" not in shown


def test_a_markdown_link_is_no_link_of_the_terminal() -> None:
    entry = {"no": 0, "id": "a", "type": "response", "heading": "", "kvps": {}, "timestamp": "2026-11-29T14:18:00.123Z"}
    shown = _shown(entry_view({**entry, "content": "[your bank](https://evil.example/)"}))
    assert "\x1b]8" not in shown
    assert "https://evil.example/" in shown


def test_a_table_with_odd_names_fits_80_columns() -> None:
    row = {"id": "x" * 16, "name": EVIL * 9, "type": "task", "user_id": EVIL, "agent": "a" * 64, "running": True}
    row |= {"paused": False, "last_message": "2026-11-29T14:18:00.123Z"}
    shown = _shown(contexts_table([row, row]), color=False)
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert shown.count("x" * 16) == 2


@pytest.mark.parametrize("agents", [5, "\x1b[31mred", {"a": 1}, [{}, "\x1b[31m"], None])
def test_a_table_of_nodes_with_what_no_hub_said(agents: object) -> None:
    info = {"agents": agents, "contexts": {"a": 1}, "cpu": "much", "version": [1]}
    shown = _shown(nodes_table([{"name": "n1", "age": 1.0, "info": info}]), color=False)
    assert "n1" in shown
    assert "\x1b" not in shown


def _shown(part: object, *, color: bool = True) -> str:
    file = io.StringIO()
    Console(file=file, width=80, markup=False, emoji=False, highlight=False, force_terminal=color).print(part)
    return file.getvalue()


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("8h", 28_800), ("1d12h", 129_600), ("1D", 86_400), ("0s", 0)]
)
def test_lengths_of_time(text: str, seconds: int) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "8", "h", "-1h", "1h ago", "1.5h", "8hours", "1s1h"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="length of time"):
        seconds_of(text)


def test_moments() -> None:
    assert moment_of("2026-11-29T14:18:00Z") == "2026-11-29T14:18:00Z"
    ahead = datetime.fromisoformat(moment_of("2h")) - datetime.now(UTC)
    assert timedelta(minutes=119) < ahead <= timedelta(hours=2)
    assert not is_past(moment_of("2h"))
    assert is_past(moment_of("0s"))
    assert is_past("2020-01-01")
    for wrong in ("tomorrow", "2026-13-40", "99999999999d"):
        with pytest.raises(InvalidRequest, match="ISO 8601"):
            moment_of(wrong)


def test_ages() -> None:
    def at(**ago: int) -> str:
        return (datetime.now(UTC) - timedelta(**ago)).isoformat()

    assert [age(at()), age(at(seconds=12)), age(at(minutes=5)), age(at(hours=5)), age(at(days=40))] == [
        "now",
        "12 s",
        "5 min",
        "5 h",
        "40 d",
    ]
    assert age(at(hours=-3, seconds=-9)) == "in 3 h"
    assert age(moment_of("2h")) == "in 2 h"
    assert age("nonsense") == "?"
    assert [duration(n) for n in (59, 59.7, 90, 150, 3_599.6, 5_400, 7_199.4, 9_000, 86_390, 129_600, 172_790)] == [
        *("59 s", "1 min", "90 s", "3 min", "1 h", "90 min", "2 h", "3 h", "1 d", "36 h", "2 d")
    ]


def test_values_are_one_line() -> None:
    assert value_text({"a": [1, "zwei"]}) == '{"a": [1, "zwei"]}'
    assert value_text("two\nlines") == "two lines"
    assert value_text("x" * 50, 10) == "x" * 9 + "…"
