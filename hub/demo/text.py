"""Plain text: its lines as rows, and what can be said about words and lines."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from hub.demo.builder import Builder
from hub.demo.columns import Spec
from hub.demo.steps import Steps, spans
from hub.demo.table import Cell, Table

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_LONG = 100_000  # characters that are searched for words at a time
_DISTINCT = 200_000  # words that are told apart; the rarest are dropped above that
STOP_WORDS = frozenset(
    """a about after all also am an and any are as at be been but by can could did do does for from had has have he her
    him his how i if in into is it its just like may me more most my no not of on one only or other our out over said
    she should so some such than that the their them then there these they this to up was we were what when which who
    will with would you your
    aber als auch auf aus bei das dass dem den der des die doch du durch ein eine einem einen einer er es für hat ich
    ihr im ist ja kein man mit nach nicht noch nur oder sein sich sie sind so über um und uns vom von vor war was wenn
    wie wir wird zu zum zur""".split()  # noqa: SIM905 - a list would take 150 lines
)
"""Words that say nothing about a text; English and German."""


class TextReader:
    """Keeps the lines that are not blank."""

    def __init__(self, table: Table) -> None:
        table.roles = {"message": "line"}
        self.builder = Builder(table, [Spec("line")])

    def feed(self, lines: list[str], first: int) -> None:
        """Read lines; `first` is the number of the first of them."""
        rows: list[tuple[Cell]] = []
        numbers: list[int] = []
        for number, line in enumerate(lines, first):
            if line and not line.isspace():
                rows.append((line,))
                numbers.append(number)
        self.builder.table.blank += len(lines) - len(rows)
        self.builder.extend(rows, numbers)

    def finish(self) -> Table:
        """What was read."""
        return self.builder.finish()


@dataclass(frozen=True)
class Words:
    """Counts of a text. `words` maps each word in lower case to how often it comes."""

    total: int
    characters: int
    words: "Counter[str]"

    def top(self, count: int, *, all_words: bool = False) -> list[tuple[str, int]]:
        """The most frequent words, without stop words and single letters unless `all_words`."""
        chosen = (item for item in self.words.items() if all_words or (item[0] not in STOP_WORDS and len(item[0]) > 1))
        return sorted(chosen, key=lambda item: (-item[1], item[0]))[:count]


def count_words(lines: "list[str | None]") -> Steps[Words]:
    """Count all words of the lines."""
    total = characters = 0
    words: Counter[str] = Counter()
    for start, stop in spans(len(lines), 2_000):
        for line in lines[start:stop]:
            if line:
                characters += len(line)
                for piece in _pieces(line):
                    found = _WORD.findall(piece.lower())
                    total += len(found)
                    words.update(found)
                    if len(line) > _LONG:
                        yield
        if len(words) > _DISTINCT:
            words = Counter(dict(words.most_common(_DISTINCT // 2)))
        yield
    return Words(total, characters, words)


def _pieces(line: str) -> Iterator[str]:
    """A line, cut at white space if it is very long."""
    start = 0
    while len(line) - start > _LONG:
        cut = line.rfind(" ", start, start + _LONG) + 1 or start + _LONG
        yield line[start:cut]
        start = cut
    yield line[start:] if start else line


def longest(lines: "list[str | None]", count: int) -> Steps[list[tuple[int, int]]]:
    """`(length, row)` of the longest lines, the longest first; of equal ones the earlier first."""
    best: list[tuple[int, int]] = []
    for start, stop in spans(len(lines)):
        best.extend((-len(line), row) for row, line in enumerate(lines[start:stop], start) if line)
        best = sorted(best)[:count]
        yield
    return [(-length, row) for length, row in best]
