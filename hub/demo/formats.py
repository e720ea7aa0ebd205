"""What kind of text this is: judged by its first lines, and a little by the name of the file."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hub.demo import delimited, lines_access, lines_log, named
from hub.demo.encoding import Encoding, first_lines, sniff

FormatKind = Literal["access", "log", "json", "document", "logfmt", "table", "text"]

LOOK = 300
"""Lines that are looked at."""


@dataclass(frozen=True)
class Format:
    """What the input is and how to read it. `label` is the name to show, `noun` what a row is called."""

    kind: FormatKind
    label: str
    noun: str
    encoding: Encoding
    share: float
    """The part of the lines looked at that fit, 0 to 1."""
    layout: delimited.Layout | None = None


def detect(data: bytes, name: str = "") -> Format:
    """The format of `data`; plain text if nothing better fits. Raises `EmptyInput` and `UnreadableInput`."""
    encoding = sniff(data)
    lines = first_lines(data, encoding, LOOK)
    beginnings = [line[:_WIDE] for line in lines]
    ending = name.lower().rpartition(".")[2] if "." in name else ""
    return (
        _json(lines, encoding)
        or _access(beginnings, encoding)
        or _logfmt(beginnings, encoding)
        or _log_or_table(lines, encoding, ending)
        or Format("text", "plain text", "line", encoding, 1.0)
    )


_WIDE = 4_000  # characters of a line that decide whether it is one of a log


def _share(fits: int, lines: Sequence[str]) -> float:
    return fits / len(lines) if lines else 0.0


def _json(lines: Sequence[str], encoding: Encoding) -> Format | None:
    def is_object(line: str) -> bool:
        try:
            return line.lstrip().startswith("{") and isinstance(named.decode(line), dict)
        except ValueError:
            return False

    share = _share(sum(map(is_object, lines)), lines)
    whole = len(lines) == 1 and share == 1
    if not whole and (share >= 0.6 or (share >= 0.2 and is_object(lines[0]))):
        return Format("json", "JSON lines", "row", encoding, share)
    text = "".join(line.strip() for line in lines[:5])
    if whole or re.match(r'\[\s*\{\s*["}]|\{\s*"[^"]*"\s*:', text):
        return Format("document", "a JSON document", "row", encoding, 1.0)
    return None


def _access(lines: Sequence[str], encoding: Encoding) -> Format | None:
    found = [match for match in map(lines_access.LINE.fullmatch, lines) if match]
    share = _share(len(found), lines)
    if share < 0.5:
        return None
    combined = sum(match[9] is not None for match in found) > 0.5 * len(found)
    label = "an access log, combined format" if combined else "an access log, common format"
    return Format("access", label, "request", encoding, share)


def _logfmt(lines: Sequence[str], encoding: Encoding) -> Format | None:
    def fits(line: str) -> bool:
        pairs = named.pairs(line)
        return len(pairs) >= 2 and sum(map(len, pairs)) + sum(len(str(value)) for value in pairs.values()) > 0.6 * len(
            line.strip()
        ) - 3 * len(pairs)

    share = _share(sum(map(fits, lines)), lines)
    return Format("logfmt", "a log of key=value pairs", "entry", encoding, share) if share >= 0.7 else None


def _log_or_table(lines: Sequence[str], encoding: Encoding, ending: str) -> Format | None:
    log = _log([line[:_WIDE] for line in lines], encoding)
    if ending in ("txt", "md", "log") and log is None and ending != "txt":
        return None
    surely = ending in ("csv", "tsv", "tab", "psv")
    found = delimited.guess(lines, surely=surely)
    if found is None:
        return log
    layout, share = found
    if log is not None and not surely:
        # A log has commas and bars in its messages; a table of timed rows has the same number in every line, and
        # a line of names on top.
        with_level = sum(_has_level(line[:_WIDE]) for line in lines) > 0.5 * len(lines)
        if (with_level and not layout.header) or share < 0.95 or len(layout.names) < 2:
            return log
    kind = "a table" if layout.delimiter else "a list of numbers"
    label = f"{kind} separated by {layout.label}" if layout.delimiter else kind
    return Format("table", label, "row", encoding, share, layout)


def _log(lines: Sequence[str], encoding: Encoding) -> Format | None:
    reader = lines_log.HeadReader(2000)
    heads = [line for line in lines if reader.read(line)]
    starts = [line for line in lines if not line[0].isspace()]
    share = _share(len(heads), starts or lines)
    # Stack traces may be most of a log, so few heads are enough if the first line is one.
    if share >= 0.5 or (len(heads) >= 2 and share >= 0.1 and reader.read(lines[0])):
        return Format("log", "a log with times and levels", "entry", encoding, share)
    return None


def _has_level(line: str) -> bool:
    head = lines_log.HeadReader(2000).read(line)
    return head is not None and lines_log.split_rest(head)[0] is not None
