"""Several nodes of one hub as processes, each on a port of its own and behind a network of its own to one record."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

from hub.record.valkey import server_binary
from tests.proxy import Proxy
from tests.record.servers import Server
from tests.support import HubProcess

SECRET: Final = "the secret that all nodes of these tests share"


class Nodes:
    """Their record's server, the nodes, and a network to each. Leaving the block ends everything."""

    def __init__(
        self,
        base: Path,
        count: int,
        variables: Mapping[str, str] = MappingProxyType({}),
        options: Sequence[str] = (),
        seed: int = 0,
    ) -> None:
        """``variables`` and ``options`` of the nodes; ``seed`` for which node is whose."""
        self.server = Server(server_binary())
        self.networks = [Proxy(self.server.url) for _ in range(count)]
        """From each node to the record."""
        self.all = [HubProcess(base / f"node{n}", HUB_SECRET=SECRET, **variables) for n in range(count)]
        self.serving = set(self.all)
        """Where clients go."""
        self.balancer = Proxy(*(node.url for node in self.all))
        """Leads clients to any node that takes connections."""
        self._options = options
        self._chance = random.Random(seed)
        self._stack = ExitStack()

    @property
    def url(self) -> str:
        """Of any node that serves."""
        return self._chance.choice([node.url for node in self.all if node in self.serving])

    @property
    def address(self) -> str:
        return self.balancer.url

    @property
    def token(self) -> str:
        return self.all[0].token

    @property
    def record_url(self) -> str:
        return self.server.url

    @property
    def doors(self) -> list[str]:
        return [node.url for node in self.all]

    @property
    def node_pids(self) -> list[int]:
        return [node.pid for node in self.all]

    def away(self, node: HubProcess) -> None:
        """Lead no client there, as a balancer that looks after its nodes does."""
        self.serving.discard(node)
        self.balancer.targets = [node.url for node in self.all if node in self.serving]

    def back(self, node: HubProcess) -> None:
        """Lead clients there again."""
        self.serving.add(node)
        self.balancer.targets = [node.url for node in self.all if node in self.serving]

    def __enter__(self) -> Self:
        with self._stack as stack:
            stack.enter_context(self.server)
            for node, network in zip(self.all, self.networks, strict=True):
                stack.enter_context(network)
                node.options = ["--redis", network.url, *self._options]
                stack.enter_context(node)
            stack.enter_context(self.balancer)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *args: Any) -> None:
        self._stack.close()
