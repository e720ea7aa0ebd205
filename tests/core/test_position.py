import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.core.errors import InvalidRequest
from hub.core.position import Position


@given(st.text(min_size=1), st.integers(0, 10**14))
def test_a_version_is_a_position(epoch: str, seq: int) -> None:
    position = Position(epoch, seq)
    assert Position.parse(str(position)) == position


@pytest.mark.parametrize("text", ["", ":", "e", "e:", ":1", "e:-1", "e:1.5", "e:٣", "e:x", "e:" + "1" * 16])
def test_what_is_no_version(text: str) -> None:
    with pytest.raises(InvalidRequest):
        Position.parse(text)


def test_what_comes_after() -> None:
    assert Position("e", 1).after() == Position("e", 2)
    assert Position("e", 5).after(-2) == Position("e", 3)
    assert isinstance(Position("e", 1).after(), Position)
