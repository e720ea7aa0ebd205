"""Tables kept for follow-up questions: those used last, within a bound on memory."""

from collections import OrderedDict

from hub.demo.formats import Format
from hub.demo.source import Source
from hub.demo.table import Table

MAX_BYTES = 256 * 1024 * 1024
"""Memory (estimated) that kept tables may take together."""
MAX_TABLES = 32


class TableCache:
    """The last table of each context. Used from one event loop."""

    def __init__(self, max_bytes: int = MAX_BYTES, max_tables: int = MAX_TABLES) -> None:
        self._max_bytes = max_bytes
        self._max_tables = max_tables
        self._kept: OrderedDict[str, tuple[str, Table, Format]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, context: str, source: Source) -> tuple[Table, Format] | None:
        """The table that this context has of this source, None if it is not kept (any more)."""
        found = self._kept.get(context)
        if found is None or found[0] != source.identity:
            return None
        self._kept.move_to_end(context)
        return found[1], found[2]

    def put(self, context: str, source: Source, table: Table, form: Format) -> None:
        """Keep a table in place of the context's former one; the newest is kept even if it alone is over the bound."""
        self.drop(context)
        self._kept[context] = (source.identity, table, form)
        self._bytes += table.weight()
        while len(self._kept) > 1 and (self._bytes > self._max_bytes or len(self._kept) > self._max_tables):
            _, (_, oldest, _) = self._kept.popitem(last=False)
            self._bytes -= oldest.weight()

    def drop(self, context: str) -> None:
        """Forget the context's table."""
        found = self._kept.pop(context, None)
        if found is not None:
            self._bytes -= found[1].weight()
