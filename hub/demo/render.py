"""Results as Markdown and as JSON values.

What comes from the input is shown as it is, never read as Markdown or HTML.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]
"""What may stand in output data."""

WIDEST = 80
"""Characters of a cell that are shown."""

_MARKS = re.compile(r"([\\`*_\[\]|~])")
_BLOCKS = " ▏▎▍▌▋▊▉█"


def visible(text: str, width: int = WIDEST) -> str:
    """One line of text, at most `width` characters: line ends, tabs and what cannot be seen are replaced."""
    text = text[: width + 1]
    if not text.isprintable():
        text = "".join(_seen(character) for character in text)
    return text[: width - 1] + "…" if len(text) > width else text


def _seen(character: str) -> str:
    if character.isprintable():
        return character
    # Characters that change the direction of text, or take no room, could make a table say something else.
    return " " if character in "\n\r\t\v\f" or unicodedata.category(character) == "Zs" else "�"


def escape(text: str, width: int = WIDEST) -> str:
    """`text` so that it shows as it is in a Markdown table, or in a paragraph that begins with other words."""
    shown = visible(text, width).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKS.sub(r"\\\1", shown)


@dataclass(frozen=True)
class Grid:
    """A table of results. Cells are shown as text; columns named in `right` are set to the right."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[str] = frozenset()

    def markdown(self, width: int = WIDEST) -> str:
        """A Markdown table, "" if there are no rows."""
        if not self.rows:
            return ""
        lines = [
            _line([escape(name, width) for name in self.columns]),
            _line(["---:" if name in self.right else "---" for name in self.columns]),
        ]
        lines += [_line([escape(cell, width) for cell in row]) for row in self.rows]
        return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def grid(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> Grid:
    """A `Grid` of these columns and rows."""
    return Grid(tuple(columns), tuple(tuple(row) for row in rows), frozenset(right))


def bar(value: float, highest: float, width: int = 24) -> str:
    """A bar of block characters in proportion; anything above zero shows at least a sliver."""
    if value <= 0 or highest <= 0:
        return ""
    eighths = max(1, round(value / highest * width * 8))
    return "█" * (eighths // 8) + _BLOCKS[eighths % 8].strip()


def blocks(*parts: str) -> str:
    """Paragraphs and tables one below the other; empty ones are left out."""
    return "\n\n".join(part for part in parts if part)


def short(text: str, width: int = 200) -> str:
    """Text for a JSON value: visible, of bounded length."""
    return visible(text, width)
