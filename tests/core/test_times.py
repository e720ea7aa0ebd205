import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.core.errors import InvalidRequest
from hub.core.times import iso, seconds


@given(st.integers(-(10**12), 10**13))
def test_milliseconds_come_back(milliseconds: int) -> None:
    text = iso(milliseconds / 1000)
    assert round(seconds(text) * 1000) == milliseconds
    assert len(text) == 24
    assert text.endswith("Z")


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2026-11-29T14:18:00Z", "2026-11-29T14:18:00.000Z"),
        ("2026-11-29T15:18:00.5+01:00", "2026-11-29T14:18:00.500Z"),
        ("2026-11-29 14:18", "2026-11-29T14:18:00.000Z"),
        ("2026-11-29", "2026-11-29T00:00:00.000Z"),
    ],
)
def test_forms(text: str, same: str) -> None:
    assert iso(seconds(text)) == same


@pytest.mark.parametrize(
    "text", ["", "soon", "2026-13-01", "12:00", "0001-01-01T00:00:00+23:59x", "\ud800", "9" * 5_000]
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(InvalidRequest):
        seconds(text)
