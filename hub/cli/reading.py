"""Commands that look: contexts, show, health."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hub.cli import options
from hub.cli.console import out, print_json, say
from hub.cli.options import Context, DataDir, Json, Redis, Token, Url
from hub.cli.target import NotRunning, Target, find_target

if TYPE_CHECKING:
    from hub.record.reader import MirrorReader


def contexts(
    all_types: Annotated[bool, typer.Option("--all", "-a", help="Background sessions too.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many, the newest.")] = 50,
    url: Url = None,
    token: Token = None,
    data_dir: DataDir = None,
    redis: Redis = None,
    json: Json = False,
) -> None:
    """List sessions, newest first.

    JSON: {"contexts": [row, ...], "more": bool}, rows as in the protocol: id, name, type, no, user_id, agent,
    created_at, last_message, running, paused, version.
    """
    if redis is not None:
        rows, more = options.run(_contexts_in(redis, all_types, limit))
    else:
        rows, more = options.run(_contexts(find_target(url, token, data_dir), all_types, limit))
    if json:
        print_json({"contexts": rows, "more": more})
        return
    from hub.cli.tables import contexts_table

    if rows:
        out().print(contexts_table(rows))
    else:
        say("There are no sessions yet. Open one: session-hub new")
    if more:
        say(f"There are more: --limit {limit * 10} shows more of them.")


async def _contexts(target: Target, all_types: bool, limit: int) -> tuple[list[dict[str, Any]], bool]:
    from hub.cli.client import connect

    rows: list[dict[str, Any]] = []
    before: str | None = None
    async with connect(target) as connection:
        while len(rows) < limit:
            wanted: dict[str, Any] = {"limit": min(limit - len(rows), 500)}
            if before is not None:
                wanted["before"] = before
            if all_types:
                wanted["filter"] = {"type": "all"}
            page = await connection.request("contexts.page", wanted)
            rows += page["rows"]
            before = page.get("next")
            if before is None:
                break
    return rows, before is not None


async def _contexts_in(redis: str, all_types: bool, limit: int) -> tuple[list[dict[str, Any]], bool]:
    rows: list[dict[str, Any]] = []
    async with _reader(redis) as reader, aclosing(reader.rows()) as found:
        async for row in found:
            if all_types or row["type"] != "background":
                if len(rows) == limit:
                    return rows, True
                rows.append(row)
    return rows, False


def show(
    context: Context,
    entries: Annotated[int, typer.Option("--entries", "-n", min=0, max=500, help="So many of the last entries.")] = 10,
    url: Url = None,
    token: Token = None,
    data_dir: DataDir = None,
    redis: Redis = None,
    json: Json = False,
) -> None:
    """Show a session: plan, state, result, waiting messages, run and last entries.

    JSON: {"epoch", "seq", "document", "entries": [...]}, and "data" for agents and operators.
    """
    if redis is not None:
        found = options.run(_show_from(redis, context, entries))
    else:
        found = options.run(_show(find_target(url, token, data_dir), context, entries))
    if json:
        print_json(found)
        return
    from hub.cli.pages import context_page

    for part in context_page(found["document"], found["entries"], f"{found['epoch']}:{found['seq']}"):
        out().print(part)


async def _show(target: Target, context: str, count: int) -> dict[str, Any]:
    from hub.cli.client import connect
    from hub.core.errors import LogReset

    async with connect(target) as connection:
        while True:
            found = await connection.request("context.get", {"context": context})
            log = found["document"]["log"]
            entries: list[Any] = []
            try:
                while len(entries) < min(count, log["length"] - log.get("first", 0)):
                    before = entries[0]["no"] if entries else log["length"]
                    wanted = {"context": context, "log": log["id"], "before": before, "limit": count - len(entries)}
                    page = (await connection.request("log.page", wanted))["entries"]
                    if not page:
                        break
                    entries = page[::-1] + entries
            except LogReset:  # between the two requests
                continue
            return {**found, "entries": entries}


async def _show_from(redis: str, context: str, count: int) -> dict[str, Any]:
    from hub.core.errors import NotFound

    async with _reader(redis) as reader:
        found = await reader.get(context)
    if found is None:
        raise NotFound(f"no context {context!r} in that Redis")
    entries = found.pop("log")["entries"]
    return {**found, "entries": entries[max(0, len(entries) - count) :]}


@asynccontextmanager
async def _reader(redis: str) -> AsyncIterator[MirrorReader]:
    """Reads from a Redis without a hub, which could not tell why it is away. Raises NotRunning."""
    from hub.core.errors import Unavailable
    from hub.record.reader import MirrorReader

    async with MirrorReader(redis) as reader:
        try:
            yield reader
        except Unavailable as error:
            raise NotRunning(f"{error.message}: is it running, and is --redis right?") from error


def health(url: Url = None, token: Token = None, data_dir: DataDir = None, json: Json = False) -> None:
    """Tell how the hub is. Ends with 1 if it is not well.

    JSON: {"status": "ok", "degraded" or "draining", "version", "node", "record": {"durability", "ping_ms"}, "contexts",
    "connections", "agents": [...], "reason" if not ok}.
    """
    from hub.cli.client import health as ask_health

    target = find_target(url, token, data_dir, need_token=False)
    found = options.run(ask_health(target))
    if json:
        print_json(found)
    else:
        from hub.cli.tables import health_table

        out().print(health_table(target.url, found))
    if found.get("status") != "ok":
        raise typer.Exit(1)
