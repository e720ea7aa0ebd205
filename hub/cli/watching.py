"""The command ``watch``, and waiting for the end of a run."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hub.cli import options
from hub.cli.console import out, print_json
from hub.cli.options import Context, DataDir, Json, Token, Url
from hub.cli.target import Target, find_target

if TYPE_CHECKING:
    from hub.cli.follow import Happened


def watch(
    context: Context,
    tail: Annotated[int, typer.Option("--tail", "-n", min=0, max=1000, help="Begin with so many entries.")] = 20,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="End when no run is active and none waits.")] = False,
    url: Url = None,
    token: Token = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Watch a session live. A lost connection, or a hub that starts again, loses and repeats nothing.

    JSON, one object a line, in order:

    {"event": "snapshot", "epoch", "seq", "document", "log_id", "entries", "reason",
    "skipped"} is the first, and comes again where changes could not be
    replayed: "reason" says why, "entries" begin where the last line ended.

    {"event": "change", "epoch", "seq", "parts"}: parts as in the protocol.

    {"event": "offline", "reason"} and {"event": "online"} tell of the connection.

    {"event": "closed", "reason"} is the last one of a session that ended.
    """
    target = find_target(url, token, data_dir)
    options.run(_watch(target, context, tail, until_idle, json))


async def _watch(target: Target, context: str, tail: int, until_idle: bool, json: bool) -> None:
    from hub.cli.follow import Follower

    follower = Follower(target, context, tail)

    def enough() -> bool:
        document = follower.state.document
        return until_idle and bool(document) and not document["running"] and not document["queue"]

    async with aclosing(follower.happenings()) as happenings:
        if json:
            async for happened in happenings:
                print_json(happened_json(happened))
                if enough():
                    return
            return
        from hub.cli.screen import Screen

        with Screen(out(), follower) as screen:
            async for happened in happenings:
                screen.show(happened)
                if enough():
                    return


def happened_json(happened: Happened) -> dict[str, Any]:
    """What a script sees of what happened."""
    from hub.cli.follow import Begun, Changed, Closed, Offline

    match happened:
        case Begun():
            return {
                "event": "snapshot",
                **happened.position._asdict(),
                "document": happened.document,
                "log_id": happened.document["log"]["id"],
                "entries": happened.entries,
                "reason": happened.reason,
                "skipped": happened.skipped,
            }
        case Changed(change=change):
            return {"event": "change", **change.position._asdict(), "parts": change.parts}
        case Offline(reason=reason):
            return {"event": "offline", "reason": reason}
        case Closed(reason=reason):
            return {"event": "closed", "reason": reason}
        case _:
            return {"event": "online"}
