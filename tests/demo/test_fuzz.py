"""Whatever the bytes and the questions are: a result or a `DemoError`, never anything else, and always JSON."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hub.demo import analysis
from hub.demo.errors import DemoError
from hub.demo.formats import Format
from hub.demo.hints import examples
from hub.demo.table import Table
from tests.demo.reading import ask, load

ACCESS = '10.0.0.1 - - [04/Mar/2024:09:10:11 +0000] "GET /a?b=c HTTP/1.1" 200 12 "-" "x"'
LOG = "2024-03-04 09:10:11,123 ERROR [main] app.db - cannot reach 10.0.0.1"
PIECES = [
    ACCESS, LOG, ACCESS[:30], "Mar  4 09:10:11 host app[12]: failed to open 'x'", "a,b,c", "1,2,3", '"a\nb",1,2', '"', '""',
    "x;1,5;2", "\t", "|", "{", "}", '{"a": 1, "b": {"c": [1, 2]}}', '{"a": 1e999}', '{"\\ud800": "\\udfff"}', "[", "]",
    "level=error msg=\"x y\" t=1", "2024-13-45", "0001-01-01 00:00:00", "9999-12-31 23:59:59", "1e308", "-1e308", "NaN",
    "inf", "ä€😀", "\u202e", "\x00", "\r", "\x0b", "\u2028", "<b>", "`|`", "ERROR: x", "I0304 09:10:11.1 x", "    at x.y(z)",
    "9" * 400, "[" * 2000, "https://example.com/?a=b", " ", "time,level,message", "1700000000", "12:00:00 x", "status",
]  # fmt: skip
texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=12), max_size=14).flatmap(
    lambda pieces: st.sampled_from(["\n", ",", "\r\n", "", " "]).map(lambda end: end.join(pieces))
)
inputs = (
    st.binary(max_size=300)
    | st.tuples(texts, st.sampled_from(["utf-8", "utf-16", "utf-16-le", "latin-1", "utf-32"])).map(
        lambda pair: pair[0].encode(pair[1], "replace")
    )
    | st.tuples(texts, st.binary(max_size=9)).map(lambda pair: pair[0].encode("utf-8", "replace") + pair[1])
)
names = st.sampled_from(["", "a.csv", "a.tsv", "a.log", "a.txt", "a.json", "|`<b>`|.md"])


def check_json(value: Any) -> None:
    """It can be sent: JSON without NaN and halves of surrogate pairs."""
    json.dumps(value, allow_nan=False, ensure_ascii=False).encode()


@settings(max_examples=250, suppress_health_check=[HealthCheck.too_slow])
@given(inputs, names, st.integers(1, 7))
def test_any_bytes_are_analysed_or_refused_in_words(data: bytes, name: str, rows_at_once: int) -> None:
    try:
        table, form = load(data, name, rows_at_once=rows_at_once)
    except DemoError as error:
        told = [str(error), error.advice]
    else:
        told = [check(table, form)]
    assert all(told)


def check(table: Table, form: Format) -> str:
    """Everything that can be said about a table can be said, and sent; returns the report."""
    for column in table.columns:
        assert len(column.values) == table.rows
    found = analysis.analyse(table)
    check_json(analysis.output(table, found, form))
    report = analysis.report(table, found)
    report.encode()
    for question in examples(table):
        answer = ask(table, question)
        assert answer.understood, (question, answer.markdown)
        check_json(answer.data)
        answer.markdown.encode()
    return report


SAMPLE, _ = load("\n".join([ACCESS] * 5 + [ACCESS.replace(" 200 ", " 404 ").replace("09:", "15:")] * 3 + ["oops"]))
WORDS = """
top bottom 5 0 -1 99999999999 most common which how many count of the average p95 p0 percentile 99 median by per hour
minute where with status bytes path paths ips = != > < contains and or is not between 13:00 14:00 25:99 after before
in last first hour 10 minutes errors 404s 5xx 404 requests rows show bad columns help largest lines unique over time
on 2024-03-04 2024-99-99 from 10.0.0.1 for /a /b* GET describe "x y" ' " , ? noon 3pm 24:00 every each and
""".split()  # noqa: SIM905


@settings(max_examples=500)
@given(st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join) | st.text(max_size=40))
def test_any_question_gets_an_answer(question: str) -> None:
    answer = ask(SAMPLE, question)
    assert answer.heading
    assert answer.markdown
    check_json(answer.data)
