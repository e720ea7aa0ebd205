"""One analysis in a context: the plan, the entries that viewers see, the counters, the result."""

import asyncio
import time
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hub.demo import analysis, formats, parse
from hub.demo.findings import Finding
from hub.demo.formats import Format
from hub.demo.parse import Progress
from hub.demo.render import blocks, escape
from hub.demo.source import Download, Source, fetch
from hub.demo.steps import Steps
from hub.demo.table import Table, plural, show_share

if TYPE_CHECKING:
    from hub.agent.context import AgentContext

T = TypeVar("T")

TICKS = 20
"""At most about so many times the reading of one input tells how far it is."""
SLICE = 0.03
"""Seconds of work in a thread between two checkpoints."""
PIECE = 2_000
"""Characters of a text that are streamed at a time."""


async def in_slices(ctx: "AgentContext", steps: Steps[T]) -> T:
    """Do the work of `steps` in a thread, a slice at a time; between two slices the run can be paused or stopped."""
    while True:
        done, result = await asyncio.to_thread(_advance, steps)
        if done:
            return result  # type: ignore[return-value]
        await ctx.checkpoint()


def _advance(steps: Steps[T]) -> tuple[bool, T | None]:
    until = time.monotonic() + SLICE
    try:
        while time.monotonic() < until:
            next(steps)
    except StopIteration as end:
        return True, end.value
    return False, None


async def stream(ctx: "AgentContext", type: str, heading: str, text: str, **kvps: Any) -> None:
    """Add an entry and stream `text` into it, line by line or several short ones at once."""
    entry = ctx.log.log(type, heading=heading[:120], content="", kvps=kvps or None)
    piece = ""
    for line in text.splitlines(keepends=True):
        piece += line
        if len(piece) >= PIECE or line.isspace():
            entry.stream(content=piece)
            piece = ""
            await ctx.checkpoint()
    if piece:
        entry.stream(content=piece)


class Analysis:
    """The analysis of one source in one context."""

    def __init__(self, ctx: "AgentContext", source: Source, *, year: int, pace: float = 0.0) -> None:
        self.ctx = ctx
        self.source = source
        self.rows = 0
        """Rows read so far."""
        self._year = year
        self._pace = pace
        self._plan: list[str] = analysis.plan()
        self._done = 0

    async def run(self, download: Download, files: Path | None) -> tuple[Table, Format]:
        """Do all of it. Raises `DemoError` if the input cannot be analysed."""
        self._begin()
        data = await fetch(self.source, download, files)
        await self.ctx.checkpoint()
        form = await self._detect(data)
        table = await self._read(data, form)
        found: list[Finding] = []
        for step in analysis.steps_for(form.kind):
            self._step(step.text)
            one = await in_slices(self.ctx, step.work(table))
            if one is not None:
                found.append(one)
                await self._tell(one)
            await self._breathe()
        await self._report(table, form, found)
        return table, form

    def _begin(self) -> None:
        ctx, name = self.ctx, self.source.name
        ctx.session_context.save(
            summary=f"Analysing {name}. Nothing is known about it yet.",
            goal=f"Find out what is in {name}",
            plan=[{"text": text, "status": "pending"} for text in self._plan],
            progress=[],
        )
        for key in ("analysis", "answer"):  # of what was analysed before
            ctx.output_data.pop(key, None)
        counters = {"bytes": self.source.size, "bytes_read": 0, "rows": 0, "bad_rows": 0, "errors": 0}
        ctx.state.update({"file": name, "format": "", **counters})
        self._step(analysis.DETECT)

    def _step(self, text: str) -> None:
        """The step before is done, this one begins."""
        at = self._plan.index(text)
        for done in range(self._done, at):
            self.ctx.session_context.step(done, "done")
        self._done = max(self._done, at)
        self.ctx.session_context.step(at, "active")
        self.ctx.set_progress(text, active=True)

    async def _breathe(self) -> None:
        if self._pace:
            await asyncio.sleep(self._pace)
        await self.ctx.checkpoint()

    async def _detect(self, data: bytes) -> Format:
        ctx, name = self.ctx, self.source.name
        form = await asyncio.to_thread(formats.detect, data, name if self.source.kind != "paste" else "")
        plan = analysis.plan(analysis.steps_for(form.kind))
        if plan != self._plan:
            self._plan = plan
            ctx.session_context.save(
                plan=[{"text": text, "status": "active" if at == 0 else "pending"} for at, text in enumerate(plan)]
            )
        sure = f" {form.share:.0%} of the first lines fit." if form.share < 1 else ""
        text = f"This is {form.label}, {len(data):,} bytes in {form.encoding.label}.{sure}"
        if form.layout is not None and form.layout.delimiter:
            text += f" {plural(len(form.layout.names), 'column')}" + (
                " with names on top." if form.layout.header else " without names."
            )
        ctx.log.log("info", heading=f"Format: {form.label}", content=text)
        ctx.state.update({"format": form.label, "bytes": len(data)})
        await self._breathe()
        return form

    async def _read(self, data: bytes, form: Format) -> Table:
        """Read all rows; about every 2,000 of them the entry grows by a line, and counters and progress move."""
        ctx = self.ctx
        self._step(analysis.READ)
        entry = ctx.log.log("progress", heading=f"Reading {self.source.name}"[:120], content="", update_progress="none")
        reading = parse.parse(data, form, self.source.name, year=self._year)
        told = 0
        every = max(len(data) // TICKS, 1)
        while True:
            progress, table = await asyncio.to_thread(_next, reading)
            if table is not None:
                break
            if progress is not None and (progress.done - told >= every or progress.done < told):
                told = progress.done
                self._tick(entry, progress, form)
            await self._breathe()
        counts = f"{plural(table.rows, table.noun)}, {plural(table.bad.count, 'bad row')}"
        self.rows = table.rows
        ctx.state.update({"rows": table.rows, "bad_rows": table.bad.count, "bytes_read": table.size})
        if table.notes:
            entry.stream(content="".join(f"\n{escape(note, 300)}\n" for note in table.notes))
        entry.update(heading=f"Read {self.source.name}: {counts}"[:120], lines=table.lines, columns=len(table.columns))
        return table

    def _tick(self, entry: Any, progress: Progress, form: Format) -> None:
        self.rows = progress.rows
        share = show_share(progress.done, progress.total)
        rows = plural(progress.rows, form.noun)
        bad = f", {progress.bad:,} bad" if progress.bad else ""
        entry.stream(content=f"- {rows}{bad} ({share} read)\n")
        self.ctx.state.update({"rows": progress.rows, "bad_rows": progress.bad, "bytes_read": progress.done})
        self.ctx.set_progress(f"Reading: {rows}{bad} ({share} read)", active=True, entry=entry)

    async def _tell(self, one: Finding) -> None:
        await stream(self.ctx, "warning" if one.warning else "info", one.heading, one.markdown)
        if one.key == "errors" and isinstance(one.data, dict):
            self.ctx.state.update({"errors": one.data["count"]})

    async def _report(self, table: Table, form: Format, found: list[Finding]) -> None:
        ctx = self.ctx
        self._step(analysis.REPORT)
        result = await asyncio.to_thread(analysis.output, table, found, form)
        ctx.set_output_data("analysis", result)
        overview = await asyncio.to_thread(analysis.overview, table)
        headings = [one.heading for one in found]
        report = await asyncio.to_thread(analysis.report, table, found)
        await stream(ctx, "response", f"Analysis of {self.source.name}", report)
        ctx.session_context.save(
            summary=blocks(overview.replace("**", ""), "; ".join(headings) + "." if headings else "")[:2000],
            plan=[{"text": text, "status": "done"} for text in self._plan],
            progress=headings,
        )
        ctx.set_progress("Done", active=False)


def _next(reading: Generator[Progress, None, Table]) -> tuple[Progress | None, Table | None]:
    try:
        return next(reading), None
    except StopIteration as end:
        return None, end.value
