"""Follow-up questions, on a log small enough to count by hand."""

import pytest

from hub.demo import hints
from tests.demo.reading import ask, load


def _line(host: str, time: str, request: str, status: int, size: str) -> str:
    return f'{host} - - [04/Mar/2024:{time} +0000] "{request} HTTP/1.1" {status} {size} "-" "x"'


LINES = [
    _line("10.0.0.1", "09:00:00", "GET /", 200, "100"),
    _line("10.0.0.2", "09:30:00", "GET /a", 200, "300"),
    _line("10.0.0.1", "10:15:00", "POST /a", 500, "50"),
    _line("10.0.0.1", "13:00:00", "GET /b?x=1", 404, "10"),
    _line("10.0.0.3", "13:59:59", "GET /", 404, "20"),
    "not a request",
    _line("10.0.0.2", "14:00:00", "GET /", 200, "200"),
    _line("10.0.0.2", "14:30:00", "POST /b", 503, "-"),
    _line("10.0.0.1", "23:10:00", "GET /a", 200, "500"),
]
TABLE, _ = load("\n".join(LINES), "access.log")


@pytest.mark.parametrize(
    ("question", "data"),
    [
        ("top 5 status codes", [("200", 4), ("404", 2), ("500", 1), ("503", 1)]),
        ("Top 2 status codes?", [("200", 4), ("404", 2)]),
        ("top 10 paths", [("/", 3), ("/a", 3), ("/b", 2)]),
        ("what are the 2 most common urls", [("/", 3), ("/a", 3)]),
        ("which ips have the most requests?", [("10.0.0.1", 4), ("10.0.0.2", 3), ("10.0.0.3", 1)]),
        ("top pages where status = 404", [("/", 1), ("/b", 1)]),
        ("errors by status", [("404", 2), ("500", 1), ("503", 1)]),
        ("requests by method", [("GET", 6), ("POST", 2)]),
        ("count by status", [("200", 4), ("404", 2), ("500", 1), ("503", 1)]),
        ("bottom 1 hosts", [("10.0.0.3", 1)]),
        ("top 3 paths after 13:00", [("/", 2), ("/b", 2), ("/a", 1)]),
    ],
)
def test_top_values(question: str, data: list[tuple[str, int]]) -> None:
    answer = ask(TABLE, question)
    assert answer.understood, answer.markdown
    assert answer.data == [{"value": value, "count": count} for value, count in data]


@pytest.mark.parametrize(
    ("question", "count"),
    [
        ("how many rows", 8),
        ("how many requests were there?", 8),
        ("count", 8),
        ("count where status = 404", 2),
        ("count where status is not 200", 4),
        ("how many 404s", 2),
        ("how many 404 errors", 2),
        ("number of 5xx", 2),
        ("count requests with status 4xx", 2),
        ("how many errors", 4),
        ("how many server errors", 2),
        ("how many client errors", 2),
        ("how many errors after 14:00", 1),
        ("how many requests after 2 pm", 3),
        ("how many requests before noon", 3),
        ("how many requests between 13:00 and 14:00", 2),
        ("how many requests from 23:00 to 09:30", 2),
        ("how many requests on 2024-03-04", 8),
        ("how many requests on 2024-03-05", 0),
        ("how many requests between 2024-03-04 13:00 and 14:00", 2),
        ("how many requests in the last 30 minutes", 1),
        ("how many requests in the first hour", 2),
        ("count where bytes > 100", 3),
        ("count where bytes at least 100", 4),
        ("count where bytes > 100 and path = /a", 2),
        ("count where path contains A", 3),
        ("count where path starts with /b", 2),
        ("count where status = 404 or 500", 3),
        ('count where host = "10.0.0.3"', 1),
        ("how many requests from 10.0.0.2", 3),
        ("how many requests for /a", 3),
        ("how many POST requests", 2),
        ("how many unique ips", 3),
        ("how many different status codes are there", 4),
        ("count distinct paths", 3),
    ],
)
def test_counts(question: str, count: int) -> None:
    answer = ask(TABLE, question)
    assert answer.understood, answer.markdown
    assert answer.data == count


@pytest.mark.parametrize(
    ("question", "value"),
    [
        # bytes: 10 20 50 100 200 300 500, one missing
        ("average bytes", 1180 / 7),
        ("mean of size", 1180 / 7),
        ("median of bytes", 100),
        ("p95 of bytes", 440),  # between 300 and 500, 0.7 of the way
        ("max bytes", 500),
        ("minimum of the bytes", 10),
        ("total bytes", 1180),
        ("sum of traffic where method = POST", 50),
        ("average size of GET requests", 1130 / 6),
        ("average bytes after 14:00", 350),
        ("90th percentile of bytes", 380),
    ],
)
def test_one_number(question: str, value: float) -> None:
    answer = ask(TABLE, question)
    assert answer.understood, answer.markdown
    assert answer.data == pytest.approx(value)


@pytest.mark.parametrize("question", ["average bytes by status", "average of bytes per status code", "bytes by status"])
def test_numbers_by_group(question: str) -> None:
    assert ask(TABLE, question).data == [
        {"value": "200", "result": 275.0, "count": 4},
        {"value": "404", "result": 15.0, "count": 2},
        {"value": "500", "result": 50.0, "count": 1},
    ]


def test_top_by_a_sum() -> None:
    assert ask(TABLE, "top 2 hosts by bytes").data == [
        {"value": "10.0.0.1", "sum": 660.0},
        {"value": "10.0.0.2", "sum": 500.0},
    ]


def test_requests_per_hour() -> None:
    data = ask(TABLE, "requests per hour").data
    assert isinstance(data, dict)
    assert data["unit"] == "hour"
    buckets = data["buckets"]
    assert isinstance(buckets, list)
    counts = {str(one["start"])[11:16]: one["count"] for one in buckets if isinstance(one, dict) and one["count"]}
    assert counts == {"09:00": 2, "10:00": 1, "13:00": 2, "14:00": 2, "23:00": 1}
    assert len(buckets) == 15  # from 09:00 to 23:00 without gaps


@pytest.mark.parametrize(
    ("question", "unit", "count"),
    [
        ("errors per minute", "minute", 4),
        ("404s per 30 minutes", "30 minutes", 2),
        ("hourly requests", "hour", 8),
        ("requests over time", "hour", 8),
        ("errors per hour after 13:00", "hour", 3),
        ("timeline", "hour", 8),
    ],
)
def test_over_time(question: str, unit: str, count: int) -> None:
    data = ask(TABLE, question).data
    assert isinstance(data, dict)
    assert data["unit"] == unit
    assert isinstance(data["buckets"], list)
    shown = sum(int(str(one["count"])) for one in data["buckets"] if isinstance(one, dict))
    assert shown + int(str(data["outside"])) == count


def test_errors() -> None:
    answer = ask(TABLE, "errors after 13:00")
    assert isinstance(answer.data, dict)
    assert answer.data["count"] == 3
    assert "3 errors after 13:00 (status 400 and above)" in answer.markdown
    assert "| 4 | 2024-03-04 13:00:00 | 10.0.0.1 | GET | /b | 404 | 10 |" in answer.markdown
    assert "| 1 | GET / 404 | 5 | GET / 404 |" in answer.markdown


def test_rows() -> None:
    answer = ask(TABLE, "show 2 requests where path = /a")
    assert isinstance(answer.data, dict)
    assert answer.data["count"] == 3
    assert isinstance(answer.data["rows"], list)
    assert [one["status"] for one in answer.data["rows"] if isinstance(one, dict)] == ["200", "500"]
    last = ask(TABLE, "last 1 rows").data
    assert isinstance(last, dict)
    assert "23:10:00" in str(last["rows"])
    found = ask(TABLE, "find 10.0.0.3").data
    assert isinstance(found, dict)
    assert found["count"] == 1


def test_largest() -> None:
    assert ask(TABLE, "largest 2 requests").data == [{"line": 9, "value": 500.0}, {"line": 2, "value": 300.0}]
    assert ask(TABLE, "3 smallest bytes").data == [
        {"line": 4, "value": 10.0},
        {"line": 5, "value": 20.0},
        {"line": 3, "value": 50.0},
    ]


def test_bad_rows_columns_help_and_report() -> None:
    bad = ask(TABLE, "show bad rows")
    assert "1 bad row of 9 (11.1 %): 1 not in the form of an access log line." in bad.markdown
    assert "| 6 | not in the form of an access log line | not a request |" in bad.markdown
    columns = ask(TABLE, "columns").markdown
    assert "| status | code | 4 | 200, 404, 500 |" in columns
    assert "top 5 status" in ask(TABLE, "help").markdown
    assert "### Errors" in ask(TABLE, "report").markdown


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("sing a song", "There is no column “sing a song”."),
        ("top 5 colours", "There is no column “colours”."),
        ("average status", "status holds no numbers"),
        ("top 5 requests", "Top requests by what?"),
        ("count where colour = red", "There is no column “colour”."),
        ("errors after 25:00", "“25:00” is no time of the day."),
        ("count where bytes > many", "“many” is no number"),
        ("warnings", "Nothing in this data says which rows are warnings."),
        ("how many requests between 13:00 and 2024-03-04", "needs a date for both"),
        ("", "did not understand"),
    ],
)
def test_what_is_not_understood_says_why_and_what_can_be_asked(question: str, told: str) -> None:
    answer = ask(TABLE, question)
    assert not answer.understood
    assert told in answer.markdown
    assert "- errors after" in answer.markdown
    assert "`status`" in answer.markdown


def test_an_unclear_column_asks_back() -> None:
    table, _ = load("start time,end time,x\n1,2,a\n3,4,b\n5,6,b\n")
    answer = ask(table, "average times")
    assert "may be start time or end time: which one?" in answer.markdown
    assert ask(table, "average end time").data == 4.0
    assert ask(table, "average strat time").data == 3.0  # a slip of the pen


def test_several_days_are_pointed_out() -> None:
    table, _ = load("time,x\n2024-01-01 15:00:00,1\n2024-01-02 16:00:00,2\n2024-01-02 09:00:00,3\n")
    answer = ask(table, "how many rows after 14:00")
    assert answer.data == 2
    assert "every day" in answer.markdown
    assert ask(table, "how many rows after 2024-01-02 14:00").data == 1


def test_a_plain_text() -> None:
    table, _ = load("the fox ran\nthe fox sat down\nan error came\n")
    assert ask(table, "how many words").data == {
        "words": 10,
        "top": [
            {"value": word, "count": 2 if word == "fox" else 1}
            for word in ("fox", "came", "down", "error", "ran", "sat")
        ],
    }
    assert ask(table, "longest lines").data == [
        {"line": 2, "characters": 16},
        {"line": 3, "characters": 13},
        {"line": 1, "characters": 11},
    ]
    assert ask(table, "lines containing fox").understood
    assert ask(table, "how many errors").data == 1
    assert not ask(table, "requests per hour").understood


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,x\n2,y\n",
        "Ort Name;Wert (€);Zeit\nA b;1,5;2024-01-01 10:00\nC d;2,5;2024-01-01 11:00\n",
        "top,where,by\n1,2,x\n3,4,y\n",
        '{"a b": "x y", "c|d": 1}\n{"a b": "z", "c|d": 2}\n',
        "2024-03-04 09:10:11 ERROR a\n2024-03-04 09:10:12 INFO b\n",
        "just\nsome\nlines\n",
    ],
)
def test_every_example_that_is_offered_is_understood(text: str) -> None:
    table, _ = load(text)
    offered = hints.examples(table)
    assert len(offered) >= 4
    for question in offered:
        answer = ask(table, question)
        assert answer.understood, (question, answer.markdown)


ORDERS, _ = load(
    "order_id,Customer,Country,Amount,Day,Status\n"
    "1001,ann,DE,10,2024-01-01,paid\n"
    "1002,bob,FR,20,2024-01-02,failed\n"
    "1003,ann,DE,40,2024-01-08,paid\n"
    "1004,eve,US,30,2024-01-09,open\n",
    "orders.csv",
)


@pytest.mark.parametrize(
    ("question", "data"),
    [
        ("how many orders", 4),
        ("how many failed orders", 1),
        ("what is the total amount in DE?", 50),
        ("average amount of paid orders", 25),
        ("error rate", 1),
        (
            "which country has the highest amount",
            [{"value": "DE", "sum": 50.0}, {"value": "US", "sum": 30.0}, {"value": "FR", "sum": 20.0}],
        ),
        ("top 1 customers with status paid", [{"value": "ann", "count": 2}]),
    ],
)
def test_words_of_the_data_itself_are_understood(question: str, data: object) -> None:
    answer = ask(ORDERS, question)
    assert answer.understood, answer.markdown
    assert answer.data == data


def test_a_comparison_alone_shows_the_rows() -> None:
    for question in ("amount > 25", "show orders where amount over 25", "orders with amount >= 30"):
        answer = ask(ORDERS, question)
        assert isinstance(answer.data, dict)
        assert answer.data["count"] == 2


def test_weeks_begin_on_mondays() -> None:
    data = ask(ORDERS, "orders per week").data
    assert isinstance(data, dict)
    assert data["buckets"] == [
        {"start": "2024-01-01T00:00:00", "count": 2, "errors": 0},
        {"start": "2024-01-08T00:00:00", "count": 2, "errors": 0},
    ]


def test_an_average_counts_the_rows_that_have_a_value() -> None:
    answer = ask(TABLE, "average bytes")
    assert "(7 requests with a value; 1 request without)." in answer.markdown
    assert "(2 requests)." in ask(TABLE, "average bytes where status = 404").markdown
