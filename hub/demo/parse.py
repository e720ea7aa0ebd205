"""Reading an input into a table, chunk by chunk, so that whoever drives it can stop, pause or tell how far it is."""

from collections.abc import Generator
from dataclasses import dataclass

from hub.demo import names
from hub.demo.delimited import DelimitedReader
from hub.demo.encoding import line_batches
from hub.demo.errors import MAX_BYTES, TooLarge
from hub.demo.formats import Format
from hub.demo.lines_access import AccessReader
from hub.demo.lines_log import LogReader
from hub.demo.named import DocumentReader, NamedReader
from hub.demo.table import Table
from hub.demo.text import TextReader

ROWS_AT_ONCE = 2_000
"""Lines between two stops."""

Reader = AccessReader | LogReader | DelimitedReader | NamedReader | DocumentReader | TextReader


@dataclass(frozen=True)
class Progress:
    """How far the reading is."""

    rows: int
    bad: int
    lines: int
    done: int
    """Bytes read."""
    total: int
    """Bytes in all."""


def check_size(size: int) -> None:
    """Raise `TooLarge` if an input of `size` bytes is not accepted."""
    if size > MAX_BYTES:
        raise TooLarge(
            f"It has {size / 1024 / 1024:.1f} MB; {MAX_BYTES // 1024 // 1024} MB is the limit.",
            "Cut it, for example with `tail -n 100000 FILE > PART`, and send the part.",
        )


def parse(
    data: bytes, form: Format, name: str = "", *, year: int = 2000, rows_at_once: int = ROWS_AT_ONCE
) -> Generator[Progress, None, Table]:
    """Read `data` as `form`. Stops after every chunk with the progress; its result is the table.

    `year` is the year of logs that leave it out. Raises `TooLarge`.
    """
    check_size(len(data))
    text_only: frozenset[str] = frozenset()
    while True:
        table = Table(name, form.kind, form.label, form.noun, size=len(data))
        reader = _reader(table, form, year, text_only)
        yield from _read(data, form, table, reader, rows_at_once)
        wrong = reader.builder.wrong_guesses()
        if not wrong:
            break
        text_only |= wrong  # a column was taken for numbers by its beginning: once more, as text
    reader.finish()
    if not table.roles:
        table.roles = names.roles(table.columns)
    odd = {column.name: column.odd for column in table.columns if column.odd}
    if odd:
        listed = ", ".join(f"{name} ({count:,})" for name, count in list(odd.items())[:10])
        table.notes.append(f"Cells that are no number or time, counted as missing: {listed}.")
    return table


def _reader(table: Table, form: Format, year: int, text_only: frozenset[str]) -> Reader:
    if form.kind == "access":
        return AccessReader(table, text_only)
    if form.kind == "log":
        return LogReader(table, year, text_only)
    if form.kind == "document":
        return DocumentReader(table, text_only)
    if form.kind in ("json", "logfmt"):
        return NamedReader(table, form.kind, text_only)
    if form.kind == "table" and form.layout is not None:
        return DelimitedReader(table, form.layout, text_only)
    return TextReader(table)


def _read(
    data: bytes, form: Format, table: Table, reader: Reader, rows_at_once: int
) -> Generator[Progress, None, None]:
    waiting: list[str] = []
    done = 0
    for batch, done in line_batches(data, form.encoding):
        waiting.extend(batch)
        whole = len(waiting) - len(waiting) % rows_at_once
        for start in range(0, whole, rows_at_once):
            reader.feed(waiting[start : start + rows_at_once], table.lines + 1)
            table.lines += rows_at_once
            behind = (len(waiting) - start - rows_at_once) * done // max(1, table.lines + len(waiting) - start)
            yield Progress(table.rows, table.bad.count, table.lines, done - behind, table.size)
        del waiting[:whole]
        if reader.builder.full:
            break
    reader.feed(waiting, table.lines + 1)
    table.lines += len(waiting)
    if isinstance(reader, DocumentReader):
        for _ in reader.values(rows_at_once):
            yield Progress(table.rows, table.bad.count, table.lines, table.size, table.size)
    yield Progress(table.rows, table.bad.count, table.lines, done, table.size)
