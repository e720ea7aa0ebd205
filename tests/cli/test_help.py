"""Help is quick, and every command has some, with examples."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest
import typer.main

from hub import __version__
from hub.cli.main import app
from hub.cli.talking import Action
from hub.core.enums import NoticeType
from hub.core.requests import Control
from hub.wire.messages import NoticeType as WireNoticeType
from tests.support import environment, run_command

HEAVY = (
    "aiohttp",
    "asyncio",
    "hub.agent",
    "hub.node",
    "hub.record",
    "hub.server",
    "msgspec",
    "redis",
    "rich",
    "socketio",
)


def _commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    command = command or typer.main.get_command(app)
    for name, inner in getattr(command, "commands", {}).items():
        yield (*path, name), inner
        yield from _commands(inner, (*path, name))


LEAVES = [
    (path, command)
    for path, command in _commands()
    if not getattr(command, "commands", None) and not command.hidden  # "node" is run by its parent only
]


def test_all_commands_are_there() -> None:
    names = {" ".join(path) for path, _ in LEAVES}
    assert names == {
        *(
            "serve",
            "up",
            "agent demo",
            "token",
            "contexts",
            "show",
            "watch",
            "nodes",
            "answer",
            "health",
            "new",
            "send",
            "control",
            "remove",
        ),
        *("broadcast", "drain", "notice post", "notice list", "notice clear"),
    }


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=[" ".join(path) for path, _ in LEAVES])
def test_every_command_has_examples_and_tells_its_json(path: tuple[str, ...], command: Any) -> None:
    assert "Examples" in command.epilog
    assert f"session-hub {' '.join(path)}" in command.epilog
    assert command.help.split("\n")[0].rstrip().endswith((".", ":"))
    options = {option for parameter in command.params for option in parameter.opts}
    assert ("JSON" in command.help) == ("--json" in options)
    assert all(parameter.help for parameter in command.params if parameter.name not in ("end_with_stdin", "help"))


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=[" ".join(path) for path, _ in LEAVES])
def test_help_shows_all_that_a_command_says(path: tuple[str, ...], command: Any) -> None:
    """Nothing is taken for markup: every word of the description is shown, those in brackets too."""
    shown = run_command(*path, "--help").stdout
    told = inspect.getdoc(command.callback)
    assert told
    words = " ".join(shown.split())
    for word in told.split():
        assert word in words
        words = words.partition(word)[2]
    if "JSON: {" in told:
        assert "".join(told.partition("JSON: ")[2].split()) in "".join(re.sub("[│╭╮╰╯]", "", shown).split())


def test_help_imports_nothing_heavy() -> None:
    code = f"import hub.cli.main, sys; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), timeout=30)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_help_and_version_as_a_process() -> None:
    shown = run_command("--help")
    assert shown.returncode == 0, shown.stderr
    assert "session-hub up" in shown.stdout
    assert all(len(line) <= 80 for line in shown.stdout.splitlines())
    assert run_command("--version").stdout == f"session-hub {__version__}\n"


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["show"], ["control", "x", "explode"], ["serve", "--port", "99999"]]
)
def test_a_wrong_use_ends_with_2(arguments: list[str]) -> None:
    done = run_command(*arguments)
    assert done.returncode == 2
    assert "Usage" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["serve", "--nodes", "0"], "'--nodes': takes 1 or more, not 0"),
        (["serve", "--port", "99999"], "'--port' / '-p': takes 65535 at most, not 99999"),
        (["serve", "--port", "http"], "'--port' / '-p': takes a whole number, not http"),
        (["up", "--pace", "slow"], "'--pace': takes a number, not slow"),
        (["agent", "demo", "--lines", "99999999"], "'--lines': takes 10000000 at most, not 99999999"),
        (["token", "--sub", "a", "--role", "x"], "'--role': 'x' is not one of 'user'"),
        (["notice", "post", "a", "--type", "x"], "'--type' / '-t': 'x' is not one of 'info'"),
    ],
)
def test_what_an_option_takes_is_said_in_plain_words(arguments: list[str], told: str) -> None:
    done = run_command(*arguments)
    assert done.returncode == 2
    assert told in " ".join(re.sub("[│╭╮╰╯]", "", done.stderr).split())


def test_choices_are_the_hubs_own() -> None:
    assert set(Action) == set(get_args(get_type_hints(Control)["action"]))
    assert set(NoticeType) == set(get_args(WireNoticeType))
