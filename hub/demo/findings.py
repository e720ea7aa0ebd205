"""The steps of an analysis after reading: each looks at a table and comes back with one finding."""

from dataclasses import dataclass, field

from hub.demo import faults, text, timeline
from hub.demo.clusters import Clusters, cluster
from hub.demo.render import JsonValue, bar, blocks, escape, grid, short
from hub.demo.stats import Summary, count_values, finite, most, summarise
from hub.demo.steps import Steps
from hub.demo.table import Column, Table, plural, show_number, show_share
from hub.demo.times import moment

MOST_COLUMNS = 12
"""Columns whose top values are told; the main ones (status, path, host ...) come first."""
_FIRST = ("status", "level", "path", "host", "method", "source", "user")


@dataclass(frozen=True)
class Finding:
    """One result. `markdown` goes into the log, `brief` into the report at the end, `data` into the output data."""

    key: str
    heading: str
    markdown: str
    brief: str
    data: JsonValue
    warning: bool = False
    kvps: dict[str, str] = field(default_factory=dict)


def bad_rows(table: Table) -> Steps[Finding]:
    """How many rows do not fit, why, and the first of them."""
    yield
    bad = table.bad
    samples: JsonValue = [{"line": row.line, "reason": row.reason, "text": short(row.text, 120)} for row in bad.samples]
    data: JsonValue = {"count": bad.count, "reasons": dict(bad.reasons), "samples": samples}
    if not bad.count:
        return Finding("bad", "No bad rows", "", "", data)
    all_rows = table.rows + bad.count
    reasons = sorted(bad.reasons.items(), key=lambda item: -item[1])
    said = f"{plural(bad.count, 'bad row')} of {all_rows:,} ({show_share(bad.count, all_rows)}): " + "; ".join(
        f"{count:,} {reason}" for reason, count in reasons
    )
    shown = grid(
        ("line", "reason", "text"), [(f"{row.line:,}", row.reason, row.text) for row in bad.samples], ["line"]
    ).markdown(100)
    return Finding("bad", f"{plural(bad.count, 'bad row')}", blocks(said + ".", shown), said + ".", data, True)


def numbers(table: Table) -> Steps[Finding | None]:
    """Count, extremes, mean, percentiles of each column of numbers; None if there is none."""
    found: list[tuple[Column, Summary]] = []
    for column in table.columns:
        if column.kind == "number":
            summary = yield from summarise(column.values)  # type: ignore[arg-type]
            if summary.count:
                found.append((column, summary))
    if not found:
        return None
    shown = number_table(found)
    data: JsonValue = [{"column": short(column.name), **summary_data(summary)} for column, summary in found[:50]]
    return Finding("numbers", f"Numbers in {plural(len(found), 'column')}", shown, shown, data)


def number_table(found: list[tuple[Column, Summary]]) -> str:
    """The summaries as a Markdown table."""
    head = ("column", "count", "missing", "min", "mean", "median", "p95", "max", "std. dev.", "sum")
    rows = [
        (
            column.name,
            f"{one.count:,}",
            f"{one.missing:,}",
            *map(show_number, (one.minimum, one.mean, one.median, one.p95, one.maximum, one.stddev, one.total)),
        )
        for column, one in found[:50]
    ]
    shown = grid(head, rows, head[1:]).markdown()
    estimated = any(not one.exact for _, one in found)
    return blocks(shown, "Median and p95 are estimated from evenly spaced values." if estimated else "")


def summary_data(one: Summary) -> dict[str, JsonValue]:
    """A summary as JSON values."""
    return {
        "count": one.count, "missing": one.missing, "min": one.minimum, "max": one.maximum, "mean": one.mean,
        "median": one.median, "p95": one.p95, "stddev": one.stddev, "sum": one.total, "exact": one.exact,
    }  # fmt: skip


def top_values(table: Table) -> Steps[Finding | None]:
    """The most frequent values of each column that has values which come more than once."""
    parts: list[str] = []
    brief: list[str] = []
    data: dict[str, JsonValue] = {}
    for column in _by_weight(table):
        counts = yield from count_values(column.values)
        few = len(counts) <= 12 if column.kind == "number" else len(counts) < 0.9 * sum(counts.values())
        if not counts or not (few or table.rows <= 20):
            continue
        best = [(value, int(count)) for value, count in most(counts.items(), 10)]
        total = sum(counts.values())
        parts.append(top_table(table, column, best, total, len(counts)))
        if len(brief) < 3:
            brief.append(top_table(table, column, best[:5], total, len(counts)))
        data[short(column.name)] = {
            "distinct": len(counts),
            "values": [{"value": short(show_value(table, column, value)), "count": count} for value, count in best],
        }
        if len(parts) == MOST_COLUMNS:
            break
    if not parts:
        return None
    heading = f"Top values of {plural(len(parts), 'column')}"
    return Finding("top", heading, blocks(*parts), blocks(*brief), data)


def top_table(table: Table, column: Column, best: list[tuple[str | float, int]], total: int, distinct: int) -> str:
    """The most frequent values of one column as a Markdown table."""
    rows = [(show_value(table, column, value), f"{count:,}", show_share(count, total)) for value, count in best]
    shown = grid((column.name, "count", "share"), rows, ("count", "share")).markdown()
    more = distinct - len(best)
    return blocks(shown, f"… and {plural(more, 'other value')}." if more > 0 else "")


def show_value(table: Table, column: Column, value: str | float) -> str:
    """A value of a column as it is shown."""
    if isinstance(value, str):
        return value
    return table.show_time(value) if column.kind == "time" else show_number(value)


def _by_weight(table: Table) -> list[Column]:
    main = [column for role in _FIRST if (column := table.role(role)) is not None]
    message = table.role("message")
    others = [column for column in table.columns if column not in main and column.kind != "time"]
    return main + [column for column in others if column is not message or table.kind == "table"]


def over_time(table: Table) -> Steps[Finding | None]:
    """Rows (and errors) in buckets of time; None if there is no column of times."""
    column = table.role("time")
    if column is None or column.kind != "time":
        return None
    rule = faults.rule(table)
    errors = (yield from faults.error_rows(rule)) if rule else []
    line = yield from timeline.build(column.values, errors)  # type: ignore[arg-type]
    if line is None:
        return None
    shown = time_table(table, line, bool(errors))
    data = time_data(table, line)
    return Finding("timeline", f"{plural(2, table.noun)[2:].capitalize()} per {line.unit}", shown, shown, data)


def time_table(table: Table, line: timeline.Timeline, with_errors: bool, noun: str = "") -> str:
    """A timeline as a Markdown table with bars; `noun` (in the plural) says what is counted, rows by default."""
    highest = max(bucket.count for bucket in line.buckets)
    noun = noun or plural(2, table.noun)[2:]
    head = ("from", noun, *(("errors",) if with_errors else ()), "")
    rows = [
        (
            line.label(table, bucket),
            f"{bucket.count:,}",
            *((f"{bucket.errors:,}",) if with_errors else ()),
            bar(bucket.count, highest),
        )
        for bucket in line.buckets
    ]
    day = line.day(table)
    said = f"{noun.capitalize()} per {line.unit}" + (f" on {day}" if day else "") + ":"
    left = f"{plural(line.outside, 'row')} before or after this part." if line.outside else ""
    missing = f"{plural(line.missing, 'row')} without a time." if line.missing else ""
    return blocks(said, grid(head, rows, head[1:-1]).markdown(), " ".join(filter(None, (left, missing))))


def time_data(table: Table, line: timeline.Timeline) -> JsonValue:
    """A timeline as JSON values; times are ISO 8601 as written in the input."""
    buckets: list[JsonValue] = [
        {"start": moment(bucket.start).isoformat(), "count": bucket.count, "errors": bucket.errors}
        for bucket in line.buckets
    ]
    return {"unit": line.unit, "seconds": line.width, "buckets": buckets, "outside": line.outside}


def error_clusters(table: Table) -> Steps[Finding | None]:
    """The errors, put together by what their messages have in common; None if nothing says what an error is."""
    rule = faults.rule(table)
    if rule is None:
        return None
    rows = yield from faults.error_rows(rule)
    grouped = yield from cluster(table, rows)
    share = show_share(len(rows), table.rows)
    data: dict[str, JsonValue] = {"count": len(rows), "rule": short(rule.text), "clusters": []}
    if not rows:
        said = f"No errors ({escape(rule.text)})."
        return Finding("errors", "No errors", said, said, data)
    said = f"{plural(len(rows), 'error')} ({escape(rule.text)}), {share} of all {plural(2, table.noun)[2:]}."
    shown = brief = ""
    if grouped is not None:
        shown, brief = cluster_table(table, grouped), cluster_table(table, grouped, 5)
        data["clusters"] = cluster_data(table, grouped)
        data["distinct"] = grouped.distinct
    heading = f"{plural(len(rows), 'error')} in {plural(grouped.distinct if grouped else 1, 'group')}"
    return Finding("errors", heading, blocks(said, shown), blocks(said, brief), data, True)


def cluster_table(table: Table, grouped: Clusters, limit: int = 10) -> str:
    """Error groups as a Markdown table."""
    rows = [
        (f"{one.count:,}", one.template, f"{table.line_numbers[one.row]:,}", one.example)
        for one in grouped.found[:limit]
    ]
    shown = grid(("count", "what", "first line", "example"), rows, ("count", "first line")).markdown(120)
    more = grouped.distinct - len(rows)
    return blocks(shown, f"… and {plural(more, 'other group')}." if more > 0 else "")


def cluster_data(table: Table, grouped: Clusters) -> JsonValue:
    """Error groups as JSON values."""
    return [
        {
            "template": short(one.template), "count": one.count,
            "first_line": table.line_numbers[one.row], "example": short(one.example),
        }
        for one in grouped.found
    ]  # fmt: skip


def words(table: Table) -> Steps[Finding]:
    """Words and characters of a plain text."""
    lines = table.columns[0].values if table.columns else []
    counted = yield from text.count_words(lines)  # type: ignore[arg-type]
    best = counted.top(15)
    said = (
        f"{plural(counted.total, 'word')} ({len(counted.words):,} different), {counted.characters:,} characters, "
        f"{plural(table.rows, 'line')} and {plural(table.blank, 'blank line')}."
    )
    shown = grid(("word", "count"), [(word, f"{count:,}") for word, count in best], ["count"]).markdown()
    data: JsonValue = {
        "words": counted.total,
        "distinct": len(counted.words),
        "characters": counted.characters,
        "top": [{"value": short(word), "count": count} for word, count in best],
    }
    return Finding("words", f"{plural(counted.total, 'word')}", blocks(said, shown), blocks(said, shown), data)


def long_lines(table: Table) -> Steps[Finding]:
    """The longest and the repeated lines of a plain text, and how long lines are."""
    lines = table.columns[0].values if table.columns else []
    found = yield from text.longest(lines, 5)  # type: ignore[arg-type]
    sizes = yield from summarise([float(len(line)) for line in lines if isinstance(line, str)])
    counts = yield from count_values(lines)
    again = [(value, int(count)) for value, count in most(counts.items(), 5) if count > 1]
    said = f"A line has {show_number(sizes.mean)} characters on average, {show_number(sizes.median)} in the median."
    long_table = grid(
        ("characters", "line", "text"),
        [(f"{length:,}", f"{table.line_numbers[row]:,}", str(lines[row])) for length, row in found],
        ("characters", "line"),
    ).markdown()
    repeated = grid(("count", "repeated line"), [(f"{count:,}", str(value)) for value, count in again], ["count"])
    data: JsonValue = {
        "mean": finite(sizes.mean or 0.0),
        "longest": [
            {"line": table.line_numbers[row], "characters": length, "text": short(str(lines[row]))}
            for length, row in found
        ],
        "repeated": [{"value": short(str(value)), "count": count} for value, count in again],
    }
    shown = blocks(said, long_table, repeated.markdown())
    return Finding("lines", "Long and repeated lines", shown, blocks(said, repeated.markdown()), data)
