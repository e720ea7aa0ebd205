"""The made-up log: the same every time, and what it says it holds is in it."""

from pathlib import Path

from hub.demo import faults
from hub.demo.sample import sample_lines, write_sample
from tests.demo.reading import column, load


def test_it_is_the_same_every_time(tmp_path: Path) -> None:
    write_sample(tmp_path / "one.log", 500)
    write_sample(tmp_path / "two.log", 500)
    assert (tmp_path / "one.log").read_bytes() == (tmp_path / "two.log").read_bytes()
    assert (tmp_path / "one.log").read_text().count("\n") == 500


def test_what_is_in_it() -> None:
    table, form = load("\n".join(sample_lines(6_000)))
    assert form.label == "an access log, combined format"
    assert (table.rows, table.bad.count) == (5_994, 6)
    assert [row.line for row in table.bad.samples] == [1000, 2000, 3000, 4000, 5000, 6000]
    times = column(table, "time")
    assert table.show_time(times[0]).startswith("2024-03-04 00:00:00")
    assert times == sorted(times)
    server = faults.rule(table, "server errors")
    assert server is not None
    statuses = column(table, "status")
    burst = [at for at, time in enumerate(times) if 51_600 <= time % 86_400 < 54_600]
    failed = [at for at in burst if server.is_error(statuses[at])]
    others = [at for at in range(table.rows) if at not in set(burst) and server.is_error(statuses[at])]
    assert len(failed) > 0.1 * len(burst)
    assert len(others) < 0.02 * table.rows
