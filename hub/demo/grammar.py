"""Questions in a small grammar: from text to a `Query`.

    question   = action [column] [("by" | "per") (column | unit of time)] [where condition {"and" condition}] [time]
    action     = top N | count | how many | average | median | p95 | largest | show | errors | columns | help ...
    condition  = column ("=" | "!=" | ">" | "<" | "contains" | "starts with" ...) value
    time       = after T | before T | between T and T | on DATE | in the last N minutes

Words are matched loosely, see `hub.demo.names` for columns; text in quotes is taken as it is.
"""

import re
from dataclasses import dataclass, replace
from typing import Literal

from hub.demo import clauses, names
from hub.demo.clauses import NOUNS, Condition, NotUnderstood, Window
from hub.demo.faults import Sort
from hub.demo.mentions import mentioned
from hub.demo.table import Column, Table

Action = Literal[
    "help", "columns", "bad", "report", "top", "count", "distinct", "aggregate", "describe", "histogram", "errors",
    "groups", "rows", "extremes", "words", "longest",
]  # fmt: skip
Function = Literal["mean", "median", "min", "max", "sum", "stddev", "percentile"]

LONGEST = 500
"""Characters of a question that are read."""


@dataclass(frozen=True)
class Query:
    """What is asked for. `number` is how many, `least` turns the order round, `part` the percentile (0 to 1)."""

    action: Action
    number: int = 10
    column: Column | None = None
    by: Column | None = None
    function: Function = "mean"
    part: float = 0.5
    width: int | None = None
    least: bool = False
    conditions: tuple[Condition, ...] = ()
    windows: tuple[Window, ...] = ()
    sort: Sort | None = None


_POLITE = re.compile(
    r"^(?:(?:please|can you|could you|would you|now|ok|okay|and|then|so|hey|i want(?: to see)?|"
    r"i would like(?: to see)?|what about|how about|tell me|give me|show me|let me see|display|print|get me|"
    r"what(?:'s| is| are| was| were)|the|me|all(?: of)?(?: the)?)\s+)+"
)
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_UNIT = re.compile(r"(?:(\d{1,4}) ?)?(seconds?|minutes?|mins?|hours?|days?|weeks?|s|m|h|d)")
_BY = re.compile(r"\s*\b(?:by|per|for each|for every|grouped by|group by|in each|in every|each|every|split by)\s+(.+)$")
_OVER_TIME = re.compile(r"\b(?:over time|timeline|time line|histogram|hourly|daily|per time|time histogram)\b")
_TOP = re.compile(
    r"(?:(\d+) )?(top|bottom|(?:the )?(?:most|least) (?:common|frequent|popular|active|requested|visited|used|often)|"
    r"rarest|commonest)(?: (\d+))?(?: (.+))?"
)
_MOST = re.compile(
    r"(?:which|what|who) (.+?) (?:(?:is|are|has|have|had|was|were|comes?|came|occurs?|made|make|makes|appears?|gets?)"
    r" )?(?:the )?(most|least)\b.*"
)
_AGGREGATE = re.compile(
    r"(average|avg|mean|median|minimum|min|maximum|max|sum|total|std ?dev|standard deviation|p(\d{1,2})|"
    r"(\d{1,2})(?:st|nd|rd|th)? percentile|percentile (\d{1,2}))(?: (?:of|for))?(?: the)? (.+)"
)
_EXTREME = re.compile(
    r"(?:(\d+) )?(largest|biggest|highest|longest|slowest|smallest|lowest|shortest|fastest)(?: (\d+))? (.+)"
)
_DESCRIBE = re.compile(
    r"(?:describe|summary|statistics|stats|numbers|distribution|summari[sz]e)(?: (?:of|for|on))? (.+)"
)
_DISTINCT = re.compile(
    r"(?:how many|count(?: of)?|number of|list|which)?\s*(?:different|distinct|unique) (.+?)(?: are there| were there)?"
)
_COUNT = re.compile(
    r"(?:how many|how much|count(?: of)?|number of|the number of|(?:percentage|percent|share|fraction)(?: of)?)(?: (.+?))?"
    r"(?: are there| were there| is there| in total| altogether| do we have| have| had| there are)*"
)
_SHOW_SORT = re.compile(r"(?:(show|list|first|last|see|view|example)\s+)?(?:the )?(?:(\d{1,4}) )?(.+)")
_HIGHEST = re.compile(
    r"(?:which|what|who) (.+?) (?:has|have|had|with|got|made) the (highest|largest|biggest|most|lowest|smallest|least)"
    r" (?:total )?(.+)"
)
_SHOW = re.compile(rf"(?:show|list|first|last|see|view|example|sample|head|tail)?\s*(?:(\d+) )?(?:of )?(?:{NOUNS})?")
_SEARCH = re.compile(
    rf"(?:search(?: for)?|find|grep|look for|"
    rf"(?:show |list )?{NOUNS} (?:containing|with the word|that contain|matching)) (.+)"
)
_DIRECT: tuple[tuple[str, Action], ...] = (
    (r"help|\?|what can (?:i|you) (?:ask|do).*|how does this work|commands|usage", "help"),
    (r"(?:columns?|fields?|headers?|column names|schema|(?:which|what|how many) (?:columns|fields).*)", "columns"),
    (r"(?:show |list |count |how many )?(?:\d+ )?(?:bad|broken|invalid|malformed|skipped|wrong) "
     r"(?:rows?|lines?|records?|entries)(?: are there| were there)?|how many (?:rows?|lines?) (?:are|were) bad", "bad"),
    (r"(?:summary|report|overview|results?|analysis|(?:the )?(?:summary|report) again)", "report"),
    (r"(?:word count|words|how many words|count (?:the )?words|number of words)(?: are there)?", "words"),
)  # fmt: skip
_SORTS: tuple[tuple[str, Sort], ...] = (
    (r"server errors?", "server errors"),
    (r"client errors?", "client errors"),
    (r"warnings?", "warnings"),
    (r"errors?|failures?|failed(?: requests?| rows?)?|exceptions?|faults?|problems?", "errors"),
)


def understand(table: Table, question: str) -> Query:
    """What `question` asks of `table`. Raises `NotUnderstood`."""
    text, quotes = _plain(question)
    try:
        return _understand(table, _without_name(table, text), quotes, question, mentions=2)
    except NotUnderstood:
        return _understand(table, text, quotes, question, mentions=2)


def _understand(table: Table, text: str, quotes: list[str], question: str, mentions: int) -> Query:
    """Read `text`; if it makes no sense, leave up to `mentions` values of columns out of it, as conditions."""
    try:
        return _read(table, text, quotes, question)
    except NotUnderstood:
        for condition, rest in mentioned(table, text) if mentions else ():
            try:
                query = _understand(table, rest, quotes, question, mentions - 1)
            except NotUnderstood:
                continue
            return replace(query, conditions=(*query.conditions, condition))
        raise


def _without_name(table: Table, text: str) -> str:
    """`orders` in a question about orders.csv means its rows."""
    stem = re.sub(r"[\W_]+", " ", table.name.lower().rpartition(".")[0]).strip()
    if len(stem) < 3 or _sort(stem) or any(names.normal(column.name) == names.normal(stem) for column in table.columns):
        return text
    edge = r"(?<![\w\x01.]){}(?![\w\x01]|\.\w)"
    for word in (stem, names.singular(stem)):
        text = re.sub(edge.format(re.escape(word)), "rows", text)
    return text


def _read(table: Table, text: str, quotes: list[str], question: str) -> Query:
    def quoted(part: str) -> str:
        return re.sub("\x01(\\d+)\x01", lambda match: quotes[int(match[1])], part)

    for pattern, action in _DIRECT:
        if re.fullmatch(pattern, text):
            return Query(action)
    if found := _SEARCH.fullmatch(text):
        return Query("rows", conditions=(Condition(None, "contains", (quoted(found[1]),)),))
    windows, text = clauses.windows(table, text)
    if clauses.SIGNS.fullmatch(text) and not clauses.WHERE.search(text):
        text = f"where {text}"
    conditions, text = clauses.conditions(table, text, quoted)
    by, width, text = _by(table, text, quoted)
    method = re.search(r"\b(GET|POST|PUT|DELETE|HEAD|OPTIONS|PATCH)\b", question)
    verb = table.role("method")
    if method and verb is not None and not any(condition.column is verb for condition in conditions):
        conditions.append(Condition(verb, "=", (method[1],)))
        text = " ".join(re.sub(rf"\b{method[1].lower()}\b", " ", text).split())
    narrowed = bool(windows or conditions)
    query = _action(table, text, by, width, narrowed, quoted)
    return replace(query, conditions=tuple(conditions), windows=tuple(windows))


def _plain(question: str) -> tuple[str, list[str]]:
    """The question in lower case without frills; texts in quotes are replaced by marks and returned beside it."""
    quotes: list[str] = []

    def keep(match: "re.Match[str]") -> str:
        quotes.append(match[1] if match[1] is not None else match[2])
        return f"\x01{len(quotes) - 1}\x01"

    text = question[:LONGEST].replace("\x01", " ").translate(str.maketrans("“”„‘’`", "\"\"\"'''"))
    text = re.sub(r"\"([^\"]+)\"|(?<!\w)'([^']+)'(?!\w)", keep, text)
    text = " ".join(text.lower().split()).rstrip("?!.,; ") or text.strip()
    text = _POLITE.sub("", text + " ").strip()
    return text, quotes


def _by(table: Table, text: str, quoted: clauses.Quoted) -> tuple[Column | None, int | None, str]:
    """`(column, seconds, rest)` of `... by status` or `... per hour`."""
    if found := _OVER_TIME.search(text):
        _need_time(table)
        width = {"hourly": 3600, "daily": 86_400}.get(found[0], 0)
        rest = " ".join((text[: found.start()] + " " + text[found.end() :]).split())
        return None, width, re.sub(r"\s*\b(?:of|for)$|^(?:of|for)\b\s*", "", rest)
    found = _BY.search(text)
    if found is None:
        return None, None, text
    rest = text[: found.start()].strip()
    if unit := _UNIT.fullmatch(found[1]):
        if names.match(table, found[1]) and not table.role("time"):
            return clauses.column(table, found[1]), None, rest
        _need_time(table)
        name = next(name for name in _UNITS if name[0] == unit[2][0])
        return None, max(1, int(unit[1] or 1)) * _UNITS[name], rest
    if found[1] in ("time", "the time"):
        _need_time(table)
        return None, 0, rest
    return clauses.column(table, quoted(found[1])), None, rest


def _need_time(table: Table) -> None:
    time = table.role("time")
    if time is None or time.kind != "time":
        raise NotUnderstood("There is no column of times, so there is nothing to show over time.")


def _sort(text: str) -> Sort | None:
    return next((sort for pattern, sort in _SORTS if re.fullmatch(pattern, text)), None)


def _action(
    table: Table, text: str, by: Column | None, width: int | None, narrowed: bool, quoted: clauses.Quoted
) -> Query:
    if width is not None:
        return _histogram(table, text, width)
    if (found := _HIGHEST.fullmatch(text)) and by is None and not re.fullmatch(NOUNS, found[3]):
        total = _number(clauses.column(table, quoted(found[3])))
        least = found[2] in ("lowest", "smallest", "least")
        return Query("top", 5, clauses.column(table, quoted(found[1])), by=total, least=least)
    if found := _TOP.fullmatch(text) or _MOST.fullmatch(text):
        return _top(table, found, by, quoted)
    if found := _AGGREGATE.fullmatch(text):
        target = clauses.column(table, quoted(found[5]))
        percent = next((int(one) for one in found.groups()[1:4] if one), 50)
        return Query("aggregate", column=_number(target), by=by, function=_function(found[1]), part=percent / 100)
    if found := _EXTREME.fullmatch(text):
        return _extreme(table, found, by, quoted)
    if found := _DISTINCT.fullmatch(text):
        return Query("distinct", column=clauses.column(table, quoted(found[1])))
    if found := _COUNT.fullmatch(text):
        return _count(table, found[1] or "", by, quoted)
    if sort := _sort(re.sub(r"^(?:show|list|group(?:ed)?)\s+(?:the |all )?", "", text)):
        return Query("top" if by else "errors", column=by, sort=sort)
    if (found := _SHOW_SORT.fullmatch(text)) and found[2] and (sort := _sort(found[3])):
        return Query("rows", number=max(1, min(int(found[2]), 50)), least=found[1] == "last", sort=sort)
    if re.fullmatch(r"(?:error|failure) (?:rate|share|percentage)", text):
        return Query("count", sort="errors")
    if re.fullmatch(r"(?:error|message) (?:groups|clusters|messages|types)|clusters|groups", text):
        return Query("groups", sort="errors")
    if found := _DESCRIBE.fullmatch(text):
        return Query("describe", column=clauses.column(table, quoted(found[1])), by=by)
    if (found := _SHOW.fullmatch(text)) and (text or narrowed or by):
        if by is not None:
            return Query("top", column=by)
        count = min(int(found[1] or 10), 50) if len(found[1] or "") < 5 else 50
        return Query("rows", number=max(1, count), least=text.startswith(("last", "tail")))
    target = clauses.column(table, quoted(re.sub(r"^(?:show|list|count|values of|column)\s+", "", text)))
    return Query("describe", column=target, by=by)


def _histogram(table: Table, text: str, width: int) -> Query:
    text = re.sub(r"^(?:show|count|how many|number of|list)\s*(?:the )?|\s*(?:are there|were there|count)$", "", text)
    sort = _sort(text)
    if sort is None and text and not re.fullmatch(NOUNS, text):
        raise NotUnderstood(f"Only rows and errors can be counted over time, not “{text}”.")
    return Query("histogram", width=width or None, sort=sort)


def _top(table: Table, found: "re.Match[str]", by: Column | None, quoted: clauses.Quoted) -> Query:
    if found.re is _MOST:
        said, order, number = found[1], found[2], "5"
    else:
        said, order, number = found[4] or "", found[2], found[1] or found[3] or "10"
    said = re.sub(r"^(?:values of|of the|of)\s+", "", said.strip())
    count = min(int(number), 100) if len(number) < 5 else 100
    least = "least" in order or order in ("bottom", "rarest")
    sort = _sort(said)
    if sort or re.fullmatch(r"(?:error )?(?:messages|clusters|groups|templates|errors?)", said):
        if by is not None:
            return Query("top", count, by, sort=sort, least=least)
        return Query("groups", count, sort=sort or ("errors" if "error" in said else None))
    if table.kind == "text" and said in ("words", "word", ""):
        return Query("words", count)
    if re.fullmatch(NOUNS, said) and not (names.match(table, said) and by is None):
        if by is None:
            raise NotUnderstood(f"Top {said} by what? Name a column, such as “top {count} paths”.")
        if by.kind == "number":
            return Query("extremes", count, by, least=least)
        return Query("top", count, by, least=least)
    if not said and by is not None:
        return Query("top", count, by, least=least)
    if not said:
        raise NotUnderstood("Top of what? Name a column.")
    column = clauses.column(table, quoted(said))
    if by is not None and by.kind != "number":
        raise NotUnderstood(f"Only numbers can be added up, and {by.name} is none.")
    return Query("top", count, column, by=by, least=least)


def _extreme(table: Table, found: "re.Match[str]", by: Column | None, quoted: clauses.Quoted) -> Query:
    before, word, after, said = found.groups()
    least = word in ("smallest", "lowest", "shortest", "fastest")
    number = before or after
    count = (min(int(number), 50) if len(number) < 5 else 50) if number else 1
    if table.kind == "text" and re.fullmatch(NOUNS, said):
        return Query("longest", count if number else 10)
    if re.fullmatch(NOUNS, said):
        by = by or (table.role("bytes") if word not in ("slowest", "fastest") else None)
        by = by or next((one for one in names.match(table, "duration") if one.kind == "number"), None)
        if by is None:
            raise NotUnderstood(f"{word.capitalize()} by what? Name a column of numbers.")
        return Query("extremes", count if number else 10, _number(by), least=least)
    column = _number(clauses.column(table, quoted(said)))
    if number is None and by is not None:
        return Query("aggregate", column=column, by=by, function="min" if least else "max")
    return Query("extremes", count if number else 5, column, least=least)


def _count(table: Table, said: str, by: Column | None, quoted: clauses.Quoted) -> Query:
    sort = _sort(said)
    if sort or not said or re.fullmatch(NOUNS, said):
        return Query("top", column=by, sort=sort) if by is not None else Query("count", sort=sort)
    return Query("distinct", column=clauses.column(table, quoted(said)))


def _function(word: str) -> Function:
    if word.startswith("p") or "percentile" in word:
        return "percentile"
    known: dict[str, Function] = {
        "avg": "mean", "average": "mean", "mean": "mean", "median": "median", "sum": "sum", "total": "sum",
        "min": "min", "minimum": "min", "max": "max", "maximum": "max",
    }  # fmt: skip
    return known.get(word, "stddev")


def _number(column: Column) -> Column:
    if column.kind != "number":
        raise NotUnderstood(f"{column.name} holds no numbers to reckon with.")
    return column
