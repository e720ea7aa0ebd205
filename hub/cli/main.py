"""The command ``session-hub``. What a command needs is imported when it runs, so that help and short commands are quick."""

from __future__ import annotations

import inspect
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from hub import __version__
from hub.cli import agents, announcing, operating, reading, serving, talking, tokens, watching
from hub.cli.console import prepare_output, print_error
from hub.cli.options import examples
from hub.cli.text import one_line
from hub.core.errors import HubError

RUN, LOOK, TALK, OPERATE = "Run", "Look", "Talk", "Operate"


class _Command(TyperCommand):
    """A command whose options say in our words what they take."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = _what_it_takes(error)
            raise


def _what_it_takes(error: typer.BadParameter) -> str:
    """Newer versions of typer check values with pydantic, and pass its words on."""
    tell = getattr(error.__cause__, "errors", None)
    if tell is None:
        return error.message
    found = tell()[0]
    text, context = one_line(found["input"], 40), found.get("ctx", {})
    match found["type"]:
        case "greater_than_equal":
            return f"takes {context['ge']:.10g} or more, not {text}"
        case "less_than_equal":
            return f"takes {context['le']:.10g} at most, not {text}"
        case "int_parsing" | "int_from_float":
            return f"takes a whole number, not {text}"
        case "float_parsing":
            return f"takes a number, not {text}"
        case "bool_parsing":
            return f"takes true or false, not {text}"
        case _:
            return str(context.get("error", found["msg"]))


app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "session-hub up                              a hub with its demo agent",
        "session-hub contexts                        the sessions of the hub that runs here",
        "HUB_URL=http://host:8765 HUB_TOKEN=... session-hub contexts --json",
    ),
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"session-hub {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say it and end.")
    ] = False,
) -> None:
    """A realtime session hub for AI agents: run one, and look after the sessions of one that runs."""


def _add(group: str, command: object, name: str, *lines: str) -> None:
    app.command(name, rich_help_panel=group, epilog=examples(*lines))(command)  # type: ignore[type-var]


_add(
    RUN,
    serving.up,
    "up",
    "session-hub up",
    "session-hub up --port 9000 --files ~/logs",
)
_add(
    RUN,
    serving.serve,
    "serve",
    "session-hub serve --data-dir ~/hub",
    "session-hub serve --nodes 4",
    "session-hub serve --redis redis://127.0.0.1:6379/0",
    "HUB_SECRET=... session-hub serve --host 0.0.0.0 --origin https://chat.example.com",
)
app.command("node", hidden=True)(serving.node)
app.add_typer(agents.agent, name="agent", rich_help_panel=RUN)
_add(
    RUN,
    tokens.token,
    "token",
    "session-hub token --sub maria --role user --ttl 8h",
    "session-hub token --sub maria --role user --link",
    "session-hub token --sub crawler --role agent --ctx 'crawl-*'",
)
_add(
    LOOK,
    reading.contexts,
    "contexts",
    "session-hub contexts --all --limit 500",
    "session-hub contexts --json | jq -r '.contexts[] | select(.running) | .id'",
)
_add(LOOK, reading.show, "show", "session-hub show aB3d9XqZ", "session-hub show aB3d9XqZ --json | jq .document.output")
_add(
    LOOK,
    watching.watch,
    "watch",
    "session-hub watch aB3d9XqZ",
    "session-hub watch aB3d9XqZ --json --until-idle > run.jsonl",
)
_add(LOOK, operating.nodes, "nodes", "session-hub nodes", "session-hub nodes --json | jq -r '.nodes[].name'")
_add(LOOK, reading.health, "health", "session-hub health", "session-hub health --json | jq .record")
_add(TALK, talking.new, "new", "session-hub new --name 'Access logs'", "id=$(session-hub new --agent demo)")
_add(
    TALK,
    talking.send,
    "send",
    "session-hub send aB3d9XqZ 'analyse access.log' --wait",
    "session-hub send aB3d9XqZ --attach access.log",
    "journalctl -n 500 | session-hub send aB3d9XqZ - --wait --json | jq .output",
)
_add(
    TALK,
    talking.answer,
    "answer",
    "session-hub answer aB3d9XqZ yes",
    "session-hub answer aB3d9XqZ no --ask 39986f889a18a60c",
)
_add(TALK, talking.control, "control", "session-hub control aB3d9XqZ pause", "session-hub control aB3d9XqZ stop")
_add(TALK, talking.remove, "remove", "session-hub remove aB3d9XqZ")
_add(
    OPERATE,
    announcing.broadcast,
    "broadcast",
    "session-hub broadcast 'The hub restarts at 18:00' --type warning",
)
_add(OPERATE, operating.drain, "drain", "session-hub drain", "session-hub drain node-3fa85f64 --seconds 60")
app.add_typer(announcing.notice, name="notice", rich_help_panel=OPERATE)

for _group in (app, agents.agent, announcing.notice):
    for _command in _group.registered_commands:  # brackets in what a command says are JSON, not rich's markup
        _command.cls = _Command
        _command.help = (inspect.getdoc(_command.callback) or "").replace("[", "\\[")


def main() -> None:
    """The entry point. Ends with 0 if all went well, 1 if the hub or the world refused, 2 for a wrong use, 130 for Ctrl-C."""
    prepare_output()
    try:
        app(prog_name="session-hub")
    except HubError as error:
        print_error(error)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
