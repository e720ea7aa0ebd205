"""Which contexts' runs this node looks after, as the record knows it: whoever finds this node dead looks there."""

from __future__ import annotations

import asyncio

from hub.node.tasks import Upkeep
from hub.record.port import Record

CLOSE_SECONDS = 1.0
"""How long the end of a node waits for its notes to be right."""


class RunNotes:
    """Noted first, and let go later: a note too many costs a look at a context, one too few leaves a run to nobody."""

    def __init__(self, record: Record, node: str) -> None:
        self._record = record
        self._node = node
        self._wanted: set[str] = set()
        self._noted: dict[str, bool] = {}  # what the record may have, and whether it has it for sure
        self._turn = asyncio.Lock()  # two commands about one context could overtake each other
        self._tidying = Upkeep("notes of runs", self._tidy)

    async def close(self) -> None:
        """What is left is what this node leaves behind."""
        if self._noted.keys() - self._wanted:
            await asyncio.wait([self._tidying.call()], timeout=CLOSE_SECONDS)
        await self._tidying.end()

    async def hold(self, id: str) -> None:
        """Note a run before it is this node's. Raises Unavailable."""
        self._wanted.add(id)
        try:
            await self._hold(id)
        except BaseException:
            self.let(id)
            raise

    def hold_soon(self, id: str) -> None:
        """Note a run that ends with this process in any case."""
        self._wanted.add(id)
        self._tidying.call()

    def let(self, id: str) -> None:
        """It is not this node's any more, or never became so."""
        if id in self._wanted:
            self._wanted.discard(id)
            self._tidying.call()

    def again(self) -> None:
        """Others may have taken this node for dead, and forgotten its notes."""
        self._noted = dict.fromkeys(self._noted, False)
        self._tidying.call()

    async def _hold(self, id: str) -> None:
        async with self._turn:
            if not self._noted.get(id):
                self._noted[id] = False
                await self._record.hold_run(self._node, id)
                self._noted[id] = True

    async def _tidy(self) -> None:
        for id in self._noted.keys() - self._wanted:
            async with self._turn:
                if id not in self._wanted:
                    self._noted[id] = False
                    await self._record.let_run(self._node, id)
                    del self._noted[id]
        for id in [id for id in self._wanted if not self._noted.get(id)]:
            await self._hold(id)
