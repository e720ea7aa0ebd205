"""The live view of a context: settled entries scroll by, what is going on stands below them."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from hub.cli.entries import entry_body, entry_head, entry_view
from hub.cli.follow import Begun, Changed, Closed, Follower, Happened, Offline, Online
from hub.cli.pages import run_line, step_line
from hub.cli.printer import LogPrinter, Piece
from hub.cli.tables import status_text
from hub.cli.text import clean, one_line, open_asks

REFRESH_SECONDS: Final = 0.12
QUIET_SECONDS: Final = 4.0
"""An entry that nothing was added to for so long is printed, even while its agent works."""
_TAIL_LINES: Final = 8
_TAIL_CHARACTERS: Final = 2_000


class Screen:
    """Shows what a follower finds. On a terminal with a live part below; else as plain lines as they become known."""

    def __init__(self, console: Console, follower: Follower, *, quiet_start: bool = False) -> None:
        """``quiet_start``: the log so far is not shown."""
        self._console = console
        self._follower = follower
        self._printer = LogPrinter()
        self._quiet_start = quiet_start
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        self._offline = ""
        self._told: tuple[str, str] = ("", "")  # run status, progress text, as they were printed last
        self._refresh: asyncio.TimerHandle | None = None
        self._quiet: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> Screen:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *args: object) -> None:
        for timer in (self._refresh, self._quiet):
            if timer is not None:
                timer.cancel()
        if self._live is not None:
            self._live.stop()
        if self._follower.state.document:
            self._print(self._printer.take(settled=True))
            self._tell_run()

    def show(self, happened: Happened) -> None:
        """Take in what happened; it shows within a moment."""
        state = self._follower.state
        match happened:
            case Begun():
                self._begin(happened)
            case Changed(change=change):
                before = state.log.id
                self._printer.follow(state.log, change)
                if any(part["kind"] == "log.reset" for part in change.parts):
                    self._remark(f"the log was emptied ({one_line(before)})")
                self._wait_for_quiet()
            case Offline(reason=reason):
                self._offline = reason
                self._remark(f"disconnected: {reason}; trying to come back", "yellow")
            case Online():
                self._offline = ""
                self._remark("connected again", "green")
            case Closed(reason=reason):
                self._print(self._printer.take(settled=True))
                self._remark(f"the session ended: {reason}", "yellow")
        if self._refresh is None:
            self._refresh = self._loop.call_later(REFRESH_SECONDS, self._refreshed)

    def _begin(self, begun: Begun) -> None:
        state = self._follower.state
        fits = self._printer.begin(state.log)
        if begun.reason is not None:
            self._remark(f"what came in between could not be replayed ({begun.reason}); this is how it stands now")
        if not fits:
            self._remark("the log is another one than before")
        if begun.skipped:
            self._remark(f"{begun.skipped:,} entries in between are left out")
        if self._quiet_start:
            self._printer.take(settled=True)
            self._quiet_start = False
        elif begun.reason is None:
            name = one_line(begun.document["name"])
            self._out(Text.assemble((one_line(begun.document["id"]), "bold"), f" {name}" if name else ""))
            if state.log.begin:
                self._out(Text(f"({state.log.begin:,} entries are too old to be kept)", style="dim"))
            if not state.log.whole:
                earlier = state.log.first - state.log.begin
                self._out(Text(f"({earlier:,} earlier entries; --tail shows more)", style="dim"))
        run = begun.document["run"]
        self._told = (
            f"{run['id']} {run['status']}" if run and self._told[0] == "" else self._told[0],
            self._progress(),
        )

    def _refreshed(self) -> None:
        self._refresh = None
        document = self._follower.state.document
        if not document:
            return
        self._print(self._printer.take(settled=not document["running"]))
        self._tell_run()
        if self._live is not None:
            self._live.update(self._below(document), refresh=True)

    def _wait_for_quiet(self) -> None:
        if self._quiet is not None:
            self._quiet.cancel()
        self._quiet = self._loop.call_later(QUIET_SECONDS, self._is_quiet)

    def _is_quiet(self) -> None:
        self._quiet = None
        self._print(self._printer.take(settled=True))
        self._refreshed()

    def _tell_run(self) -> None:
        """Where nothing stands below, changes of run and progress are lines of their own."""
        run = self._follower.state.document["run"]
        status = f"{run['id']} {run['status']}" if run else ""
        progress = self._progress()
        before, self._told = self._told, (status, progress)
        if run and status != before[0] and run["status"] != "starting":
            self._out(Text.assemble(("run ", "dim"), run_line(run)))
        if self._live is None and progress and progress != before[1]:
            self._out(Text(f"… {progress}", style="dim"))

    def _progress(self) -> str:
        return one_line(self._follower.state.document["progress"]["text"])

    def _print(self, pieces: list[Piece]) -> None:
        for kind, entry, text in pieces:
            if kind == "more":
                self._out(entry_head(entry, mark="(goes on)"))
                self._out(Padding(entry_body("", text), (0, 0, 0, 2)))
            else:
                self._out(entry_view(entry, mark="(changed)" if kind == "again" else ""))

    def _below(self, document: dict[str, Any]) -> RenderableType:
        """The live part: the entry that is being written, the step, the progress, the state of things."""
        parts: list[RenderableType] = []
        entry = self._printer.open_entry
        if entry is not None:
            parts.append(entry_head(entry.to_json()))
            lines = clean(entry.content[-_TAIL_CHARACTERS:]).rstrip().splitlines()[-_TAIL_LINES:]
            parts += [Text(f"  {line}", no_wrap=True, overflow="ellipsis") for line in lines]
        plan = document["session_context"].get("plan") or []
        done = sum(1 for step in plan if step["status"] == "done")
        parts += [step_line(step) for step in plan if step["status"] == "active"][:1]
        if document["progress"]["text"]:
            parts.append(Text(self._progress(), style="cyan" if document["progress"]["active"] else "dim"))
        line = Text("offline" if self._offline else "", style="bold yellow")
        line = line if self._offline else status_text(document)
        facts = [f"step {done} of {len(plan)}" if plan else ""]
        facts.append(f"{len(document['queue'])} waiting" if document["queue"] else "")
        facts += [f"asks: {one_line(ask['question'], 60)}" for ask in list(open_asks(document).values())[:1]]
        facts.append(f"{document['log']['length']} entries")
        line.append("  " + "  ".join(fact for fact in facts if fact), style="dim")
        parts.append(line)
        return Group(Text("─" * min(self._console.width, 80), style="dim"), *parts)

    def _remark(self, text: str, style: str = "dim") -> None:
        self._out(Text(f"— {one_line(text)}", style=style))

    def _out(self, part: RenderableType) -> None:
        self._console.print(part)
