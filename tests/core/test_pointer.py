import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.core.errors import InvalidRequest
from hub.core.pointer import find, index_of, join, own, shown, split


@given(st.lists(st.text()))
def test_split_takes_back_join(tokens: list[str]) -> None:
    assert split(join(tokens)) == tokens


@pytest.mark.parametrize(
    ("path", "tokens"),
    [("", []), ("/", [""]), ("/a~1b/~0", ["a/b", "~"]), ("/~01", ["~1"]), ("/a//b", ["a", "", "b"])],
)
def test_split(path: str, tokens: list[str]) -> None:
    assert split(path) == tokens
    assert join(tokens) == path


@pytest.mark.parametrize("path", ["a", "a/b", "/~", "/~2", "/a~/b", " /a"])
def test_what_is_no_pointer(path: str) -> None:
    with pytest.raises(InvalidRequest):
        split(path)


def test_find() -> None:
    document = {"a": [{"": 1}, {"b/c": 2}], "0": 3}
    assert find(document, []) is document
    assert find(document, ["a", "0", ""]) == 1
    assert find(document, ["a", "1", "b/c"]) == 2
    assert find(document, ["0"]) == 3


@pytest.mark.parametrize(
    "tokens", [["b"], ["a", "2"], ["a", "-"], ["a", "00"], ["a", "-1"], ["s", "0"], ["n", "x"], ["a", "é"]]
)
def test_find_of_nothing(tokens: list[str]) -> None:
    with pytest.raises(LookupError):
        find({"a": [1, 2], "s": "text", "n": None}, tokens)


@pytest.mark.parametrize("token", ["", "01", "-", "1.0", "٣", "9" * 50, "2"])
def test_what_is_no_index(token: str) -> None:
    with pytest.raises(LookupError):
        index_of([1, 2], token)


def test_own_shares_nothing_that_could_be_changed() -> None:
    value = {"a": [1, {"b": "text"}]}
    copy = own(value)
    value["a"].append(2)
    assert copy == {"a": [1, {"b": "text"}]}


def test_long_texts_are_cut_where_they_are_shown() -> None:
    assert shown("a\n") == r"'a\n'"
    assert len(shown("x" * 10_000)) < 100
