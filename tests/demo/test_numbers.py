"""Statistics, timelines, clusters, words: against values worked out by hand."""

import math
from array import array

import pytest

from hub.demo import stats, text, timeline
from hub.demo.clusters import cluster, template
from hub.demo.columns import number
from hub.demo.steps import drain
from hub.demo.table import show_number
from hub.demo.times import read, show
from tests.demo.reading import load

NAN = float("nan")


def test_summary() -> None:
    # 2 4 4 4 5 5 7 9: mean 5, squared distances 9 1 1 1 0 0 4 16 = 32
    found = drain(stats.summarise(array("d", [2, 4, 4, 4, NAN, 5, 5, 7, 9])))
    assert (found.count, found.missing, found.minimum, found.maximum, found.exact) == (8, 1, 2, 9, True)
    assert (found.total, found.mean, found.median) == (40, 5, 4.5)
    assert found.p95 == pytest.approx(8.3)  # 0.65 of the way from 7 to 9
    assert found.stddev == pytest.approx(math.sqrt(32 / 7))


def test_summary_of_little() -> None:
    assert drain(stats.summarise(array("d", [NAN]))).count == 0
    one = drain(stats.summarise(array("d", [3])))
    assert (one.mean, one.median, one.p95, one.stddev) == (3, 3, 3, None)


def test_summary_over_many_pieces_is_exact() -> None:
    # 0 .. 99,999: mean 49,999.5, variance n(n+1)/12
    found = drain(stats.summarise(array("d", range(100_000))))
    assert (found.count, found.total, found.mean, found.median) == (100_000, 4_999_950_000, 49_999.5, 49_999.5)
    assert found.p95 == pytest.approx(94_999.05)
    assert found.stddev == pytest.approx(math.sqrt(100_000 * 100_001 / 12))
    assert found.exact


def test_percentiles_of_very_many_are_estimated_and_say_so() -> None:
    found = drain(stats.summarise(array("d", range(500_000))))
    assert not found.exact
    assert found.median == pytest.approx(250_000, rel=0.001)
    assert found.mean == 249_999.5


def test_numbers_that_are_too_large_have_no_mean() -> None:
    found = drain(stats.summarise(array("d", [1e308, 1e308, -1e308])))
    assert (found.minimum, found.maximum, found.median) == (-1e308, 1e308, 1e308)
    assert found.stddev is None


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("12", 12), (" -1.5e3 ", -1500), ("1,234.5", 1234.5), ("50 %", 50), (".5", 0.5), ("1e999", None), ("nan", None),
        ("inf", None), ("1_000", None), ("1,23", None), ("", None), ("0x10", None), ("١٢", None),
    ],
)  # fmt: skip
def test_numbers(said: str, value: float | None) -> None:
    assert number(said) == value


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (1234567, "1,234,567"), (0.25, "0.25"), (1234.5, "1,234.50"), (12.3456, "12.35"), (1e20, "1e+20"),
     (None, "–"), (0.00001, "1e-05"), (-3, "-3")],
)  # fmt: skip
def test_shown_numbers(value: float | None, shown: str) -> None:
    assert show_number(value) == shown


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("2024-02-29", "2024-02-29 00:00:00"),
        ("2024-02-29T23:59:60Z", "2024-02-29 23:59:59"),
        ("2024/1/2 3:04", "2024-01-02 03:04:00"),
        ("10/Oct/2000:13:55:36 -0700", "2000-10-10 13:55:36"),
        ("31.12.2024 01:02", "2024-12-31 01:02:00"),
        ("3 March 2024", "2024-03-03 00:00:00"),
        ("2024-01-02 03:04 PM", "2024-01-02 15:04:00"),
        ("2024-01-02 12:00 AM", "2024-01-02 00:00:00"),
        ("0001-01-01", "0001-01-01 00:00:00"),
    ],
)
def test_times(said: str, shown: str) -> None:
    time = read(said, "dmy" if "." in said else "ymd")
    assert time is not None
    assert show(time) == shown


@pytest.mark.parametrize(
    "said", ["2023-02-29", "2024-13-01", "2024-01-01 24:00", "2024-01-01 13:00 PM", "1.2.3", "x", ""]
)
def test_what_is_no_time(said: str) -> None:
    assert read(said) is None


def test_timeline_with_a_sensible_width() -> None:
    # from 09:58 to 10:22 in steps of a minute: 25 minutes fit one bucket each
    start = 9 * 3600 + 58 * 60
    line = drain(timeline.build(array("d", [start + 60.0 * at for at in range(25)] + [NAN]), errors=[0, 1, 24]))
    assert line is not None
    assert (line.width, line.unit, len(line.buckets), line.missing) == (60, "minute", 25, 1)
    assert [bucket.count for bucket in line.buckets] == [1] * 25
    assert [bucket.errors for bucket in line.buckets][:3] == [1, 1, 0]


def test_timeline_has_empty_buckets_and_a_given_width() -> None:
    line = drain(timeline.build(array("d", [0.0, 3599.0, 3 * 3600.0]), width=3600))
    assert line is not None
    assert [(bucket.start, bucket.count) for bucket in line.buckets] == [(0, 2), (3600, 0), (7200, 0), (10800, 1)]


def test_one_time_far_away_does_not_flatten_the_rest() -> None:
    line = drain(timeline.build(array("d", [1e9 + at for at in range(1000)] + [0.0])))
    assert line is not None
    assert line.outside >= 1
    assert len(line.buckets) > 10


@pytest.mark.parametrize(
    ("message", "masked"),
    [
        ("user 42 logged in", "user <n> logged in"),
        ("cannot reach 10.0.0.1:8080 in 1,5 s", "cannot reach <ip> in <n> s"),
        ("failed \"a b\" and 'c'", "failed <quoted> and <quoted>"),
        ("it's 5 o'clock", "it's <n> o'clock"),
        ("id 3f2a9c1b-0d4e-4f5a-8b6c-7d8e9f0a1b2c gone", "id <uuid> gone"),
        ("at 0xdeadBEEF and deadbeef12", "at <hex> and <hex>"),
        ("since 2024-03-04 09:10:11", "since <time>"),
        ("worker2 of http2, node1234", "worker2 of http2, node<n>"),
        ("facade decade", "facade decade"),
    ],
)
def test_templates(message: str, masked: str) -> None:
    assert template(message) == masked


def test_clusters_are_counted_with_their_first_line() -> None:
    lines = ["ERROR: user 1 failed", "ERROR: disk full", "ERROR: user 2 failed", "ERROR: user 3 failed"]
    table, _ = load("\n".join(lines))
    found = drain(cluster(table, range(4), limit=1))
    assert found is not None
    assert (found.distinct, found.total, found.others) == (2, 4, 0)
    assert [(one.template, one.count, one.row, one.example) for one in found.found] == [
        ("user <n> failed", 3, 0, "user 1 failed")
    ]


def test_words_and_lines() -> None:
    table, form = load("The quick brown fox.\n\nThe FOX don't jump; größe_x 3 times\nfox\n")
    assert form.kind == "text"
    lines = table.columns[0].values
    counted = drain(text.count_words(lines))  # type: ignore[arg-type]
    assert counted.total == 12  # the quick brown fox / the fox don't jump größe x times / fox
    assert counted.top(2) == [("fox", 3), ("brown", 1)]
    assert counted.top(1, all_words=True) == [("fox", 3)]
    assert drain(text.longest(lines, 2)) == [(35, 1), (20, 0)]  # type: ignore[arg-type]
    assert (table.rows, table.blank) == (3, 1)
