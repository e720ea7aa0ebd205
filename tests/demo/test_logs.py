"""Access logs and the logs of programs."""

import pytest

from hub.demo import analysis, faults
from hub.demo.steps import drain
from hub.demo.times import show
from tests.demo.reading import column, errors, load

ACCESS = """\
127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a.gif?x=1&y=2 HTTP/1.0" 200 2326
::1 - - [10/Oct/2000:13:55:37 -0700] "\\x16\\x03" 400 -
not a log line
127.0.0.1 - - [31/Feb/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 5

127.0.0.1 - - [10/Oct/2000:14:05:00 -0700] "POST /a \\"quoted\\" HTTP/1.1" 503 90
"""


def test_an_access_log() -> None:
    table, form = load(ACCESS)
    assert (form.kind, form.label) == ("access", "an access log, common format")
    assert column(table, "host") == ["127.0.0.1", "::1", "127.0.0.1"]
    assert column(table, "user") == ["frank", None, None]
    assert column(table, "method") == ["GET", None, None]
    assert column(table, "path") == ["/a.gif", "\\x16\\x03", 'POST /a \\"quoted\\" HTTP/1.1']
    assert column(table, "query") == ["x=1&y=2", None, None]
    assert column(table, "status") == ["200", "400", "503"]
    assert column(table, "bytes") == [2326.0, None, 90.0]
    assert [table.show_time(time) for time in column(table, "time")] == [
        "2000-10-10 13:55:36",
        "2000-10-10 13:55:37",
        "2000-10-10 14:05:00",
    ]
    assert list(table.line_numbers) == [1, 2, 6]
    assert [(row.line, row.reason) for row in table.bad.samples] == [
        (3, "not in the form of an access log line"),
        (4, "the time cannot be read"),
    ]
    assert (table.lines, table.blank, table.rows, table.bad.count) == (6, 1, 3, 2)
    assert table.notes == ["Times are shown as written (zone -0700)."]


def test_combined_format_with_a_virtual_host_and_more_behind() -> None:
    line = (
        'www.example.org:443 10.1.2.3 - john doe [01/Jan/2024:00:00:01 +0100] "GET / HTTP/2.0" 304 - '
        '"https://example.org/" "curl \\"8\\"" 0.003 "-"'
    )
    table, form = load(line)
    assert form.label == "an access log, combined format"
    row = {one.name: one.values[0] for one in table.columns if isinstance(one.values, list)}
    assert row == {
        "host": "10.1.2.3", "user": "john doe", "method": "GET", "path": "/", "protocol": "HTTP/2.0", "status": "304",
        "referer": "https://example.org/", "agent": 'curl \\"8\\"',
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "time", "level", "source", "message"),
    [
        ("2024-03-04 09:10:11,123 ERROR [main] app.db - no way", "2024-03-04 09:10:11", "error", "app.db", "no way"),
        ("2024-03-04T09:10:11.5Z INFO  hello there", "2024-03-04 09:10:11", "info", None, "hello there"),
        ("[2024-03-04T09:10:11+01:00] WARNING: low disk", "2024-03-04 09:10:11", "warning", None, "low disk"),
        ("2024/03/04 09:10:11 [crit] 12#0: bad", "2024-03-04 09:10:11", "fatal", None, "12#0: bad"),
        ("ERROR 2024-03-04 09:10:11 it broke", "2024-03-04 09:10:11", "error", None, "it broke"),
        ("Mar  4 09:10:11 web1 sshd[12]: Failed password", "03-04 09:10:11", None, "sshd", "Failed password"),
        ("<11>Mar  4 09:10:11 web1 app: x", "03-04 09:10:11", "error", "app", "x"),
        ("[Mon Mar 04 09:10:11.12 2024] [core:error] [pid 1] oops", "2024-03-04 09:10:11", "error", "pid 1", "oops"),
        ("E0304 09:10:11.123456    1 main.go:12] oops", "03-04 09:10:11", "error", "main.go", "oops"),
        ("09:10:11.5 DEBUG worker-1: tick", "09:10:11", "debug", "worker-1", "tick"),
        ("04/Mar/2024:09:10:11 +0000 NOTICE: done", "2024-03-04 09:10:11", "notice", None, "done"),
    ],
)
def test_beginnings_of_log_lines(line: str, time: str, level: str | None, source: str | None, message: str) -> None:
    table, form = load(f"{line}\n{line}\n")
    assert form.kind == "log"
    assert table.show_time(column(table, "time")[0]) == time
    found = {one.name: one.values[0] for one in table.columns}
    assert (found.get("level"), found.get("source"), found.get("message")) == (level, source, message)


def test_levels_without_times() -> None:
    table, form = load("INFO:root:started\nERROR:app.db:broken\nWARNING: plain\n")
    assert form.kind == "log"
    assert column(table, "level") == ["info", "error", "warning"]
    assert column(table, "source") == ["root", "app.db", None]
    assert column(table, "message") == ["started", "broken", "plain"]
    assert table.role("time") is None


def test_stack_traces_belong_to_the_entry_before() -> None:
    table, _ = load(
        "2024-03-04 09:10:11 ERROR request failed\n"
        "Traceback (most recent call last):\n"
        '  File "x.py", line 3, in <module>\n'
        "ValueError: bad\n"
        "2024-03-04 09:10:12 INFO next\n"
        "stray words\n"
    )
    assert table.rows == 2
    assert [(row.line, row.text) for row in table.bad.samples] == [(6, "stray words")]
    assert table.notes == ["3 lines go on with the entry before them (stack traces and such)."]


def test_a_log_without_years_goes_over_new_year() -> None:
    table, _ = load("Dec 31 23:59:59 web1 app: old\nJan  1 00:00:01 web1 app: new\n")
    old, new = column(table, "time")
    assert new - old == 2.0
    assert show(old) == "2024-12-31 23:59:59"  # the year that was given for logs without one


def test_errors_are_told_by_level_or_status_or_words() -> None:
    by_level, _ = load("2024-03-04 09:10:11 ERROR a\n2024-03-04 09:10:12 INFO error is only a word\n")
    assert errors(by_level) == [0]
    by_words, _ = load("Mar  4 09:10:11 web1 app: all well\nMar  4 09:10:12 web1 app: Connection refused\n")
    assert errors(by_words) == [1]
    by_status, _ = load(ACCESS)
    assert errors(by_status) == [1, 2]
    server = faults.rule(by_status, "server errors")
    assert server is not None
    assert drain(faults.error_rows(server)) == [2]
    assert faults.rule(by_status, "warnings") is None


def test_the_report_of_a_log() -> None:
    lines = [f"2024-03-04 09:{minute:02}:00 INFO served {minute}" for minute in range(10)]
    lines += [f"2024-03-04 09:1{at}:00 ERROR user {at} at 10.0.0.{at} said 'no'" for at in range(3)]
    table, form = load("\n".join(lines), "app.log")
    found = {finding.key: finding for finding in analysis.analyse(table)}
    assert found["errors"].data == {
        "count": 3,
        "rule": "level error or worse",
        "distinct": 1,
        "clusters": [
            {
                "template": "user <n> at <ip> said <quoted>",
                "count": 3,
                "first_line": 11,
                "example": "user 0 at 10.0.0.0 said 'no'",
            }
        ],
    }
    result = analysis.output(table, list(found.values()), form)
    assert (result["rows"], result["bad_rows"], result["lines"]) == (13, 0, 13)
    assert (result["first_time"], result["last_time"]) == ("2024-03-04 09:00:00", "2024-03-04 09:12:00")
    text = analysis.report(table, list(found.values()))
    assert text.startswith("**app.log** is a log with times and levels: 13 entries, from 2024-03-04 09:00:00 to")
    assert "3 errors (level error or worse), 23.1 % of all entries." in text
