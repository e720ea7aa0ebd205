from hypothesis import given
from hypothesis import strategies as st

from hub.core.limits import Limits, cut, cut_content


@given(st.text(max_size=300), st.integers(0, 200))
def test_a_cut_text_is_within_its_limit(text: str, limit: int) -> None:
    short = cut(text, limit)
    assert len(short) <= limit
    if len(text) <= limit:
        assert short == text


def test_a_cut_text_says_how_much_went() -> None:
    short = cut("x" * 1_300, 120)
    kept, _, mark = short.partition("… +")
    assert mark == f"{1_300 - len(kept):,} characters"
    assert len(short) == 120


def test_content_says_it_beside() -> None:
    assert cut_content("abcdef", Limits(content=4)) == ("abcd", 2)
    assert cut_content("abcd", Limits(content=4)) == ("abcd", 0)
