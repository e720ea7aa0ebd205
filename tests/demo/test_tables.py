"""Tables with delimiters, JSON, key=value lines: layout, kinds of columns, bad rows."""

import pytest

from tests.demo.reading import column, load


@pytest.mark.parametrize(
    ("text", "names", "header"),
    [
        ("name,age\nann,31\nbob,42\n", ["name", "age"], True),
        ("ann;31\nbob;42\n", ["column 1", "column 2"], False),
        ("name\tage\nann\t31\n", ["name", "age"], True),
        ("a|b\nx|1\ny|2\n", ["a", "b"], True),
        ("city,country\nParis,France\nRome,Italy\n", ["city", "country"], True),
        ("Paris,France\nLyon,France\nRome,Italy\nParis,Texas\n", ["column 1", "column 2"], False),
        ("a,,a\n1,2,3\n", ["column 1", "column 2", "column 3"], False),
        ("x,y,\n1,2,3\n", ["x", "y", "column 3"], True),
    ],
)
def test_layout(text: str, names: list[str], header: bool) -> None:
    table, form = load(text)
    assert form.layout is not None
    assert (list(form.layout.names), form.layout.header) == (names, header)
    assert table.rows == text.count("\n") - header


def test_kinds_of_columns() -> None:
    table, _ = load(
        "id,price,day,zip,at,done,note\n"
        "1,1.5,2024-01-31,01234,1700000000,true,x\n"
        '2,"1,200.25",2024-02-01,04567,1700003600,false,\n'
        "3,-,2024-02-02,99999,1700007200,true,y\n"
    )
    assert {one.name: one.kind for one in table.columns} == {
        "id": "code", "price": "number", "day": "time", "zip": "code", "at": "time", "done": "text", "note": "text",
    }  # fmt: skip
    assert column(table, "price") == [1.5, 1200.25, None]
    assert column(table, "note") == ["x", None, "y"]
    assert [table.show_time(time) for time in column(table, "at")] == [
        "2023-11-14 22:13:20",
        "2023-11-14 23:13:20",
        "2023-11-15 00:13:20",
    ]


def test_european_numbers_and_dates() -> None:
    table, _ = load("name;amount;day\nA;1,5;31.12.2024\nB;1.234,5;01.01.2025\nC;7;02.01.2025\n")
    assert column(table, "amount") == [1.5, 1234.5, 7.0]
    assert [table.show_time(time) for time in column(table, "day")] == [
        "2024-12-31 00:00:00",
        "2025-01-01 00:00:00",
        "2025-01-02 00:00:00",
    ]


def test_months_come_first_unless_that_cannot_be() -> None:
    us, _ = load("date,x\n01/02/2024,1\n01/31/2024,2\n")
    eu, _ = load("date,x\n01/02/2024,1\n31/01/2024,2\n")
    assert us.show_time(column(us, "date")[0]) == "2024-01-02 00:00:00"
    assert eu.show_time(column(eu, "date")[0]) == "2024-02-01 00:00:00"


def test_rows_with_another_number_of_fields_are_bad() -> None:
    table, _ = load("a,b\n1,2\n3\n4,5,6\n7,8\n", "x.csv")
    assert column(table, "a") == [1.0, 7.0]
    assert list(table.line_numbers) == [2, 5]
    assert [(row.line, row.reason, row.text) for row in table.bad.samples] == [
        (3, "too few fields", "3"),
        (4, "too many fields", "4,5,6"),
    ]
    assert table.bad.reasons == {"too few fields": 1, "too many fields": 1}


def test_only_the_first_bad_rows_are_kept_but_all_counted() -> None:
    table, _ = load("a,b\n" + "1,2\n" * 400 + "3\n" * 30)
    assert (table.bad.count, len(table.bad.samples), table.rows) == (30, 20, 400)


def test_quoted_fields_hold_delimiters_quotes_and_line_ends() -> None:
    table, _ = load('a,b\n1,"x, ""y""\nz"\n2,w\n')
    assert column(table, "b") == ['x, "y"\nz', "w"]
    assert list(table.line_numbers) == [2, 4]


def test_a_quote_that_is_not_closed_costs_one_row() -> None:
    table, _ = load('a,b\n1,"x\n' + "2,y\n" * 500)
    assert [(row.line, row.reason) for row in table.bad.samples] == [(2, "a quote is not closed")]
    assert table.rows == 500
    assert list(table.line_numbers[:2]) == [3, 4]


def test_a_quote_in_the_middle_of_a_field_is_a_character() -> None:
    table, _ = load('name,size\nA,5" pipe\nB,6" pipe\nC,7" pipe\n')
    assert column(table, "size") == ['5" pipe', '6" pipe', '7" pipe']


def test_cells_that_do_not_fit_are_missing_and_counted() -> None:
    table, _ = load("v,w\n" + "1,x\n" * 30 + "oops,x\n")
    assert column(table, "v") == [1.0] * 30 + [None]
    assert table.notes == ["Cells that are no number or time, counted as missing: v (1)."]


def test_a_column_that_only_begins_with_numbers_is_text() -> None:
    table, _ = load("v,w\n" + "1,x\n" * 400 + "oops,x\n" * 400)
    assert [one.kind for one in table.columns] == ["text", "text"]
    assert column(table, "v")[399:401] == ["1", "oops"]
    assert table.rows == 800


def test_a_number_a_line() -> None:
    table, form = load("1\n2\n3.5\n")
    assert form.label == "a list of numbers"
    assert column(table, "value") == [1.0, 2.0, 3.5]


@pytest.mark.parametrize(
    "text",
    [
        "Roses are red,\nViolets are blue,\nSugar is sweet,\nAnd so are you.\n",
        "Dear all, we met today\nThe shop, it is closed\nThe end, my friend\n",
        "just one line, with a comma",
    ],
)
def test_prose_is_no_table(text: str) -> None:
    assert load(text)[1].kind == "text"


def test_json_lines() -> None:
    table, form = load(
        '{"time": "2024-03-04T09:10:11Z", "level": "error", "user": {"id": 3, "tags": [1, "x"]}, "ok": true}\n'
        '{"time": "2024-03-04T09:10:12Z", "ms": 1.5, "level": null}\n'
        "not json\n"
        "[1]\n"
        "{}\n"
    )
    assert form.label == "JSON lines"
    assert [one.name for one in table.columns] == ["time", "level", "user.id", "user.tags", "ok", "ms"]
    assert column(table, "ms") == [None, 1.5]
    assert column(table, "user.tags") == ['[1, "x"]', None]
    assert column(table, "ok") == ["true", None]
    assert [(row.line, row.reason) for row in table.bad.samples] == [
        (3, "not valid JSON"),
        (4, "JSON, but not an object"),
        (5, "an empty object"),
    ]
    assert table.roles == {"time": "time", "level": "level"}


@pytest.mark.parametrize(
    "text",
    [
        '[{"a": 1, "b": "x"},\n {"a": 2, "b": "y"}]',
        '{"total": 2, "items": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]}',
        '{\n  "a": 1,\n  "b": "x"\n}\n{\n  "a": 2,\n  "b": "y"\n}\n',
    ],
)
def test_json_documents(text: str) -> None:
    table, form = load(text)
    assert form.kind == "document"
    assert column(table, "a") == [1.0, 2.0]
    assert column(table, "b") == ["x", "y"]


def test_a_broken_json_document_says_where_it_ends() -> None:
    table, _ = load('[{"a": 1},\n{"a": 2},\n{"a": oops}]')
    assert column(table, "a") == [1.0, 2.0]
    assert [(row.line, row.reason) for row in table.bad.samples] == [(3, "not valid JSON: reading ends here")]


def test_key_value_lines() -> None:
    table, form = load(
        'ts=2024-03-04T09:10:11Z level=info msg="a \\"b\\"" n=1\n'
        "ts=2024-03-04T09:10:12Z level=warn n=2\n"
        "x\n"
        "ts=2024-03-04T09:10:13Z n=3\n"
    )
    assert form.kind == "logfmt"
    assert column(table, "msg") == ['a "b"', None, None]
    assert column(table, "n") == [1.0, 2.0, 3.0]
    assert table.roles == {"time": "ts", "level": "level", "message": "msg"}
    assert table.bad.samples[0].line == 3


def test_timed_rows_are_a_table_and_not_a_log() -> None:
    assert load("2024-03-04 09:10:11,1,2\n2024-03-04 09:10:12,3,4\n")[1].kind == "table"
    assert load("time,level,message\n2024-03-04 09:10:11,INFO,a\n2024-03-04 09:10:12,ERROR,b\n")[1].kind == "table"
    assert load("2024-03-04 09:10:11,123 INFO a, b\n2024-03-04 09:10:12,456 ERROR c, d\n")[1].kind == "log"


def test_chunks_do_not_matter() -> None:
    text = "a,b\n" + "".join(f'{at},"x\n{at}"\n' for at in range(50)) + "bad\n"
    whole, _ = load(text)
    for rows_at_once in (1, 2, 7):
        table, _ = load(text, rows_at_once=rows_at_once)
        assert [list(one.values) for one in table.columns] == [list(one.values) for one in whole.columns]
        assert table.line_numbers == whole.line_numbers
        assert table.bad == whole.bad
