"""Text of other people on a terminal: nothing in it may steer the terminal, or be taken for rich's markup."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from hub.core.errors import InvalidRequest

# C0 but for tab and newline, DEL, C1 (one of them begins escape sequences), surrogates, and what turns the reading
# direction around so that a line shows other than it is.
_UNSAFE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_LINE_ENDS: Final = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_DURATION: Final = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_DURABILITY: Final = {
    "aof always": "every change is on disk before it is answered",
    "aof everysec": "written to disk every second",
    "aof no": "written to disk when its system chooses",
    "snapshots": "written to disk now and then: a crash loses what came since",
    "none": "nothing is written to disk: whatever ends it loses everything",
    "memory": "nothing outlives the hub",
}


def clean(text: object) -> str:
    """The text without characters that steer a terminal. Lines stay lines; tabs become spaces."""
    return _UNSAFE.sub("", _LINE_ENDS.sub("\n", str(text))).replace("\t", "    ")


def one_line(text: object, width: int = 0) -> str:
    """The text as one line, cut to ``width`` characters (0: not cut)."""
    line = " ".join(clean(text).split())
    return line if not width or len(line) <= width else line[: width - 1] + "…"


def as_json(value: Any) -> str:
    """One line of JSON for scripts. ASCII only, so that it is safe on a terminal and in any locale."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def value_text(value: Any, width: int = 0) -> str:
    """A JSON value as people read it: text as it is, anything else as JSON; one line."""
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), width)


def durability_text(durability: object) -> str:
    """What a record's durability means, in words."""
    name = str(durability)
    return f"{name}: {meaning}" if (meaning := _DURABILITY.get(name)) else name


def clock_time(moment: object) -> str:
    """``14:18:00`` in local time of an ISO 8601 text; with the date if it is not today's."""
    local = _local(moment)
    if local is None:
        return "?"
    same_day = local.date() == datetime.now(UTC).astimezone().date()
    return local.strftime("%H:%M:%S" if same_day else "%Y-%m-%d %H:%M:%S")


def age(moment: object) -> str:
    """How long ago, in one unit: ``now``, ``12 s``, ``3 min``, ``5 h``, ``8 d``; ``in 3 min`` for what is to come."""
    local = _local(moment)
    if local is None:
        return "?"
    seconds = (datetime.now(UTC) - local).total_seconds()
    if -1 < seconds < 1:
        return "now"
    return f"in {duration(-seconds)}" if seconds < 0 else duration(seconds)


def duration(seconds: float) -> str:
    """A length of time in one unit, rounded: one of it, or two and more; what is between is told in the next smaller."""
    for size, smaller, unit in ((86_400, 3_600, "d"), (3_600, 60, "h"), (60, 1, "min")):
        whole = round(seconds / smaller) * smaller
        if whole == size or whole >= 2 * size:
            return f"{int(whole / size + 0.5)} {unit}"
    return f"{round(seconds)} s"


def seconds_of(text: str) -> int:
    """Seconds of a length of time such as ``8h``, ``30m``, ``1d12h`` or ``90s``. Raises InvalidRequest."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or not any(found.groups()):
        raise InvalidRequest(f"{one_line(text, 40)!r} is not a length of time: write 90s, 30m, 8h, 1d or 1d12h")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def moment_of(text: str) -> str:
    """A time as the hub takes it: ISO 8601 as it is, or a length of time (``1h``) counted from now. Raises InvalidRequest."""
    try:
        datetime.fromisoformat(text.strip())
    except ValueError:
        pass
    else:
        return text.strip()
    try:
        moment = datetime.now(UTC) + timedelta(seconds=seconds_of(text))
    except (InvalidRequest, OverflowError):
        raise InvalidRequest(
            f"{one_line(text, 40)!r} is no time: write how long from now (30m, 2h, 1d12h), or a moment in ISO 8601 "
            "(2026-11-29T18:00:00+01:00; without a zone: UTC)"
        ) from None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def is_past(moment: str) -> bool:
    """Whether a time as the hub takes it is over; without a zone it is UTC."""
    then = datetime.fromisoformat(moment)
    return (then if then.tzinfo else then.replace(tzinfo=UTC)) <= datetime.now(UTC)


def _local(moment: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(moment)).astimezone()
    except (ValueError, OverflowError, OSError):
        return None


def open_asks(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The questions of a session that wait for an answer, by id."""
    return {id: ask for id, ask in document["asks"].items() if ask["status"] == "open"}


def option_text(option: Any) -> str:
    """An option of a question as people read and write it."""
    return option if isinstance(option, str) else json.dumps(option, ensure_ascii=False, separators=(",", ":"))
