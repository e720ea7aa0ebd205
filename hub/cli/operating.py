"""Commands that look after nodes: nodes, drain."""

from __future__ import annotations

from typing import Annotated

import typer

from hub.cli import options
from hub.cli.console import out, print_json, say
from hub.cli.options import DataDir, Json, Token, Url
from hub.cli.target import find_target

AWAY_SECONDS = 1.0
"""The node that is asked shows itself in the record first, so its own sign of life is younger, unless the record is away."""


def nodes(url: Url = None, token: Token = None, data_dir: DataDir = None, json: Json = False) -> None:
    """List the nodes of the hub: what they have to do, and how far they are behind.

    Load is the share of a CPU, and by how much what was due came late; lag is how long something may have been behind the
    record.

    JSON: {"nodes": [{"name", "age": seconds since its last beat, "info": {"version", "host", "pid", "contexts",
    "connections", "agents": [...], "runs", "cpu", "loop_lag_ms", "record_lag", "ignored": messages
    on the record's channels that it could not read, "draining"}}, ...]}.
    """
    from hub.cli.client import call

    rows = options.run(call(find_target(url, token, data_dir), "GET", "/api/v1/nodes"))["nodes"]
    if json:
        print_json({"nodes": rows})
        return
    from hub.cli.tables import nodes_table

    out().print(nodes_table(rows))
    if all(row["age"] > AWAY_SECONDS for row in rows):
        say("The record is away; this is what was known last.", "yellow")


def drain(
    node: Annotated[
        str | None,
        typer.Argument(metavar="NODE", help="Its name; by default the node that is asked.", show_default=False),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", "-s", min=0, max=3600, help="For runs to move on. By default HUB_DRAIN_SECONDS."),
    ] = None,
    url: Url = None,
    token: Token = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Let a node end in order, as SIGTERM does: it takes nobody new, runs go on at other nodes, clients come back there.
    With the last one the hub ends.

    JSON: {"node": its name}.
    """
    from hub.cli.client import call

    target = find_target(url, token, data_dir)
    asked = {name: value for name, value in (("node", node), ("seconds", seconds)) if value is not None}
    there = options.run(call(target, "GET", "/api/v1/nodes"))["nodes"]
    name = options.run(call(target, "POST", "/api/v1/drain", body=asked))["node"]
    if json:
        print_json({"node": name})
    elif any(row["name"] != name and not row["info"].get("draining") for row in there):
        say(f"{name} drains, and ends when its runs have moved on. 'session-hub nodes' lists those that are left.")
    else:
        say(f"{name} drains; it is the last one, so the hub ends.")
