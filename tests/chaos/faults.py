"""What happens to a hub of several nodes, their record and the network between them. Each fault ends by itself, and everything
runs again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from typing import Any, ClassVar, Final, Protocol

from hub.record.connection import Connection
from tests.chaos.people import Agents
from tests.support import HubProcess, hanging
from tests.trials.nodes import Nodes
from tests.trials.rounds import Place
from tests.trials.tally import Outage, Tally

Fault = Callable[[Any], Awaitable[list[Outage]]]
KILLS: Final = frozenset(
    {"kill node", "kill two nodes", "kill agent", "kill record", "kill record and node", "kill parent"}
)
"""Those that are SIGKILL to something."""


class Hub(Place, Protocol):
    """A hub of several nodes."""

    @property
    def record_url(self) -> str:
        """Straight to the record's server."""

    @property
    def doors(self) -> list[str]:
        """URLs, one a node: who connects to each comes to every node."""

    @property
    def node_pids(self) -> list[int]:
        """Of the nodes that run."""


class Faults:
    """Those that any hub can have. Notes when and where requests could not be expected to be answered."""

    ALL: ClassVar[Mapping[str, Fault]]
    """By what they are called."""

    def __init__(self, hub: Hub, agents: Agents, tally: Tally, chance: random.Random) -> None:
        self._hub = hub
        self._agents = agents
        self._tally = tally
        self._chance = chance

    async def happen(self, name: str) -> list[Outage]:
        """Let a fault happen, to its end. Gives the outages, which go on until all nodes answer again."""
        return await self.ALL[name](self)

    def _some_time(self) -> float:
        """Seconds that something lasts: mostly short, sometimes longer than a request waits."""
        return self._chance.choice((0.05, 0.3, 1.0, 1.0, 2.5, 7.0))

    async def _tell_record(self, *command: str) -> None:
        connection = Connection(self._hub.record_url)
        await connection.run(*command)
        await connection.close()

    async def kill_agent(self) -> list[Outage]:
        """SIGKILL of an agent process, in the middle of its runs; another comes."""
        self._agents.kill(self._chance)
        return []

    async def kill_pubsub(self) -> list[Outage]:
        """Nodes hear nothing for a moment, and nobody tells them."""
        await self._tell_record("CLIENT", "KILL", "TYPE", "pubsub")
        return []

    async def forget_scripts(self) -> list[Outage]:
        """The record's server forgets the nodes' scripts."""
        await self._tell_record("SCRIPT", "FLUSH")
        return []

    async def nothing(self) -> list[Outage]:
        await asyncio.sleep(0.5)
        return []


class FaultsApart(Faults):
    """Of nodes with a port and a network each."""

    def __init__(self, hub: Nodes, agents: Agents, tally: Tally, chance: random.Random) -> None:
        super().__init__(hub, agents, tally, chance)
        self._nodes = hub
        self._record = hub.server

    def _node(self) -> HubProcess:
        return self._chance.choice(self._nodes.all)

    # nodes

    async def _away(self, *nodes: HubProcess) -> list[Outage]:
        for node in nodes:
            self._nodes.away(node)
        return [self._tally.outage(node.url) for node in nodes]

    async def kill_node(self) -> list[Outage]:
        """SIGKILL; after a while it starts again."""
        node = self._node()
        outages = await self._away(node)
        node.kill()
        await asyncio.sleep(self._some_time())
        await self._start(node)
        return outages

    async def kill_two_nodes(self) -> list[Outage]:
        two = self._chance.sample(self._nodes.all, 2)
        outages = await self._away(*two)
        for node in two:
            node.kill()
            await asyncio.sleep(self._chance.choice((0.0, 0.2)))
        await asyncio.gather(*(self._start(node) for node in two))
        return outages

    async def end_node(self) -> list[Outage]:
        """SIGTERM: it leaves in order."""
        node = self._node()
        outages = await self._away(node)
        await asyncio.to_thread(node.stop)
        await self._start(node)
        return outages

    async def hang_node(self) -> list[Outage]:
        """SIGSTOP, SIGCONT."""
        node = self._node()
        outages = await self._away(node)
        with hanging(node.pid):
            await asyncio.sleep(self._some_time())
        self._nodes.back(node)
        return outages

    async def hang_node_for_long(self) -> list[Outage]:
        """Longer than the others believe that it lives."""
        node = self._node()
        outages = await self._away(node)
        with hanging(node.pid):
            await asyncio.sleep(18)
        self._nodes.back(node)
        return outages

    async def _start(self, node: HubProcess) -> None:
        await asyncio.to_thread(node.start)
        self._nodes.back(node)

    # the record

    async def kill_record(self) -> list[Outage]:
        """SIGKILL of Valkey; after a while it starts again."""
        outage = self._tally.outage(None)
        self._record.kill()
        await asyncio.sleep(self._some_time())
        await asyncio.to_thread(self._record.start)
        return [outage]

    async def hang_record(self) -> list[Outage]:
        outage = self._tally.outage(None)
        with hanging(self._record.pid):
            await asyncio.sleep(self._some_time())
        return [outage]

    async def kill_record_and_node(self) -> list[Outage]:
        """Both at once: what only the node's memory had is gone."""
        node = self._node()
        outages = [self._tally.outage(None), *await self._away(node)]
        self._record.kill()
        node.kill()
        await asyncio.to_thread(self._record.start)
        await self._start(node)
        return outages

    # the network

    async def cut_network(self) -> list[Outage]:
        """All connections of some nodes to the record end."""
        for network in self._chance.sample(self._nodes.networks, self._chance.randint(1, len(self._nodes.networks))):
            network.cut()
        return []

    async def silent_network(self) -> list[Outage]:
        """Nothing goes through between some nodes and the record, without a word."""
        count = self._chance.randint(1, len(self._nodes.all))
        chosen = self._chance.sample(list(zip(self._nodes.all, self._nodes.networks, strict=True)), count)
        outages = [self._tally.outage(node.url) for node, _ in chosen]
        with ExitStack() as stack:
            for _, network in chosen:
                stack.enter_context(network.silent(cut=self._chance.random() < 0.5))
            await asyncio.sleep(self._some_time())
        return outages

    async def slow_network(self) -> list[Outage]:
        """Each answer of the record takes a while, each message a different one."""
        ways = [way for network in self._nodes.networks for way in (network.to_server, network.to_client)]
        for way in ways:
            way.delay = self._chance.choice((0.0, 0.005, 0.02, 0.05))
        await asyncio.sleep(self._some_time())
        for way in ways:
            way.delay = 0.0
        return []

    async def cut_clients(self) -> list[Outage]:
        """Agents lose their connections to the nodes."""
        self._nodes.balancer.cut()
        return []

    ALL: ClassVar[Mapping[str, Fault]] = {
        "kill node": kill_node,
        "kill two nodes": kill_two_nodes,
        "end node": end_node,
        "hang node": hang_node,
        "hang node for long": hang_node_for_long,
        "kill agent": Faults.kill_agent,
        "kill record": kill_record,
        "hang record": hang_record,
        "kill record and node": kill_record_and_node,
        "kill pubsub": Faults.kill_pubsub,
        "forget scripts": Faults.forget_scripts,
        "cut network": cut_network,
        "silent network": silent_network,
        "slow network": slow_network,
        "cut clients": cut_clients,
        "nothing": Faults.nothing,
    }
