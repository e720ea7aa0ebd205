"""A hub as ``session-hub serve --nodes N`` runs it: a parent, its nodes on one port, and the embedded server. And its faults."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from hub.record.embedded import socket_url
from tests.chaos.faults import Fault, Faults
from tests.chaos.people import Agents
from tests.cli.processes import children, command_line, node_pids, processes_naming
from tests.support import HubProcess, hanging, until, wait_until
from tests.trials.tally import Outage, Tally


class OnePort:
    """The processes. Leaving the block ends them, and proves that none is left."""

    def __init__(self, base: Path, count: int, variables: Mapping[str, str]) -> None:
        self.hub = HubProcess(base, **variables)
        self.hub.options = ["--nodes", str(count)]
        self.count = count

    @property
    def url(self) -> str:
        return self.hub.url

    @property
    def address(self) -> str:
        return self.hub.url

    @property
    def token(self) -> str:
        return self.hub.token

    @property
    def record_url(self) -> str:
        return socket_url(self.hub.folder)

    @property
    def doors(self) -> list[str]:
        return [self.hub.url] * self.count

    @property
    def node_pids(self) -> list[int]:
        return node_pids(self.hub.pid)

    @property
    def record_pid(self) -> int | None:
        """The embedded server's, while it runs."""
        below = ((pid, command_line(pid).split()) for pid in children(self.hub.pid))
        return next((pid for pid, words in below if words and words[0].endswith("valkey-server")), None)

    def __enter__(self) -> Self:
        self.hub.start()
        return self

    def __exit__(self, *args: Any) -> None:
        self.hub.__exit__()
        wait_until(lambda: not processes_naming(str(self.hub.folder)), "all processes to end", 10)


class FaultsOfOnePort(Faults):
    """Who is connected to which node cannot be told from outside: an outage is one of the whole hub."""

    def __init__(self, hub: OnePort, agents: Agents, tally: Tally, chance: random.Random) -> None:
        super().__init__(hub, agents, tally, chance)
        self._port = hub

    async def _kill(self, *pids: int) -> None:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(self._chance.choice((0.0, 0.1)))

    async def _all_nodes(self) -> bool:
        return len(self._port.node_pids) == self._port.count

    async def kill_node(self) -> list[Outage]:
        """SIGKILL; the parent starts it again."""
        outage = self._tally.outage(None)
        await self._kill(self._chance.choice(self._port.node_pids))
        await until(self._all_nodes)
        return [outage]

    async def kill_two_nodes(self) -> list[Outage]:
        outage = self._tally.outage(None)
        await self._kill(*self._chance.sample(self._port.node_pids, 2))
        await until(self._all_nodes)
        return [outage]

    async def hang_node(self) -> list[Outage]:
        outage = self._tally.outage(None)
        with hanging(self._chance.choice(self._port.node_pids)):
            await asyncio.sleep(self._some_time())
        return [outage]

    async def kill_record(self) -> list[Outage]:
        """SIGKILL of the embedded server; its guard starts it again."""
        outage = self._tally.outage(None)
        if (pid := self._port.record_pid) is not None:
            await self._kill(pid)
        await until(lambda: self._port.record_pid not in (None, pid))
        return [outage]

    async def hang_record(self) -> list[Outage]:
        outage = self._tally.outage(None)
        pid = await until(lambda: self._port.record_pid)
        with hanging(pid):
            await asyncio.sleep(self._some_time())
        return [outage]

    async def kill_record_and_node(self) -> list[Outage]:
        """Both at once: what only the node's memory had is gone."""
        outage = self._tally.outage(None)
        pid = await until(lambda: self._port.record_pid)
        await self._kill(pid, self._chance.choice(self._port.node_pids))
        await until(lambda: self._port.record_pid not in (None, pid))
        await until(self._all_nodes)
        return [outage]

    async def kill_parent(self) -> list[Outage]:
        """SIGKILL of the parent: its nodes and the embedded server end too; then it starts again."""
        outage = self._tally.outage(None)
        self._port.hub.kill()
        await asyncio.to_thread(self._port.hub.start)
        return [outage]

    async def restart(self) -> list[Outage]:
        """SIGTERM of the parent: all leave in order; then it starts again."""
        outage = self._tally.outage(None)
        await asyncio.to_thread(self._port.hub.restart)
        return [outage]

    ALL: ClassVar[Mapping[str, Fault]] = {
        "kill node": kill_node,
        "kill two nodes": kill_two_nodes,
        "hang node": hang_node,
        "kill agent": Faults.kill_agent,
        "kill record": kill_record,
        "hang record": hang_record,
        "kill record and node": kill_record_and_node,
        "kill parent": kill_parent,
        "restart": restart,
        "kill pubsub": Faults.kill_pubsub,
        "forget scripts": Faults.forget_scripts,
        "nothing": Faults.nothing,
    }
