"""The plan of an analysis, its steps in order, and the report at the end."""

from collections.abc import Callable, Generator
from dataclasses import dataclass

from hub.demo import findings
from hub.demo.findings import Finding
from hub.demo.formats import Format
from hub.demo.hints import examples
from hub.demo.render import JsonValue, blocks, escape, short
from hub.demo.steps import drain
from hub.demo.table import Table, plural

Work = Generator[None, None, Finding | None]


@dataclass(frozen=True)
class Step:
    """A step of the plan after reading: its key, its text in the plan, and the work."""

    key: str
    text: str
    work: Callable[[Table], Work]


DETECT, READ, REPORT = "Detect the format", "Read the rows", "Write the report"
"""The steps of every plan that are not about one finding."""

BAD = Step("bad", "Count and show bad rows", findings.bad_rows)
NUMBERS = Step("numbers", "Summarise the numbers", findings.numbers)
TOP = Step("top", "Find the top values", findings.top_values)
TIMELINE = Step("timeline", "Draw the histogram over time", findings.over_time)
ERRORS = Step("errors", "Group the errors", findings.error_clusters)
WORDS = Step("words", "Count the words", findings.words)
LINES = Step("lines", "Find long and repeated lines", findings.long_lines)

ALL = (BAD, NUMBERS, TOP, TIMELINE, ERRORS)
"""The plan before anything is known about the input."""


def steps_for(kind: str) -> tuple[Step, ...]:
    """The steps that make sense for this kind of input (`Format.kind`, `Table.kind`)."""
    if kind == "text":
        return (WORDS, LINES, ERRORS)
    return (BAD, TOP, TIMELINE, ERRORS) if kind == "log" else ALL


def plan(steps: tuple[Step, ...] = ALL) -> list[str]:
    """The texts of a whole plan."""
    return [DETECT, READ, *(step.text for step in steps), REPORT]


def overview(table: Table) -> str:
    """What was read, in two sentences, as Markdown."""
    parts = [f"**{escape(table.name)}** is {table.label}" if table.name else f"This is {table.label}"]
    counted = [plural(table.rows, table.noun)]
    if table.bad.count:
        counted.append(plural(table.bad.count, "bad row"))
    said = f"{parts[0]}: {' and '.join(counted)}"
    if span := time_span(table):
        said += f", from {span[0]} to {span[1]}"
    return f"{said}."


def time_span(table: Table) -> tuple[str, str] | None:
    """The first and the last time, as shown."""
    column = table.role("time")
    if column is None or column.kind != "time":
        return None
    times = [value for value in column.values if isinstance(value, float) and value == value]
    return (table.show_time(min(times)), table.show_time(max(times))) if times else None


def report(table: Table, found: list[Finding]) -> str:
    """The report as Markdown: overview, the main tables, and what can be asked next."""
    by_key = {finding.key: finding.brief for finding in found}
    order = ("bad", "words", "errors", "timeline", "top", "numbers", "lines")
    titles = {
        "errors": "### Errors", "timeline": "### Over time", "top": "### Top values", "numbers": "### Numbers",
        "lines": "### Lines", "words": "### Words",
    }  # fmt: skip
    parts = [overview(table)]
    for key in order:
        if by_key.get(key):
            parts += [titles.get(key, ""), by_key[key]]
    parts.append("\n".join(f"*{escape(note, 300)}*  " for note in table.notes))
    asked = ", ".join(f"“{escape(example)}”" for example in examples(table)[:4])
    parts.append(f"You can go on asking, for example {asked}." if asked else "")
    return blocks(*parts)


def output(table: Table, found: list[Finding], form: Format) -> dict[str, JsonValue]:
    """The result as JSON values, well under 100 KB."""
    columns: list[JsonValue] = [{"name": short(column.name), "kind": column.kind} for column in table.columns]
    span = time_span(table)
    result: dict[str, JsonValue] = {
        "source": short(table.name),
        "format": form.kind,
        "label": table.label,
        "encoding": form.encoding.label,
        "bytes": table.size,
        "lines": table.lines,
        "blank_lines": table.blank,
        "rows": table.rows,
        "bad_rows": table.bad.count,
        "columns": columns,
        "first_time": span[0] if span else None,
        "last_time": span[1] if span else None,
        "notes": [short(note, 300) for note in table.notes],
    }
    for finding in found:
        result[finding.key] = finding.data
    return result


def analyse(table: Table) -> list[Finding]:
    """All findings at once, for callers who need not stop in between."""
    found = [drain(step.work(table)) for step in steps_for(table.kind)]
    return [finding for finding in found if finding is not None]
