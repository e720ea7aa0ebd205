"""Column names as people say them: plurals, other words for the same thing, parts of a name, small slips."""

import difflib
import re
from collections.abc import Sequence

from hub.demo.table import Column, Table

SYNONYMS: dict[str, tuple[str, ...]] = {
    "time": ("timestamp", "date", "datetime", "ts", "when", "at", "created", "createdat", "eventtime"),
    "level": ("severity", "loglevel", "lvl", "priority"),
    "status": ("statuscode", "httpstatus", "responsecode", "httpcode", "returncode", "code", "result"),
    "message": ("msg", "messagetext", "description", "event", "error", "errormessage", "line", "log"),
    "host": ("ip", "ipaddress", "client", "clientip", "address", "visitor", "remoteaddr", "remotehost", "hostname",
             "clientaddress", "remoteip", "server"),
    "path": ("url", "uri", "page", "endpoint", "route", "resource", "requestpath", "requesturi", "target", "file"),
    "bytes": ("size", "length", "traffic", "bytessent", "responsesize", "bandwidth", "volume"),
    "agent": ("useragent", "browser", "ua", "clientsoftware", "bot", "crawler"),
    "referer": ("referrer", "referringpage", "origin", "refererurl"),
    "method": ("verb", "httpmethod", "requestmethod", "httpverb"),
    "source": ("logger", "module", "component", "app", "application", "process", "service", "program", "thread"),
    "user": ("username", "login", "account", "remoteuser", "userid"),
    "duration": ("latency", "elapsed", "responsetime", "took", "requesttime", "runtime", "durationms"),
    "query": ("querystring", "parameter", "argument"),
}  # fmt: skip
"""Other words for what columns are called; without spaces, in the singular."""

ROLES = ("time", "level", "status", "message", "path", "host", "bytes", "source", "user", "method")
"""The parts that a column can play."""


def normal(name: str) -> str:
    """`Status Codes` -> `statuscode`: letters and digits only, the last word in the singular."""
    return singular(re.sub(r"[\W_]+", "", name.lower()))


def singular(word: str) -> str:
    """A plain guess at the singular: `queries` -> `query`, `addresses` -> `address`, `pages` -> `page`."""
    if len(word) <= 3 and word not in ("ips", "uas"):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "tuses")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _meaning(name: str) -> str:
    """The first word of the group of synonyms that `name` belongs to, else the name itself."""
    plain = normal(name)
    for word, others in SYNONYMS.items():
        if plain == normal(word) or plain in others:
            return word
    return plain


def roles(columns: Sequence[Column]) -> dict[str, str]:
    """Which columns play which part, judged by kind and name."""
    found: dict[str, str] = {}
    timed = [column for column in columns if column.kind == "time"]
    if timed:
        best = next((column for column in timed if _meaning(column.name) == "time"), timed[0])
        found["time"] = best.name
    for role in ROLES[1:]:
        named = [column for column in columns if _meaning(column.name.rpartition(".")[2]) == role]
        named.sort(key=lambda column: normal(column.name) != normal(role))
        for column in named:
            fits = column.kind == "number" if role == "bytes" else column.kind in ("text", "code")
            if fits and column.name not in found.values():
                found[role] = column.name
                break
    return found


def match(table: Table, said: str) -> list[Column]:
    """The columns that `said` can mean, most likely first; more than one if it is not clear, none if it is unknown."""
    plain = normal(said)
    columns = table.columns
    exact = [column for column in columns if column.name == said.strip()]
    exact = exact or [column for column in columns if column.name.lower() == said.strip().lower()]
    if not plain and not exact:
        return []
    exact = exact or [column for column in columns if normal(column.name) == plain]
    if exact:
        return exact[:1]
    meaning = _meaning(said)
    by_role = table.role(meaning)
    if by_role is not None:
        return [by_role]
    alike = [column for column in columns if _meaning(column.name) == meaning]
    alike = alike or [column for column in columns if _meaning(column.name.rpartition(".")[2]) == meaning]
    if alike:
        return alike
    words = {singular(word) for word in re.findall(r"[^\W_]+", said.lower())}
    part = [column for column in columns if words <= {singular(word) for word in _words(column.name)}]
    part = part or [column for column in columns if len(plain) > 2 and normal(column.name).startswith(plain)]
    if part:
        return part
    if re.fullmatch(r"[^\W\d_]+(?:[ _-][^\W\d_]+)?", said.strip()) is None:
        return []  # slips are only looked for in words
    near = difflib.get_close_matches(plain, [normal(column.name) for column in columns], n=1, cutoff=0.8)
    return [column for column in columns if normal(column.name) in near][:1]


def _words(name: str) -> list[str]:
    """The words of a name: `responseTime_ms` -> response, time, ms."""
    return re.findall(r"[^\W_]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).lower())
