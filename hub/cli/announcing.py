"""Commands for operators who speak to everybody: broadcast, notice."""

from __future__ import annotations

import enum
from typing import Annotated, Any

import typer

from hub.cli import options
from hub.cli.console import out, print_json, say
from hub.cli.options import DataDir, Json, Token, Url
from hub.cli.target import Target, find_target
from hub.cli.text import is_past, moment_of
from hub.core.enums import EntryType, NoticeType
from hub.core.errors import InvalidRequest


class Priority(enum.StrEnum):
    """Whether it comes before others."""

    NORMAL = "normal"
    HIGH = "high"


notice = typer.Typer(no_args_is_help=True, help="Post, list and clear notices: what everybody should know.")


def broadcast(
    text: Annotated[str, typer.Argument(help="What the entry says.", show_default=False)],
    type: Annotated[str, typer.Option("--type", "-t", help=f"One of: {', '.join(EntryType)}.")] = "info",
    heading: Annotated[str, typer.Option("--heading", help="A heading for the entry.")] = "",
    url: Url = None,
    token: Token = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Add an entry to the log of every live session.

    JSON: {"contexts": how many took it}.
    """
    from hub.cli.client import change

    entry = {"type": type, "heading": heading, "content": text}
    reply = options.run(change(find_target(url, token, data_dir), "broadcast", entry))
    if json:
        print_json(reply)
    else:
        say("1 live session has it" if reply["contexts"] == 1 else f"{reply['contexts']} live sessions have it")


@notice.command(
    epilog=options.examples(
        'session-hub notice post "Restart at 18:00" --type warning --expires 2h',
        'session-hub notice post "Report is ready" --for maria --id report',
    )
)
def post(
    text: Annotated[str, typer.Argument(help="The message.", show_default=False)],
    type: Annotated[NoticeType, typer.Option("--type", "-t", help="How urgent it looks.")] = NoticeType.INFO,
    title: Annotated[str, typer.Option("--title", help="A title.")] = "",
    detail: Annotated[str, typer.Option("--detail", help="More, for who asks.")] = "",
    priority: Annotated[Priority, typer.Option("--priority", help="Whether it comes first.")] = Priority.NORMAL,
    display: Annotated[float, typer.Option("--display", min=0, help="Seconds it shows up by itself.")] = 3,
    group: Annotated[str, typer.Option("--group", help="Name of a group of notices that belong together.")] = "",
    id: Annotated[str | None, typer.Option("--id", help="The same id again updates a notice.")] = None,
    audience: Annotated[str | None, typer.Option("--for", metavar="USER", help="One user only.")] = None,
    context: Annotated[str | None, typer.Option("--context", metavar="ID", help="It is about this session.")] = None,
    starts: Annotated[str | None, typer.Option("--starts", help="When it begins: 1h from now, or ISO 8601.")] = None,
    expires: Annotated[str | None, typer.Option("--expires", help="When it ends: 1h from now, or ISO 8601.")] = None,
    url: Url = None,
    token: Token = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Post a notice: every open page shows it, and pages opened later, until it ends.

    JSON: {"id", "version"}.
    """
    from hub.cli.client import change

    ends = moment_of(expires) if expires else None
    if ends is not None and is_past(ends):
        raise InvalidRequest(f"--expires {expires}: that is over already; write when it will end, such as 2h from now")
    wanted: dict[str, Any] = {
        "message": text,
        "type": str(type),
        "title": title,
        "detail": detail,
        "priority": 20 if priority is Priority.HIGH else 10,
        "display_time": display,
        "group": group,
        "id": id,
        "audience": audience,
        "context": context,
        "starts_at": moment_of(starts) if starts else None,
        "expires_at": ends,
    }
    wanted = {name: value for name, value in wanted.items() if value not in (None, "")}
    reply = options.run(change(find_target(url, token, data_dir), "notice.post", wanted))
    if json:
        print_json(reply)
    else:
        print(reply["id"])


@notice.command("list", epilog=options.examples("session-hub notice list", "session-hub notice list --json"))
def list_notices(url: Url = None, token: Token = None, data_dir: DataDir = None, json: Json = False) -> None:
    """List the notices that are up now, newest first; those that you have read are dim.

    JSON: {"notices": [row, ...], "read": [ids]}.
    """
    from hub.cli.client import ask

    reply = options.run(ask(find_target(url, token, data_dir), "subscribe", {"topic": "notices"}))
    if json:
        print_json({"notices": reply["rows"], "read": reply["read"]})
        return
    from hub.cli.tables import notices_table

    if reply["rows"]:
        out().print(notices_table(reply["rows"], reply["read"]))
    else:
        say("There are no notices.")


@notice.command(epilog=options.examples("session-hub notice clear report", "session-hub notice clear --all"))
def clear(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Which ones.", show_default=False)] = None,
    all: Annotated[bool, typer.Option("--all", help="All that are up now.")] = False,
    url: Url = None,
    token: Token = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Clear notices.

    JSON: {"cleared": [ids]}.
    """
    if bool(ids) == all:
        raise typer.BadParameter("name notices by their ids, or give --all")
    cleared = options.run(_clear(find_target(url, token, data_dir), ids or []))
    if json:
        print_json({"cleared": cleared})
    else:
        say(f"cleared {len(cleared)}")


async def _clear(target: Target, ids: list[str]) -> list[str]:
    from hub.cli.client import ask, change

    wanted = ids or [row["id"] for row in (await ask(target, "subscribe", {"topic": "notices"}))["rows"]]
    for id in wanted:
        await change(target, "notice.clear", {"id": id})
    return wanted
