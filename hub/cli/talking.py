"""Commands that talk to sessions: new, send, answer, control, remove."""

from __future__ import annotations

import enum
import sys
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hub.cli import options
from hub.cli.console import out, print_json, say
from hub.cli.options import Context, DataDir, Json, Token, Url
from hub.cli.target import Target, find_target
from hub.cli.text import open_asks, option_text
from hub.core.enums import ContextType, WhenBusy
from hub.core.errors import HubError, InvalidRequest, NotFound

if TYPE_CHECKING:
    from hub.cli.follow import Follower


LOOK_SECONDS = 5.0
"""How long it may take to find out whether a session's agent is there."""


class Action(enum.StrEnum):
    """What people ask of a run."""

    STOP = "stop"
    PAUSE = "pause"
    RESUME = "resume"
    NUDGE = "nudge"
    RESET = "reset"


def new(
    name: Annotated[str, typer.Option("--name", help="A name for people.")] = "",
    agent: Annotated[str | None, typer.Option("--agent", help="Who answers; by default the hub's own choice.")] = None,
    id: Annotated[str | None, typer.Option("--id", help="The session's id; by default the hub makes one.")] = None,
    type: Annotated[ContextType, typer.Option("--type", help="What it is for.")] = ContextType.USER,
    when_busy: Annotated[
        WhenBusy, typer.Option("--when-busy", help="What becomes of messages that come while the agent works.")
    ] = WhenBusy.QUEUE,
    url: Url = None,
    token: Token = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Open a session and print its id.

    JSON: {"id", "epoch", "seq"}.
    """
    from hub.cli.client import change

    wanted: dict[str, Any] = {"type": str(type), "when_busy": str(when_busy)}
    wanted |= {key: value for key, value in (("name", name), ("agent", agent), ("id", id)) if value}
    reply = options.run(change(find_target(url, token, data_dir), "context.create", wanted))
    if json:
        print_json(reply)
    else:
        print(reply["id"])


def send(
    context: Context,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message; - reads it from standard input.")] = "",
    attach: Annotated[
        list[Path] | None, typer.Option("--attach", "-a", help="A file to go along; may be given again.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Show the answer, and wait for its end.")] = False,
    url: Url = None,
    token: Token = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Send a message to a session's agent.

    JSON: {"id", "epoch", "seq", ...}; with --wait {"id", "run": {...}, "entries": [...], "output": {...}} at the end.
    With --wait the command ends with 1 if the run did not finish.
    """
    target = find_target(url, token, data_dir)
    if text == "-":
        text = sys.stdin.read()
    files = [(path.name, _read(path)) for path in attach or []]
    result = options.run(_send(target, context, text, files, wait, json))
    if json:
        print_json(result)
    elif not wait:
        say(f"sent ({result['id']}); 'session-hub watch {context}' shows what becomes of it")
    if wait and (result["run"] or {}).get("status") != "finished":
        raise typer.Exit(1)


def _read(path: Path) -> bytes:
    try:
        return path.expanduser().read_bytes()
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {error.strerror}") from None


async def _send(
    target: Target, context: str, text: str, files: list[tuple[str, bytes]], wait: bool, quiet: bool
) -> dict[str, Any]:
    from hub.cli.client import change, connect

    attachments = []
    if files:
        async with connect(target) as connection:
            attachments = [{"id": (await connection.upload(name, data))["id"]} for name, data in files]
    message: dict[str, Any] = {"context": context, "text": text}
    if attachments:
        message["attachments"] = attachments
    if not quiet and (lack := await _lacking(target, context)):
        say(lack, "yellow")
    if not wait:
        return await change(target, "message", message)
    from hub.cli.follow import Begun, Closed, Follower

    follower = Follower(target, context, tail=0)
    async with aclosing(follower.happenings()) as happenings:
        first = await anext(happenings)  # from here on nothing of the answer is missed
        assert isinstance(first, Begun)
        log, start = first.document["log"]["id"], first.document["log"]["length"]
        answer = _Answer(follower, (await change(target, "message", message))["id"])
        if quiet:
            async for happened in happenings:
                if answer.ended() or isinstance(happened, Closed):
                    break
        else:
            from hub.cli.screen import Screen

            with Screen(out(), follower, quiet_start=True) as screen:
                screen.show(first)
                async for happened in happenings:
                    screen.show(happened)
                    if answer.ended() or isinstance(happened, Closed):
                        break
    state = follower.state
    from_no = start if state.log.id == log else 0
    entries = [entry.to_json() for entry in state.log.entries if entry.no >= from_no]
    return {"id": answer.message, "run": state.document["run"], "entries": entries, "output": state.document["output"]}


async def _lacking(target: Target, context: str) -> str:
    """What to say when the agent of a session is not connected; "" when it is, or that cannot be told."""
    import asyncio

    from hub.cli.client import connect
    from hub.node.settings import Settings

    try:
        async with asyncio.timeout(LOOK_SECONDS), connect(target) as connection:
            served = (await connection.hello())["agents"]
            name = (await connection.request("context.get", {"context": context}))["document"]["agent"]
    except (HubError, TimeoutError):  # sending says what is wrong
        return ""
    if name is None:
        name = Settings().default_agent
        if name not in served:
            return (
                f"The session names no agent, and {name!r} is not connected, which answers these if HUB_DEFAULT_AGENT names"
                " no other: the message waits for it."
            )
    return "" if name in served else f"No agent {name!r} is connected now: the message waits for it."


class _Answer:
    """Whether the run that a message started has ended."""

    def __init__(self, follower: Follower, message: str) -> None:
        self.message = message
        self._follower = follower
        self._run = ""

    def ended(self) -> bool:
        """To be asked after each change."""
        document = self._follower.state.document
        run = document["run"]
        if run and any(item["id"] == self.message for item in run["messages"]):
            self._run = run["id"]
        if any(item["id"] == self.message for item in document["queue"]):
            self._run = ""  # it waits, or waits again
            return False
        return bool(self._run) and (run is None or run["id"] != self._run or not document["running"])


def answer(
    context: Context,
    text: Annotated[str, typer.Argument(metavar="ANSWER", help="One of the options, if there are any.")],
    ask: Annotated[
        str | None, typer.Option("--ask", help="Which question, by its id; not needed for a single one.")
    ] = None,
    url: Url = None,
    token: Token = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Answer a question of a session's agent. The first answer is the one.

    JSON: {"ask", "epoch", "seq", ...}.
    """
    reply = options.run(_answer(find_target(url, token, data_dir), context, ask, text))
    if json:
        print_json(reply)
    else:
        say("answered")


async def _answer(target: Target, context: str, ask: str | None, text: str) -> dict[str, Any]:
    from hub.cli.client import change, connect

    async with connect(target) as connection:
        document = (await connection.request("context.get", {"context": context}))["document"]
    if ask is None:
        waiting = list(open_asks(document))
        if not waiting:
            raise NotFound(f"no question of session {context!r} waits for an answer")
        if len(waiting) > 1:
            raise InvalidRequest(f"several questions wait: name one by --ask, {' or '.join(waiting)}")
        ask = waiting[0]
    known = document["asks"].get(ask, {}).get("options") or []
    value = next((option for option in known if option_text(option) == text), text)
    return {"ask": ask, **await change(target, "answer", {"context": context, "ask": ask, "value": value})}


def control(
    context: Context,
    action: Annotated[Action, typer.Argument(help="What to do with the run.", show_default=False)],
    url: Url = None,
    token: Token = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Stop, pause or resume a session's run; nudge one that was interrupted; reset empties the log.

    JSON: {"epoch", "seq", ...}.
    """
    from hub.cli.client import change

    target = find_target(url, token, data_dir)
    reply = options.run(change(target, "control", {"context": context, "action": str(action)}))
    if json:
        print_json(reply)
    else:
        say(f"{action}: accepted")


def remove(
    context: Context,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: Url = None,
    token: Token = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Remove a session for good: its run ends, its log and data are gone.

    JSON: {"epoch", "seq", ...}.
    """
    from hub.cli.client import change

    target = find_target(url, token, data_dir)
    if not yes:
        typer.confirm(f"Remove the session {context} for good?", abort=True)
    reply = options.run(change(target, "context.remove", {"context": context}))
    if json:
        print_json(reply)
    else:
        say(f"removed {context}")
