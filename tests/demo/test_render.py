"""What comes from the input shows as text, whatever it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from hub.demo.render import bar, escape, grid, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b", "a\\|b"),
        ("`x`", "\\`x\\`"),
        ("<script>&", "&lt;script&gt;&amp;"),
        ("[a](http://b)", "\\[a\\](http://b)"),
        ("a\nb\tc", "a b c"),
        ("a\x00b\u202ec", "a�b�c"),
        ("_x_ *y* ~z~ \\", "\\_x\\_ \\*y\\* \\~z\\~ \\\\"),
    ],
)
def test_escape(text: str, shown: str) -> None:
    assert escape(text) == shown


def test_long_cells_are_cut() -> None:
    assert visible("x" * 100, 10) == "x" * 9 + "…"
    assert visible("x" * 10, 10) == "x" * 10


def test_a_grid() -> None:
    assert grid(("a", "n"), [("x|y", "1")], ["n"]).markdown() == "| a | n |\n| --- | ---: |\n| x\\|y | 1 |"
    assert grid(("a",), []).markdown() == ""


@given(st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30)), min_size=1, max_size=4))
def test_a_grid_is_always_one_table_of_text(rows: list[tuple[str, str]]) -> None:
    tokens = (
        MarkdownIt("commonmark", {"html": True})
        .enable(["table", "strikethrough"])
        .parse(grid(("a", "b"), rows).markdown())
    )
    assert [token.type for token in tokens].count("td_open") == 2 * len(rows)
    assert {token.type for token in tokens} <= {
        f"{name}_{side}" for name in ("table", "thead", "tbody", "tr", "th", "td") for side in ("open", "close")
    } | {"inline"}
    cells = [token for token in tokens if token.type == "inline"][2:]
    assert {child.type for cell in cells for child in cell.children or []} <= {"text", "text_special"}
    shown = ["".join(child.content for child in cell.children or []) for cell in cells]
    assert shown == [visible(cell).strip() for row in rows for cell in row]


def test_bars_are_in_proportion() -> None:
    assert bar(10, 10, 4) == "████"
    assert bar(5, 10, 4) == "██"
    assert bar(1, 16, 2) == "▏"
    assert bar(1, 10_000) == "▏"
    assert bar(0, 10) == ""
