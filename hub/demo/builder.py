"""What all readers fill: rows in, a table out."""

from collections.abc import Sequence

from hub.demo.columns import Filler, Spec, infer
from hub.demo.table import MAX_COLUMNS, MAX_ROWS, BadRows, Cell, Table


class Builder:
    """Collects the rows of one input. Rows come in chunks; between two chunks all columns are equally long."""

    def __init__(self, table: Table, specs: Sequence[Spec] = (), text_only: frozenset[str] = frozenset()) -> None:
        self.table = table
        self.text_only = text_only
        self.fillers: dict[str, Filler] = {}
        self.left_out: set[str] = set()
        self._left_out_more = False
        for spec in specs[:MAX_COLUMNS]:
            self._add(spec)
        self.left_out.update(spec.name for spec in specs[MAX_COLUMNS : 2 * MAX_COLUMNS])
        self._left_out_more = len(specs) > 2 * MAX_COLUMNS

    @property
    def bad(self) -> BadRows:
        """Where readers count what they cannot read."""
        return self.table.bad

    @property
    def full(self) -> bool:
        """Whether the bound on rows is reached; what comes now is dropped."""
        return self.table.rows >= MAX_ROWS

    def _add(self, spec: Spec) -> None:
        if spec.name in self.text_only:
            spec = Spec(spec.name)
        self.fillers[spec.name] = Filler(spec, missing=self.table.rows)

    def extend(self, rows: Sequence[Sequence[Cell]], numbers: Sequence[int]) -> None:
        """Add rows with one cell for every column, and the line number of each."""
        if rows and not self.full:
            for filler, cells in zip(self.fillers.values(), zip(*rows, strict=True), strict=False):
                filler.extend(cells)
            self.table.line_numbers.extend(numbers)

    def extend_named(self, rows: Sequence[dict[str, Cell]], numbers: Sequence[int]) -> None:
        """Add rows whose cells have names; a name that was not seen before makes a column."""
        if not rows or self.full:
            return
        for name in {name: None for row in rows for name in row}:
            if name in self.fillers:
                continue
            if len(self.fillers) < MAX_COLUMNS:
                self._add(infer(name, [row[name] for row in rows if name in row]))
            elif len(self.left_out) < MAX_COLUMNS:
                self.left_out.add(name)
            else:
                self._left_out_more = self._left_out_more or name not in self.left_out
        for name, filler in self.fillers.items():
            filler.extend([row.get(name) for row in rows])
        self.table.line_numbers.extend(numbers)

    def wrong_guesses(self) -> frozenset[str]:
        """The columns that have to be read as text after all."""
        return frozenset(name for name, filler in self.fillers.items() if filler.wrong)

    def finish(self) -> Table:
        """The table with all that was added; columns without any value are left out."""
        table = self.table
        columns = [filler.column() for filler in self.fillers.values()]
        table.columns = [
            column for column in columns if column.numeric or any(value is not None for value in column.values)
        ]
        if self.left_out:
            more = "more than " if self._left_out_more else ""
            table.notes.append(
                f"Only the first {MAX_COLUMNS} columns are kept; {more}{len(self.left_out)} others are left out."
            )
        if self.full:
            table.notes.append(f"Only the first {MAX_ROWS:,} rows are read; what follows is left out.")
        return table
